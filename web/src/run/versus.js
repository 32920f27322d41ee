// Two runs side by side: their inputs, then step by step, with the first difference marked.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { differences, windows } from "../desk/difference.js";
import { age, money, short, span } from "../format.js";
import { address, place, tune } from "../route.js";
import { COVER, SECRET } from "../secret.js";
import { Glyph, Status } from "../status.js";
import { Text } from "../text.js";
import { call, query } from "../wire.js";

const PAGE = 100;
const FIELDS = { missing: () => _("only here"), effect: () => _("effect"), input: () => _("input"), result: () => _("result"), status: () => _("status"), error: () => _("error"), left_by: () => _("left by"), model: () => _("model") };

function Choose({ store }) {
  const run = store.run.value;
  const [lines, setLines] = useState(null);
  const [text, setText] = useState("");
  useEffect(() => { call(`/api/runs${query({ machine: run.machine, limit: 20 })}`).then((page) => setLines(page.runs.filter((line) => line.run_id !== run.run_id)), () => setLines([])); }, [run.run_id]);
  return html`<div class="stack"><p class="soft">${_("Choose a run to compare this one with.")}</p>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); if (text.trim()) tune({ with: text.trim() }); }}><input aria-label=${_("Id of a run")} placeholder=${_("Id of a run")} value=${text} onInput=${(event) => setText(event.target.value)} /><button>${_("Compare")}</button></form>
    ${!lines ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /></div>` : lines.length ? html`<ul class="card choices">${lines.map((line) => html`<li key=${line.run_id}><a href=${address(["runs", run.run_id], { tab: "compare", with: line.run_id })}><${Status} status=${line.status} /> <span class="mono">${short(line.run_id, 16)}</span> <span class="state"><${Text} value=${line.state} /></span> <span class="faint">${age(line.started_at)}</span></a></li>`)}</ul>` : html`<p class="faint">${_("This workflow has no other run.")}</p>`}</div>`;
}

function Side({ side }) {
  const { run } = side;
  return html`<div class="side"><a class="mono" href=${address(["runs", run.run_id])}>${short(run.run_id, 20)}</a><div class="about"><${Status} status=${run.status} /><span>${span(run.updated_at - run.started_at)}</span><span>${_("{count} bars", { count: side.bars.toLocaleString() })}</span>${run.cost_usd ? html`<span>${money(run.cost_usd)}</span>` : null}<span>${age(run.started_at)}</span></div></div>`;
}

function Inputs({ left, right }) {
  if (!left.input || !right.input) return html`<p class="faint">${_("The inputs are too large to be shown here.")}</p>`;
  const { each, differing } = differences([left.input, right.input]);
  if (!differing.length) return html`<p class="note good plain">${_("Both were given the same.")}</p>`;
  const said = (path) => {
    const given = each.map((one) => (one.has(path) && SECRET.test(path.split(".").pop()) ? COVER : one.get(path) ?? "—"));
    const shown = windows(given, 300);
    return given.map((text) => shown.get(text));
  };
  return html`<div class="card scroll"><table class="many"><thead><tr><th scope="col">${_("Input")}</th><th scope="col">${_("left")}</th><th scope="col">${_("right")}</th></tr></thead><tbody>${differing.slice(0, 50).map((path) => html`<tr key=${path}><td class="mono"><${Text} value=${path} /></td>${said(path).map((text, at) => html`<td key=${at}><${Text} value=${text} /></td>`)}</tr>`)}</tbody></table></div>`;
}

function Half({ bar, runId, isOther }) {
  if (!bar) return html`<span class="half none" aria-label=${_("nothing")}>—</span>`;
  const lasted = bar.end === null ? "" : span(bar.end - bar.begin);
  return html`<a class=${`half is-${bar.kind} ${isOther ? "other" : ""}`} href=${address(["runs", runId], { tab: "waterfall", bar: bar.id })}><span class="cut">${bar.kind === "state" ? html`<span class="state"><${Text} value=${bar.name} /></span>` : html`<${Glyph} status=${bar.status} /> <${Text} value=${bar.name} />`}${bar.attempt > 1 && html` <span class="tag warn">${_("attempt {count}", { count: bar.attempt })}</span>`}</span><small class="faint">${lasted}</small></a>`;
}

function Pair({ pair, at, found }) {
  const isFirst = at === found.first;
  return html`<li class=${`pair ${pair.differs ? "differs" : ""} ${isFirst ? "first" : ""}`} id=${isFirst ? "first-difference" : undefined}>
    ${isFirst && html`<p class="mark">${_("The first difference")}</p>`}
    <${Half} bar=${pair.left} runId=${found.left.run.run_id} /><${Half} bar=${pair.right} runId=${found.right.run.run_id} isOther=${true} />
    ${pair.differs && html`<span class="why">${pair.differs.map((field) => html`<span class="tag warn" key=${field}>${FIELDS[field]()}</span>`)}</span>`}</li>`;
}

export function Versus({ store }) {
  const other = place.value.query.get("with") || "";
  const [found, setFound] = useState(null);
  const [wrong, setWrong] = useState("");
  const read = (offset) => call(`${store.base}/difference${query({ other, offset: offset ?? "", limit: PAGE })}`);
  useEffect(() => { setFound(null); setWrong(""); if (other) read().then(setFound, (error) => setWrong(error.message)); }, [store, other]);
  if (!other) return html`<${Choose} store=${store} />`;
  if (wrong) return html`<div class="stack"><div class="note harm" role="alert">${wrong}</div><p><button onClick=${() => tune({ with: "" })}>${_("Another run")}</button></p></div>`;
  if (!found) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  const end = found.offset + found.pairs.length;
  const more = (offset, isBefore) => read(offset).then((page) => setFound(isBefore ? { ...found, offset, pairs: [...page.pairs.slice(0, found.offset - offset), ...found.pairs] } : { ...found, pairs: [...found.pairs, ...page.pairs] }), (error) => setWrong(error.message));
  return html`<div class="stack versus"><div class="two"><${Side} side=${found.left} /><${Side} side=${found.right} /></div>
    <p class="row wrap">${found.first === null ? html`<span class="note good">${_("Step by step, both did the same.")}</span>` : html`<span>${_("{count} of {total} steps differ; the first is number {first}.", { count: found.differing.toLocaleString(), total: found.total.toLocaleString(), first: (found.first + 1).toLocaleString() })}</span>`}<button class="small" onClick=${() => tune({ with: "" })}>${_("Another run")}</button></p>
    <${Inputs} left=${found.left} right=${found.right} />
    <div class="card">${found.offset > 0 && html`<p class="row older"><button onClick=${() => more(Math.max(0, found.offset - PAGE), true)}>${_("Earlier")} (${found.offset.toLocaleString()})</button></p>`}
      <ol class="pairs">${found.pairs.map((pair, at) => html`<${Pair} key=${found.offset + at} pair=${pair} at=${found.offset + at} found=${found} />`)}</ol>
      ${end < found.total && html`<p class="row older"><button onClick=${() => more(end, false)}>${_("Show more")} (${(found.total - end).toLocaleString()})</button></p>`}</div></div>`;
}
