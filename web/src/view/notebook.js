// Notebook runs: stage, step and behaviour, and the live notebook with outputs and plots. Everything is told by the
// events: what an effect of the notebook agent did is in its result under `changes`.
import { html, signal, useEffect, useMemo, useRef, useSignal } from "../lib.js";
import { _ } from "../language.js";
import { span } from "../format.js";
import { Markdown } from "../markdown.js";
import { Painted } from "../run/output.js";
import { Text } from "../text.js";
import { call } from "../wire.js";

const PAGE = 200;
const NEAR = 240; // pixels from the end: somebody so near to it wants to see what comes
const isFolded = signal(false); // the code of all cells
const IMAGES = ["image/png", "image/jpeg", "image/gif"];

const templateOf = (given) => ({ ...given, stages: (given.stages || []).map((stage) => ({ ...stage, title: stage.title || stage.name || stage.id, steps: (stage.steps || []).map((step) => ({ ...step, step_id: step.step_id || step.id, title: step.title || step.name || step.step_id || step.id })) })) });

/** What a notebook run has come to after some more events. */
export function fold(book, entries) {
  const made = { ...book, cells: new Map(book.cells) };
  for (const entry of entries) {
    if (entry.seq <= made.seq) continue;
    made.seq = entry.seq;
    const { event } = entry;
    if (entry.kind === "started") { made.title = event.input?.title || ""; made.goal = event.input?.goal || ""; if (event.input?.plan) made.plan = templateOf(event.input.plan); }
    const changes = ["succeed", "fail"].includes(event.trigger) && event.result?.changes;
    if (changes) change(made, changes);
    for (const one of entry.taken) if (one.kind === "transition") move(made, one);
  }
  return made;
}

function change(book, changes) {
  for (const cell of changes.cells || []) book.cells.set(cell.id, cell);
  if (changes.set?.title) book.title = changes.set.title;
  if (changes.plan?.template) planned(book, changes.plan.template);
  for (const update of changes.plan?.updates || []) adopt(book, update);
  if (changes.queue) { book.queue = changes.queue.actions || []; book.position = 0; }
  if (changes.done) book.position += 1;
  if (changes.focus?.behaviors) book.focus = changes.focus.behaviors;
}

function planned(book, template) {
  book.plan = templateOf(template);
  if (!book.stage) enterStage(book, next(book.plan.stages.map((stage) => stage.id), book.stagesDone, book.nextStage));
}

function adopt(book, update) {
  if (update.action === "update_workflow" && update.updated_workflow) {
    book.nextStage = update.next_stage_id || "";
    planned(book, update.updated_workflow.workflowTemplate || update.updated_workflow.workflow_template || update.updated_workflow);
  } else if (update.action === "update_stage_steps" && book.plan) {
    const id = update.stage_id || book.stage;
    book.plan = templateOf({ ...book.plan, stages: book.plan.stages.map((stage) => (stage.id === id ? { ...stage, steps: update.updated_steps || stage.steps } : stage)) });
  }
}

/** The first of these that is neither finished nor the present one; a wish comes before the order. */
const next = (ids, done, wish = "") => (ids.includes(wish) && !done.has(wish) ? wish : ids.find((id) => !done.has(id))) || "";

function enterStage(book, id) {
  Object.assign(book, { stage: id, step: "", behavior: 0, stepsDone: new Set(), nextStage: "" });
}

function enterStep(book) {
  const steps = book.plan?.stages.find((stage) => stage.id === book.stage)?.steps || [];
  Object.assign(book, { step: next(steps.map((step) => step.step_id), new Set([...book.stepsDone, book.step])), behavior: 0 });
}

/** Where the run stands follows from its transitions, in the same way as the agent itself finds it. */
function move(book, { event, source, target }) {
  const ids = (book.plan?.stages || []).map((stage) => stage.id);
  if (target === "stage_running") {
    if (event !== "NEXT_STAGE") Object.assign(book, { stagesDone: new Set(), done: new Set(), stage: "", nextStage: "" });
    enterStage(book, next(ids, new Set([...book.stagesDone, book.stage]), book.nextStage));
  } else if (target === "step_running") enterStep(book);
  else if (target === "behavior_running") {
    if (!book.stage) enterStage(book, next(ids, book.stagesDone));
    if (!book.step) enterStep(book);
    Object.assign(book, { behavior: book.behavior + 1, queue: [], position: 0 });
  } else if (target === "step_completed" && book.step) {
    book.stepsDone = new Set([...book.stepsDone, book.step]);
    book.done = new Set([...book.done, `${book.stage} ${book.step}`]);
  } else if (target === "stage_completed" && book.stage) book.stagesDone = new Set([...book.stagesDone, book.stage]);
  else if (target === "workflow_completed") Object.assign(book, { isOver: true, queue: [] });
  else if (target === "action_completed" && /CONFIRMED$/.test(event || "") && source !== target) adopt(book, book.queue[book.position - 1] || {});
}

