// One run: its picture with the lit state, its past, its contracts, why it is here, and what can be done.
import { effect, html, useEffect, useMemo, useRef, useSignal, useState } from "../lib.js";
import { _ } from "../language.js";
import { Diagram } from "../diagram.js";
import { moved } from "../feed.js";
import { useItem } from "../item.js";
import { age, ahead, iso, moment, money, now, short, shortMoment, span } from "../format.js";
import { useKeys } from "../key.js";
import { later } from "../later.js";
import { Question } from "../question.js";
import { address, place, tune } from "../route.js";
import { Status, isOver } from "../status.js";
import { Sentence } from "../sentence.js";
import { Said, Text } from "../text.js";
import { say } from "../toast.js";
import { Value } from "../value.js";
import { viewsOf } from "../view/all.js";
import { Acts, Keep } from "./act.js";
import { Artefacts } from "./artefacts.js";
import { Contracts } from "./contracts.js";
import { Lanes } from "./lanes.js";
import { openRun } from "./store.js";
import { Event, Timeline } from "./timeline.js";

const Waterfall = later(() => import("./waterfall.js"), "Waterfall", "style/seeing.css");
const Versus = later(() => import("./versus.js"), "Versus", "style/seeing.css");
const SHOWN = 5; // questions of one run; more at the person's wish
const WIDE = ["waterfall", "compare"]; // what needs the whole width; the picture stands aside

function Head({ store }) {
  const run = store.shown.value;
  const [parent] = (run.parent || "").split(" ");
  const tokens = run.usage?.tokens;
  return html`<header class="run-head">
    <div class="line"><h1><${Text} value=${run.title || run.machine} /></h1>
      <span class=${`pill ${run.status}`}><${Status} status=${run.status} paused=${run.paused} failed=${run.failed} /></span>
      <span class="state" aria-label=${_("State")}><${Text} value=${run.state} /></span><${Acts} store=${store} /></div>
    <div class="about"><span class="mono" title=${run.run_id}>${run.run_id}</span>
      <span><time datetime=${iso(run.started_at)} title=${moment(run.started_at)}>${_("started {when}", { when: age(run.started_at) })}</time>${run.by && html` <${Said} text=${_("by {who}")} who=${run.by} />`}</span>
      <span>${isOver(run.status) ? _("took {span}", { span: span(run.at - run.started_at) }) : _("here for {span}", { span: span(Math.max(1, Math.floor((store.past.value ? run.at : now.value) - run.entered_at))) })}</span>
      ${money(run.cost_usd) && html`<span>${money(run.cost_usd)}</span>`}${tokens ? html`<span>${_("{count} tokens", { count: Math.round(tokens).toLocaleString() })}</span>` : null}
      ${run.source && html`<span class="cut">${run.source.split("/").pop()}</span>`}
      ${parent && html`<a href=${address(["runs", parent])}>${_("part of {run}", { run: short(parent) })}</a>`}
      ${run.children.map((child) => html`<a href=${address(["runs", child])}>${_("waits for {run}", { run: short(child) })}</a>`)}</div>
    ${run.alarms?.length > 0 && html`<div class="alarm" role="alert"><b>${_("Look into this at once")}</b>${run.alarms.map((text) => html`<p><${Sentence} text=${text} /></p>`)}</div>`}</header>`;
}

function Travel({ store }) {
  const last = store.run.value.last;
  const past = store.past.value;
  const asked = Math.min(last, Number(place.value.query.get("at")) || 0);
  const at = asked || last; // where the hand is; what is shown follows
  const isLoading = store.sought.value > 0;
  const upto = store.picture.value.upto; // the way of a long run is drawn piece by piece
  const when = past?.run.at;
  return html`<div class="travel"><div class="line"><label for="travel">${_("Event")} <b class="mono">${at}</b> / ${last}</label>
      <span class="grow" aria-live="polite">${isLoading ? html`<span class="tag loading">${_("loading event {seq}…", { seq: store.sought.value })}</span>` : upto < (past?.seq || store.run.value.seq) ? html`<span class="tag loading">${_("drawing the way: {upto} of {last}…", { upto: upto.toLocaleString(), last: (past?.seq || last).toLocaleString() })}</span>` : past ? html`<span class="tag here" title=${moment(when)}>${_("as it was, {when}", { when: shortMoment(when) })}</span>` : html`<span class="faint">${isOver(store.run.value.status) ? _("the end") : _("now")}</span>`}</span>
      ${past && html`<button class="small" onClick=${() => tune({ at: "" })}>${_("Back to now")}</button>`}</div>
    <input id="travel" type="range" min="1" max=${last} value=${at} disabled=${last < 2} aria-valuetext=${_("after event {seq} of {last}", { seq: at, last })}
      onInput=${(event) => tune({ at: Number(event.target.value) >= last ? "" : event.target.value })} /></div>`;
}

