// What can be done with a run: signal, pause, retry, fork, cancel; and what can be taken along.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { mayDo } from "../me.js";
import { Dialog, Ends } from "../dialog.js";
import { Broken, Field } from "../form.js";
import { clock } from "../format.js";
import { go, place, tune } from "../route.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { Value } from "../value.js";
import { call, download } from "../wire.js";

async function attempt(work, done) {
  try { const made = await work(); if (done) say(done); return made; } catch (error) { say(error.message, "harm"); return null; }
}

function SignalDialog({ store, close }) {
  const { can } = store.run.value;
  const [name, setName] = useState(can.signal[0] || "");
  const [data, setData] = useState(undefined);
  const wrong = data instanceof Broken ? { data: _("is not JSON: {problem}", { problem: data.problem }) } : {};
  const send = async (event) => {
    event.preventDefault();
    if (Object.keys(wrong).length) return;
    if (await attempt(() => call(`${store.base}/signals`, { name, data: data ?? {} }), _("The run was told {name}.", { name }))) { store.reread(); close(); }
  };
  return html`<${Dialog} title=${_("Tell the run that something happened")} close=${close}><form class="stack" onSubmit=${send}>
    <div class="field"><label for="signal">${_("Signal")}</label><input id="signal" list="signals" required value=${name} onInput=${(event) => setName(event.target.value)} autocomplete="off" />
      <datalist id="signals">${can.signal.map((one) => html`<option value=${one} />`)}</datalist>
      ${can.signal.length > 0 && html`<div class="hint">${_("It takes now: {names}", { names: can.signal.join(", ") })}</div>`}</div>
    <${Field} name="data" schema=${{ title: _("Data (JSON)"), type: "object" }} value=${data} change=${setData} wrong=${wrong} prefix="signal" />
    <${Ends} close=${close}><button class="main">${_("Send")}</button></${Ends}></form></${Dialog}>`;
}

function CancelDialog({ store, close }) {
  const [reason, setReason] = useState("");
  const send = async (event) => {
    event.preventDefault();
    if (await attempt(() => call(`${store.base}/cancel`, { reason }), _("The run is being stopped."))) { store.reread(); close(); }
  };
  return html`<${Dialog} title=${_("Stop this run?")} close=${close}><form class="stack" onSubmit=${send}>
    <p class="soft">${_("What it has under way is stopped. What it has already done stays done.")}</p>
    <div class="field"><label for="why">${_("Why")}</label><input id="why" value=${reason} onInput=${(event) => setReason(event.target.value)} placeholder=${_("kept in the journal")} /></div>
    <${Ends} close=${close}><button class="harm">${_("Stop the run")}</button></${Ends}></form></${Dialog}>`;
}

function Deeds({ title, deeds }) {
  if (!deeds.length) return null;
  return html`<div class="stack"><h3>${title}</h3><ul class="card">${deeds.map((deed) => html`<li class="contract" key=${deed.contract_id}>
    <header><span class="faint mono">${deed.seq}</span><b><${Text} value=${deed.effect} /></b><span class="faint">${clock(deed.at)}</span>
      ${deed.kind === "irreversible" && html`<span class="tag harm">${_("cannot be taken back")}</span>`}${deed.deed === "possible" && html`<span class="tag warn">${_("may have happened")}</span>`}</header>
    ${Object.keys(deed.input).length > 0 && html`<${Value} value=${deed.input} depth=${1} />`}</li>`)}</ul></div>`;
}

function RetryDialog({ store, close }) {
  const [busy, setBusy] = useState(false);
  const [again, setAgain] = useState(null); // what it would begin with, as the server has tried it out
  useEffect(() => { attempt(() => call(`${store.base}/retry`)).then(setAgain); }, []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    if (await attempt(() => call(`${store.base}/retry`, {}), _("It goes on from what failed."))) { store.reread(); close(); } else setBusy(false);
  };
  return html`<${Dialog} title=${_("Try again")} close=${close}><form class="stack" onSubmit=${send}>
    <p class="soft">${_("The run goes on from what failed. What is done stays done, and a yes to the same call holds. A deed that may have happened asks first.")}</p>
    ${again?.total > 0 && html`<div class="stack"><h3>${_("Would be done again")}</h3><ul class="card">${again.calls.map((one) => html`<li class="contract" key=${one.contract_id}><header><b><${Text} value=${one.effect} /></b><span class="faint mono"><${Text} value=${one.contract_id} /></span>
      ${one.kind === "irreversible" && html`<span class="tag harm">${_("cannot be taken back")}</span>`}${one.is_asked && html`<span class="tag warn">${_("asks first")}</span>`}</header>
      ${Object.keys(one.input).length > 0 && html`<${Value} value=${one.input} depth=${1} />`}</li>`)}</ul>${again.total > again.calls.length && html`<p class="faint">${_("{count} more", { count: again.total - again.calls.length })}</p>`}</div>`}
    <${Ends} close=${close}><button class="main" disabled=${busy}>${_("Try again")}</button></${Ends}></form></${Dialog}>`;
}

