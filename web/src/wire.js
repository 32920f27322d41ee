// The API: one call, one stream. A stream is read with fetch, so that it can carry a token and say where it goes on.
import { signal } from "./lib.js";
import { _, locale } from "./language.js";

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

/** A request that is answered, or a sentence that says it was not; only a browser knows why. */
async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lost();
    const message = options.method === "POST" ? _("The server does not answer. Whether this has reached it, you will see when it is back.") : _("The server does not answer.");
    throw new Trouble(0, { type: "no_answer", message });
  }
  found();
  if (!response.ok) throw await trouble(response);
  return response;
}

/** GET, or POST when there is a body. */
export async function call(path, body = undefined, { signal: abort = undefined } = {}) {
  const options = body === undefined
    ? { headers: headers(), signal: abort }
    : { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal: abort };
  return (await ask(path, options)).json();
}

/** A POST that is answered by a stream of which only the first message matters: the rest is in the run's own stream. */
export async function firstOf(path, body) {
  const abort = new AbortController();
  const options = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal: abort.signal };
  const response = await ask(path, options);
  try {
    for await (const event of events(response.body)) if (event.data !== undefined) return JSON.parse(event.data);
    throw new Trouble(response.status, {});
  } finally { abort.abort(); }
}

/** A file to keep; with a token a plain link would be refused. */
export async function download(path, name) {
  const response = await ask(path, { headers: headers() });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
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

const SILENT = 3; // signs of life that may be missing before a line is taken for dead

/** Server-sent events; goes on after the last one it has seen when the line is cut. Returns what stops it. */
export function stream(path, { after = null, hear, onOpen = () => {}, onEnd = (_error = undefined) => {} }) {
  const abort = new AbortController();
  let last = after;
  let pause = 250;
  let line = new AbortController(); // one connection; `abort` is the end of them all
  let watch = 0;
  let beat = 0; // seconds between two signs of life, as the server tells them
  const alive = () => { clearTimeout(watch); if (beat) watch = setTimeout(() => line.abort(), beat * SILENT * 1000); };
  abort.signal.addEventListener("abort", () => { clearTimeout(watch); line.abort(); });
  const listen = async () => {
    while (!abort.signal.aborted) {
      try {
        line = new AbortController();
        const more = last === null ? {} : { "Last-Event-ID": String(last) };
        const response = await fetch(path, { headers: headers({ Accept: "text/event-stream", ...more }), signal: line.signal });
        if (response.status === 204) { onEnd(); return; }
        if (!response.ok) {
          const error = await trouble(response);
          if (response.status < 500 && response.status !== 429) { onEnd(error); return; }
          throw error;
        }
        found();
        onOpen();
        pause = 250;
        for await (const event of events(response.body, alive)) {
          if (event.beat) { beat = Number(event.beat) || 0; alive(); }
          if (event.id !== undefined && event.id !== "") last = event.id;
          if (event.retry) pause = event.retry;
          if (event.data === undefined) continue;
          if (told(hear, event) === "end") { abort.abort(); onEnd(); return; }
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        lost();
      }
      clearTimeout(watch);
      await new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
        const wait = setTimeout(resolve, pause);
        abort.signal.addEventListener("abort", () => { clearTimeout(wait); resolve(); }, { once: true });
      });
      pause = Math.min(pause * 2, 5000);
    }
  };
  listen();
  return () => abort.abort();
}

/** A fault of ours in the middle of a stream is told, and is not taken for a cut line. */
function told(hear, event) {
  try { return hear(JSON.parse(event.data), event.event, event.id); } catch (error) { reportError(error); return undefined; }
}

async function* events(body, alive = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  /** @type {Record<string, any>} */
  let event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value;
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (Object.keys(event).length) yield event;
        event = {};
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const said = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "data") event.data = event.data === undefined ? said : `${event.data}\n${said}`;
        else if (name === "retry") event.retry = Number(said) || undefined;
        else event[name] = said;
      }
    }
  }
}
