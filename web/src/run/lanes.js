// Work side by side: each item of a loop, or each branch of a parallel state, with where it stands.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { address } from "../route.js";
import { Glyph, word } from "../status.js";
import { Text } from "../text.js";
import { call, query } from "../wire.js";

const PAGE = 100;
const REST_MS = 250; // a run that moves is read again when it rests for a moment
const GAUGE = ["completed", "failed", "waiting", "running", "pending"]; // from what is over to what has not begun
const KINDS = ["failed", "waiting", "running", "pending", "completed"];

/** How many lanes are in each status. */
export const countLanes = (sum) => ({ completed: sum.completed, failed: sum.failed, waiting: sum.waiting, running: sum.begun - sum.completed - sum.failed - sum.waiting, pending: sum.total - sum.begun });

function Lane({ lane, runId }) {
  const at = lane.contract_id ? html`<a class="cut" href=${address(["runs", runId], { tab: "contracts", contract: lane.contract_id })}><${Text} value=${lane.action} /></a>` : html`<span class="cut"><${Text} value=${lane.error || ""} /></span>`;
  return html`<li class=${`lane ${lane.status}`}><span class="number faint">${lane.index + 1}</span><span class="cut"><${Text} value=${lane.name} /></span><span class=${`status ${lane.status}`}><${Glyph} status=${lane.status} />${word(lane.status)}</span>${at}</li>`;
}

function Side({ store, sum }) {
  const { run_id: runId, seq } = store.shown.value;
  const past = store.past.value?.seq || 0;
  const [only, setOnly] = useState("");
  const [size, setSize] = useState(PAGE);
  const [page, setPage] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const pages = [];
      for (let offset = 0; offset < size; offset += 500) pages.push(await call(`${store.base}/lanes${query({ at: past || "", path: sum.path, only, offset: offset || "", limit: Math.min(500, size - offset) })}`, undefined, abort));
      if (pages[0].sum) setPage({ ...pages[0], lanes: pages.flatMap((one) => one.lanes) }); // else they have joined: the run says so in a moment
    };
    const wait = setTimeout(() => read().catch(() => { /* the next event reads again */ }), page ? REST_MS : 0);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [store, sum.path, only, size, past, seq]);
  const counts = countLanes(sum);
  return html`<section class="card lanes"><header><h2><${Text} value=${sum.action} /></h2><span class="grow" /><span class="faint">${_("{done} of {total} done", { done: sum.completed.toLocaleString(), total: sum.total.toLocaleString() })}</span></header>
    <div class="gauge" aria-hidden="true">${GAUGE.map((name) => counts[name] > 0 && html`<i key=${name} class=${name} style=${{ flexGrow: counts[name] }} />`)}</div>
    <div class="chips" role="group" aria-label=${_("Show")}><button aria-pressed=${String(!only)} onClick=${() => setOnly("")}>${_("all")}</button>${KINDS.map((name) => counts[name] > 0 && html`<button key=${name} aria-pressed=${String(only === name)} onClick=${() => setOnly(only === name ? "" : name)}>${word(name)} <span class="number">${counts[name].toLocaleString()}</span></button>`)}</div>
    ${!page ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /></div>` : html`<ol class="lane-rows" tabIndex="0" aria-label=${_("Lanes of {action}", { action: sum.action })}>${page.lanes.map((lane) => html`<${Lane} key=${lane.index} lane=${lane} runId=${runId} />`)}</ol>`}
    ${page && page.matching > page.lanes.length && html`<p class="row older"><button onClick=${() => setSize(size + PAGE)}>${_("Show more")} (${(page.matching - page.lanes.length).toLocaleString()})</button></p>`}</section>`;
}

/** All actions of the run's state that have lanes, at the moment that is shown. */
export function Lanes({ store }) {
  return (store.shown.value.lanes || []).map((sum) => html`<${Side} key=${`${sum.path} ${sum.action}`} store=${store} sum=${sum} />`);
}