const EMPTY = { seq: 0, title: "", goal: "", plan: null, cells: new Map(), stage: "", step: "", behavior: 0, nextStage: "", queue: [], position: 0, focus: "", isOver: false, done: new Set(), stagesDone: new Set(), stepsDone: new Set() };

/** A table as a program made it, cleaned by the server, in a frame that may do nothing: no script, no request, no way out. */
function Foreign({ text }) {
  const [made, height] = useMemo(() => {
    const page = new DOMParser().parseFromString(text, "text/html");
    // Nothing is heard from such a frame, so its height is guessed from what is in it.
    const rows = page.querySelectorAll("tr, p, li, h1, h2, h3, pre, br").length || 1;
    // The page's policy allows no style from elsewhere, and it holds in the frame too: what HTML itself can say must do.
    const colours = getComputedStyle(document.documentElement);
    const colour = (name) => colours.getPropertyValue(name).trim();
    page.querySelectorAll("table").forEach((table) => { for (const [attribute, value] of Object.entries({ border: "0", rules: "rows", cellspacing: "0", cellpadding: "5" })) table.setAttribute(attribute, value); });
    page.querySelectorAll("td, th").forEach((cell) => { if (/^[-+]?[\d.,eE+-]+%?$|^nan$/i.test(cell.textContent.trim())) cell.setAttribute("align", "right"); });
    return [`<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><body bgcolor="${colour("--paper")}" text="${colour("--ink")}"><font face="system-ui, sans-serif" size="2">${page.body.innerHTML}</font>`, Math.min(440, 28 + rows * 30)];
  }, [text]);
  return html`<iframe sandbox="" srcdoc=${made} height=${height} title=${_("Output of the cell")} />`;
}

const joined = (text) => (Array.isArray(text) ? text.join("") : String(text ?? ""));

function Output({ output }) {
  if (output.output_type === "error") return html`<pre class="err"><${Painted} text=${`${output.ename}: ${output.evalue}\n${joined((output.traceback || []).map((line) => `${line}\n`))}`} /></pre>`;
  const data = output.data || {};
  const image = IMAGES.find((kind) => data[kind]);
  if (image) return html`<img src=${`data:${image};base64,${joined(data[image]).replace(/\s/g, "")}`} alt=${joined(data["text/plain"]) || _("Plot")} />`;
  if (data["image/svg+xml"]) return html`<img src=${`data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(joined(data["image/svg+xml"]))))}`} alt=${_("Plot")} />`;
  if (data["text/html"]) return html`<${Foreign} text=${joined(data["text/html"])} />`;
  const text = joined(output.text || data["text/plain"] || output.content);
  return text ? html`<pre class=${output.name === "stderr" ? "err" : ""}><${Painted} text=${text} /></pre>` : null;
}

const RAN = () => ({ error: _("failed"), timeout: _("took too long"), dead: _("the kernel died"), interrupted: _("interrupted"), skipped: _("skipped") });

function Thinking({ cell }) {
  const text = cell.custom_text || (cell.text_array || []).join("\n") || cell.metadata?.thinking_text || cell.content || "";
  return html`<div class="cell thinking"><div class="prose"><span class="tag">${_("thinking")}</span> ${cell.agent_name && html`<b><${Text} value=${cell.agent_name} /></b> `}<${Markdown} text=${text} /></div></div>`;
}

/** The cell that runs comes into view for those who read the end of the notebook; nobody else is moved. */
function useFollowing(isRunning) {
  const place = useRef(null);
  useEffect(() => {
    const page = document.scrollingElement;
    if (isRunning && page.scrollHeight - page.scrollTop - page.clientHeight < NEAR) place.current?.scrollIntoView({ block: "nearest" });
  }, [isRunning]);
  return place;
}

