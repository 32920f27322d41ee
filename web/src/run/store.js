// One run as the page knows it: read once, then moved on by its events. What changes is applied at once; what must be
// derived (what can be done, why it is here) is read again when the events pause.
import { batch, computed, signal } from "../lib.js";
import { call, query, returned, stream } from "../wire.js";
import { isOver } from "../status.js";

const QUIET_MS = 120;
const WORKERS_MS = 5000; // workers come and go without an event of the run
const PAGE = 100;
const LIVES = 500; // contracts that are shown, the latest
const WORDS = 500; // kept of what one contract says
const LETTERS = 64 * 1024; // kept of a text that goes on
const WITHIN = 0.15; // seconds in which a picture must be there; the way of a long run then follows piece by piece
const GLANCE = 0.02; // the same for a moment of the past: it is shown while a hand is at the slider
const GRACE_MS = 40; // that a moment waits for its picture before it is shown in the one that is there

/** The run after one more event. */
export function moveOn(run, entry) {
  const { delta } = entry;
  const context = { ...run.context, ...(delta.context || {}) };
  for (const name of delta.dropped || []) delete context[name];
  const changed = new Map((delta.contracts || []).map((one) => [one.id, one]));
  const closed = new Set(delta.closed || []);
  const contracts = run.contracts.filter((one) => !closed.has(one.id)).map((one) => changed.get(one.id) || one);
  for (const [id, one] of changed) if (!contracts.some((known) => known.id === id)) contracts.push(one);
  return {
    ...run, seq: entry.seq, last: Math.max(run.last, entry.seq), at: entry.at, state: entry.state, status: entry.status, context, contracts,
    variables: { ...run.variables, ...(delta.variables || {}) }, paused: delta.paused ?? run.paused,
    error: delta.error ?? run.error, alarms: delta.alarms?.length ? delta.alarms : run.alarms, output: delta.output ?? run.output, usage: delta.usage && Object.keys(delta.usage).length ? delta.usage : run.usage,
    entered_at: delta.state ? entry.at : run.entered_at,
  };
}

const isPiece = (data) => typeof data?.text === "string" && Object.keys(data).length === 1;

/** What a contract has said, and one word more; the pieces of a text, as models send them, become one. */
export function saidOn(said, data) {
  const last = said.at(-1);
  if (isPiece(data) && isPiece(last)) return [...said.slice(0, -1), { text: (last.text + data.text).slice(-LETTERS) }];
  return [...said.slice(1 - WORDS), data];
}

/** The picture after one more event: the way it took; a state in a group that is drawn as one box stands there. */
export function walkOn(graph, entry) {
  const home = new Map(graph.nodes.flatMap((node) => (node.members || []).map((name) => [name, node.id])));
  const at = (name) => home.get(name) || name;
  const upto = entry.seq === graph.upto + 1 ? entry.seq : graph.upto;
  const taken = entry.taken.filter((one) => one.kind === "transition").map((one) => ({ ...one, source: at(one.source), target: at(one.target) }));
  if (!taken.length) return upto === graph.upto ? graph : { ...graph, upto };
  const seen = new Set(taken.flatMap((one) => [one.source, one.target]));
  const edges = graph.edges.map((edge) => {
    const mine = taken.filter((one) => one.target === edge.target && (one.source === edge.source
      || (edge.source === "*" && !graph.edges.some((other) => other.source === one.source && other.target === one.target))));
    if (!mine.length) return edge;
    const isWhy = (label) => mine.some((one) => one.event && (label.text === one.event || label.text.startsWith(`${one.event} `)));
    return { ...edge, visits: edge.visits + mine.length, labels: edge.labels.map((label) => (isWhy(label) ? { ...label, is_visited: true } : label)) };
  });
  return { ...graph, upto, edges, nodes: graph.nodes.map((node) => (seen.has(node.id) && !node.is_visited ? { ...node, is_visited: true } : node)) };
}

/** A picture of which the way is not known yet, until one comes in which it is. */
const withoutWay = (graph) => ({ ...graph, upto: 0, nodes: graph.nodes.map((node) => ({ ...node, is_visited: false })), edges: graph.edges.map((edge) => ({ ...edge, visits: 0 })) });

