// Runs that began under earlier versions of the file: what differs from the text, and moving them to what is saved.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { Changes } from "../definitions.js";
import { Dialog, Ends } from "../dialog.js";
import { useGuard } from "../guard.js";
import { mayDo } from "../me.js";
import { address } from "../route.js";
import { Status } from "../status.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { call, query } from "../wire.js";

/** What becomes of each run is looked at first; then exactly those that were looked at are moved. */
function Migrate({ name, version, close }) {
  const [state, setState] = useState("");
  const [seen, setSeen] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const body = { verb: "migrate", definition: name, state, runs: version.runs.map((run) => run.run_id) };
  useEffect(() => {
    const wait = setTimeout(() => call("/api/bulk", { ...body, preview: true }).then(setSeen).catch((error) => say(error.message, "harm")), 250);
    return () => clearTimeout(wait);
  }, [state]);
  const able = (seen?.runs || []).filter((one) => !one.problem);
  const [isDead, guard] = useGuard(`${able.length} ${seen?.is_preview}`);
  const send = async (event) => {
    event.preventDefault();
    if (isDead || isBusy) return;
    setBusy(true);
    try {
      const report = await call("/api/bulk", { ...body, runs: able.map((one) => one.run_id) });
      setSeen(report);
      say(_("{done} of {count} done.", { done: report.done, count: report.runs.length }));
    } catch (error) { say(error.message, "harm"); }
    setBusy(false);
  };
  return html`<${Dialog} title=${_("Move runs to the saved file")} close=${close}><form class="stack" onSubmit=${send}>
    <p>${_("They go on in the same state, under the file as it is saved. What they have done stays done, and each gets an entry in its journal.")}</p>
    <div class="field"><label for="migrate-state">${_("Their state is called otherwise there (leave empty if not)")}</label><input id="migrate-state" value=${state} onInput=${(event) => setState(event.target.value)} /></div>
    <p role="status">${seen && (seen.is_preview ? _("{able} of {count} runs that fit; the others stay as they are.", { able: able.length, count: seen.matching }) : _("{done} of {count} done.", { done: seen.done, count: seen.runs.length }))}</p>
    <ul class="bulk" tabIndex="0" aria-label=${_("Runs")}>${(seen?.runs || []).map((one) => html`<li key=${one.run_id}><span class="mono">${one.run_id}</span><span class="grow cut"><${Text} value=${one.state} /></span>${one.problem ? html`<small class="faint"><${Text} value=${one.problem} /></small>` : one.is_done ? html`<span class="tag good">${_("done")}</span>` : html`<${Status} status=${one.status} />`}</li>`)}</ul>
    <${Ends} close=${close}>${seen?.is_preview !== false && html`<span ...${guard}><button class="main" disabled=${isDead || isBusy || !able.length}>${able.length === 1 ? _("Move 1 run") : _("Move {count} runs", { count: able.length })}</button></span>`}</${Ends}></form></${Dialog}>`;
}

function Version({ name, text, version, isDirty, isMine, reread }) {
  const [found, setFound] = useState(null);
  const [isMoving, setMoving] = useState(false);
  const compare = () => call("/api/drafts/compare", { name, text, digest: version.digest }).then(setFound).catch((error) => say(error.message.split("\n")[0], "harm"));
  useEffect(() => { setFound(null); }, [text]);
  return html`<section class="card pins"><header><h2><span class="mono">${version.digest.slice(0, 12)}</span> <small class="faint">${version.count === 1 ? _("1 run") : _("{count} runs", { count: version.count })}</small></h2></header><div class="body stack">
    ${version.is_saved ? html`<p class="soft">${_("This is what the file says now.")}</p>` : html`<div class="row wrap">${isMine && html`<button class="small" onClick=${compare}>${_("Compare with the text")}</button>`}<button class="small" disabled=${isDirty || !mayDo("migrate")} title=${isDirty ? _("Save first: runs move to what is saved.") : undefined} onClick=${() => setMoving(true)}>${_("Move them here…")}</button></div>`}
    ${found && (found.is_same ? html`<div class="note good" role="status">${_("Both are the same machine.")}</div>` : html`<div role="status"><${Changes} changes=${found.changes} /></div>`)}
    <ul class="bulk">${version.runs.map((run) => html`<li key=${run.run_id}><a class="mono" href=${address(["runs", run.run_id])}>${run.run_id}</a><span class="grow cut"><${Text} value=${run.state} /></span><${Status} status=${run.status} /></li>`)}</ul>
    ${version.count > version.runs.length && html`<p class="faint">${_("and {count} more", { count: version.count - version.runs.length })}</p>`}</div>
    ${isMoving && html`<${Migrate} name=${name} version=${version} close=${() => { setMoving(false); reread(); }} />`}</section>`;
}

export function Pins({ name, text, hash, isDirty, isMine }) {
  const [found, setFound] = useState(null);
  const [trouble, setTrouble] = useState("");
  const read = () => call(`/api/files/pins${query({ name })}`).then(setFound).catch((error) => setTrouble(error.message));
  useEffect(() => { read(); }, [hash]);
  if (trouble) return html`<div class="note harm" role="alert"><${Text} value=${trouble} /></div>`;
  if (!found) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  if (!found.versions.length) return html`<p class="soft">${_("No open run began from this file. A run keeps the version it began with until it is moved.")}</p>`;
  return html`<div class="stack">${found.versions.map((version) => html`<${Version} key=${version.digest} name=${name} text=${text} version=${version} isDirty=${isDirty} isMine=${isMine} reread=${read} />`)}</div>`;
}