function Cell({ cell, said }) {
  const place = useFollowing(Boolean(said));
  if (cell.type === "thinking") return html`<${Thinking} cell=${cell} />`;
  const outputs = [...(cell.outputs || []), ...(said || [])];
  const shown = outputs.map((output) => html`<${Output} output=${output} />`);
  if (cell.type !== "code" && !(cell.type === "Hybrid" && outputs.length)) {
    if (/^#{1,4}\s/.test(cell.content || "")) return html`<div class="prose head"><${Markdown} text=${cell.content} /></div>`;
    return html`<div class=${`cell ${cell.type}`}><div class="prose"><${Markdown} text=${cell.content || ""} /></div>${shown}</div>`;
  }
  const wrong = cell.error && !outputs.some((output) => output.output_type === "error") ? { output_type: "error", ...cell.error } : null;
  return html`<div class="cell code" ref=${place} id=${said ? "running-cell" : undefined}><div class="about"><span class="faint mono" title=${_("how often the kernel had worked by then")}>[${cell.execution_count || (said ? "*" : " ")}]</span>${said && html`<span class="tag here">${_("running")}</span>`}${RAN()[cell.ran] && html`<span class="tag harm">${RAN()[cell.ran]}</span>`}${cell.repeat === "once" && html`<span class="tag warn">${_("never twice without asking")}</span>`}${cell.duration_s >= 0.1 && html`<span class="faint">${span(cell.duration_s)}</span>`}</div>
    <details class="code-fold" open=${!isFolded.value}><summary>${_("code")} <span class="faint mono cut">${isFolded.value ? (cell.content || "").split("\n")[0] : ""}</span></summary><pre class="in"><${Text} value=${cell.content || ""} /></pre></details>${shown}${wrong && html`<${Output} output=${wrong} />`}
    ${(cell.repairs || []).map((text) => html`<div class="prose soft">↻ <${Text} value=${text} /></div>`)}</div>`;
}

function Progress({ book }) {
  return html`<ol class="stack">${book.plan.stages.map((stage) => {
    const isThere = stage.id === book.stage && !book.isOver;
    return html`<li key=${stage.id}><div class="row"><b><${Text} value=${stage.title} /></b>${book.stagesDone.has(stage.id) ? html`<span class="tag good">✓ ${_("done")}</span>` : isThere && html`<span class="tag here">${_("stage")}</span>`}</div>
    <ol class="chips steps">${stage.steps.map((step) => {
      const isHere = isThere && step.step_id === book.step;
      const isDone = book.done.has(`${stage.id} ${step.step_id}`);
      return html`<li key=${step.step_id} class=${`tag ${isDone ? "good" : isHere ? "here" : ""}`} aria-current=${isHere ? "step" : undefined}>${isDone ? "✓ " : ""}<${Text} value=${step.title} />${isHere && book.behavior ? ` · ${_("behaviour {count}", { count: book.behavior })}` : ""}</li>`;
    })}</ol></li>`;
  })}</ol>`;
}

export function View({ store }) {
  const book = useSignal(EMPTY);
  const upto = store.past.value?.seq || Infinity;
  useEffect(() => {
    let isGone = false;
    (async () => {
      let after = 0;
      let made = EMPTY;
      while (!isGone && after !== null) {
        const page = await call(`${store.base}/log?after=${after}&limit=${PAGE}`);
        const entries = await Promise.all(page.entries.filter((entry) => entry.seq <= upto).map((entry) => (entry.folded.includes("event.result") ? call(`${store.base}/log/${entry.seq}`) : entry)));
        made = fold(made, entries);
        after = page.next;
      }
      if (!isGone) book.value = made;
    })().catch(() => {});
    return () => { isGone = true; };
  }, [store, upto]);
  const last = store.entries.value.at(-1)?.seq || 0;
  const isRead = book.value.seq > 0;
  // Also when the first reading is done: what came meanwhile is not in it, and the next event may be long in coming.
  useEffect(() => {
    if (upto !== Infinity || !isRead) return;
    const fresh = store.entries.value.filter((entry) => entry.seq > book.peek().seq);
    Promise.all(fresh.map((entry) => (entry.folded.includes("event.result") ? call(`${store.base}/log/${entry.seq}`) : entry))).then((entries) => { book.value = fold(book.peek(), entries); }).catch(() => {});
  }, [last, upto, isRead]);
  const { value } = book;
  const voices = [...store.voices.value.values()].flat();
  const open = voices.findLast?.((one) => one.cell)?.cell;
  const live = open ? voices.slice(voices.findLastIndex((one) => one.cell === open)).filter((one) => one.output).map((one) => (typeof one.output === "string" ? { output_type: "stream", text: one.output } : one.output)) : [];
  const code = open && !value.cells.has(open) && voices.findLast((one) => one.cell === open && one.code);
  return html`<div class="stack">${value.plan && html`<section class="card"><header><h2>${_("Progress")}</h2>${value.queue.length > 0 && html`<span class="faint">${_("action {count} of {all}", { count: Math.min(value.position + 1, value.queue.length), all: value.queue.length })}</span>`}</header><div class="body"><${Progress} book=${value} /></div></section>`}
    <div class="row wrap">${value.title && html`<h2 class="grow"><${Text} value=${value.title} /></h2>`}${value.cells.size > 0 && html`<button class="small" aria-pressed=${String(isFolded.value)} onClick=${() => { isFolded.value = !isFolded.value; }}>${isFolded.value ? _("Show the code") : _("Fold the code")}</button>`}
      ${open && html`<button class="small" onClick=${() => document.getElementById("running-cell")?.scrollIntoView({ block: "center" })}>${_("Go to the running cell")}</button>`}</div>
    ${[...value.cells.values()].map((cell) => html`<${Cell} key=${cell.id} cell=${cell} said=${cell.id === open ? live : null} />`)}
    ${code && html`<${Cell} key="live" cell=${{ id: open, type: "code", content: code.code }} said=${live} />`}
    ${!value.cells.size && !code && html`<p class="faint">${_("No cell yet.")}</p>`}</div>`;
}