/** Do again, in a new run, what this one went on without. */
function FailedDialog({ store, close }) {
  const { failed, can: { fork_failed: loops } } = store.run.value;
  const [loop, setLoop] = useState(loops[0]);
  const [busy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    const made = await attempt(() => call(`${store.base}/fork`, { loop }), _("A new run has begun."));
    if (made) { close(); go(["runs", made.run.run_id]); } else setBusy(false);
  };
  return html`<${Dialog} title=${_("Do again what failed ({count})", { count: failed })} close=${close}><form class="stack" onSubmit=${send}>
    <p class="soft">${_("A new run begins where the loop ended. What succeeded keeps its results and approvals; what failed is done again, and then what follows. This run stays as it is.")}</p>
    ${loops.length > 1 && html`<div class="field"><label for="loop">${_("Which loop")}</label><select id="loop" value=${loop} onChange=${(event) => setLoop(event.target.value)}>${loops.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></div>`}
    <${Ends} close=${close}><button class="main" disabled=${busy}>${_("Do it again")}</button></${Ends}></form></${Dialog}>`;
}

/** Fork: a new run, and first the list of what a new run does not undo. */
function ForkDialog({ store, close }) {
  const seq = store.past.value?.seq || store.run.value.seq;
  const [deeds, setDeeds] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => { attempt(() => call(`${store.base}/deeds?at=${seq}`)).then(setDeeds); }, []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    const made = await attempt(() => call(`${store.base}/fork`, { at: String(seq) }), _("A new run has begun."));
    if (made) { close(); go(["runs", made.run.run_id]); } else setBusy(false);
  };
  const title = _("Begin a new run as this one was after event {seq}", { seq });
  return html`<${Dialog} title=${title} close=${close}><form class="stack" onSubmit=${send}>
    <p class="soft">${_("This run stays as it is.")}</p>
    ${deeds && !deeds.before.length && !deeds.after.length && html`<div class="note good">${_("This run has changed nothing outside.")}</div>`}
    ${deeds && html`<${Deeds} title=${_("Already happened; a new run does not take it back")} deeds=${deeds.before} />
      <${Deeds} title=${_("Happened later in this run; the new one may come to it again, and is then asked or refused")} deeds=${deeds.after} />`}
    <${Ends} close=${close}><button class="main" disabled=${busy || !deeds}>${_("Fork")}</button></${Ends}></form></${Dialog}>`;
}

function VerifyButton({ store }) {
  const [proof, setProof] = useState(null);
  const check = async () => { setProof("…"); setProof(await attempt(() => call(`${store.base}/verify`, undefined, { isLong: true }))); };
  return html`<button onClick=${check}>${_("Verify")}</button>
    ${proof && proof !== "…" && html`<div class=${`note ${proof.ok ? "good" : "harm"} verdict`} role="status">${proof.ok
    ? _("{count} events replay to the same run; checkpoint {hash}", { count: proof.events, hash: proof.checkpoint.slice(0, 16) })
    : _("After event {seq}: {problem}", { seq: proof.events, problem: proof.problem })}</div>`}`;
}

export function Acts({ store }) {
  // A link to a step may ask for the fork before it; the dialog shows what has been done and is not taken back.
  const isForking = place.value.query.get("fork") === "1" && Boolean(store.past.value);
  const [chosen, setOpen] = useState("");
  const open = isForking ? "fork" : chosen;
  const close = () => { setOpen(""); if (isForking) tune({ fork: "" }); };
  const run = store.run.value;
  const { can } = run;
  const isPast = Boolean(store.past.value);
  const post = (verb, done) => () => attempt(() => call(`${store.base}/${verb}`, {}), done).then(() => store.reread());
  return html`<div class="doing" role="group" aria-label=${_("What can be done")}>
    ${!isPast && can.retry && html`<button onClick=${() => setOpen("retry")}>${_("Try again")}</button>`}
    ${!isPast && can.fork_failed?.length > 0 && mayDo("fork") && html`<button onClick=${() => setOpen("failed")}>${_("Do again what failed…")}</button>`}
    ${!isPast && (can.signal.length > 0 || can.cancel) && html`<button onClick=${() => setOpen("signal")}>${_("Signal…")}</button>`}
    ${!isPast && can.pause && html`<button onClick=${post("pause", _("It begins nothing new."))}>${_("Pause")}</button>`}
    ${!isPast && run.paused && can.resume && html`<button class="main" onClick=${post("resume", _("It goes on."))}>${_("Resume")}</button>`}
    ${mayDo("fork") && html`<button onClick=${() => setOpen("fork")}>${_("Fork…")}</button>`}
    ${!isPast && can.cancel && html`<button class="harm" onClick=${() => setOpen("cancel")}>${_("Stop…")}</button>`}
    ${open === "signal" && html`<${SignalDialog} store=${store} close=${close} />`}
    ${open === "cancel" && html`<${CancelDialog} store=${store} close=${close} />`}
    ${open === "retry" && html`<${RetryDialog} store=${store} close=${close} />`}
    ${open === "failed" && html`<${FailedDialog} store=${store} close=${close} />`}
    ${open === "fork" && html`<${ForkDialog} store=${store} close=${close} />`}</div>`;
}

/** The journal and the picture to keep, the proof, and the address of what is seen. */
export function Keep({ store }) {
  const run = store.run.value;
  const at = store.past.value ? `?at=${store.past.value.seq}` : "";
  const copy = () => navigator.clipboard.writeText(location.href).then(() => say(_("The link is on the clipboard."))).catch(() => say(location.href));
  return html`<div class="stack"><div class="row wrap">
    <button onClick=${() => attempt(() => download(`${store.base}/log/export`, `${run.run_id}.jsonl`))}>${_("Journal")} <span class="faint">.jsonl</span></button>
    <button onClick=${() => attempt(() => download(`${store.base}/graph.svg${at}`, `${run.run_id}.svg`))}>${_("Picture")} <span class="faint">.svg</span></button>
    <button onClick=${copy}>${_("Copy link")}</button><${VerifyButton} store=${store} /></div></div>`;
}

