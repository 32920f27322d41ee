// The command palette: Ctrl-K, a few letters, Enter. Places, questions, runs and definitions under one field.
import { html, signal, useEffect, useState } from "./lib.js";
import { _ } from "./language.js";
import { Dialog } from "./dialog.js";
import { address } from "./route.js";
import { questionText } from "./sentence.js";
import { Status } from "./status.js";
import { Text } from "./text.js";
import { call, query } from "./wire.js";

const isOpen = signal(false);
const WAIT_MS = 150; // after the last letter, before the server is asked
const EACH = 6; // finds of each kind

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") { event.preventDefault(); isOpen.value = !isOpen.value; }
});

const places = () => [["inbox", _("Inbox")], ["runs", _("Runs")], ["chat", _("Chat")], ["definitions", _("Definitions")], ["figures", _("Figures")]]
  .map(([name, title]) => ({ key: name, href: address([name]), title, kind: _("Go to") }));

/** What the server knows, kind by kind as it comes; a kind that cannot be had is left out. */
function find(text, signal, tell) {
  const isNamed = (one) => `${one.name} ${one.title || ""}`.toLowerCase().includes(text.toLowerCase());
  const ask = (path, made) => call(path, undefined, { signal }).then((found) => tell(made(found)), () => {});
  return Promise.all([
    ask(`/api/inbox/lines${query({ text, limit: EACH })}`, (page) => page.lines.map((line) => ({ key: `q ${line.run_id} ${line.contract_id}`, href: address(["inbox", line.run_id, line.contract_id]), title: questionText(line), kind: _("Question"), more: line.title || line.machine }))),
    ask("/api/definitions", (files) => files.filter(isNamed).slice(0, EACH).map((one) => ({ key: `d ${one.name}`, href: address(["definitions", one.name]), title: one.title || one.name, kind: _("Definition"), more: one.name }))),
    ask(`/api/search${query({ text, limit: EACH })}`, (page) => page.found.map(({ run }) => ({ key: `r ${run.run_id}`, href: address(["runs", run.run_id]), title: `${run.machine} ${run.run_id}`, kind: _("Run"), status: run.status }))),
  ]);
}

function Finder({ close }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState([]);
  const [isBusy, setBusy] = useState(false);
  const [at, setAt] = useState(0);
  useEffect(() => {
    setAt(0);
    setFound([]);
    if (!text.trim()) { setBusy(false); return undefined; }
    const abort = new AbortController();
    setBusy(true);
    const tell = (more) => { if (!abort.signal.aborted) setFound((was) => [...was, ...more]); };
    const wait = setTimeout(() => find(text.trim(), abort.signal, tell).then(() => { if (!abort.signal.aborted) setBusy(false); }), WAIT_MS);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [text]);
  const own = places().filter((one) => one.title.toLowerCase().includes(text.trim().toLowerCase()));
  const all = [...own, ...found];
  const press = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) { event.preventDefault(); setAt((at + by + all.length) % (all.length || 1)); }
    if (event.key === "Escape") { event.preventDefault(); close(); } // else a search field is only emptied by it
    if (event.key === "Enter" && all[at]) { event.preventDefault(); close(); location.hash = all[at].href; }
  };
  return html`<div class="palette"><input type="search" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${all[at] ? `palette-${at}` : undefined} aria-label=${_("Find a place, question, run or definition")} placeholder=${_("Find a place, question, run or definition")}
      value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press} />
    <ul id="palette-list" role="listbox" aria-label=${_("Found")}>${all.map((one, index) => html`<li key=${one.key} id=${`palette-${index}`} role="option" aria-selected=${String(index === at)} onMouseMove=${() => setAt(index)} onClick=${() => { close(); location.hash = one.href; }}>
      <span class="faint">${one.kind}</span><span class="grow cut"><${Text} value=${one.title} /></span>${one.status ? html`<${Status} status=${one.status} />` : one.more && html`<span class="faint cut"><${Text} value=${one.more} /></span>`}</li>`)}</ul>
    <p class="faint" role="status">${isBusy ? _("looking…") : all.length ? "" : _("Nothing is found.")}</p></div>`;
}

export function Palette() {
  if (!isOpen.value) return null;
  const close = () => { isOpen.value = false; };
  return html`<${Dialog} title=${_("Find")} close=${close}><${Finder} close=${close} /></${Dialog}>`;
}
