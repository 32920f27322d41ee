// Notebook runs: stage, step and behaviour, and the live notebook with outputs and plots. Everything is told by the
// events: what an effect of the notebook agent did is in its result under `changes`.
import { html, useEffect, useMemo, useSignal } from "../lib.js";
import { _ } from "../language.js";
import { Text } from "../text.js";
import { call } from "../wire.js";

export const name = "notebook";
export const title = () => _("Notebook");
export const fits = (run) => run.machine === "notebook";

const PAGE = 200;
const IMAGES = ["image/png", "image/jpeg", "image/gif"];

const templateOf = (given) => ({ ...given, stages: (given.stages || []).map((stage) => ({ ...stage, title: stage.title || stage.name || stage.id, steps: (stage.steps || []).map((step) => ({ ...step, step_id: step.step_id || step.id, title: step.title || step.name || step.step_id || step.id })) })) });

/** What a notebook run has come to after some more events. */
export function fold(book, entries) {
  const next = { ...book, cells: new Map(book.cells) };
  for (const entry of entries) {
    if (entry.seq <= next.seq) continue;
    next.seq = entry.seq;
    const { event } = entry;
    if (entry.kind === "started") { next.title = event.input?.title || ""; next.goal = event.input?.goal || ""; if (event.input?.plan) next.plan = templateOf(event.input.plan); }
    const changes = ["succeed", "fail"].includes(event.trigger) && event.result?.changes;
    if (changes) change(next, changes);
    for (const one of entry.taken) if (one.kind === "transition") move(next, one);
  }
  return next;
}

function change(book, changes) {
  for (const cell of changes.cells || []) book.cells.set(cell.id, cell);
  if (changes.set?.title) book.title = changes.set.title;
  if (changes.plan?.template) book.plan = templateOf(changes.plan.template);
  for (const update of changes.plan?.updates || []) adopt(book, update);
  if (changes.queue) { book.queue = changes.queue.actions || []; book.position = 0; }
  if (changes.done) book.position += 1;
  if (changes.focus?.behaviors) book.focus = changes.focus.behaviors;
}

function adopt(book, update) {
  if (update.action === "update_workflow" && update.updated_workflow) book.plan = templateOf(update.updated_workflow.workflowTemplate || update.updated_workflow);
  else if (update.action === "update_stage_steps" && book.plan) {
    const id = update.stage_id || book.stage;
    book.plan = templateOf({ ...book.plan, stages: book.plan.stages.map((stage) => (stage.id === id ? { ...stage, steps: update.updated_steps || stage.steps } : stage)) });
  }
}

function move(book, { event, target }) {
  const stages = book.plan?.stages || [];
  const at = stages.findIndex((stage) => stage.id === book.stage);
  if (target === "stage_running") { const stage = stages[event === "NEXT_STAGE" ? at + 1 : 0]; book.stage = stage?.id || book.stage; book.step = ""; }
  else if (target === "step_running") {
    book.stage ||= stages[0]?.id || "";
    const steps = stages.find((stage) => stage.id === book.stage)?.steps || [];
    book.step = steps[steps.findIndex((step) => step.step_id === book.step) + 1]?.step_id || book.step;
    book.behavior = 0;
  } else if (target === "behavior_running") { book.behavior += 1; book.queue = []; book.position = 0; }
  else if (target === "step_completed" && book.step) book.done = new Set([...book.done, `${book.stage} ${book.step}`]);
  else if (target === "action_completed" && /CONFIRMED$/.test(event)) adopt(book, book.queue[book.position - 1] || {});
}

const EMPTY = { seq: 0, title: "", goal: "", plan: null, cells: new Map(), stage: "", step: "", behavior: 0, queue: [], position: 0, focus: "", done: new Set() };

/** A table as a program made it, in a frame that may do nothing: no script, no request, no way out. */
function Foreign({ text }) {
  const safe = useMemo(() => {
    const page = new DOMParser().parseFromString(text, "text/html");
    page.querySelectorAll("script, style, link, iframe, object, embed, base, meta, form, svg, img[src^='http']").forEach((one) => one.remove());
    page.querySelectorAll("*").forEach((one) => { for (const { name: attribute } of [...one.attributes]) if (/^on|^style$|^href$|^src(?!$)|^srcset$|^background$/i.test(attribute)) one.removeAttribute(attribute); });
    return `<!doctype html><meta charset="utf-8">${page.body.innerHTML}`;
  }, [text]);
  return html`<iframe sandbox="" srcdoc=${safe} title=${_("Output of the cell")} />`;
}

const joined = (text) => (Array.isArray(text) ? text.join("") : String(text ?? ""));

