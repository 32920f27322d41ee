// What is known of a call that is in doubt, and of the same call made before.
import { html } from "./lib.js";
import { _ } from "./language.js";
import { age, ahead, iso, moment, now } from "./format.js";
import { address } from "./route.js";
import { Sentence } from "./sentence.js";
import { Said, Text } from "./text.js";
import { Value } from "./value.js";

/** The names in a doubt's data that are shown here; the rest is the asker's. */
export const OWN = ["cause", "result", "lands_until", "is_shortened"];

/** Whether a call may still land; asked again every second. */
export const isUnderWay = (data) => Number(data?.lands_until || 0) > now.value;

const Time = ({ at, text }) => html`<time datetime=${iso(at)} title=${moment(at)}>${text}</time>`;
const Failure = ({ error }) => html`<span><code><${Text} value=${error.type || ""} /></code> <${Sentence} text=${error.message} /></span>`;

/** What a call gave; of a program, its exit code and its output as it wrote them. */
function Result({ title, value }) {
  const isProgram = value && typeof value === "object" && ("stdout" in value || "stderr" in value);
  if (!isProgram) return html`<div><h4>${title}</h4><div class="leaf"><${Value} value=${value} /></div></div>`;
  const { stdout, stderr, ...rest } = value;
  const printed = Object.entries({ stdout, stderr }).filter(([, text]) => text);
  return html`<div><h4>${title}</h4><div class="leaf"><${Value} value=${rest} /></div>
    ${printed.map(([name, text]) => html`<figure class="printed"><figcaption>${name}</figcaption><pre><${Text} value=${String(text).trimEnd()} /></pre></figure>`)}</div>`;
}

/** Why nobody knows whether it happened, what came back all the same, and until when it may land. */
export function Doubtful({ data }) {
  const { cause, result, lands_until: until } = data;
  return html`<div class="part"><h3>${_("Why nobody knows")}</h3>
    <div>${cause ? html`<${Failure} error=${cause} />` : _("The process that made the call ended before an answer came.")}</div>
    ${until && html`<div class=${`note ${isUnderWay(data) ? "" : "plain"}`} role="note">${isUnderWay(data)
    ? _("The call may still land until {when} ({ahead}). Before that, nobody can say that it did not happen.", { when: moment(until), ahead: ahead(until) })
    : _("Since {when} nothing of the call can be under way any more.", { when: moment(until) })}</div>`}
    ${result !== undefined && result !== null && html`<${Result} title=${_("What came back all the same")} value=${result} />`}
    ${data.is_shortened && html`<div class="faint">${_("What came back is too long to be shown here; the timeline of the run has it.")}</div>`}</div>`;
}

/** The same deed as it was done before, or may have been: when, by whom, with which result. */
export function Earlier({ earlier }) {
  const isDone = earlier.status === "completed";
  return html`<div class="part earlier"><h3>${isDone ? _("Done before") : _("Perhaps done before")}</h3>
    <div class="about"><span><${Time} at=${earlier.at} text=${moment(earlier.at)} /> (${age(earlier.at)})</span>
      <a href=${address(["runs", earlier.run_id])}>${_("run {run}", { run: earlier.run_id })}</a>
      ${earlier.by && html`<span><${Said} text=${_("started by {who}")} who=${earlier.by} /></span>`}
      ${earlier.approved_by && html`<span><${Said} text=${_("approved by {who}")} who=${earlier.approved_by} /></span>`}</div>
    ${earlier.error && html`<div class="note harm" role="note"><${Failure} error=${earlier.error} /></div>`}
    ${"result" in earlier && html`<${Result} title=${_("What it gave")} value=${earlier.result} />`}
    ${earlier.is_shortened && html`<div class="faint">${_("What it gave is too long to be shown here; the timeline of that run has it.")}</div>`}</div>`;
}