/** `isPlain`: without picture and log, and without a stream until `listen(true)`; many of these may be open at once. */
export function openRun(runId, { isPlain = false } = {}) {
  const base = `/api/runs/${encodeURIComponent(runId)}`;
  const run = signal(null);
  const graph = signal(null);
  const entries = signal([]); // oldest first
  const lives = signal(null);
  const voices = signal(new Map()); // what effects say while they are at work, by contract
  const trouble = signal("");
  const past = signal(null); // {run, graph} at an earlier event
  const sought = signal(0); // the event that is being read for it
  const fresh = signal(0); // entries after this one came while somebody looked
  const unfolded = signal([]); // groups of a large picture whose states are shown
  let drawing = 0;
  let stopStream = () => {};
  let timer = 0;
  let isClosed = false;
  let isLives = false;
  let isListening = !isPlain;
  let wanted = 0; // the event somebody wants to look at
  let journey = null; // the way there
  let told = 0; // the last event that is among the entries; the run itself may have been read later

  const reread = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try {
        const [now, made] = await Promise.all([call(base), isLives ? call(`${base}/contracts?newest=true&limit=${LIVES}&within=${WITHIN}`) : null]);
        if (isClosed) return;
        batch(() => {
          if (!run.value || now.seq >= run.value.seq) run.value = now;
          if (made) lives.value = made;
        });
        if (made && made.upto < now.seq) reread(); // of a long run, more is known with each look
      } catch { /* the next event, or the line coming back, reads again */ }
    }, QUIET_MS);
  };

  const hear = (entry, kind) => {
    if (kind === "progress" || kind === "said") { // `said`: everything so far, told when a stream begins
      const words = kind === "said" ? entry.data : saidOn(voices.value.get(entry.contract_id) || [], entry.data);
      voices.value = new Map(voices.value).set(entry.contract_id, words);
      return undefined;
    }
    if (kind === "end") { reread(); return "end"; }
    if (kind && kind !== "entry") return undefined;
    if (!run.value || entry.seq <= told) return undefined;
    told = entry.seq;
    performance.mark("detent:heard");
    batch(() => {
      if (entry.seq > run.value.seq) run.value = moveOn(run.value, entry);
      if (graph.value) graph.value = walkOn(graph.value, entry);
      entries.value = [...entries.value, entry];
      if (voices.value.size && (entry.delta.closed || []).length) voices.value = new Map([...voices.value].filter(([id]) => !entry.delta.closed.includes(id)));
    });
    reread();
    return undefined;
  };

  const follow = () => {
    stopStream();
    if (document.hidden || isClosed || !isListening || !run.value) return;
    if (isOver(run.value.status) && told >= run.value.seq) return;
    stopStream = stream(`${base}/events`, { after: told, hear });
  };
  const seenAgain = () => { if (document.hidden) stopStream(); else { follow(); reread(); if (graph.peek()) draw(); } };

  const readGraph = (at, within) => call(`${base}/graph${query({ at: at || "", fold: true, open: unfolded.peek(), within })}`);

  /** The picture as it is wanted, and the way of a long run to its end: of now, or of the moment somebody looks at. */
  const draw = async () => {
    const mine = ++drawing;
    const { seq = 0 } = past.peek() || {};
    const upto = seq || run.peek().seq;
    const isWanted = () => !isClosed && !document.hidden && mine === drawing && (past.peek()?.seq || 0) === seq;
    const isWhole = (made) => made.upto >= upto && made.groups.every((group) => group.is_open === unfolded.peek().includes(group.name));
    try {
      while (isWanted() && !isWhole(seq ? past.peek().graph : graph.peek())) {
        const made = await readGraph(seq, WITHIN * 2);
        if (!isWanted()) return;
        if (seq) past.value = { ...past.peek(), graph: made };
        else graph.value = entries.peek().filter((entry) => entry.seq > made.upto).reduce(walkOn, made); // with what was heard meanwhile
      }
    } catch (error) { if (error.type !== "no_answer") trouble.value = error.message; }
  };

  const begin = async () => {
    try {
      const [now, picture] = await Promise.all([call(base), isPlain ? null : readGraph(0, WITHIN)]);
      const page = isPlain ? { entries: [] } : await call(`${base}/log?after=${Math.max(0, now.seq - PAGE)}&limit=${PAGE}`);
      if (isClosed) return;
      batch(() => {
        run.value = now;
        graph.value = picture;
        entries.value = page.entries;
        fresh.value = now.seq;
      });
      // What happened between these readings is in the stream: it begins after the run that was read.
      entries.value = page.entries.filter((entry) => entry.seq <= now.seq);
      told = now.seq;
      follow();
      if (picture) draw();
    } catch (error) { if (error.type !== "no_answer") trouble.value = error.message; }
  };
  // Nothing could be read while the server was away; a stream that was open goes on by itself.
  const isBack = returned.subscribe((count) => { if (count && !isClosed) { if (run.peek()) { reread(); if (graph.peek()) draw(); } else begin(); } });
  const before = async (seq) => {
    const after = Math.max(0, seq - 1 - PAGE);
    if (seq - 1 <= after) return [];
    const page = await call(`${base}/log?after=${after}&limit=${seq - 1 - after}`);
    return page.entries.filter((entry) => entry.seq < seq);
  };
  /** A moment is shown as soon as it is known; its picture follows where it takes longer than that. */
  const visit = async (seq) => {
    const drawn = readGraph(seq, GLANCE);
    drawn.catch(() => {}); // it is asked for again
    const was = await call(`${base}/at/${seq}`);
    const stand = (past.peek()?.graph || graph.peek());
    const isSame = stand?.digest === was.digest;
    const picture = await Promise.race([drawn, ...(isSame ? [new Promise((resolve) => { setTimeout(() => resolve(withoutWay(stand)), GRACE_MS); })] : [])]);
    if (isClosed || wanted !== seq) return; // another moment was asked for meanwhile
    batch(() => { past.value = { run: was, graph: picture, seq, entries: null }; sought.value = 0; });
    draw();
  };
  document.addEventListener("visibilitychange", seenAgain);
  const looking = setInterval(() => { if (isListening && !document.hidden && run.peek()?.status === "running" && run.peek().unserved) reread(); }, WORKERS_MS);
  begin();

  return {
    run, graph, entries, lives, voices, trouble, past, sought, fresh, base, reread, unfolded,
    shown: computed(() => past.value?.run || run.value),
    picture: computed(() => past.value?.graph || graph.value),
    /** Hear the run's events, or no longer. */
    listen(isWanted) { if (isListening !== isWanted) { isListening = isWanted; follow(); } },
    /** Read the contracts too, from now on. */
    wantLives() { if (!isLives) { isLives = true; reread(); } },
    /** Show the states of these groups of the picture, and of no others. */
    unfold(names) { unfolded.value = names; draw(); },
    /** Events before the first that is known. */
    async earlier() {
      const was = past.value?.entries;
      const first = (was || entries.value)[0]?.seq ?? 1;
      const known = await before(first);
      if (!was) entries.value = [...known, ...entries.value];
      else if (past.value?.entries === was) past.value = { ...past.value, entries: [...known, ...was] };
      return known.length;
    },
    /** Look at the run as it was; 0: now. Of the moments that are asked for while one is on its way, the last follows. */
    travel(seq) {
      wanted = seq && seq < (run.value?.last ?? 0) ? seq : 0;
      sought.value = wanted === past.peek()?.seq ? 0 : wanted;
      if (!wanted) { past.value = null; if (graph.peek()) draw(); }
      if (!wanted || journey) return Promise.resolve();
      journey = (async () => { while (wanted && wanted !== past.peek()?.seq && !isClosed) await visit(wanted); })().finally(() => { journey = null; });
      return journey;
    },
    /** The events before the moment that is looked at, when they are not among those that were read. */
    async lookAround() {
      const { seq, entries: around } = past.peek() || {};
      if (!seq || around || seq >= (entries.peek()[0]?.seq ?? 1)) return;
      const known = await before(seq + 1);
      if (past.peek()?.seq === seq) past.value = { ...past.peek(), entries: known };
    },
    close() { isClosed = true; isBack(); clearTimeout(timer); clearInterval(looking); stopStream(); document.removeEventListener("visibilitychange", seenAgain); },
  };
}
