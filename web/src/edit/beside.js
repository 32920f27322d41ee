// What stands beside the text: its picture, its problems, its cases, and what a run of it would do.
import { html, useEffect, useRef, useState } from "../lib.js";
import { _ } from "../language.js";
import { DryRun } from "../definitions.js";
import { Diagram } from "../diagram.js";
import { SchemaForm, initial, problems, useFirstWrong } from "../form.js";
import { Text } from "../text.js";
import { brief } from "../secret.js";
import { call } from "../wire.js";

const waiting = () => html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
const closed = () => html`<p class="soft">${_("Only those who may save this file can try it out here.")}</p>`;

/** `lit`: the states that a case went through. */
export function Picture({ graph, isOld, lit, states }) {
  if (!graph && states) return html`<p class="soft">${_("{count} states are too many to be drawn while you write.", { count: states })}</p>`;
  if (!graph) return isOld ? html`<p class="soft">${_("There is no picture before the errors are mended.")}</p>` : waiting();
  return html`${isOld && html`<div class="note plain edit-note">${_("As it was before the errors.")}</div>`}<section class="card"><${Diagram} graph=${graph} seen=${lit ? new Set(lit) : undefined} /></section>`;
}

const KINDS = () => ({ error: _("error"), warning: _("warning"), advice: _("advice") });

export function Problems({ checked, trouble, name, show }) {
  if (trouble) return html`<div class="note harm" role="alert"><${Text} value=${trouble} /></div>`;
  if (!checked) return waiting();
  if (!checked.problems.length) return html`<div class="note good" role="status">${_("No problems.")}</div>`;
  return html`<ul class="flaws card" aria-label=${_("Problems")}>${checked.problems.map((flaw, at) => html`<li key=${at}><button class=${flaw.severity} disabled=${flaw.file !== name} onClick=${() => show(flaw.line)}><small class="faint">${KINDS()[flaw.severity]} · ${flaw.file !== name && html`<${Text} value=${flaw.file} /> · `}${_("line {line}", { line: flaw.line })}</small><br /><${Text} value=${flaw.message} />${flaw.hint && html`<br /><small class="soft"><${Text} value=${flaw.hint} /></small>`}</button></li>`)}</ul>`;
}

const PAUSE_MS = 700;

/** The cases of the file, played with the text as it stands, again after every pause. */
export function Cases({ name, text, isMine, light }) {
  const [found, setFound] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (!isMine) return undefined;
    const abort = new AbortController();
    const wait = setTimeout(async () => {
      setBusy(true);
      try { setFound(await call("/api/drafts/cases", { name, text }, abort)); setTrouble(""); } catch (error) { if (error.name !== "AbortError") setTrouble(error.message); }
      if (!abort.signal.aborted) setBusy(false);
    }, found ? PAUSE_MS : 0);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [text, isMine]);
  if (!isMine) return closed();
  if (!found && !trouble) return waiting();
  if (trouble) return html`<div class="note harm" role="alert"><${Text} value=${trouble.split("\n")[0]} /></div>`;
  if (!found.cases.length) return html`<p class="soft">${_("No case names this file. Cases are in files that end in .test.yaml; detent test plays them too.")}</p>`;
  return html`<section class="card"><header><h2><span role="status">${_("{passed} passed, {failed} failed", { passed: found.passed, failed: found.failed })}</span>${isBusy ? html` <small class="faint">${_("playing…")}</small>` : ""}</h2></header>
    <ul class="cases">${found.cases.map((one) => html`<li key=${`${one.file} ${one.id}`}><div class="row wrap"><span class=${`tag ${one.ok ? "good" : one.is_played ? "harm" : ""}`}>${one.ok ? _("passed") : one.is_played ? _("failed") : _("not played")}</span><b class="grow"><${Text} value=${one.id} /></b>${one.path.length > 0 && html`<button class="small quiet" onClick=${() => light(one.path)}>${_("Show its way")}</button>`}</div>
      <small class="faint mono"><${Text} value=${`${one.file}:${one.line}`} /></small>${one.about && html`<div class="soft"><small><${Text} value=${one.about} /></small></div>`}
      ${one.differs.map((key) => html`<div key=${key}><small><b class="mono"><${Text} value=${key} /></b> ${_("expected")} <code><${Text} value=${brief(one.expected[key] ?? null, 200)} /></code> ${_("came")} <code><${Text} value=${typeof one.actual[key] === "string" ? one.actual[key] : brief(one.actual[key] ?? null, 200)} /></code></small></div>`)}
      ${[...one.refused, ...(one.problem ? [one.problem] : [])].map((said) => html`<div class="wrong"><small><${Text} value=${said} /></small></div>`)}</li>`)}</ul></section>`;
}

/** What a run of the text would do with an input. */
export function Rehearsal({ name, text, checked, isMine }) {
  const schema = Object.keys(checked?.input || {}).length ? checked.input : { type: "object" };
  const [value, setValue] = useState(() => initial(schema) ?? {});
  const [wrong, setWrong] = useState({});
  const [found, setFound] = useState(null);
  const [trouble, setTrouble] = useState("");
  const form = useRef(null);
  useFirstWrong(form, wrong);
  if (!isMine) return closed();
  if (!checked) return waiting();
  if (!checked.ok) return html`<p class="soft">${_("There is no dry run before the errors are mended.")}</p>`;
  const send = async (event) => {
    event.preventDefault();
    const amiss = problems(schema, value ?? {}, "", true);
    setWrong(amiss);
    if (Object.keys(amiss).length) return;
    try { setFound(await call("/api/drafts/rehearsal", { name, text, input: value ?? {} })); setTrouble(""); } catch (error) { setFound(null); setTrouble(error.message); }
  };
  return html`<section class="card"><form class="body stack" ref=${form} onSubmit=${send} noValidate>
    ${Object.keys(checked.input).length > 0 ? html`<${SchemaForm} schema=${schema} value=${value} change=${(made) => { setValue(made); setFound(null); }} wrong=${wrong} prefix="rehearsal" />` : html`<details><summary>${_("with input")}</summary><${SchemaForm} schema=${schema} value=${value} change=${setValue} wrong=${wrong} prefix="rehearsal" /></details>`}
    <div><button class="main">${_("Dry run")}</button></div></form>${trouble && html`<div class="note harm" role="alert"><${Text} value=${trouble} /></div>`}${found && html`<${DryRun} found=${found} />`}</section>`;
}
