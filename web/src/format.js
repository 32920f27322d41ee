// Times, spans, sizes and sums as people read them.
import { signal } from "./lib.js";
import { _, locale } from "./language.js";

/** Seconds since the epoch, once a second: ages on the page follow it. */
export const now = signal(Date.now() / 1000);
setInterval(() => { if (!document.hidden) now.value = Date.now() / 1000; }, 1000);

/** @type {[string, number][]} */
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const WORDS = { d: () => _("d"), h: () => _("h"), min: () => _("min"), s: () => _("s") };

/** A span in one or two units: `3 d 4 h`, `12 s`, `84 ms`. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0) seconds = 0;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ${_("ms")}`;
  if (seconds < 10) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} ${_("s")}`;
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[at];
  const first = Math.floor(seconds / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return rest && first < 10 ? `${first} ${WORDS[unit]()} ${rest} ${WORDS[next[0]]()}` : `${first} ${WORDS[unit]()}`;
}

/** A span in one unit: enough for an age. */
function whole(seconds) {
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) || UNITS[3];
  return `${Math.floor(seconds / size)} ${WORDS[unit]()}`;
}

/** How long ago, in whole units; the exact time goes into a title. */
export function age(at) {
  const gone = now.value - at;
  if (gone < 2) return _("just now");
  return _("{span} ago", { span: whole(gone) });
}

export const ahead = (at) => (at > now.value
  ? _("in {span}", { span: whole(Math.ceil(at - now.value)) }) : _("overdue"));

/** The exact moment, in the reader's own zone. */
export function moment(at) {
  if (!at) return "";
  /** @type {Intl.DateTimeFormatOptions} */
  const options = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return new Date(at * 1000).toLocaleString(locale(), options);
}

/** Where there is little room: without what is the same today. */
export function shortMoment(at) {
  const [date, today] = [new Date(at * 1000), new Date()];
  if (date.toDateString() === today.toDateString()) return clock(at).slice(0, 8);
  /** @type {Intl.DateTimeFormatOptions} */
  const options = { year: date.getFullYear() === today.getFullYear() ? undefined : "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
  return date.toLocaleString(locale(), options);
}

/** A large number where there is little room: 10k, or 1万. */
export const compact = (count) => (count < 10_000 ? String(count) : count.toLocaleString(locale(), { notation: "compact", maximumFractionDigits: 0 }));

export function clock(at) {
  const date = new Date(at * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const hours = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${hours}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

export const iso = (at) => (at ? new Date(at * 1000).toISOString() : "");

export function money(usd) {
  if (!usd) return "";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export const short = (id, length = 8) => (id.length > length + 2 ? `${id.slice(0, length)}…` : id);
