// Coding runs: the plan, its tasks with their evidence, checks, diffs and checkpoints; all of it is in the run's context.
import { html, useState } from "../lib.js";
import { _ } from "../language.js";
import { clock, money, span } from "../format.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { Value } from "../value.js";
import { call, query } from "../wire.js";
import { Diff, Review } from "./review.js";

const KINDS = { DONE: "good", IN_PROGRESS: "here", BLOCKED: "harm", FAILED: "harm", RETRY: "warn", SKIPPED: "" };
const WORDS = () => ({ DONE: _("done"), IN_PROGRESS: _("in progress"), BLOCKED: _("blocked"), FAILED: _("failed"), RETRY: _("again"), SKIPPED: _("skipped"), PENDING: _("pending") });

/** What a task has changed; read from the work tree only when somebody wants to see it. */
function Differences({ base, task = "" }) {
  const [found, setFound] = useState(null);
  const open = (event) => { if (event.target.open) call(`${base}/diff${query({ task })}`).then(setFound).catch((error) => setFound({ diff: "", trouble: error.message })); };
  return html`<details onToggle=${open}><summary>${_("Differences")}</summary>${found && (found.trouble ? html`<div class="note harm">${found.trouble}</div>` : found.diff ? html`<${Diff} text=${found.diff} />` : html`<span class="faint">${_("nothing changed")}</span>`)}</details>`;
}

function Checks({ evidence }) {
  const steps = evidence?.steps || evidence?.checks || [];
  if (!steps.length) return null;
  return html`<ul class="stack">${steps.map((step) => {
    const isGreen = !step.exit && !step.environment && !step.timed_out;
    return html`<li key=${step.name}><div class="row wrap"><span class=${`tag ${isGreen ? "good" : "harm"}`}>${isGreen ? "✓" : "✗"} <${Text} value=${step.name} /></span><code><${Text} value=${step.command} /></code>
      <span class="faint">${_("exit {code}", { code: step.exit || 0 })}${step.counted ? ` · ${_("{count} passed", { count: step.passed || 0 })}` : ""} · ${span(step.seconds || 0)}</span></div>
      ${(step.failures || []).slice(0, 10).map((one) => html`<div class="wrong"><b><${Text} value=${one.test} /></b> <${Text} value=${one.message || ""} /></div>`)}
      ${!isGreen && step.tail && html`<details><summary>${_("output")}</summary><pre class="plainout"><${Text} value=${step.tail} /></pre></details>`}</li>`;
  })}</ul>`;
}

function Task({ base, task, progress, isHere }) {
  const status = progress.status || "PENDING";
  return html`<li class="contract"><header><span class="mono faint"><${Text} value=${task.id} /></span><b class="grow"><${Text} value=${task.title} /></b>
      ${progress.attempts > 1 && html`<span class="tag">${_("attempt {count}", { count: progress.attempts })}</span>`}${isHere && html`<span class="tag here">${_("now")}</span>`}<span class=${`tag ${KINDS[status] || ""}`}>${WORDS()[status] || status}</span></header>
    ${task.about && html`<p class="soft"><${Text} value=${task.about} /></p>`}
    ${(task.acceptance || []).length > 0 && html`<ul class="soft">${task.acceptance.map((one) => html`<li>– <${Text} value=${one} /></li>`)}</ul>`}
    ${progress.summary && html`<p><${Text} value=${progress.summary} /></p>`}${progress.question && html`<div class="note"><${Text} value=${progress.question} /></div>`}
    <${Checks} evidence=${progress.evidence} />
    ${(progress.faults || []).length > 0 && html`<details><summary>${progress.faults.length === 1 ? _("1 failed attempt") : _("{count} failed attempts", { count: progress.faults.length })}</summary><${Value} value=${progress.faults} /></details>`}
    ${(progress.changed || []).length > 0 && html`<details><summary>${progress.changed.length === 1 ? _("1 file changed") : _("{count} files changed", { count: progress.changed.length })}</summary><ul class="mono">${progress.changed.map((path) => html`<li><${Text} value=${path} /></li>`)}</ul></details>`}
    ${progress.checkpoint && html`<${Differences} base=${base} task=${task.id} />`}
    ${progress.checkpoint && html`<div class="faint mono">${_("checkpoint")} <${Text} value=${progress.checkpoint} /></div>`}</li>`;
}

