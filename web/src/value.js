// Any JSON value, readable: names in a column, large parts folded, what looks secret covered.
import { html, useState } from "./lib.js";
import { _ } from "./language.js";
import { COVER, SECRET } from "./secret.js";
import { Text } from "./text.js";

const LONG = 600;
const MANY = 24;
const DEEP = 3;

const kind = (value) => (value === null ? "null" : Array.isArray(value) ? "list" : typeof value);
const isLeaf = (value) => !value || typeof value !== "object" || !Object.keys(value).length;

function Covered({ value, depth }) {
  const [open, setOpen] = useState(false);
  if (open) return html`<${Value} value=${value} depth=${depth} />`;
  return html`<button class="link covered" onClick=${() => setOpen(true)} title=${_("Looks like a secret; click to show it")}>${COVER}</button>`;
}

function Long({ text }) {
  const [open, setOpen] = useState(false);
  const lines = text.split("\n");
  const cut = lines.length > 14 ? lines.slice(0, 12).join("\n").slice(0, LONG) : text.slice(0, LONG);
  return html`<span class="string long"><${Text} value=${open ? text : `${cut}…`} />
    <button class="link fold" onClick=${() => setOpen(!open)}>
      ${open ? _("fold") : _("show all {count} characters", { count: text.length.toLocaleString() })}</button></span>`;
}

function Folded({ value, depth }) {
  const [open, setOpen] = useState(false);
  const count = Object.keys(value).length;
  const about = Array.isArray(value) ? (count === 1 ? _("1 item") : _("{count} items", { count })) : count === 1 ? _("1 field") : _("{count} fields", { count });
  if (!open) return html`<button class="link fold" aria-expanded="false" onClick=${() => setOpen(true)}>${Array.isArray(value) ? "[…]" : "{…}"} ${about}</button>`;
  return html`<${Rows} value=${value} depth=${depth} />`;
}

function Rows({ value, depth }) {
  const [all, setAll] = useState(false);
  const entries = Object.entries(value);
  const shown = all ? entries : entries.slice(0, MANY);
  return html`<dl class=${`rows ${Array.isArray(value) ? "list" : ""}`}>
    ${shown.map(([name, inner]) => html`<div class=${isLeaf(inner) ? "" : "deep"} key=${name}>
      <dt><${Text} value=${name} /></dt>
      <dd>${SECRET.test(name) && typeof inner === "string" && inner
    ? html`<${Covered} value=${inner} depth=${depth + 1} />` : html`<${Value} value=${inner} depth=${depth + 1} />`}</dd></div>`)}
    ${entries.length > shown.length && html`<div><dt></dt><dd><button class="link fold" onClick=${() => setAll(true)}>
      ${_("{count} more", { count: entries.length - shown.length })}</button></dd></div>`}
  </dl>`;
}

export function Value({ value, depth = 0 }) {
  const what = kind(value);
  if (what === "string") {
    if (value === "") return html`<span class="null">""</span>`;
    return value.length > LONG || value.split("\n").length > 14
      ? html`<${Long} text=${value} />` : html`<span class="string"><${Text} value=${value} /></span>`;
  }
  if (what === "null" || what === "undefined") return html`<span class="null">null</span>`;
  if (what === "number" || what === "boolean") return html`<span class=${what}>${String(value)}</span>`;
  if (isLeaf(value)) return html`<span class="null">${what === "list" ? "[]" : "{}"}</span>`;
  if (depth >= DEEP) return html`<${Folded} value=${value} depth=${depth} />`;
  return html`<${Rows} value=${value} depth=${depth} />`;
}
