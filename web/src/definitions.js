// Definitions: the project's workflow files as pictures, their problems at their lines, a form to start, and comparisons.
import { html, useEffect, useRef, useSignal, useState } from "./lib.js";
import { _ } from "./language.js";
import { mayDo } from "./me.js";
import { Diagram, Machine } from "./diagram.js";
import { SchemaForm, initial, problems, useFirstWrong } from "./form.js";
import { age, iso, moment, now, span } from "./format.js";
import { address, go, place, tune } from "./route.js";
import { Status } from "./status.js";
import { Sentence } from "./sentence.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { Triggers } from "./triggers.js";
import { brief } from "./secret.js";
import { Value } from "./value.js";
import { call, query, returned } from "./wire.js";

const OPEN = -4; // depth at which a value begins that is to be seen with all its parts: what differs must not be folded away

const label = (line) => line.title || line.machine || line.name;

const AGAIN_MS = 4000;

/** What an address answers; `isLive`: asked again now and then while it is seen, for files change beneath the page. */
function useAnswer(path, isLive = false) {
  const found = useSignal(null);
  const trouble = useSignal("");
  const was = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    if (was.current !== path) { was.current = path; found.value = null; }
    trouble.value = "";
    const read = () => call(path, undefined, abort).then((made) => {
      trouble.value = "";
      if (JSON.stringify(made) !== JSON.stringify(found.peek())) found.value = made;
    }).catch((error) => { if (error.name !== "AbortError" && error.type !== "no_answer") trouble.value = error.message; });
    if (path) read();
    const again = path && isLive && setInterval(() => { if (!document.hidden) read(); }, AGAIN_MS);
    return () => { clearInterval(again); abort.abort(); };
  }, [path, returned.value]);
  return [found.value, trouble.value];
}

function Thumb({ name }) {
  const [view] = useAnswer(`/api/definitions/view${query({ name, fold: true })}`);
  return html`<div class="thumb" aria-hidden="true">${view?.graph && html`<${Machine} graph=${view.graph} isSmall=${true} />`}</div>`;
}