function Output({ output }) {
  if (output.output_type === "error") return html`<pre class="err"><${Text} value=${`${output.ename}: ${output.evalue}\n${joined((output.traceback || []).map((line) => `${line}\n`))}`.replace(/\u001b\[[0-9;]*m/g, "")} /></pre>`;
  const data = output.data || {};
  const image = IMAGES.find((kind) => data[kind]);
  if (image) return html`<img src=${`data:${image};base64,${joined(data[image]).replace(/\s/g, "")}`} alt=${joined(data["text/plain"]) || _("Plot")} />`;
  if (data["image/svg+xml"]) return html`<img src=${`data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(joined(data["image/svg+xml"]))))}`} alt=${_("Plot")} />`;
  if (data["text/html"]) return html`<${Foreign} text=${joined(data["text/html"])} />`;
  const text = joined(output.text || data["text/plain"] || output.content);
  return text ? html`<pre class=${output.name === "stderr" ? "err" : ""}><${Text} value=${text.replace(/\u001b\[[0-9;]*m/g, "")} /></pre>` : null;
}

function Cell({ cell, said }) {
  if (cell.type !== "code") {
    const level = /^(#{1,4})\s+(.*)/.exec(cell.content || "");
    if (level) return html`<div class="prose head"><h2><${Text} value=${level[2]} /></h2>${cell.content.slice(level[0].length).trim() && html`<${Text} value=${cell.content.slice(level[0].length).trim()} />`}</div>`;
    return html`<div class=${`cell ${cell.type}`}><div class="prose"><${Text} value=${cell.custom_text && cell.type === "thinking" ? cell.custom_text : cell.content || ""} /></div></div>`;
  }
  return html`<div class="cell code"><pre class="in"><${Text} value=${cell.content || ""} /></pre>
    ${(cell.outputs || []).map((output) => html`<${Output} output=${output} />`)}${said?.map((output) => html`<${Output} output=${output} />`)}
    ${cell.note && html`<div class="prose soft"><${Text} value=${cell.note} /></div>`}</div>`;
}

function Progress({ book }) {
  if (!book.plan) return null;
  return html`<ol class="stack">${book.plan.stages.map((stage) => html`<li key=${stage.id}><div class="row"><b><${Text} value=${stage.title} /></b>${stage.id === book.stage && html`<span class="tag here">${_("stage")}</span>`}</div>
    <ol class="chips steps">${stage.steps.map((step) => {
    const isHere = stage.id === book.stage && step.step_id === book.step;
    const isDone = book.done.has(`${stage.id} ${step.step_id}`);
    return html`<li key=${step.step_id} class=${`tag ${isDone ? "good" : isHere ? "here" : ""}`} aria-current=${isHere ? "step" : undefined}>${isDone ? "✓ " : ""}<${Text} value=${step.title} />${isHere && book.behavior ? ` · ${_("behaviour {count}", { count: book.behavior })}` : ""}</li>`;
  })}</ol></li>`)}</ol>`;
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
  useEffect(() => {
    if (upto !== Infinity || !book.peek().seq) return;
    const fresh = store.entries.value.filter((entry) => entry.seq > book.peek().seq);
    Promise.all(fresh.map((entry) => (entry.folded.includes("event.result") ? call(`${store.base}/log/${entry.seq}`) : entry))).then((entries) => { book.value = fold(book.peek(), entries); }).catch(() => {});
  }, [last, upto]);
  const { value } = book;
  const voices = [...store.voices.value.values()].flat();
  const open = voices.findLast?.((one) => one.cell)?.cell;
  const live = open ? voices.slice(voices.findLastIndex((one) => one.cell === open)).filter((one) => one.output).map((one) => (typeof one.output === "string" ? { output_type: "stream", text: one.output } : one.output)) : [];
  const code = open && !value.cells.has(open) && voices.findLast((one) => one.cell === open && one.code);
  return html`<div class="stack">${value.plan && html`<section class="card"><header><h2>${_("Progress")}</h2>${value.queue.length > 0 && html`<span class="faint">${_("action {count} of {all}", { count: Math.min(value.position + 1, value.queue.length), all: value.queue.length })}</span>`}</header><div class="body"><${Progress} book=${value} /></div></section>`}
    ${value.title && html`<h2><${Text} value=${value.title} /></h2>`}
    ${[...value.cells.values()].map((cell) => html`<${Cell} key=${cell.id} cell=${cell} said=${cell.id === open ? live : null} />`)}
    ${code && html`<${Cell} key="live" cell=${{ id: open, type: "code", content: code.code }} said=${live} />`}
    ${!value.cells.size && !code && html`<p class="faint">${_("No cell yet.")}</p>`}</div>`;
}

