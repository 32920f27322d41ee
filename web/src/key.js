// Single keys do what buttons do. They are silent while somebody writes.
import { html, signal, useLayoutEffect } from "./lib.js";
import { _ } from "./language.js";
import { Dialog, Ends } from "./dialog.js";
import { go } from "./route.js";

export const isHelping = signal(false);
const layers = [];

/** Let a part of the page hear keys while it is shown: `{j: () => …}`. */
export function useKeys(keys) {
  // Before the next paint: whoever sees a button may press its key.
  useLayoutEffect(() => {
    layers.push(keys);
    return () => { layers.splice(layers.indexOf(keys), 1); };
  });
}

let leader = "";
const LEADS = { i: ["inbox"], r: ["runs"], c: ["chat"], d: ["definitions"], f: ["figures"] };

const isWriting = (target) => target.closest?.("input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable], .text-editor");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isWriting(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const key = event.key;
  if (leader === "g" && LEADS[key]) { leader = ""; event.preventDefault(); go(LEADS[key]); return; }
  leader = key === "g" ? "g" : "";
  if (key === "?") { event.preventDefault(); isHelping.value = true; return; }
  for (const keys of [...layers].reverse()) {
    if (keys[key]) { event.preventDefault(); keys[key](event); return; }
  }
});

const KEYS = () => [
  [["j", "k"], _("next and previous")], [["n"], _("the next open question, in order")], [["a"], _("approve: goes to the button, Enter decides")], [["r"], _("reject with a reason")],
  [["e"], _("edit the arguments, or fill in the form")], [["Enter"], _("open")], [["←", "→"], _("step through a run's past")],
  [["g", "i"], _("Inbox")], [["g", "r"], _("Runs")], [["g", "c"], _("Chat")], [["g", "d"], _("Definitions")], [["g", "f"], _("Figures")], [["/"], _("search")], [["Ctrl", "K"], _("find anything")], [["?"], _("this help")],
];

export function Help() {
  if (!isHelping.value) return null;
  const close = () => { isHelping.value = false; };
  return html`<${Dialog} title=${_("Keyboard")} close=${close}>
    <dl class="keys">${KEYS().map(([keys, about]) => html`<dt>${keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${about}</dd>`)}</dl>
    <${Ends} close=${close} /></${Dialog}>`;
}
