// The API: one call, one stream. A stream is read with fetch, so that it can carry a token and say where it goes on.
import { signal } from "./lib.js";
import { _, locale } from "./language.js";
import { ANSWER_MS, eventsOf, keepLine, LONG_MS, Patience } from "./line.js";

const KEPT = "detent.token";

// A link that carries a token, as `detent serve` prints it: kept for this tab, and taken out of the address at once.
const carried = /^#token=([\w-]+)$/.exec(location.hash);
if (carried) {
  sessionStorage.setItem(KEPT, carried[1]);
  history.replaceState(null, "", "#/inbox");
  dispatchEvent(new HashChangeEvent("hashchange")); // whoever has read the address already
}

export const token = signal(sessionStorage.getItem(KEPT) || "");
export const isRefused = signal(false); // the server wants a token, or another one
export const isCut = signal(false); // no answer at the moment
export const cutAt = signal(0); // since when
export const returned = signal(0); // how often the server has come back: what could not be read then is read again

function lost() {
  if (isCut.peek()) return;
  cutAt.value = Date.now() / 1000;
  isCut.value = true;
}

function found() {
  if (!isCut.peek()) return;
  isCut.value = false;
  returned.value += 1;
}

export function useToken(text) {
  sessionStorage.setItem(KEPT, text);
  token.value = text;
  isRefused.value = false;
}

/** What the server said no with. */
export class Trouble extends Error {
  constructor(status, detail) {
    super(detail.message || `HTTP ${status}`);
    this.status = status;
    this.type = detail.type || "error";
    this.detail = detail;
  }
}

const headers = (more = {}) => ({ "Accept-Language": locale(), ...more, ...(token.value ? { Authorization: `Bearer ${token.value}` } : {}) });

async function trouble(response) {
  let detail = {};
  try { detail = (await response.json()).error || {}; } catch { /* not JSON: the status must do */ }
  if (response.status === 401 && !/^\/api\/(me|login)$/.test(new URL(response.url).pathname)) isRefused.value = true;
  return new Trouble(response.status, detail);
}

/** A request that is answered and read in time, or a sentence that says it was not; only a browser knows why. */
async function ask(path, { signal: given = undefined, ms = ANSWER_MS, ...options }, read) {
  const patience = new Patience(ms, given);
  try {
    const response = await fetch(path, { ...options, signal: patience.signal });
    found();
    if (!response.ok) throw await trouble(response);
    return await read(response, patience);
  } catch (error) {
    if (error instanceof Trouble || error instanceof SyntaxError || given?.aborted) throw error;
    lost();
    const message = options.method === "POST" ? _("The server does not answer. Whether this has reached it, you will see when it is back.") : _("The server does not answer.");
    throw new Trouble(0, { type: "no_answer", message });
  } finally { patience.end(); }
}

const readJson = (response) => response.json();
const posting = (body) => ({ method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });

/** GET, or POST when there is a body. `isLong`: the server has much to do before it can answer. */
export function call(path, body = undefined, { signal: abort = undefined, isLong = false } = {}) {
  return ask(path, { ...(body === undefined ? { headers: headers() } : posting(body)), signal: abort, ms: isLong ? LONG_MS : ANSWER_MS }, readJson);
}

/** A POST that is answered by a stream of which only the first message matters: the rest is in the run's own stream. */
export function firstOf(path, body) {
  return ask(path, posting(body), async (response, patience) => {
    try {
      for await (const event of eventsOf(response.body)) if (event.data !== undefined) return JSON.parse(event.data);
      throw new Trouble(response.status, {});
    } finally { patience.stop(); }
  });
}

/** A file to keep; with a token a plain link would be refused. It may be large: its patience ends when it has begun. */
export async function download(path, name) {
  const blob = await ask(path, { headers: headers() }, (response, patience) => { patience.end(); return response.blob(); });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function query(values) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== "" && one !== null && one !== undefined && one !== false) made.append(name, String(one));
    }
  }
  const text = made.toString();
  return text ? `?${text}` : "";
}

/** Server-sent events; goes on after the last one it has seen when the line is cut. Returns what stops it. */
export function stream(path, { after = null, hear, onOpen = () => {}, onEnd = (_error = undefined) => {} }) {
  return keepLine({
    after,
    connect: (last, line) => fetch(path, { headers: headers({ Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": String(last) }) }), signal: line }),
    hear: (event) => told(hear, event),
    onOpen: () => { found(); onOpen(); },
    onRefused: trouble,
    onCut: lost,
    onEnd,
  });
}

/** A fault of ours in the middle of a stream is told, and is not taken for a cut line. */
function told(hear, event) {
  try { return hear(JSON.parse(event.data), event.event, event.id); } catch (error) { reportError(error); return undefined; }
}
