// Where the time of a run went: a bar for each state, contract, attempt, wait and child run, over one axis of time.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { clock, iso, moment, money, now, span } from "../format.js";
import { mayDo } from "../me.js";
import { address, place, tune } from "../route.js";
import { Glyph, Status, word } from "../status.js";
import { Sentence } from "../sentence.js";
import { Text } from "../text.js";
import { Value } from "../value.js";
import { call, query } from "../wire.js";
import { Printed, spoken } from "./output.js";

const PAGE = 200;
const WITHIN = [0.15, 0.6]; // seconds: for the first look at a long run, and for each one after it
const KINDS = { "": () => _("all"), asked: () => _("asked people"), failed: () => _("failed"), models: () => _("models"), children: () => _("child runs"), slow: () => _("over 1 s") };
const number = (text) => (text === null || text === "" || !Number.isFinite(Number(text)) ? null : Number(text));

/** Places on the axis where a time is written: about six, at round steps. */
export function ticks(length) {
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];
  const step = steps.find((one) => length / one <= 6) || steps.at(-1);
  const made = [];
  for (let at = step; at < length * 0.96 && made.length < 12; at += step) made.push(at);
  return made;
}

/** What of a bar is drawn: each status from when to when, in parts of the axis. */
export function parts(bar, from, upto, until) {
  const length = Math.max(upto - from, 1e-6);
  const over = bar.end ?? Math.max(until, bar.spans.at(-1)[1]);
  return bar.spans.map(([status, at], place) => {
    const begin = Math.max(at, from);
    const end = Math.min(bar.spans[place + 1]?.[1] ?? over, upto);
    return { status, left: ((begin - from) / length) * 100, width: ((end - begin) / length) * 100, seconds: (bar.spans[place + 1]?.[1] ?? over) - at };
  }).filter((part) => part.width >= 0 && part.left <= 100);
}

const ofBar = (bar, until) => (bar.end ?? Math.max(until, bar.spans.at(-1)[1])) - bar.spans[0][1];
const lastStatus = (bar) => bar.spans.at(-1)[0];

/** The bars themselves; a press opens what the name opens. */
function Track({ bar, axis, press }) {
  const shown = parts(bar, axis.from, axis.upto, axis.until);
  const last = shown.at(-1);
  return html`<span class="track" aria-hidden="true" onClick=${press}>${shown.map((part, at) => html`<i key=${at} class=${`is-${bar.kind} ${part.status} ${part.status === "waiting" && bar.asks ? "person" : ""}`} style=${{ left: `${part.left}%`, width: `max(2px, ${part.width}%)` }} title=${`${word(part.status)} · ${span(part.seconds)}`} />`)}
    ${last && html`<small class=${last.left + last.width > 82 ? "before" : ""} style=${last.left + last.width > 82 ? { right: `${100 - Math.min(100, shown[0].left)}%` } : { left: `${last.left + last.width}%` }}>${span(ofBar(bar, axis.until))}</small>`}</span>`;
}

