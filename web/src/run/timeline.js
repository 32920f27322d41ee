// What happened, newest first: each event with what it led to and what it changed, never the whole state again.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { clock, iso, moment } from "../format.js";
import { place, tune } from "../route.js";
import { word } from "../status.js";
import { Sentence } from "../sentence.js";
import { Said, Text } from "../text.js";
import { brief } from "../secret.js";
import { Value } from "../value.js";
import { say } from "../toast.js";
import { call } from "../wire.js";

const FILTERS = {
  all: { text: () => _("all"), fits: () => true },
  states: { text: () => _("states"), fits: (entry) => entry.taken.some((one) => one.kind === "transition") || entry.kind === "started" },
  contracts: { text: () => _("contracts"), fits: (entry) => entry.kind === "moved" },
  signals: { text: () => _("signals"), fits: (entry) => entry.kind === "signalled" },
  decisions: { text: () => _("decisions"), fits: (entry) => entry.kind === "moved" && ["resume", "suspend"].includes(entry.event.trigger) },
  values: { text: () => _("values"), fits: (entry) => Object.keys(entry.delta.context || {}).length > 0 || (entry.delta.dropped || []).length > 0 },
  problems: { text: () => _("problems"), fits: (entry) => Boolean(entry.event.error) || Boolean(entry.delta.error) || entry.taken.some((one) => one.kind === "caught") },
};

const MOVES = {
  start: () => _("began"), succeed: () => _("succeeded"), fail: () => _("failed"), reject: () => _("was rejected"), suspend: () => _("waits"),
  cancel: () => _("was cancelled"), resume: () => _("goes on"), timeout: () => _("ran out of time"),
};
const SIGNALS = { "@wake": () => _("a timer was due"), "@cancel": () => _("cancel"), "@hold": () => _("pause"), "@release": () => _("go on"), "@migrate": () => _("migrate") };

function Head({ entry }) {
  const { event } = entry;
  if (entry.kind === "started") return html`<b>${_("Started")}</b>${event.by && html`<span class="soft"><${Said} text=${_("by {who}")} who=${event.by} /></span>`}${event.fork && html`<span class="tag">${_("fork of {run} at {seq}", { run: event.fork.run_id, seq: event.fork.seq })}</span>`}`;
  if (entry.kind === "signalled") return html`<b><${Text} value=${SIGNALS[event.name] ? SIGNALS[event.name]() : event.name} /></b><span class="tag here">${_("signal")}</span>${event.by && html`<span class="soft"><${Said} text=${_("by {who}")} who=${event.by} /></span>`}`;
  const said = event.trigger === "resume" && event.result && typeof event.result === "object" ? event.result : null;
  return html`<b class="mono"><${Text} value=${event.contract_id} /></b>
    <span>${said && said.approved === true ? _("approved") : said && said.approved === false ? _("rejected") : (MOVES[event.trigger] || (() => event.trigger))()}</span>
    ${said?.by && html`<span class="soft"><${Said} text=${_("by {who}")} who=${said.by} /></span>`}`;
}

function Led({ one }) {
  if (one.kind === "transition") return html`<div><span class="state"><${Text} value=${one.source} /></span> <span class="arrow">→</span> <span class="state"><${Text} value=${one.target} /></span>${one.event && html` <span class="faint"><${Text} value=${one.event} /></span>`}</div>`;
  if (one.kind === "condition") return html`<div>${one.value === true ? "✓" : one.value === false ? "✗" : "!"} <code><${Text} value=${one.subject} /></code>${one.values && Object.keys(one.values).length > 0 && html` <span class="faint mono"><${Text} value=${brief(one.values, 120)} /></span>`}</div>`;
  if (one.kind === "caught") return html`<div>${_("error {type} is taken here", { type: one.event })} → <span class="state"><${Text} value=${one.target} /></span></div>`;
  if (one.kind === "log") return html`<div>“<${Text} value=${typeof one.value === "string" ? one.value : brief(one.value)} />”</div>`;
  if (one.kind === "contract") return html`<div><span class="mono"><${Text} value=${one.subject} /></span> ${one.source ? `${word(one.source)} → ` : ""}${word(one.target)}${one.actor && html` <span class="faint"><${Text} value=${one.actor} /></span>`}</div>`;
  if (one.kind === "set") return null; // it is in the delta
  return html`<div class="faint"><${Text} value=${`${one.subject} ${brief(one.value)}`} /></div>`;
}

