// What the editor computes without a browser: differences between texts, and places of problems.
import assert from "node:assert/strict";
import { test } from "node:test";
import { differ, spot, trim } from "../src/edit/lines.js";

const both = (lines, kind) => lines.filter((line) => line.kind === "same" || line.kind === kind).map((line) => line.text).join("\n");

test("a difference holds both texts whole, and nothing else", () => {
  const texts = ["", "a", "a\nb\nc", "a\nc", "x\nb\ny", "c\nb\na\n", "a\na\nb", "\n\n"];
  for (const before of texts) for (const after of texts) {
    const lines = differ(before, after);
    assert.equal(both(lines, "removed"), before);
    assert.equal(both(lines, "added"), after);
    if (before === after) assert.ok(lines.every((line) => line.kind === "same"));
  }
});

test("the smallest change is told", () => {
  assert.deepEqual(differ("a\nb\nc\nd", "a\nc\nx\nd").filter((line) => line.kind !== "same"), [{ kind: "removed", text: "b" }, { kind: "added", text: "x" }]);
});

test("texts too long for the table are told as replaced, at once", () => {
  const many = (word) => Array.from({ length: 5000 }, (_, n) => `${word} ${n}`).join("\n");
  assert.equal(differ(many("a"), many("b")).length, 10_000);
});

test("only what is near a change is shown, and gaps are marked", () => {
  const text = Array.from({ length: 30 }, (_, n) => `line ${n}`).join("\n");
  const shown = trim(differ(text, text.replace("line 15", "other")), 2);
  assert.equal(shown.filter((line) => line === null).length, 2);
  assert.equal(shown.length, 8);
  assert.deepEqual(trim(differ(text, text)), []);
});

test("columns are counted in characters, and a mark covers a word", () => {
  assert.deepEqual(spot("  name: x", 3), [2, 7]);
  assert.deepEqual(spot("a: 𝒳y z", 7), [7, 8], "an astral letter is two units");
  assert.deepEqual(spot("ab", 9), [2, 2]);
  assert.deepEqual(spot("", 1), [0, 0]);
});
