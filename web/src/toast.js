// Short words about what has just happened, also for those who listen to the page.
import { html, signal } from "./lib.js";

const toasts = signal([]);
let number = 0;

export function say(text, kind = "") {
  const toast = { id: ++number, text, kind };
  toasts.value = [...toasts.value.slice(-3), toast];
  setTimeout(() => { toasts.value = toasts.value.filter((one) => one !== toast); }, kind === "harm" ? 9000 : 5000);
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map((toast) => html`<div key=${toast.id} class=${`toast ${toast.kind}`}>${toast.text}</div>`)}</div>`;
}