function Whole({ base, entry }) {
  const [whole, setWhole] = useState(null);
  const open = (event) => { if (event.target.open && !whole) call(`${base}/log/${entry.seq}`).then(setWhole).catch(() => setWhole(entry)); };
  return html`<details onToggle=${open}><summary>${_("the event")}</summary>${whole && html`<${Value} value=${whole.event} depth=${-1} />`}</details>`;
}

const isFailing = (entry) => Boolean(entry.event.error) || ["failed"].includes(entry.delta.status);

export function Event({ base, entry, isFresh, isTold }) {
  const { delta, event } = entry;
  const own = entry.taken.filter((one) => !(one.kind === "contract" && one.subject === event.contract_id));
  const changed = { ...(delta.context || {}) };
  const result = entry.kind === "moved" && event.trigger === "succeed" ? event.result : undefined;
  const names = ["event", own.some((one) => one.kind === "transition") && "moves", event.trigger === "suspend" && "asks", isFailing(entry) && "fails", delta.status === "completed" && "ends", isFresh && "new"].filter(Boolean).join(" ");
  return html`<li class=${names} id=${isTold ? undefined : `event-${entry.seq}`}>
    <button class="link seq" title=${_("Look at the run as it was here")} aria-label=${_("Event {seq}: look at the run as it was here", { seq: entry.seq })} onClick=${(click) => { click.preventDefault(); tune({ at: entry.seq }); }}>${entry.seq}</button>
    <span class="rail-dot" aria-hidden="true"><i /></span>
    <div class="what"><div class="head"><${Head} entry=${entry} /><time datetime=${iso(entry.at)} title=${moment(entry.at)}>${clock(entry.at)}</time></div>
      <div class="led">${own.map((one) => html`<${Led} one=${one} />`)}
        ${event.error && html`<div class="wrong"><b><${Text} value=${event.error.type} /></b> <${Sentence} text=${event.error.message} /></div>`}
        ${event.question?.text && html`<div class="soft"><${Text} value=${event.question.text} /></div>`}
        ${event.result?.comment && html`<div class="soft">“<${Text} value=${event.result.comment} />”</div>`}</div>
      ${(Object.keys(changed).length > 0 || (delta.dropped || []).length > 0) && html`<div class="delta"><${Value} value=${{ ...changed, ...Object.fromEntries((delta.dropped || []).map((name) => [name, null])) }} depth=${1} /></div>`}
      ${entry.kind === "signalled" && Object.keys(event.data || {}).length > 0 && html`<div class="delta"><${Value} value=${event.data} depth=${1} /></div>`}
      ${result !== undefined && result !== null && !Object.keys(changed).length && html`<div class="delta leaf"><${Value} value=${result} depth=${1} /></div>`}
      ${!isTold && html`<${Whole} base=${base} entry=${entry} />`}</div></li>`;
}

export function Timeline({ store }) {
  const name = place.value.query.get("show") || "all";
  const filter = FILTERS[name] || FILTERS.all;
  const text = place.value.query.get("find") || "";
  const upto = store.past.value?.seq || Infinity;
  const known = store.past.value?.entries || store.entries.value;
  const first = known[0]?.seq ?? 1;
  const isNear = upto >= (store.entries.value[0]?.seq ?? 1) || Boolean(store.past.value?.entries); // else they are on their way
  useEffect(() => { store.lookAround().catch((error) => say(error.message, "harm")); }, [store, upto]);
  const shown = known.filter((entry) => entry.seq <= upto && filter.fits(entry) && (!text || JSON.stringify(entry).toLowerCase().includes(text.toLowerCase())));
  return html`<div class="stack">
    <div class="chips" role="group" aria-label=${_("Show")}>${Object.entries(FILTERS).map(([key, one]) => html`<button key=${key} aria-pressed=${String(key === name)} onClick=${() => tune({ show: key === "all" ? "" : key })}>${one.text()}</button>`)}</div>
    <input type="search" aria-label=${_("Search the timeline")} placeholder=${_("Search the timeline")} value=${text} onInput=${(event) => tune({ find: event.target.value })} />
    <ol class="timeline" reversed>${shown.toReversed().map((entry) => html`<${Event} key=${entry.seq} base=${store.base} entry=${entry} isFresh=${entry.seq > store.fresh.value} />`)}</ol>
    ${!isNear ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>` : !shown.length && html`<p class="faint">${_("No event fits.")}</p>`}
    ${isNear && first > 1 && html`<p><button onClick=${() => store.earlier()}>${_("Earlier events")} (${first - 1})</button></p>`}</div>`;
}