function Details({ base, bar, said }) {
  const [found, setFound] = useState(null);
  const isOpen = bar.end === undefined || bar.end === null;
  useEffect(() => {
    let isGone = false;
    Promise.all([call(`${base}/log/${bar.seq}`), bar.end_seq ? call(`${base}/log/${bar.end_seq}`) : null])
      .then(([begun, ended]) => { if (!isGone) setFound({ begun, ended }); })
      .catch(() => { if (!isGone) setFound({}); });
    return () => { isGone = true; };
  }, [bar.id, bar.end_seq]);
  const contract = found?.begun?.delta.contracts?.find((one) => one.id === bar.id);
  const event = found?.ended?.event.contract_id === bar.id ? found.ended.event : null;
  const result = event?.result;
  const isProgram = result && typeof result === "object" && ("stdout" in result || "stderr" in result);
  const { stdout = "", stderr = "", ...rest } = isProgram ? result : {};
  return html`<div class="bar-details stack">
    <ol class="life">${bar.spans.map(([status, at], place) => html`<li key=${place}><span class=${`status ${status}`}><${Glyph} status=${status} />${word(status)}</span><small><time datetime=${iso(at)} title=${moment(at)}>${clock(at)}</time></small></li>`)}</ol>
    ${bar.model && html`<p class="about"><span>${bar.model}</span><span>${_("{count} tokens in", { count: Math.round(bar.tokens_in || 0).toLocaleString() })}</span><span>${_("{count} tokens out", { count: Math.round(bar.tokens_out || 0).toLocaleString() })}</span>${bar.cost_usd ? html`<span>${money(bar.cost_usd)}</span>` : null}</p>`}
    ${bar.left_by && html`<p class="soft">${_("left by")} <code><${Text} value=${bar.left_by} /></code></p>`}
    ${bar.error && html`<p class="wrong"><b><${Text} value=${bar.error} /></b> <${Sentence} text=${event?.error?.message} /></p>`}
    ${isOpen && said?.length > 0 && html`<${Printed} text=${spoken(said)} />`}
    ${!found && html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /></div>`}
    ${contract && Object.keys(contract.input || {}).length > 0 && html`<details><summary>${_("arguments")}</summary><div class="call leaf"><${Value} value=${contract.input} /></div></details>`}
    ${stdout && html`<${Printed} name="stdout" text=${String(stdout)} />`}${stderr && html`<${Printed} name="stderr" text=${String(stderr)} />`}
    ${result !== undefined && result !== null && html`<details open=${!isProgram}><summary>${_("result")}</summary><div class="call leaf"><${Value} value=${isProgram ? rest : result} /></div></details>`}
    <p class="row wrap">${bar.kind !== "state" && html`<a href=${address(["runs", base.split("/").pop()], { tab: "contracts", contract: bar.id })}>${_("the contract")}</a>`}<a href=${address(["runs", base.split("/").pop()], { tab: "timeline", at: bar.seq })}>${_("the run at event {seq}", { seq: bar.seq })}</a>${bar.seq > 1 && mayDo("fork") && html`<a href=${address(["runs", base.split("/").pop()], { at: bar.seq - 1, fork: "1" })}>${_("Fork before this step…")}</a>`}</p></div>`;
}

/** The bars of a child run, under the contract that waits for it, on the same axis. */
function Child({ runId, axis, depth }) {
  const [page, setPage] = useState(null);
  useEffect(() => { call(`/api/runs/${encodeURIComponent(runId)}/waterfall?limit=100&within=2`).then(setPage, () => setPage({ bars: [], total: 0 })); }, [runId]);
  if (!page) return html`<li class="skeleton"><i /></li>`;
  return html`${page.bars.map((bar) => html`<${Row} key=${bar.id} bar=${bar} axis=${axis} base=${`/api/runs/${runId}`} depth=${depth + (bar.kind === "state" ? 0 : 1)} owner=${runId} />`)}
    ${page.total > page.bars.length && html`<li><a href=${address(["runs", runId], { tab: "waterfall" })}>${_("{count} more", { count: (page.total - page.bars.length).toLocaleString() })}</a></li>`}`;
}

function Row({ bar, axis, base, depth, said = null, owner = "" }) {
  const chosen = place.value.query.get("bar");
  const key = owner ? `${owner} ${bar.id}` : bar.id;
  const isOpen = chosen === key;
  const [isUnfolded, setUnfolded] = useState(false);
  const toggle = () => tune({ bar: isOpen ? "" : key });
  return html`<li class=${`bar-row is-${bar.kind} depth-${Math.min(depth, 6)}`}>
    <div class="line">${bar.kind === "child" && html`<button class="link fold" aria-expanded=${String(isUnfolded)} aria-label=${isUnfolded ? _("fold {run}", { run: bar.run_id }) : _("unfold {run}", { run: bar.run_id })} onClick=${() => setUnfolded(!isUnfolded)}>${isUnfolded ? "▾" : "▸"}</button>`}
      <button class="link named" aria-expanded=${String(isOpen)} onClick=${toggle}>
        ${bar.kind === "state" ? html`<span class="state"><${Text} value=${bar.name} /></span>` : html`<${Glyph} status=${lastStatus(bar)} /><span class="cut"><${Text} value=${bar.name} /></span><span class="faint cut"><${Text} value=${bar.effect} /></span>`}
        ${bar.attempt > 1 && html`<span class="tag warn">${_("attempt {count}", { count: bar.attempt })}</span>`}${bar.lane && html`<span class="tag cut"><${Text} value=${bar.lane} /></span>`}
        <span class="unseen">${word(lastStatus(bar))}, ${span(ofBar(bar, axis.until))}</span></button></div>
    <${Track} bar=${bar} axis=${axis} press=${toggle} />
    ${isOpen && html`<${Details} base=${base} bar=${bar} said=${said} />`}</li>
    ${isUnfolded && html`<${Child} runId=${bar.run_id} axis=${axis} depth=${depth + 1} />`}`;
}

/** How busy the run was, piece by piece; a piece is a button that shows its time alone. */
function Pulse({ page }) {
  const most = Math.max(1, ...page.begun);
  const width = (page.until - page.started_at) / page.begun.length;
  const choose = (at) => tune({ since: (page.started_at + at * width).toFixed(6), until: (page.started_at + (at + 1) * width).toFixed(6), bar: "" });
  return html`<div class="pulse" role="group" aria-label=${_("When bars began; press a piece to see its time")}>${page.begun.map((count, at) => html`<button key=${at} disabled=${!count} aria-label=${_("{count} began after {span}", { count, span: span(at * width) })} onClick=${() => choose(at)}><i style=${{ height: `${count ? Math.max(8, (count / most) * 100) : 0}%` }} /></button>`)}</div>`;
}

function Actions({ page }) {
  if (!page.actions.length) return null;
  return html`<details class="card sums"><summary>${_("Where the time went, by action")}</summary><div class="scroll"><table class="many"><thead><tr><th scope="col">${_("Action")}</th><th scope="col" class="number">${_("Count")}</th><th scope="col" class="number">${_("failed")}</th><th scope="col" class="number">${_("at work")}</th><th scope="col" class="number">${_("waiting")}</th><th scope="col" class="number">${_("longest")}</th><th scope="col" class="number">${_("Tokens")}</th><th scope="col" class="number">${_("Cost")}</th></tr></thead>
    <tbody>${page.actions.map((one) => html`<tr key=${`${one.name} ${one.effect}`}><td><button class="link" onClick=${() => tune({ find: one.name, bar: "" })}><${Text} value=${one.name} /></button> <span class="faint"><${Text} value=${one.effect} /></span></td><td class="number">${one.count.toLocaleString()}</td><td class="number">${one.failed || ""}</td><td class="number">${span(one.running_s)}</td><td class="number">${one.waiting_s ? span(one.waiting_s) : ""}</td><td class="number">${span(one.longest_s)}</td><td class="number">${one.tokens ? Math.round(one.tokens).toLocaleString() : ""}</td><td class="number">${money(one.cost_usd)}</td></tr>`)}</tbody></table></div></details>`;
}

function Logs({ logs }) {
  if (!logs.length) return null;
  return html`<details class="card sums"><summary>${_("Log")} <span class="number">${logs.length}</span></summary><ol class="logs">${logs.map((line) => html`<li key=${`${line.seq} ${line.text}`} class=${line.level}><time datetime=${iso(line.at)} title=${moment(line.at)}>${clock(line.at)}</time><span class="tag">${line.level}</span><span class="state"><${Text} value=${line.state} /></span><${Text} value=${line.text} /></li>`)}</ol></details>`;
}

export function Waterfall({ store }) {
  const { query: values } = place.value;
  const filter = { only: values.get("only") || "", find: values.get("find") || "", sort: values.get("sort") === "longest" ? "longest" : "", since: number(values.get("since")), until: number(values.get("until")) };
  const key = JSON.stringify(filter);
  const [page, setPage] = useState(null);
  const [wrong, setWrong] = useState("");
  const [size, setSize] = useState(PAGE);
  const run = store.run.value;
  const read = async (offset, limit, within) => call(`${store.base}/waterfall${query({ ...filter, since: filter.since ?? "", until: filter.until ?? "", offset: offset || "", limit, within })}`);
  useEffect(() => {
    let isGone = false;
    // A run that moves is read again when it rests for a moment.
    const wait = setTimeout(async () => {
      try {
        // Of a long run a part is known at once, and more with each look.
        for (let look = 0, isWhole = false; !isGone && !isWhole; look += 1) {
          const pages = [];
          for (let at = 0; at < size; at += 500) pages.push(await read(at, Math.min(500, size - at), WITHIN[Math.min(look, 1)]));
          if (!isGone) { setPage({ ...pages[0], bars: pages.flatMap((one) => one.bars) }); setWrong(""); }
          isWhole = pages[0].upto >= pages[0].seq;
        }
      } catch (error) { if (!isGone) setWrong(error.message); }
    }, page ? 250 : 0);
    return () => { isGone = true; clearTimeout(wait); };
  }, [store, key, run.seq, size]);
  if (wrong) return html`<div class="note harm" role="alert">${wrong}</div>`;
  if (!page) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /><i /></div>`;
  const until = page.is_over ? page.until : Math.max(page.until, now.value);
  const axis = { from: filter.since ?? page.started_at, upto: filter.until ?? until, until };
  const length = axis.upto - axis.from;
  const isPart = filter.since !== null || filter.until !== null;
  return html`<div class="stack waterfall"><div class="filters" role="search">
      <div class="chips" role="group" aria-label=${_("Show")}>${Object.entries(KINDS).map(([name, text]) => html`<button key=${name} aria-pressed=${String(name === filter.only)} onClick=${() => tune({ only: name, bar: "" })}>${text()}</button>`)}</div>
      <div class="line"><input type="search" aria-label=${_("Search the bars")} placeholder=${_("Search the bars")} value=${filter.find} onInput=${(event) => tune({ find: event.target.value })} />
        <select aria-label=${_("Order")} value=${filter.sort} onChange=${(event) => tune({ sort: event.target.value })}><option value="">${_("as they began")}</option><option value="longest">${_("longest first")}</option></select></div></div>
    ${page.upto < page.seq && html`<p role="status"><span class="tag loading">${_("read up to event {upto} of {seq}…", { upto: page.upto.toLocaleString(), seq: page.seq.toLocaleString() })}</span></p>`}
    <${Pulse} page=${page} />
    ${isPart && html`<p class="row wrap"><span class="tag here">${_("from {from} for {span}", { from: span(axis.from - page.started_at), span: span(length) })}</span><button class="small" onClick=${() => tune({ since: "", until: "" })}>${_("The whole run")}</button></p>`}
    <div class="card bars-card"><div class="axis" aria-hidden="true"><span class="name">${_("{count} of {total}", { count: page.matching.toLocaleString(), total: page.total.toLocaleString() })}</span><span class="track">${ticks(length).filter((at) => at < length * 0.92).map((at) => html`<small key=${at} style=${{ left: `${(at / length) * 100}%` }}>${span(at + axis.from - page.started_at)}</small>`)}</span></div>
      ${page.bars.length ? html`<ol class="bar-rows" aria-label=${_("Bars")}>${page.bars.map((bar) => html`<${Row} key=${bar.id} bar=${bar} axis=${axis} base=${store.base} depth=${bar.kind === "state" || filter.sort ? 0 : 1} said=${store.voices.value.get(bar.id)} />`)}</ol>` : html`<p class="faint empty">${_("No bar fits.")}</p>`}
      ${page.matching > page.bars.length && html`<p class="row older"><button onClick=${() => setSize(size + PAGE)}>${_("Show more")} (${(page.matching - page.bars.length).toLocaleString()})</button></p>`}</div>
    <${Actions} page=${page} /><${Logs} logs=${page.logs} /></div>`;
}