/** Why a call does not begin: what those who are at work lack. */
function lackOf(run, { contract_id: id, lack, problem }) {
  const effect = run.contracts.find((one) => one.id === id)?.effect || "";
  const said = {
    worker: _("no worker is there"), local: _("no worker takes local calls of new runs"), rules: _("no worker is new enough for this run"),
    effect: _("no worker has the effect {effect}", { effect }), place: _("no worker is where the files of this run are"),
  };
  return said[lack] || problem;
}

function Unserved({ run }) {
  if (run.status !== "running") return null;
  return (run.unserved || []).map((one) => html`<div class="note" role="status" title=${one.problem} key=${one.contract_id}><span>${_("It does not go on:")} ${lackOf(run, one)} (<code><${Text} value=${one.contract_id} /></code>)</span></div>`);
}

function Waits({ run }) {
  if (run.paused && !isOver(run.status)) return html`<div class="note">${_("Paused: it begins nothing new until somebody resumes it.")}</div>`;
  if (isOver(run.status) || run.status === "running") return null;
  return html`${run.accepts.length > 0 && !run.waiting.length && html`<div class="note plain">${_("Waits for a signal:")} ${run.accepts.map((name) => html`<code><${Text} value=${name} /></code> `)}</div>`}
    ${run.wake_at && html`<div class="note plain">${_("A timer is due {when}", { when: ahead(run.wake_at) })}</div>`}`;
}

