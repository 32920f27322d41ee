// Bars, axes and the colours of programs, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { paint } from "../src/ansi.js";

test("colours become names of looks, and what they colour stays text", () => {
  assert.deepEqual(paint("a\x1b[31mred\x1b[0m b"), [{ text: "a", look: "" }, { text: "red", look: "ink-red" }, { text: " b", look: "" }]);
  assert.deepEqual(paint("\x1b[1;92;44mx\x1b[22;39my"), [{ text: "x", look: "bold ink-green ground-blue" }, { text: "y", look: "ground-blue" }]);
  assert.deepEqual(paint("\x1b[38;5;196mx\x1b[38;2;0;0;255my\x1b[mz").map((piece) => piece.look), ["ink-red", "ink-blue", ""]);
});

test("nothing that a program wrote over is hidden", () => {
  assert.equal(paint("danger\rharmless\r\n").map((piece) => piece.text).join(""), "danger\nharmless\n");
  assert.equal(paint("danger\x1b[2K\x1b[1Gok").map((piece) => piece.text).join(""), "dangerok");
  assert.equal(paint("\x1b[8mhidden\x1b[0m")[0].text, "hidden");
});

test("any text keeps its letters", () => {
  let seed = 19;
  const next = (most) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % most; };
  const parts = ["a", "\x1b[", "31", "m", ";", "0", "\x1b", "\n", "é", "38;5;", "[K"];
  for (let round = 0; round < 500; round += 1) {
    const text = Array.from({ length: next(20) }, () => parts[next(parts.length)]).join("");
    const shown = paint(text).map((piece) => piece.text).join("");
    assert.ok(shown.replace(/[^aé]/g, "") === text.replace(/[^aé]/g, ""), JSON.stringify(text));
  }
});
