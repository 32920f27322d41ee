// One thing for many runs: chosen by the filter of the list, looked at first, then done with an entry for each.
import { html, useEffect, useState } from "./lib.js";
import { _ } from "./language.js";
import { Dialog, Ends } from "./dialog.js";
import { useGuard } from "./guard.js";
import { Status } from "./status.js";
import { Text } from "./text.js";
import { brief } from "./secret.js";
import { say } from "./toast.js";
import { call } from "./wire.js";

const VERBS = () => ({ cancel: _("Stop"), retry: _("Try again"), signal: _("Signal"), pause: _("Pause"), resume: _("Resume"), settle: _("Settle doubts"), migrate: _("Move to another definition") });
const OUTCOMES = () => ({ happened: _("It happened"), not_happened: _("It did not happen; do it"), give_up: _("Give it up") });
const NEEDED = ["signal", "migrate"]; // verbs that need a word
const newKey = () => `${Date.now()}-${Math.round(Math.random() * 1e9)}`;

export function Bulk({ selection, close }) {
  const [verb, setVerb] = useState("cancel");
  const [word, setWord] = useState(""); // the reason of a stop, or the name of a signal
  const [seen, setSeen] = useState(null);
  const [key] = useState(newKey);
  const [isBusy, setBusy] = useState(false);
  const [isDead, guard] = useGuard(`${verb} ${seen ? seen.runs.length : ""} ${seen?.is_preview}`);
  const [outcome, setOutcome] = useState("happened");
  const more = { cancel: { reason: word }, signal: { signal: word }, settle: { outcome, reason: word }, migrate: { definition: word } };
  const body = { verb, ...selection, key, ...(more[verb] || {}) };
  const isReady = !NEEDED.includes(verb) || Boolean(word.trim());
  const labels = { cancel: _("Reason"), settle: _("Reason"), signal: _("Name of the signal"), migrate: _("File of the definition, such as release.yaml") };
  useEffect(() => {
    setSeen(null); // what was looked at was looked at for something else
    if (!isReady) return undefined;
    const abort = new AbortController();
    const wait = setTimeout(() => call("/api/bulk", { ...body, preview: true }, abort).then(setSeen).catch((error) => { if (!abort.signal.aborted) say(error.message, "harm"); }), 250);
    return () => { clearTimeout(wait); abort.abort(); };
  }, [verb, NEEDED.includes(verb) ? word : ""]);
  const able = (seen?.runs || []).filter((one) => !one.problem);
  const shown = seen?.is_preview ? [...able, ...seen.runs.filter((one) => one.problem)] : seen?.runs || [];
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      // Exactly those that were looked at, as they were: what has begun to fit since, or moved on, is not touched.
      const report = await call("/api/bulk", { ...body, text: "", where: "", status: [], machine: "", runs: able.map((one) => one.run_id), seen: Object.fromEntries(able.map((one) => [one.run_id, one.mark || ""])) }, { isLong: true });
      setSeen(report);
      say(_("{done} of {count} done.", { done: report.done, count: report.runs.length }));
    } catch (error) { say(error.message, "harm"); }
    setBusy(false);
  };
  return html`<${Dialog} title=${_("Act on many runs")} close=${close}><form class="stack" onSubmit=${send} ...${guard}>
    <div class="field"><label for="bulk-verb">${_("What to do")}</label><select id="bulk-verb" value=${verb} onChange=${(event) => { setVerb(event.target.value); setWord(""); }}>${Object.entries(VERBS()).map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select></div>
    ${verb === "settle" && html`<div class="field"><label for="bulk-outcome">${_("What became of each call")}</label><select id="bulk-outcome" value=${outcome} onChange=${(event) => setOutcome(event.target.value)}>${Object.entries(OUTCOMES()).map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select></div>`}
    ${labels[verb] && html`<div class="field"><label for="bulk-word">${labels[verb]}</label><input id="bulk-word" value=${word} onInput=${(event) => setWord(event.target.value)} /></div>`}
    <p role="status">${seen && (seen.is_preview ? _("{able} of {count} runs that fit; the others stay as they are.", { able: able.length, count: seen.matching }) : _("{done} of {count} done.", { done: seen.done, count: seen.runs.length }))}</p>
    <ul class="bulk" tabIndex="0" aria-label=${_("Runs")}>${shown.map((one) => html`<li key=${one.run_id}><span class="mono">${one.run_id}</span><span class="grow cut"><${Text} value=${[one.machine, one.state, ...(one.calls || []).map((each) => `${each.effect} ${brief(each.input, 120)}`)].join(" · ")} /></span>${one.problem ? html`<small class="faint"><${Text} value=${one.problem} /></small>` : one.is_done ? html`<span class="tag good">${_("done")}</span>` : html`<${Status} status=${one.status} />`}</li>`)}</ul>
    <${Ends} close=${close}>${seen?.is_preview !== false && html`<button class=${verb === "cancel" || verb === "settle" ? "harm" : "main"} disabled=${isDead || isBusy || !able.length}>${able.length === 1 ? _("{verb}: 1 run", { verb: VERBS()[verb] }) : _("{verb}: {count} runs", { verb: VERBS()[verb], count: able.length })}</button>`}</${Ends}></form></${Dialog}>`;
}
