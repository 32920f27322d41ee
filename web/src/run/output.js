// What a program writes, with its colours; and what a contract says while it is at work.
import { html } from "../lib.js";
import { _ } from "../language.js";
import { paint } from "../ansi.js";
import { Text } from "../text.js";

const SHOWN = 20_000; // letters of an output that are drawn; the end is what matters

/** Text with the colours that a program gave it. */
export const Painted = ({ text }) => paint(text).map((piece) => (piece.look ? html`<span class=${piece.look}><${Text} value=${piece.text} /></span>` : html`<${Text} value=${piece.text} />`));

/** A program's output as it wrote it. */
export function Printed({ name = "", text }) {
  const end = text.slice(-SHOWN).trimEnd();
  return html`<figure class="printed">${name && html`<figcaption>${name}</figcaption>`}
    ${text.length > SHOWN && html`<p class="faint">${_("the last {count} characters", { count: SHOWN.toLocaleString() })}</p>`}
    <pre tabIndex="0"><${Painted} text=${end} /></pre></figure>`;
}

/** The words of a contract as one text: pieces follow each other, a line of a program's output is a line. */
export const spoken = (said) => said.map((data) => (typeof data.text !== "string" ? `${JSON.stringify(data)}\n` : data.stream ? `${data.text}\n` : data.text)).join("");
