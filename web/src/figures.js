// Figures over time: how many runs began, ended and failed, how long people were waited for, what it cost, and how long
// workflows and their states take. The time and the workflow are in the address.
import { html, useEffect, useState } from "./lib.js";
import { _, locale } from "./language.js";
import { money, span } from "./format.js";
import { address, place, tune } from "./route.js";
import { word } from "./status.js";
import { Text } from "./text.js";
import { call, query } from "./wire.js";

const DAYS = { 1: () => _("last day"), 7: () => _("last week"), 30: () => _("last month"), 90: () => _("last quarter"), 366: () => _("last year") };
const HEIGHT = 120;

/** @param {number} at @param {boolean} isHour */
const label = (at, isHour) => new Date(at * 1000).toLocaleString(locale(), isHour ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric", timeZone: "UTC" });

/** The next round number: an axis ends there. */
export function roundUp(most) {
  if (most <= 0) return 2;
  const size = 10 ** Math.floor(Math.log10(most));
  return [2, 4, 6, 8, 10, 20].find((one) => one * size >= most) * size;
}

/** Bars over time. `rows` are what stands in each step: a value, and the colour of its bar; the second stands in the first. */
function Chart({ title, about, steps, rows, show, isHour }) {
  const most = roundUp(Math.max(...steps.map((step) => Math.max(...rows.map((row) => row.of(step))))));
  const width = matchMedia("(max-width: 760px)").matches ? 280 : 560;
  const each = width / steps.length;
  const every = Math.max(1, Math.ceil(steps.length / (width / 90)));
  return html`<figure class="chart card"><figcaption><h2>${title}</h2><p class="soft">${about}</p>
      ${rows.length > 1 && html`<p class="legend">${rows.map((row) => html`<span key=${row.name}><i class=${row.tint} aria-hidden="true" />${row.title}</span>`)}</p>`}</figcaption>
    <svg viewBox=${`0 0 ${width + 56} ${HEIGHT + 26}`} role="img" aria-label=${`${title}. ${about}`}>
      ${[0, 0.5, 1].map((part) => html`<g key=${part}><line class="grid" x1="52" x2=${width + 52} y1=${HEIGHT - part * (HEIGHT - 8)} y2=${HEIGHT - part * (HEIGHT - 8)} /><text class="scale" x="46" y=${HEIGHT - part * (HEIGHT - 8) + 4} text-anchor="end">${show(most * part)}</text></g>`)}
      ${steps.map((step, at) => html`<g key=${at}><title>${`${label(step.at, isHour)}: ${rows.map((row) => `${row.title} ${show(row.of(step))}`).join(", ")}`}</title>
        <rect class="reach" x=${52 + at * each} y="0" width=${each} height=${HEIGHT} />
        ${rows.map((row) => { const height = (row.of(step) / most) * (HEIGHT - 8); return html`<rect key=${row.name} class=${row.tint} x=${52 + at * each + each * 0.12} y=${HEIGHT - height} width=${Math.max(1, each * 0.76)} height=${Math.max(0, height)} rx="1" />`; })}
        ${at % every === 0 && html`<text class="scale" x=${52 + at * each + each / 2} y=${HEIGHT + 18} text-anchor="middle">${label(step.at, isHour)}</text>`}</g>`)}</svg>
    <details><summary>${_("as a table")}</summary><div class="scroll"><table class="many"><thead><tr><th scope="col">${_("Time")}</th>${rows.map((row) => html`<th scope="col" class="number" key=${row.name}>${row.title}</th>`)}</tr></thead><tbody>${steps.filter((step) => rows.some((row) => row.of(step))).map((step) => html`<tr key=${step.at}><td>${label(step.at, isHour)}</td>${rows.map((row) => html`<td class="number" key=${row.name}>${show(row.of(step))}</td>`)}</tr>`)}</tbody></table></div></details></figure>`;
}

function Spreads({ title, about, name, rows, find }) {
  const [isAll, setAll] = useState(false);
  const most = Math.max(1e-9, ...rows.map((row) => row.p95));
  return html`<section class="card"><header><div><h2>${title}</h2><p class="soft">${about}</p></div></header>
    ${!rows.length ? html`<p class="faint body">${_("Nothing yet in this time.")}</p>` : html`<div class="scroll"><table class="many spreads"><thead><tr><th scope="col">${_("Workflow")}</th>${name && html`<th scope="col">${name}</th>`}<th scope="col" class="number">${_("Count")}</th><th scope="col" class="number">p50</th><th scope="col" class="number">p95</th><th scope="col" class="wide"><span class="unseen">${_("Picture")}</span></th></tr></thead>
      <tbody>${rows.slice(0, isAll ? rows.length : 12).map((row) => html`<tr key=${`${row.machine} ${row.name}`}><td><a href=${address(["runs"], { machine: row.machine })}><${Text} value=${row.machine} /></a></td>${name && html`<td>${find(row)}</td>`}<td class="number">${row.count.toLocaleString()}</td><td class="number">${span(row.p50)}</td><td class="number">${span(row.p95)}</td>
        <td class="wide" aria-hidden="true"><span class="spread"><i class="p95" style=${{ width: `${(row.p95 / most) * 100}%` }} /><i class="p50" style=${{ width: `${(row.p50 / most) * 100}%` }} /></span></td></tr>`)}</tbody></table></div>
      ${rows.length > 12 && !isAll && html`<p class="row older"><button onClick=${() => setAll(true)}>${_("Show more")} (${rows.length - 12})</button></p>`}`}</section>`;
}

function Sums({ figures }) {
  const sum = (name) => figures.steps.reduce((total, step) => total + step[name], 0);
  const asked = sum("asked");
  const rows = [[_("Runs started"), sum("started").toLocaleString()], [_("Runs ended"), sum("ended").toLocaleString()], [_("Runs failed"), sum("failed").toLocaleString()], [_("Questions decided"), asked.toLocaleString()], [_("People took, on average"), asked ? span(sum("asked_s") / asked) : "—"], [_("Cost"), money(sum("cost_usd")) || "—"], [_("Tokens"), Math.round(sum("tokens")).toLocaleString()]];
  return html`<dl class="sums-row card">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function FiguresPage() {
  const { query: values } = place.value;
  const days = DAYS[values.get("days")] ? values.get("days") : "30";
  const machine = values.get("machine") || "";
  const [figures, setFigures] = useState(null);
  const [wrong, setWrong] = useState("");
  const read = () => call(`/api/figures${query({ days, machine })}`).then((found) => { setFigures(found); setWrong(""); }, (error) => setWrong(error.message));
  useEffect(() => { read(); const again = setInterval(() => { if (!document.hidden) read(); }, 60_000); return () => clearInterval(again); }, [days, machine]);
  const isHour = Number(days) <= 2;
  return html`<header><div class="grow"><h1>${_("Figures")}</h1><p class="lede">${_("What runs did over time, and where it took long")}</p></div>
      <div class="filters"><div class="line"><select aria-label=${_("Time")} value=${days} onChange=${(event) => tune({ days: event.target.value })}>${Object.entries(DAYS).map(([value, text]) => html`<option key=${value} value=${value}>${text()}</option>`)}</select>
        <select aria-label=${_("Workflow")} value=${machine} onChange=${(event) => tune({ machine: event.target.value })}><option value="">${_("all workflows")}</option>${[...new Set([...(figures?.machines || []), ...(machine ? [machine] : [])])].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></div></div></header>
    ${wrong && html`<div class="note harm" role="alert">${wrong}</div>`}
    ${!figures ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /><i /></div>` : html`<div class="stack figures"><${Sums} figures=${figures} />
      ${!figures.machines.length && html`<div class="card empty"><h2>${_("Nothing was counted yet")}</h2><p>${_("Figures come with the first run. Start one under Definitions, or with: detent run FILE")}</p></div>`}
      <div class="charts"><${Chart} title=${_("Runs")} about=${_("started, and of those that ended how many failed")} steps=${figures.steps} isHour=${isHour} show=${(value) => Math.round(value).toLocaleString()} rows=${[{ name: "started", title: _("started"), tint: "accent", of: (step) => step.started }, { name: "failed", title: _("failed"), tint: "red", of: (step) => step.failed }]} />
        <${Chart} title=${_("Waiting for people")} about=${_("how long a question waited, on average")} steps=${figures.steps} isHour=${isHour} show=${(value) => (value ? span(value) : "0")} rows=${[{ name: "asked", title: _("on average"), tint: "amber", of: (step) => (step.asked ? step.asked_s / step.asked : 0) }]} />
        <${Chart} title=${_("Cost")} about=${_("of calls of models, as far as it is known")} steps=${figures.steps} isHour=${isHour} show=${(value) => money(value) || "$0"} rows=${[{ name: "cost", title: _("Cost"), tint: "violet", of: (step) => step.cost_usd }]} />
        <section class="card ends"><header><h2>${_("How runs ended")}</h2></header><ul class="body">${Object.entries(figures.ends).map(([status, count]) => html`<li key=${status}><a href=${address(["runs"], { status, machine })}>${word(status)}</a><b>${count.toLocaleString()}</b></li>`)}${!Object.keys(figures.ends).length && html`<li class="faint">${_("Nothing yet in this time.")}</li>`}</ul></section></div>
      <${Spreads} title=${_("Durations of runs")} about=${_("from the start to the end, waits included")} rows=${figures.runs} />
      <${Spreads} title=${_("Durations of states")} about=${_("where runs spend their time")} name=${_("State")} rows=${figures.states} find=${(row) => html`<span class="state"><${Text} value=${row.name} /></span>`} />
      <${Spreads} title=${_("Questions to people")} about=${_("from the question to the answer")} name=${_("Action")} rows=${figures.questions} find=${(row) => html`<${Text} value=${row.name} />`} /></div>`}`;
}