function Library() {
  const [lines, trouble] = useAnswer("/api/definitions", true);
  if (trouble) return html`<div class="note harm" role="alert">${trouble}</div>`;
  return html`<header><div class="grow"><h1>${_("Definitions")}</h1><p class="lede">${_("Workflow files of this project")}</p></div>
      ${lines?.filter((line) => line.ok).length > 1 && html`<a class="button" href=${address(["compare"])}>${_("Compare two")}</a>`}</header>
    <${Triggers} />
    ${!lines ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`
    : !lines.length ? html`<div class="card empty"><h2>${_("No workflow file here")}</h2><p>${_("Make one with: detent init. It appears here at once.")}</p></div>`
      : html`<div class="library">${lines.map((line) => html`<a class="card" key=${line.name} href=${address(["definitions", line.name])}>
        ${line.ok ? html`<${Thumb} key=${line.digest} name=${line.name} />` : html`<div class="thumb"><span class="tag harm">${line.problems.length === 1 ? _("1 problem") : _("{count} problems", { count: line.problems.length })}</span></div>`}
        <div class="named"><h2><${Text} value=${label(line)} /></h2>${label(line) !== line.name && html`<div class="row wrap faint"><span class="mono cut"><${Text} value=${line.name} /></span></div>`}
          <div class="row wrap">${line.ok && html`<span class="tag">${_("{count} states", { count: line.states })}</span>`}${line.version && html`<span class="tag">${_("version {name}", { name: line.version })}</span>`}
            ${line.warnings.length > 0 && html`<span class="tag warn">${line.warnings.length === 1 ? _("1 hint") : _("{count} hints", { count: line.warnings.length })}</span>`}
            <small class="faint"><time datetime=${iso(line.changed_at)} title=${moment(line.changed_at)}>${now.value && age(line.changed_at)}</time></small></div></div></a>`)}</div>`}`;
}

/** A file with its problems beneath the lines they are about. */
function Source({ text, flaws }) {
  const at = new Map();
  for (const flaw of flaws) at.set(flaw.line, [...(at.get(flaw.line) || []), flaw]);
  const chosen = Number(place.value.query.get("line")) || 0;
  const first = chosen || flaws[0]?.line;
  useEffect(() => { if (first > 12 || chosen) document.getElementById(`line-${first}`)?.scrollIntoView({ block: "center" }); }, [chosen]);
  return html`<div class="source" tabIndex="0" role="region" aria-label=${_("Text of the file")}>${text.split("\n").map((line, index) => {
    const here = at.get(index + 1) || [];
    const kind = here.some((flaw) => flaw.severity === "error") ? "bad" : here.length ? "warn" : "";
    return html`<div key=${index}><div class=${`l ${kind}`} id=${`line-${index + 1}`} aria-current=${chosen === index + 1 ? "true" : undefined}><a href=${address(place.value.parts, { line: index + 1 })} tabIndex="-1" aria-label=${_("line {line}", { line: index + 1 })}>${index + 1}</a><span><${Text} value=${line} /></span></div>
      ${here.map((flaw) => html`<div class=${`flaw ${flaw.severity}`}><${Text} value=${flaw.message} />${flaw.hint && html`<div class="soft"><${Text} value=${flaw.hint} /></div>`}</div>`)}</div>`;
  })}</div>`;
}

function Start({ view }) {
  const schema = Object.keys(view.input || {}).length ? view.input : { type: "object" };
  const [value, setValue] = useState(() => initial(schema) ?? {});
  const [wrong, setWrong] = useState({});
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  const [dry, setDry] = useState(null);
  useFirstWrong(form, wrong);
  const isFree = !Object.keys(schema.properties || {}).length;
  const isRight = () => { const found = problems(schema, value ?? {}, "", true); setWrong(found); return !Object.keys(found).length; };
  const change = (made) => { setValue(made); setDry(null); };
  const rehearse = async () => {
    if (!isRight()) return;
    setBusy(true);
    try { setDry(await call("/api/rehearsals", { definition: view.line.name, input: value ?? {} })); } catch (error) { say(error.message, "harm"); }
    setBusy(false);
  };
  const send = async (event) => {
    event.preventDefault();
    if (!isRight()) return;
    setBusy(true);
    try {
      const run = await call("/api/runs", { definition: view.line.name, input: value ?? {} });
      go(["runs", run.run_id]);
    } catch (error) { say(error.message, "harm"); setBusy(false); }
  };
  return html`<section class="card"><header><h2>${_("Start a run")}</h2></header><form class="body stack" ref=${form} onSubmit=${send} noValidate>
    ${isFree && !Object.keys(view.input || {}).length ? html`<details><summary>${_("with input")}</summary><${SchemaForm} schema=${schema} value=${value} change=${change} wrong=${wrong} prefix="start" /></details>`
    : html`<${SchemaForm} schema=${schema} value=${value} change=${change} wrong=${wrong} prefix="start" />`}
    <div class="row wrap"><button type="button" disabled=${busy} onClick=${rehearse}>${_("Dry run")}</button><button class="main" disabled=${busy || !mayDo("start")} title=${mayDo("start") ? undefined : _("Your roles do not let you do this.")}>${_("Start")}</button></div></form>${dry && html`<${DryRun} found=${dry} />`}</section>`;
}

const STEPS = { state: () => _("in"), call: () => _("would call"), ask: () => _("would ask"), sleep: () => _("would sleep for"), wait: () => _("would wait for a signal:"), rule: () => _("the policy:"), left: () => _("would leave out"), again: () => _("and so on: it would sleep here again") };

/** What a run would do: the states it goes through, with calls, questions and waits in them. */
export function DryRun({ found }) {
  const said = ({ kind, detail }) => (kind === "sleep" ? span(Number(detail) || 0) : kind === "wait" ? (detail || []).join(", ") : kind === "rule" ? `${detail.decision} · ${detail.rule}` : typeof detail === "string" ? detail : detail ? brief(detail, 160) : "");
  return html`<div class="body stack dry" role="status"><p><${Status} status=${found.status} /> <span class="state"><${Text} value=${found.state} /></span> <span class="soft">${_("Nothing was touched; every question was answered with yes.")}</span></p>
    <ol class="steps-list">${found.steps.map((step, at) => html`<li key=${at} class=${step.kind === "state" ? "enters" : ""}><span class="faint">${(STEPS[step.kind] || (() => _("would need an answer:")))()}</span> ${step.kind === "state" ? html`<span class="state"><${Text} value=${step.name} /></span>` : html`${step.name && html`<b><${Text} value=${step.name} /></b> `}<${Text} value=${said(step)} />`}</li>`)}</ol>
    ${found.is_cut && html`<p class="faint">${_("and so on")}</p>`}${found.error && html`<p class="wrong"><b><${Text} value=${found.error.type} /></b> <${Sentence} text=${found.error.message} /></p>`}</div>`;
}

function DefinitionPage({ name }) {
  const [unfolded, unfold] = useState([]); // groups of a large picture whose states are shown
  const last = useRef(null);
  const [found, trouble] = useAnswer(`/api/definitions/view${query({ name, fold: true, open: unfolded })}`, true);
  const view = last.current = found || last.current; // the picture stays while another one is laid out
  const [lines] = useAnswer("/api/definitions");
  if (trouble) return html`<div class="card empty"><h2>${_("This definition cannot be shown")}</h2><p><${Text} value=${trouble} /></p><a href="#/definitions">${_("Definitions")}</a></div>`;
  if (!view) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  const { line } = view;
  const others = (lines || []).filter((one) => one.ok && one.name !== line.name);
  return html`<header class="split"><div class="grow"><p class="lede"><a href="#/definitions">${_("Definitions")}</a></p><h1><${Text} value=${label(line)} /></h1>
      <p class="lede mono"><${Text} value=${line.name} />${line.version && ` · ${line.version}`}${line.digest && ` · ${line.digest.slice(0, 12)}`}</p></div>
      <div class="row wrap">${view.source && html`<a class="button" href=${address(["edit", line.name])}>${_("Edit")}</a>`}
        ${line.ok && html`<a class="button" href=${address(["runs"], { machine: line.machine })}>${_("Its runs")}</a>`}
        ${line.ok && others.length > 0 && html`<a class="button" href=${address(["compare"], { left: line.name, right: others[0].name })}>${_("Compare…")}</a>`}</div></header>
    <div class="definition"><div class="stack">
      ${view.graph && html`<section class="card"><${Diagram} graph=${view.graph} unfold=${unfold} /></section>`}
      ${line.problems.length > 0 && html`<section class="card"><header><h2>${line.problems.length === 1 ? _("1 problem") : _("{count} problems", { count: line.problems.length })}</h2></header><ul class="body stack">${line.problems.map((flaw) => html`<li><a class="underlined" href=${address(["definitions", line.name], { line: flaw.line })}>${_("line {line}", { line: flaw.line })}</a> <${Text} value=${flaw.message} /></li>`)}</ul></section>`}
      ${line.warnings.length > 0 && html`<div class="note"><ul>${line.warnings.map((text) => html`<li><${Text} value=${text} /></li>`)}</ul></div>`}
      ${view.source && html`<section class="card file"><header><h2>${_("File")}</h2></header><${Source} text=${view.source} flaws=${line.problems} /></section>`}</div>
      <div class="stack">${line.ok && html`<${Start} key=${line.digest} view=${view} />`}</div></div>`;
}

const WHAT = () => ({ state: _("state"), transition: _("transition"), work: _("work"), end: _("end"), variable: _("variable"), limit: _("limit"), name: _("field") });
const KIND = () => ({ added: _("added"), removed: _("removed"), changed: _("changed") });

/** Every difference between two machines. */
export function Changes({ changes }) {
  return html`<header><h2>${changes.length === 1 ? _("1 difference") : _("{count} differences", { count: changes.length })}</h2></header>${changes.map((change) => html`<div class="change"><span><span class=${`tag ${{ added: "good", removed: "harm", changed: "warn" }[change.kind]}`}>${KIND()[change.kind]}</span></span>
      <div class="stack"><div><span class="faint">${WHAT()[change.what]}</span> <b class="mono"><${Text} value=${change.subject} /></b></div>
        ${change.kind === "changed" && html`<div class="two"><div class="call leaf"><${Value} value=${change.before} depth=${OPEN} /></div><div class="call leaf"><${Value} value=${change.after} depth=${OPEN} /></div></div>`}</div></div>`)}`;
}

export function Compare() {
  const { query: values } = place.value;
  const [left, right] = [values.get("left") || "", values.get("right") || ""];
  const [lines] = useAnswer("/api/definitions");
  const [found, trouble] = useAnswer(left && right ? `/api/definitions/compare${query({ left, right })}` : "");
  const names = (lines || []).filter((line) => line.ok).map((line) => line.name);
  const marks = (isLeft) => Object.fromEntries((found?.changes || []).flatMap((change) => {
    if (change.what === "state" && change.kind === (isLeft ? "removed" : "added")) return [[change.subject, change.kind]];
    return change.what === "work" && change.kind === "changed" ? [[change.subject, "changed"]] : [];
  }));
  const side = (key, value, text) => html`<div class="field grow"><label for=${key}>${text}</label><input id=${key} list="machines" value=${value} placeholder=${_("a file, run:ID or a digest")} onChange=${(event) => tune({ [key]: event.target.value })} /></div>`;
  return html`<header><div class="grow"><p class="lede"><a href="#/definitions">${_("Definitions")}</a></p><h1>${_("Compare two versions")}</h1></div></header>
    <div class="stack"><div class="two"><datalist id="machines">${names.map((name) => html`<option value=${name} />`)}</datalist>${side("left", left, _("Before"))}${side("right", right, _("After"))}</div>
    ${trouble && html`<div class="note harm" role="alert"><${Text} value=${trouble} /></div>`}
    ${(!left || !right) && html`<div class="card empty"><h2>${_("What is to be compared?")}</h2><p>${_("A file of this project, run:ID for the version a run is pinned to, or a digest.")}</p></div>`}
    ${left && right && !found && !trouble && html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`}
    ${found && html`${found.is_same ? html`<div class="note good">${_("Both are the same machine.")}</div>`
    : html`<section class="card"><${Changes} changes=${found.changes} /></section>`}
      <div class="two"><section class="card"><${Diagram} name=${_("Before")} graph=${found.left} marks=${marks(true)} /></section><section class="card"><${Diagram} name=${_("After")} graph=${found.right} marks=${marks(false)} /></section></div>`}</div>`;
}

export function Definitions() {
  const [, name] = place.value.parts;
  return name ? html`<${DefinitionPage} key=${name} name=${name} />` : html`<${Library} />`;
}
