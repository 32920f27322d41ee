// The editor: a workflow file as text, and beside it what it would be: picture, problems, cases, a dry run, pinned runs.
import { html, useEffect, useRef, useState } from "../lib.js";
import { _ } from "../language.js";
import { Dialog, Ends } from "../dialog.js";
import { age, now } from "../format.js";
import { address, place, tune } from "../route.js";
import { Said, Text } from "../text.js";
import { say } from "../toast.js";
import { call, query, returned } from "../wire.js";
import { Cases, Picture, Problems, Rehearsal } from "./beside.js";
import { dropDraft, hearOther, keepDraft, readDraft } from "./draft.js";
import { Difference } from "./difference.js";
import { Pins } from "./pins.js";
import { TextEditor } from "./text_editor.js";

const PAUSE_MS = 350; // of typing, before the server is asked what the text would be
const LOOK_MS = 4000; // between two looks at whether the file was changed elsewhere

/** What the server says of the text, some time after the last key. */
function useChecked(name, text, isOn) {
  const [checked, setChecked] = useState(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    if (!isOn) return undefined;
    const abort = new AbortController();
    const check = () => call("/api/drafts/check", { name, text }, abort).then((made) => { setTrouble(""); setChecked({ ...made, text }); }).catch((error) => { if (error.name !== "AbortError" && error.type !== "no_answer") setTrouble(error.message); });
    const wait = setTimeout(check, checked ? PAUSE_MS : 0);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [text, isOn, returned.value]);
  return [checked, trouble];
}

/** The file as it lies on disk, looked at again and again: others have editors, too. */
function useDisk(name, first) {
  const [disk, setDisk] = useState(first);
  const look = () => call(`/api/files/view${query({ name })}`).then((found) => { setDisk((was) => (was.hash === found.hash && was.why_not === found.why_not ? was : found)); return found; });
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) look().catch(() => {}); }, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return [disk, look, setDisk];
}

function Conflict({ disk, text, take, overwrite, close }) {
  return html`<${Dialog} title=${_("The file has been changed meanwhile")} close=${close}><div class="stack">
    <p>${_("Nothing was saved. Red lines are only in the file, green lines only in your text.")}</p>
    <${Difference} before=${disk.text} after=${text} />
    <${Ends} close=${close}><button onClick=${take}>${_("Take the file's text")}</button><button class="harm" onClick=${overwrite}>${_("Save mine over it")}</button></${Ends}></div></${Dialog}>`;
}

function Beside({ tabs }) {
  const wanted = place.value.query.get("tab");
  const [name, , , shown] = tabs.find(([key]) => key === wanted) || tabs[0];
  const list = useRef(null);
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = (tabs.findIndex(([key]) => key === name) + by + tabs.length) % tabs.length;
    tune({ tab: tabs[at][0] });
    list.current.children[at].focus();
  };
  return html`<div><div class="tabs" role="tablist" aria-label=${_("Beside the text")} ref=${list} onKeyDown=${move}>${tabs.map(([key, title, count]) => html`<button key=${key} role="tab" id=${`tab-${key}`} aria-selected=${String(key === name)} aria-controls="panel" tabIndex=${key === name ? 0 : -1} onClick=${() => tune({ tab: key })}>${title}${count ? html` <span class="number">${count}</span>` : ""}</button>`)}</div>
    <div class="panel" id="panel" role="tabpanel" aria-labelledby=${`tab-${name}`}>${shown()}</div></div>`;
}

/** A draft of an earlier visit, or a file that was changed elsewhere: each with its way out. */
function Notes({ draft, goOn, forget, isStale, compare, reload, isOther, why }) {
  return html`${draft && html`<div class="note edit-note" role="status"><span>${now.value && _("There is a draft of yours that was not saved, {when}.", { when: age(draft.at) })}</span><span class="row"><button class="small" onClick=${goOn}>${_("Go on with it")}</button><button class="small quiet" onClick=${forget}>${_("Throw it away")}</button></span></div>`}
    ${isStale && html`<div class="note edit-note" role="status"><span>${_("The file has been changed elsewhere since you opened it.")}</span><span class="row"><button class="small" onClick=${compare}>${_("Show the difference")}</button><button class="small quiet" onClick=${reload}>${_("Take the file's text")}</button></span></div>`}
    ${isOther && html`<div class="note edit-note" role="status">${_("Another tab of this browser edits the same file; of two drafts the later one is kept.")}</div>`}
    ${why && html`<div class="note plain edit-note"><span>${_("You can read this file here, and not save it:")} <${Text} value=${why} /></span></div>`}`;
}

