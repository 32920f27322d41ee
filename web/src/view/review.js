// The review before a coding job lands: every hunk with its own yes or no and remark, sent as one answer to what was shown.
import { html, useEffect, useState } from "../lib.js";
import { _ } from "../language.js";
import { answer } from "../question.js";
import { useGuard } from "../guard.js";
import { useItem } from "../item.js";
import { AnswerAs, Standing, firstName, mayAnswer, whyId } from "../permission.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { call } from "../wire.js";

export function Diff({ text }) {
  return html`<div class="diff" tabIndex="0" role="region" aria-label=${_("Differences")}>${text.split("\n").map((line, at) => html`<div key=${at} class=${line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : line.startsWith("@@") ? "at" : ""}><${Text} value=${line || " "} /></div>`)}</div>`;
}

function Hunk({ hunk, remark, change }) {
  const isRejected = remark !== undefined;
  const about = `remark-${hunk.id}`;
  return html`<li class="contract"><header><b class="grow mono"><${Text} value=${hunk.path} /></b>
      <div class="row" role="group" aria-label=${_("Hunk {id} of {path}", { id: hunk.id, path: hunk.path })}>
        <button type="button" class="small" aria-pressed=${String(!isRejected)} onClick=${() => change(undefined)}>${_("Accept")}</button>
        <button type="button" class="small harm" aria-pressed=${String(isRejected)} onClick=${() => change(remark ?? "")}>${_("Reject…")}</button></div></header>
    <${Diff} text=${hunk.text.trimEnd()} />
    ${isRejected && html`<div class="field"><label for=${about}>${_("What is wrong with it?")}</label><input id=${about} maxlength="2000" value=${remark} onInput=${(event) => change(event.target.value)} /></div>`}</li>`;
}

/** What an answer says: the digest of what was shown, and each rejected hunk with its remark. */
const words = (shown, remarks) => {
  const reject = shown.hunks.filter((one) => one.id in remarks).map((one) => ({ hunk: one.id, comment: remarks[one.id] }));
  return { approved: reject.length === 0, data: { diff: shown.diff, reject } };
};

export function Review({ base, runId, contractId }) {
  const { item, decided } = useItem(runId, contractId);
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [trouble, setTrouble] = useState("");
  const [remarks, setRemarks] = useState(/** @type {Record<string, string>} */ ({}));
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const asked = item?.question.data?.diff || "";
  const [isDead, guard] = useGuard([runId, item?.shown, shown?.diff, String(Boolean(decided))].join(" "));
  useEffect(() => { setBusy(false); }, [item?.shown]); // what is asked anew can be answered anew
  useEffect(() => {
    setRemarks({}); // a new difference is judged anew
    if (asked) call(`${base}/review`).then(setShown).catch((error) => setTrouble(error.message));
  }, [base, asked]);
  if (!item || decided) return null;
  if (!shown || shown.diff !== asked) return html`<div class="note">${trouble ? html`<${Text} value=${trouble} />` : _("The change is being read.")}</div>`;
  const { question } = item;
  const by = name || firstName(question);
  const change = (id) => (remark) => setRemarks((now) => { const { [id]: _was, ...rest } = now; return remark === undefined ? rest : { ...rest, [id]: remark }; });
  const count = Object.keys(remarks).length;
  const send = async () => {
    setBusy(true);
    if (await answer(by ? { ...item, by } : item, words(shown, remarks))) say(count ? _("Sent back to the worker.") : _("Approved."));
    else setBusy(false);
  };
  return html`<section class="card question" aria-label=${_("Review before it lands")}><header><h2>${_("Review before it lands")}</h2><span class="grow" /><span class="faint mono">${shown.diff}</span></header>
    <ul>${shown.hunks.map((hunk) => html`<${Hunk} key=${hunk.id} hunk=${hunk} remark=${remarks[hunk.id]} change=${change(hunk.id)} />`)}</ul>
    ${shown.is_cut && html`<div class="note">${_("The difference is longer than what is shown.")}</div>`}
    <${Standing} question=${question} /><${AnswerAs} question=${question} name=${by} change=${setName} />
    <fieldset class=${`answering ${isDead ? "dead" : ""}`} ...${guard} disabled=${!mayAnswer(question)} aria-disabled=${isDead ? "true" : undefined} aria-describedby=${mayAnswer(question) ? undefined : whyId(question)}>
      <div class="deciding"><button class=${count ? "harm" : "main"} disabled=${isBusy} onClick=${send}>${count === 0 ? _("Accept all: let it land") : count === 1 ? _("Send 1 hunk back") : _("Send {count} hunks back", { count })}</button></div></fieldset></section>`;
}
