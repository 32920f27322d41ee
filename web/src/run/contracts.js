// Contracts: each attempt with its life through the seven statuses, its times, what went in and what came out.
import { html, useEffect, useRef } from "../lib.js";
import { _ } from "../language.js";
import { ahead, clock, iso, moment, now, span } from "../format.js";
import { address, place } from "../route.js";
import { Glyph, Status, isOver, word } from "../status.js";
import { Sentence } from "../sentence.js";
import { Text } from "../text.js";
import { Value } from "../value.js";
import { Printed, spoken } from "./output.js";

const DEEDS = () => ({ possible: _("may have happened"), done: _("has happened") });

/** The statuses a contract went through, with how long it was in each. */
function Life({ life, upto }) {
  const moves = life.moves.filter((move) => move.seq <= upto);
  const began = life.contract.created_at || moves[0]?.at;
  const steps = [{ status: "pending", at: began }, ...moves];
  return html`<ol class="life" aria-label=${_("Life of the contract")}>${steps.map((step, at) => {
    const next = steps[at + 1]?.at ?? (isOver(step.status) ? step.at : now.value);
    const lasted = isOver(step.status) ? clock(step.at).slice(0, 8) : span(Math.max(0, next - step.at));
    return html`<li key=${at} title=${step.trigger ? `${step.trigger} · ${moment(step.at)}` : moment(step.at)}><span class=${`status ${step.status}`}><${Glyph} status=${step.status} />${word(step.status)}</span><small>${lasted}</small></li>`;
  })}</ol>`;
}

function Voices({ said }) {
  if (!said?.length) return null;
  return html`<div class="plainout call" aria-live="off"><${Printed} text=${spoken(said).slice(-4000)} /></div>`;
}

/** A contract has an address of its own: its name is the link to it. */
function Contract({ life, upto, said, runId }) {
  const { contract } = life;
  const { query } = place.value;
  const isHere = query.get("contract") === contract.id;
  const article = useRef(null);
  useEffect(() => { if (isHere) article.current.scrollIntoView({ block: "center" }); }, [isHere]);
  return html`<article class="contract" ref=${article} id=${`contract-${contract.id}`} aria-current=${isHere ? "true" : undefined}>
    <header><a href=${address(["runs", runId], { ...Object.fromEntries(query), tab: "contracts", contract: contract.id })} title=${_("Link to this contract")}><b><${Text} value=${contract.id} /></b></a><span class="soft"><${Text} value=${contract.effect} /></span>
      ${contract.attempt > 1 && html`<span class="tag warn">${_("attempt {count}", { count: contract.attempt })}</span>`}
      ${contract.kind === "irreversible" && html`<span class="tag harm">${_("cannot be taken back")}</span>`}
      ${DEEDS()[contract.deed] && contract.kind !== "pure" && html`<span class=${`tag ${contract.deed === "done" ? "good" : "warn"}`}>${DEEDS()[contract.deed]}</span>`}
      <span class="grow" /><${Status} status=${contract.status} /></header>
    <${Life} life=${life} upto=${upto} />
    ${contract.due_at && !isOver(contract.status) && html`<div class="soft"><time datetime=${iso(contract.due_at)}>${_("begins {when}", { when: ahead(contract.due_at) })}</time></div>`}
    ${contract.supersedes && html`<div class="soft">${_("follows")} <span class="mono"><${Text} value=${contract.supersedes} /></span></div>`}
    <${Voices} said=${said} />
    ${contract.error && html`<div class="note harm"><b><${Text} value=${contract.error.type} /></b> <${Sentence} text=${contract.error.message} /></div>`}
    ${Object.keys(contract.input || {}).length > 0 && html`<details><summary>${_("arguments")}</summary><div class="call leaf"><${Value} value=${contract.input} /></div></details>`}
    ${contract.result !== undefined && contract.result !== null && html`<details open=${JSON.stringify(contract.result).length < 400}><summary>${_("result")}</summary><div class="call leaf"><${Value} value=${contract.result} /></div></details>`}
    ${contract.answers?.length > 0 && html`<details open><summary>${_("answers")}</summary><div class="call leaf"><${Value} value=${contract.answers} depth=${0} /></div></details>`}
    ${contract.key && contract.kind === "irreversible" && html`<details><summary>${_("once-only key")}</summary><code><${Text} value=${contract.key} /></code></details>`}
  </article>`;
}

export function Contracts({ store }) {
  useEffect(() => store.wantLives(), [store]);
  const upto = store.past.value?.seq || Infinity;
  const page = store.lives.value;
  if (!page) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  // As it was: a contract's own record is that of now, so its end and what it gave are left out before their time.
  const lives = page.contracts.filter((life) => !life.moves.length || life.moves[0].seq <= upto).map((life) => {
    const reached = life.moves.filter((move) => move.seq <= upto);
    if (upto === Infinity || reached.length === life.moves.length) return life;
    const status = reached.at(-1)?.status || "pending";
    return { ...life, contract: { ...life.contract, status, result: null, error: null, answers: [], deed: "none" } };
  });
  const isBehind = page.upto < store.run.value.seq;
  if (!lives.length) return html`<p class="faint">${isBehind ? _("loading") : _("No contract yet.")}</p>`;
  return html`${(isBehind || page.offset > 0) && html`<p class="note plain" role="status">${isBehind ? _("read up to event {upto} of {seq}…", { upto: page.upto.toLocaleString(), seq: store.run.value.seq.toLocaleString() })
    : html`${_("The latest {count} of {total}; the others are in the", { count: page.contracts.length.toLocaleString(), total: page.total.toLocaleString() })} <a href=${address(["runs", store.run.value.run_id], { tab: "waterfall" })}>${_("Waterfall")}</a>`}</p>`}<div class="card">${lives.toReversed().map((life) => html`<${Contract} key=${life.contract.id} life=${life} upto=${upto} runId=${store.run.value.run_id} said=${store.voices.value.get(life.contract.id)} />`)}</div>`;
}