/** A question of the run: it stays, decided, until the person goes on. */
function Asked({ runId, contractId, takesKeys, hide }) {
  const { item, decided } = useItem(runId, contractId);
  if (!item) return decided ? null : html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /></div>`;
  return html`<${Question} item=${item} decided=${decided} takesKeys=${takesKeys} isBare=${true} onDecided=${hide} />`;
}

function Now({ store }) {
  const run = store.shown.value;
  const isPast = Boolean(store.past.value);
  // What was asked while somebody looked on stays where it stands; only what they decide themselves goes away.
  const asked = useRef([]);
  const hidden = useRef(new Set());
  const open = run.waiting.map((one) => one.contract_id);
  for (const id of open) hidden.current.delete(id);
  asked.current = [...asked.current, ...open.filter((id) => !asked.current.includes(id))].filter((id) => !hidden.current.has(id));
  const [most, setMost] = useState(SHOWN);
  // A loop may ask for each of its items: where they stand is seen first. Once laid out, nothing changes its place.
  const { current: many } = useRef(asked.current.length > SHOWN);
  const hide = (id) => () => { hidden.current.add(id); asked.current = asked.current.filter((one) => one !== id); };
  return html`<div class="stack">
    ${many && html`<${Lanes} store=${store} />`}
    ${!isPast && asked.current.slice(0, most).map((id) => html`<${Asked} key=${id} runId=${run.run_id} contractId=${id} takesKeys=${asked.current.length === 1} hide=${hide(id)} />`)}
    ${!isPast && asked.current.length > most && html`<p class="row"><button onClick=${() => setMost(most + SHOWN * 5)}>${_("Show more")} (${asked.current.length - most})</button></p>`}
    ${isPast && run.waiting.map((one) => html`<div class="note">${_("It was asking:")} <${Text} value=${one.question || one.action} /></div>`)}
    <${Waits} run=${run} />${!many && html`<${Lanes} store=${store} />`}
    ${!isPast && html`<${Unserved} run=${run} />`}
    ${run.error && run.status !== "completed" && html`<div class="note harm" role="alert"><div><b><${Text} value=${run.error.type} /></b><br /><${Sentence} text=${run.error.message} />${(run.error.data?.passed_over || []).map((row) => html`<br /><small>${_("Not taken: {row}, which has no condition and so is for success", { row })}</small>`)}</div></div>`}
    ${run.output !== null && run.output !== undefined && JSON.stringify(run.output) !== "{}" && isOver(run.status) && html`<section class="card"><header><h2>${_("Output")}</h2></header><div class="body leaf"><${Value} value=${run.output} /></div></section>`}
    ${!isPast && html`<${Artefacts} store=${store} />`}
    ${run.why.length > 0 && html`<section class="card"><header><h2>${_("Why it is here")}</h2></header><div class="body"><ol class="timeline">${run.why.slice(-12).map((entry) => html`<${Event} key=${entry.seq} base=${store.base} entry=${entry} isTold=${true} />`)}</ol></div></section>`}
    <section class="card"><header><h2>${_("Context")}</h2></header><div class="body">${Object.keys(run.context).length ? html`<${Value} value=${run.context} />` : html`<span class="faint">${_("empty")}</span>`}</div></section>
    ${Object.keys(run.variables).length > 0 && html`<section class="card"><header><h2>${_("Variables")}</h2></header><div class="body"><${Value} value=${run.variables} /></div></section>`}
    <section class="card"><header><h2>${_("Keep and prove")}</h2></header><div class="body"><${Keep} store=${store} /><p class="faint mono small-gap">${_("checkpoint")} ${run.checkpoint.slice(0, 32)}…</p></div></section></div>`;
}

function Panel({ store }) {
  const run = store.run.value;
  const tabs = [...viewsOf(run), ["now", _("Now"), Now], ["timeline", _("Timeline"), Timeline], ["contracts", _("Contracts"), Contracts], ["waterfall", _("Waterfall"), Waterfall], ["compare", _("Compare"), Versus]];
  const wanted = place.value.query.get("tab");
  const [name, , Shown] = tabs.find(([key]) => key === wanted) || tabs[0];
  const list = useRef(null);
  // On a phone the row of tabs is wider than the screen.
  useEffect(() => { const tab = list.current?.querySelector("[aria-selected=true]"); if (tab) list.current.scrollLeft = tab.offsetLeft - list.current.offsetLeft - 40; }, [name]);
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = (tabs.findIndex(([key]) => key === name) + by + tabs.length) % tabs.length;
    tune({ tab: tabs[at][0] });
    list.current.children[at].focus();
  };
  return html`<div><div class="tabs" role="tablist" aria-label=${_("Parts of the run")} ref=${list} onKeyDown=${move}>${tabs.map(([key, title]) => html`<button key=${key} role="tab" id=${`tab-${key}`} aria-selected=${String(key === name)} aria-controls="panel" tabIndex=${key === name ? 0 : -1} onClick=${() => tune({ tab: key })}>${title}${key === "timeline" ? html` <span class="number">${run.last}</span>` : ""}</button>`)}</div>
    <div class="panel" id="panel" role="tabpanel" aria-labelledby=${`tab-${name}`}><${Shown} store=${store} /></div></div>`;
}

export function RunPage() {
  const [, runId] = place.value.parts;
  const at = Number(place.value.query.get("at")) || 0;
  const store = useMemo(() => openRun(runId), [runId]);
  const last = useSignal(0);
  useEffect(() => () => store.close(), [store]);
  useEffect(() => effect(() => { last.value = store.run.value?.last || 0; }), [store]);
  // A run that has ended has no stream any more, but evidence may still come.
  useEffect(() => effect(() => { if (moved.value.some((line) => line.run_id === runId && line.seq > (store.run.peek()?.seq || 0))) store.reread(); }), [store]);
  const isKnown = last.value > 0;
  useEffect(() => {
    if (!isKnown) return;
    store.travel(at).catch((error) => { say(error.message, "harm"); tune({ at: "" }); });
  }, [store, at, isKnown]);
  const step = (by) => {
    const next = (at || last.value) + by;
    if (next >= 1) tune({ at: next >= last.value ? "" : next });
  };
  useKeys({ ArrowLeft: () => step(-1), ArrowRight: () => step(1) });
  if (store.trouble.value) return html`<div class="card empty"><h2>${_("This run cannot be shown")}</h2><p><${Text} value=${store.trouble.value} /></p><p><a href="#/runs">${_("All runs")}</a></p></div>`;
  if (!store.shown.value || !store.picture.value) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /><i /></div>`;
  const run = store.shown.value;
  if (WIDE.includes(place.value.query.get("tab"))) return html`<${Head} store=${store} /><div class="run wide"><${Panel} store=${store} /></div>`;
  return html`<${Head} store=${store} />
    <div class="run"><section class=${`card seen ${store.past.value ? "past" : ""}`} data-seq=${run.seq} aria-label=${_("Picture and past")}>
      <${Diagram} graph=${store.picture.value} lit=${run.state} status=${run.status} lanes=${run.lanes} unfold=${store.unfold} /><${Travel} store=${store} /></section><${Panel} store=${store} /></div>`;
}