function Editor({ first }) {
  const { name } = first;
  const [disk, look, setDisk] = useDisk(name, first);
  const [text, setText] = useState(first.text);
  const [base, setBase] = useState(first); // the file that the text began with
  const [draft, setDraft] = useState(() => { const found = readDraft(name); return found && found.text !== first.text ? found : null; });
  const [isOther, setOther] = useState(false);
  const [conflict, setConflict] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [lit, setLit] = useState(null); // the states that a case went through
  const hand = useRef(null);
  const warned = useRef(false);
  const isDirty = text !== base.text;
  const isMine = disk.may_save;
  const [checked, trouble] = useChecked(name, text, isMine);
  const drawn = useRef(null);
  if (checked?.graph) drawn.current = checked.graph;
  const isCurrent = checked?.text === text;

  useEffect(() => hearOther(name, () => setOther(true)), []);
  // What was written is kept at once: a browser that dies takes nothing along.
  useEffect(() => {
    if (!isMine || draft) return;
    if (!isDirty) dropDraft(name);
    else if (!keepDraft(name, text, base.hash) && !warned.current) { warned.current = true; say(_("This browser has no room for the draft: save before you leave."), "harm"); }
  }, [text, base, isMine, draft]);
  // A file that was changed elsewhere, and not here, is shown as it is now.
  useEffect(() => { if (disk.hash !== base.hash && !isDirty) { setBase(disk); if (disk.text !== text) hand.current?.write(disk.text); } }, [disk]);

  const take = (found) => { setConflict(null); setBase(found); hand.current.write(found.text); };
  const goOn = () => { setBase((was) => ({ ...was, hash: draft.hash })); hand.current.write(draft.text); setDraft(null); };
  const forget = () => { dropDraft(name); setDraft(null); };
  const change = (made) => { setText(made); setLit(null); };
  const save = async (hash = base.hash) => {
    if (isBusy || !isMine) return;
    setBusy(true);
    try {
      const saved = await call("/api/files/save", { name, text, hash });
      const found = { ...disk, text, hash: saved.hash };
      setDisk(found);
      setBase(found);
      setConflict(null);
      say(_("Saved."));
    } catch (error) {
      if (error.type === "file_changed") await settle();
      else say(error.message, "harm");
    }
    setBusy(false);
  };
  // The answer to an earlier save may have been lost on the way: then the file says what we say already.
  const settle = async () => {
    try {
      const found = await look();
      if (found.text === text) { setBase(found); say(_("Saved.")); } else setConflict(found);
    } catch (error) { say(error.message, "harm"); }
  };
  const errors = (checked?.problems || []).filter((flaw) => flaw.severity === "error").length;
  const tabs = [
    ["picture", _("Picture"), 0, () => html`<${Picture} graph=${checked?.graph || drawn.current} isOld=${Boolean(checked && !checked.graph)} lit=${lit} states=${checked?.states || 0} />`],
    ["problems", _("Problems"), checked?.problems.length, () => html`<${Problems} checked=${checked} trouble=${trouble} name=${name} show=${(line) => hand.current?.show(line)} />`],
    ["cases", _("Cases"), 0, () => html`<${Cases} name=${name} text=${text} isMine=${isMine} light=${(path) => { setLit(path); tune({ tab: "picture" }); }} />`],
    ["rehearsal", _("Dry run"), 0, () => html`<${Rehearsal} key=${JSON.stringify(checked?.input)} name=${name} text=${text} checked=${checked} isMine=${isMine} />`],
    ["runs", _("Pinned runs"), 0, () => html`<${Pins} name=${name} text=${text} hash=${base.hash} isDirty=${isDirty} isMine=${isMine} />`],
  ];
  return html`<header><div class="grow"><p class="lede"><a href=${address(["definitions", name])}>${_("Definitions")}</a></p><h1 class="cut"><${Text} value=${name} /></h1>
      <p class="lede" role="status">${!isMine ? _("read only") : isDirty ? _("not saved; kept as a draft in this browser") : _("saved")}${isMine && checked && isCurrent ? html` · ${errors === 0 ? _("no errors") : errors === 1 ? _("1 error") : _("{count} errors", { count: errors })}` : ""}</p></div>
      ${isMine && html`<div class="row wrap"><button disabled=${!isDirty} onClick=${() => take(disk)}>${_("Undo all")}</button><button class="main" disabled=${isBusy || !isDirty} onClick=${() => save()} title=${_("Ctrl-S")}>${errors && isCurrent ? _("Save with errors") : _("Save")}</button></div>`}</header>
    <${Notes} draft=${draft} goOn=${goOn} forget=${forget} isStale=${isDirty && !draft && disk.hash !== base.hash} compare=${() => setConflict(disk)} reload=${() => take(disk)} isOther=${isOther} why=${isMine ? "" : disk.why_not} />
    <div class="edit"><div><${TextEditor} name=${name} text=${first.text} isReadOnly=${!isMine || Boolean(draft)} checked=${checked} change=${change} save=${() => save()} hand=${hand} />
      <p class="faint"><small>${_("Tab leaves the text; Ctrl-] and Ctrl-[ indent, F8 goes to the next problem, Ctrl-F finds, Ctrl-S saves.")}</small></p></div>
      <div class="stack"><${Beside} tabs=${tabs} /></div></div>
    ${conflict && html`<${Conflict} disk=${conflict} text=${text} take=${() => take(conflict)} overwrite=${() => save(conflict.hash)} close=${() => setConflict(null)} />`}`;
}

function Opened({ name }) {
  const [file, setFile] = useState(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => { call(`/api/files/view${query({ name })}`).then((found) => { setFile(found); setTrouble(""); }).catch((error) => setTrouble(error.message)); }, [returned.value]);
  if (file) return html`<${Editor} first=${file} />`;
  if (trouble) return html`<div class="card empty"><h2>${_("This file cannot be edited")}</h2><p><${Text} value=${trouble} /></p><a href="#/definitions">${_("Definitions")}</a></div>`;
  return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
}

export function Edit() {
  const [, name] = place.value.parts;
  return name ? html`<${Opened} key=${name} name=${name} />` : html`<div class="card empty"><h2>${_("Which file?")}</h2><p><${Said} text=${_("{command} opens one, and so does every definition.")} command="detent edit FILE" /></p><a href="#/definitions">${_("Definitions")}</a></div>`;
}
