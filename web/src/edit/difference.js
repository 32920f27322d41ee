// Two texts as one: lines that go, lines that come, and a little around them.
import { html } from "../lib.js";
import { _ } from "../language.js";
import { Text } from "../text.js";
import { differ, trim } from "./lines.js";

const SIGNS = { same: " ", removed: "−", added: "+" };
const WORDS = () => ({ removed: _("removed"), added: _("added") });

export function Difference({ before, after }) {
  const lines = trim(differ(before, after));
  if (!lines.length) return html`<p class="soft">${_("Both are the same.")}</p>`;
  return html`<div class="lines" tabIndex="0" role="region" aria-label=${_("What differs")}>${lines.map((line, at) => (line
    ? html`<div key=${at} class=${line.kind}><span aria-hidden="true">${SIGNS[line.kind]}</span><span>${line.kind !== "same" && html`<span class="unseen">${WORDS()[line.kind]}: </span>`}<${Text} value=${line.text} /></span></div>`
    : html`<div key=${at} class="gap"><span>⋯</span><span /></div>`))}</div>`;
}
