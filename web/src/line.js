// A line to the server: watched from its first try on, and begun again where it left off. Nothing here needs a browser.

export const OPENING_MS = 10_000; // from the try to the first word; the server says at once how often it gives a sign of life
export const ANSWER_MS = 60_000; // for a plain call and its whole answer: the slowest take a few seconds on a busy machine
export const LONG_MS = 600_000; // for what is done to many runs, or reads a whole one
const SILENT = 3; // signs of life that may be missing before a line is taken for dead
const PAUSE_MS = 250;
const PAUSE_MS_MAX = 5000;

/** How long somebody waits for a sign of life: `signal` ends what was begun when none has come, or when `given` ends. */
export class Patience {
  #abort = new AbortController();
  #timer;
  #given;
  #over = () => this.stop();

  constructor(ms, given = undefined) {
    this.#given = given;
    if (given?.aborted) this.#abort.abort();
    else { given?.addEventListener("abort", this.#over); this.renew(ms); }
  }

  get signal() { return this.#abort.signal; }

  /** Something was heard: it counts from now on again. */
  renew(ms) { clearTimeout(this.#timer); this.#timer = setTimeout(this.#over, ms); }

  /** What was begun is no longer wanted. */
  stop() { this.end(); this.#abort.abort(); }

  /** Nobody waits any longer; what was begun may go on. */
  end() { clearTimeout(this.#timer); this.#given?.removeEventListener("abort", this.#over); }
}

const rest = (ms, signal) => new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
  const done = () => { clearTimeout(timer); signal.removeEventListener("abort", done); resolve(); };
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", done);
});

/** Hear a stream until it ends or nobody wants it any more; a cut or silent line is tried again. Returns what stops it.
    `connect(last, signal)` begins one connection after the last message that was heard. */
export function keepLine({ after = null, connect, hear, onOpen = () => {}, onRefused, onCut = () => {}, onEnd = (_error = undefined) => {} }) {
  const abort = new AbortController();
  let last = after;
  let pause = PAUSE_MS;

  /** One connection; true when no other must follow it. */
  async function listen(patience) {
    const response = await connect(last, patience.signal);
    if (response.status === 204) { onEnd(); return true; }
    if (!response.ok) {
      const error = await onRefused(response);
      if (response.status < 500 && response.status !== 429) { onEnd(error); return true; }
      throw error;
    }
    onOpen();
    pause = PAUSE_MS;
    let silence = OPENING_MS;
    for await (const event of eventsOf(response.body, () => patience.renew(silence))) {
      if (Number(event.beat) > 0) patience.renew(silence = Number(event.beat) * SILENT * 1000);
      if (event.id !== undefined && event.id !== "") last = event.id;
      if (event.retry) pause = event.retry;
      if (event.data !== undefined && hear(event) === "end") { abort.abort(); onEnd(); return true; }
    }
    return false;
  }

  (async () => {
    while (!abort.signal.aborted) {
      const patience = new Patience(OPENING_MS, abort.signal);
      try { if (await listen(patience)) return; } catch { if (!abort.signal.aborted) onCut(); } finally { patience.end(); }
      await rest(pause, abort.signal);
      pause = Math.min(pause * 2, PAUSE_MS_MAX);
    }
  })();
  return () => abort.abort();
}

/** The messages of a body; `alive` is told of every piece, also of those that hold none. */
export async function* eventsOf(body, alive = () => {}) {
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
