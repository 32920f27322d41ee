// The mark of detent: a ball that has come to rest in its notch.
import { html } from "./lib.js";

export const Mark = () => html`<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#16202b" /><path d="M6 12.5h5.6a4.4 4.4 0 0 0 8.8 0H26V25a1.5 1.5 0 0 1-1.5 1.5h-17A1.5 1.5 0 0 1 6 25z" fill="#8fa3b8" /><circle cx="16" cy="10.6" r="4.6" fill="#f2b13c" /></svg>`;