/** A plan is confirmed as it was shown: the signal carries its digest. */
function Confirm({ store, job }) {
  const [wish, setWish] = useState("");
  const send = (signal, data) => () => call(`${store.base}/signals`, { name: signal, data }).then(() => store.reread()).catch((error) => say(error.message, "harm"));
  return html`<div class="note"><div class="stack grow"><b>${_("The plan waits for your word.")}</b>
    ${job.plan?.judges?.length > 0 && html`<span class="soft">${_("Judged by {names}; changes to these wait for your approval.", { names: job.plan.judges.join(", ") })}</span>`}
    <div class="row wrap"><button class="main" onClick=${send("USER_CONFIRM", { plan: job.plan?.digest || "", attended: true })}>${_("Confirm the plan")}</button><button class="harm" onClick=${send("USER_CANCEL", {})}>${_("Cancel")}</button></div>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); send("USER_MODIFY", { wish })(); }}><input aria-label=${_("What should be different?")} placeholder=${_("What should be different?")} value=${wish} onInput=${(event) => setWish(event.target.value)} /><button disabled=${!wish.trim()}>${_("Plan again")}</button></form></div></div>`;
}

export function View({ store }) {
  const run = store.shown.value;
  const job = run.context;
  const plan = job.plan?.body;
  const tasks = plan?.tasks || [];
  const done = tasks.filter((task) => ["DONE", "SKIPPED"].includes(job.tasks?.[task.id]?.status)).length;
  const marks = [job.first_checkpoint && [_("before the job"), job.first_checkpoint], job.last_checkpoint && [_("latest"), job.last_checkpoint], job.undo && [_("undoes the rollback"), job.undo]].filter(Boolean);
  return html`<div class="stack">${run.state === "CONFIRMING" && !store.past.value && html`<${Confirm} store=${store} job=${job} />`}
    ${!store.past.value && run.waiting.filter((one) => one.contract_id.startsWith("ARCHIVING/review")).map((one) => html`<${Review} key=${one.contract_id} base=${store.base} runId=${run.run_id} contractId=${one.contract_id} />`)}
    ${job.blocked?.reason && html`<div class="note harm"><div><b><${Text} value=${job.blocked.reason} /></b><br /><${Text} value=${job.blocked.detail || ""} /></div></div>`}
    <section class="card"><header><h2><${Text} value=${plan?.title || job.requirement || _("No plan yet")} /></h2><span class="grow" />${tasks.length > 0 && html`<span class="faint">${_("{done} of {count} tasks", { done, count: tasks.length })}</span>`}</header>
      ${tasks.length > 0 && html`<progress class="unseen" max=${tasks.length} value=${done} aria-label=${_("Progress")} /><div class="bars" aria-hidden="true">${tasks.map((task) => html`<i class=${KINDS[job.tasks?.[task.id]?.status] || ""} />`)}</div>`}
      ${job.first_checkpoint && html`<div class="body"><${Differences} base=${store.base} /></div>`}
      ${plan?.goal && html`<div class="body soft"><${Text} value=${plan.goal} /></div>`}
      <ul>${tasks.map((task) => html`<${Task} key=${task.id} base=${store.base} task=${task} progress=${job.tasks?.[task.id] || {}} isHere=${job.step?.task === task.id && job.step?.go} />`)}</ul></section>
    ${job.final && html`<section class="card"><header><h2>${_("Final verification")}</h2></header><div class="body"><${Checks} evidence=${job.final} /></div></section>`}
    ${[...store.voices.value.values()].flat().length > 0 && html`<section class="card"><header><h2>${_("The worker says")}</h2></header><pre class="plainout"><${Text} value=${[...store.voices.value.values()].flat().map((one) => one.text ?? JSON.stringify(one)).join("\n").slice(-6000)} /></pre></section>`}
    ${marks.length > 0 && html`<section class="card"><header><h2>${_("Checkpoints")}</h2></header><dl class="body facts">${marks.map(([text, id]) => html`<dt>${text}</dt><dd class="mono"><${Text} value=${id} /></dd>`)}</dl></section>`}
    ${(job.log || []).length > 0 && html`<section class="card"><header><h2>${_("History")}</h2>${money(job.spent?.cost_usd) && html`<span class="faint">${money(job.spent.cost_usd)}</span>`}</header><ul class="body">${job.log.slice(-30).toReversed().map((note) => html`<li><span class="faint mono">${clock(note.at).slice(0, 8)}</span> <${Text} value=${note.text} /></li>`)}</ul></section>`}</div>`;
}
