// Unit tests of what needs no browser, with node's own runner: `node --test web/test/*.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { differences, leaves, windows } from "../src/desk/difference.js";
import { ageOf, takes } from "../src/desk/filter.js";
import { brief, cover } from "../src/secret.js";

const line = { run_id: "r1", contract_id: "pay/pay/1", machine: "refund", title: "Refunds", digest: "d", action: "pay", effect: "bank.pay", reason: "approval", question: "Refund 12 EUR?", call_hash: "h", since: 1000, by: "ann" };

test("a value is taken apart down to its leaves", () => {
  assert.deepEqual([...leaves({ a: 1, b: { c: [true, null], d: {} } })], [["a", "1"], ["b.c.0", "true"], ["b.c.1", "null"], ["b.d", "{}"]]);
  assert.deepEqual([...leaves("x")], [["", '"x"']]);
});

test("only what differs is set apart, and what one has and another lacks differs", () => {
  const { differing, common } = differences([{ to: "kim", amount: 1, note: "x" }, { to: "kim", amount: 2 }]);
  assert.deepEqual(differing, ["amount", "note"]);
  assert.deepEqual(common, [["to", '"kim"']]);
  assert.deepEqual(differences([{ a: 1 }, { a: "1" }]).differing, ["a"], "a number is no text");
});

test("every filter must fit", () => {
  for (const filter of [{}, { machine: "refund" }, { effect: "bank.pay", by: "ann" }, { text: "refund 12" }, { text: "R1" }, { age: "hour" }]) assert.ok(takes(filter, line, 1001));
  for (const filter of [{ machine: "other" }, { by: "bob" }, { text: "13" }, { age: "day" }, { machine: "refund", effect: "x" }]) assert.ok(!takes(filter, line, 1001));
});

test("an age is in exactly one group", () => {
  assert.deepEqual([0, 3599, 3600, 86399, 86400, 604799, 604800, 1e9].map((gone) => ageOf(line, 1000 + gone)), ["hour", "hour", "day", "day", "week", "week", "older", "older"]);
});

test("one line about a value shows no secret, however deep it lies", () => {
  const told = brief({ amount: 12, api_key: "k-1234", inner: [{ password: "hunter2", tokens: 5 }] }, 500);
  assert.ok(!/k-1234|hunter2/.test(told), told);
  assert.ok(told.includes("12") && told.includes('"tokens":5'), told);
  assert.equal(cover("customer", "Nordwind"), "Nordwind");
});

test("values that differ never look the same, however long they are and wherever they differ", () => {
  let seed = 7;
  const next = (most) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % most; };
  for (let round = 0; round < 300; round += 1) {
    const base = "x".repeat(next(900));
    const texts = Array.from({ length: 2 + next(6) }, () => { const at = next(base.length + 1); return next(4) ? `${base.slice(0, at)}${next(10)}${base.slice(at + next(3))}` : base.slice(0, at); });
    const shown = windows(texts, 200);
    assert.equal(new Set(shown.values()).size, new Set(texts).size, JSON.stringify(texts));
    for (const text of shown.values()) assert.ok(text.length <= 203 * texts.length);
  }
});
