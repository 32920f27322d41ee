// The list of questions as somebody has it before them: of one moment, by one filter. What is decided stays where it
// stands and is marked; what is new comes at the end; only the person's own action makes the list anew.
import { batch, computed, effect, signal } from "../lib.js";
import { moved, renewed, titles, waiting } from "../feed.js";
import { say } from "../toast.js";
import { call, query } from "../wire.js";
import { takes } from "./filter.js";

export const FILTERS = ["machine", "effect", "by", "age", "text"];
export const GROUPS = ["machine", "effect", "by", "age"];
const PAGE = 100;
const COUNT_MS = 10_000; // between two looks at totals that only the server knows

export const keyOf = (line) => `${line.run_id} ${line.contract_id}`;
/** A question of a run that moved, as a line of the list. */
const lineOf = (run, question) => ({
  run_id: run.run_id, contract_id: question.contract_id, machine: run.machine, title: titles.peek()[run.digest] || "", digest: run.digest,
  action: question.action, effect: question.call.effect, reason: question.reason, question: question.question.slice(0, 300),
  call_hash: question.call_hash, since: question.since, by: run.by,
});

export function openDesk(filter, group) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, filter[name] || ""]));
  const lines = signal([]); // of the moment, sparse: what was not looked at is not there; then what came since
  const matching = signal(null); // null: not known yet
  const open = signal(0);
  const groups = signal([]);
  const decided = signal(new Map()); // by key: what is known of the decision
  const trouble = signal("");
  let at = 0;
  let newest = 0; // when the last question of the moment was asked
  let base = 0; // lines of the moment; those behind them came later
  let isClosed = false;
  let counting = 0;
  const under = new Set(); // pages that are being read

  async function read(offset, limit = PAGE) {
    const page = Math.floor(offset / PAGE);
    if (under.has(page) || (base && offset >= base)) return;
    under.add(page);
    try {
      const found = await call(`/api/inbox/lines${query({ ...asked, group, at: at || "", offset: page * PAGE || "", limit })}`);
      if (isClosed) return;
      if (at && found.at !== at) { renew(); return; } // the moment is long gone: everything is made anew
      batch(() => {
        const next = [...lines.peek()];
        if (!at) { at = found.at; base = found.matching; newest = found.newest; next.length = base; groups.value = found.groups; open.value = found.open; }
        found.lines.forEach((line, index) => { next[page * PAGE + index] = line; });
        const gone = found.lines.filter((line) => line.decided && !decided.peek().has(keyOf(line)));
        if (gone.length) decided.value = new Map([...decided.peek(), ...gone.map((line) => [keyOf(line), {}])]);
        lines.value = next;
        matching.value = next.length;
      });
    } catch (error) { if (!isClosed) { trouble.value = error.message; say(error.message, "harm"); } } finally { under.delete(page); }
  }

  /** Totals and groups, of which a message says nothing; seldom, and only while something moves. */
  function recount() {
    if (counting || (!group && FILTERS.every((name) => !asked[name]) && base <= lines.peek().filter(Boolean).length)) return;
    counting = setTimeout(async () => {
      counting = 0;
      if (document.hidden || isClosed) return;
      try {
        const found = await call(`/api/inbox/lines${query({ ...asked, group, limit: 0 })}`);
        if (!isClosed) batch(() => { groups.value = found.groups; open.value = found.open; });
      } catch { /* the next message tries again */ }
    }, COUNT_MS);
  }

  function take(runs) {
    if (matching.peek() === null || !runs.length) return;
    const known = new Map(lines.peek().filter(Boolean).map((line) => [keyOf(line), line]));
    const gone = new Map(decided.peek());
    const fresh = [];
    const again = [];
    for (const run of runs) {
      const asking = new Map(run.waiting.map((one) => [`${run.run_id} ${one.contract_id}`, one]));
      for (const [key, line] of known) if (line.run_id === run.run_id && !asking.has(key) && !gone.has(key)) gone.set(key, {});
      for (const [key, one] of asking) {
        if (gone.delete(key)) again.push(lineOf(run, one)); // asked again, in its old place
        if (known.has(key)) continue;
        const line = lineOf(run, one);
        if (takes(asked, line)) fresh.push(line);
      }
    }
    // What the list has not read yet may be among them: only what is younger than all of it is new.
    const isWhole = known.size >= base;
    const added = fresh.filter((line) => isWhole || line.since > newest);
    batch(() => {
      open.value += added.length - (gone.size - decided.peek().size);
      if (gone.size !== decided.peek().size || again.length) decided.value = gone;
      if (again.length) lines.value = lines.peek().map((line) => again.find((one) => line && keyOf(one) === keyOf(line)) || line);
      if (added.length) { lines.value = [...lines.peek(), ...added]; matching.value = lines.peek().length; }
    });
    recount();
  }

  /** The list of now, without what is decided: the person asked for it. */
  function renew() {
    at = 0; base = 0; under.clear();
    batch(() => { decided.value = new Map(); });
    return read(0);
  }

  /** What is known of a decision, of whoever made it. */
  function settle(key, said) {
    const was = decided.peek().get(key);
    if (!was) open.value = Math.max(0, open.peek() - 1);
    decided.value = new Map(decided.peek()).set(key, { ...was, ...said });
  }

  /** The next open question after a key, in order; then the one before. Null where none is left. */
  async function next(key) {
    const index = lines.peek().findIndex((line) => line && keyOf(line) === key);
    for (let place = index + 1; place < lines.peek().length; place += 1) {
      if (!lines.peek()[place]) await read(place);
      const line = lines.peek()[place];
      if (line && !decided.peek().has(keyOf(line))) return line;
    }
    for (let place = index - 1; place >= 0; place -= 1) {
      const line = lines.peek()[place];
      if (line && !decided.peek().has(keyOf(line))) return line;
    }
    return null;
  }

  const ends = [effect(() => take(moved.value))];
  let times = 0;
  ends.push(effect(() => { renewed.value; if (times++) recheck(); }));
  /** After a gap in the stream, marks are asked for again; the list stays as it is. */
  function recheck() {
    const pages = new Set([...lines.peek().keys()].filter((place) => lines.peek()[place] && place < base).map((place) => Math.floor(place / PAGE)));
    for (const page of pages) read(page * PAGE);
    readLatest();
  }
  async function readLatest() {
    try {
      const { matching: count } = await call(`/api/inbox/lines${query({ ...asked, limit: 0 })}`);
      const found = await call(`/api/inbox/lines${query({ ...asked, offset: Math.max(0, count - PAGE) || "", limit: PAGE })}`);
      const known = new Set(lines.peek().filter(Boolean).map(keyOf));
      const added = isClosed || matching.peek() === null ? [] : found.lines.filter((line) => !known.has(keyOf(line)) && line.since > newest);
      if (added.length) batch(() => { lines.value = [...lines.peek(), ...added]; matching.value = lines.peek().length; });
      if (!isClosed) open.value = count;
    } catch { /* the next message tells more */ }
  }
  read(0);
  return { lines, matching, open, groups, decided, trouble, read, renew, settle, next, total: computed(() => waiting.value), base: () => base,
    close: () => { isClosed = true; clearTimeout(counting); ends.forEach((end) => end()); } };
}
