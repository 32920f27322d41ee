// The seven statuses: each has a shape of its own, so that colour is never alone in saying it.
import { html } from "./lib.js";
import { _ } from "./language.js";

export const STATUSES = ["pending", "running", "waiting", "completed", "failed", "rejected", "cancelled"];
export const isOver = (status) => ["completed", "failed", "rejected", "cancelled"].includes(status);

const SHAPES = {
  pending: html`<circle cx="8" cy="8" r="5.2" fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="2.6 2.6" />`,
  running: html`<circle cx="8" cy="8" r="5.2" fill="none" stroke="currentColor" stroke-width="1.8" opacity=".35" /><path d="M8 2.8a5.2 5.2 0 0 1 5.2 5.2" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />`,
  waiting: html`<path d="M8 1.6 14.4 8 8 14.4 1.6 8z" fill="currentColor" />`,
  completed: html`<path d="M2.8 8.6 6.5 12.2 13.2 4.6" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round" />`,
  failed: html`<path d="M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />`,
  rejected: html`<circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8" /><path d="M4.2 4.2l7.6 7.6" stroke="currentColor" stroke-width="1.8" />`,
  cancelled: html`<circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.8" /><path d="M5 8h6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />`,
};

const WORDS = {
  pending: () => _("pending"), running: () => _("running"), waiting: () => _("waiting"), completed: () => _("completed"),
  failed: () => _("failed"), rejected: () => _("rejected"), cancelled: () => _("cancelled"),
};

export const word = (status) => (WORDS[status] || (() => status))();

export function Glyph({ status }) {
  return html`<svg class=${`glyph ${status}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">${SHAPES[status]}</svg>`;
}

export function Status({ status, paused = false, bare = false, failed = 0 }) {
  const said = paused && status === "waiting" ? _("paused") : word(status);
  const text = failed ? _("{status}, {count} failed", { status: said, count: failed }) : said;
  return html`<span class=${`status ${status}`}><${Glyph} status=${status} />${bare ? html`<span class="unseen">${text}</span>` : text}</span>`;
}
