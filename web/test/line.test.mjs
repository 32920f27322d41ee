// A line that falls silent is noticed at any moment of its life; time is the test's own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { keepLine, OPENING_MS, Patience } from "../src/line.js";

// Pieces of a body come by the machine's own turns, which no clock counts.
const settled = async () => { for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve)); };
let now = 0;
let nextId = 0;
const due = new Map(); // timers of the test's own clock: what, and when
const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
const stopClock = () => Object.assign(globalThis, { setTimeout: (done, ms) => { due.set(++nextId, [now + ms, done]); return nextId; }, clearTimeout: (id) => due.delete(id) });
const startClock = () => { due.clear(); Object.assign(globalThis, real); };
const passing = async (ms) => {
  now += ms;
  for (const [id, [at, done]] of [...due]) if (at <= now && due.delete(id)) done();
  await settled();
};

/** A server that answers with what it is given, and then says nothing: `say` sends more, `end` ends it. */
function scripted(steps) {
  const asked = [];
  const connect = (last, signal) => {
    const step = steps[Math.min(asked.length, steps.length - 1)];
    asked.push(last);
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("given up", "AbortError")));
      if (step === null) return; // no answer at all
      const body = new ReadableStream({
        start(control) {
          for (const text of step) control.enqueue(new TextEncoder().encode(text));
          signal.addEventListener("abort", () => control.error(new DOMException("given up", "AbortError")));
        },
      });
      resolve({ ok: true, status: 200, body });
    });
  };
  return { asked, connect };
}

async function listening(steps, body) {
  stopClock();
  const { asked, connect } = scripted(steps);
  const heard = [];
  let cuts = 0;
  const stop = keepLine({ connect, hear: (event) => { heard.push(event.data); }, onRefused: () => {}, onCut: () => { cuts += 1; } });
  try {
    await settled();
    await body({ asked, heard, cuts: () => cuts, stop });
  } finally { stop(); await settled(); startClock(); }
}

test("a server that never answers is noticed, and asked again", () => listening([null], async ({ asked, cuts }) => {
  await passing(OPENING_MS - 1);
  assert.equal(cuts(), 0);
  await passing(1);
  assert.equal(cuts(), 1);
  await passing(250);
  assert.equal(asked.length, 2);
}));

test("a server that answers and says nothing is noticed", () => listening([[]], async ({ cuts }) => {
  await passing(OPENING_MS);
  assert.equal(cuts(), 1);
}));

test("the server's own beat counts as soon as it is known, and the line goes on after what was heard", () => listening([["beat: 1\n\n", "id: 7\ndata: x\n\n"], null], async ({ asked, heard, cuts }) => {
  assert.deepEqual(heard, ["x"]);
  await passing(2999);
  assert.equal(cuts(), 0);
  await passing(1);
  assert.equal(cuts(), 1);
  await passing(250);
  assert.deepEqual(asked, [null, "7"]);
}));

test("who has stopped is told nothing more", () => listening([null], async ({ asked, cuts, stop }) => {
  stop();
  await passing(10 * OPENING_MS);
  assert.deepEqual([cuts(), asked.length], [0, 1]);
}));

test("patience ends with its time, with what it was given, or is renewed", async () => {
  stopClock();
  try {
    const one = new Patience(100);
    await passing(99);
    one.renew(100);
    await passing(99);
    assert.ok(!one.signal.aborted);
    await passing(1);
    assert.ok(one.signal.aborted);
    const owner = new AbortController();
    const two = new Patience(100, owner.signal);
    owner.abort();
    assert.ok(two.signal.aborted && new Patience(100, owner.signal).signal.aborted);
    const three = new Patience(100);
    three.end();
    await passing(1000);
    assert.ok(!three.signal.aborted);
  } finally { startClock(); }
});
