// One question as a person must see it, and the ways to answer it.
import { html, useEffect, useRef, useState } from "./lib.js";
import { _ } from "./language.js";
import { SchemaForm, initial, problems, useFirstWrong } from "./form.js";
import { age, ahead, clock, iso, moment } from "./format.js";
import { useGuard } from "./guard.js";
import { useKeys } from "./key.js";
import { Doubtful, Earlier, OWN, isUnderWay } from "./known.js";
import { me } from "./me.js";
import { AnswerAs, Standing, firstName, mayAnswer, whyId } from "./permission.js";
import { address } from "./route.js";
import { Status } from "./status.js";
import { Said, Text, hasOdd } from "./text.js";
import { say } from "./toast.js";
import { brief } from "./secret.js";
import { questionText } from "./sentence.js";
import { Value } from "./value.js";
import { call } from "./wire.js";

const LONG = 160; // letters of a question; more of them are written smaller

const KINDS = () => ({ irreversible: _("cannot be taken back"), idempotent: _("harmless to repeat"), pure: _("changes nothing outside") });

/** Send an answer to what is shown; true when it was taken. One that came too late changes nothing and says so. */
export async function answer(item, said, onDecided = (_said) => {}) {
  const { run_id: runId, question } = item;
  const path = `/api/runs/${encodeURIComponent(runId)}/contracts/${question.contract_id.split("/").map(encodeURIComponent).join("/")}/answer`;
  try {
    const run = await call(path, { call_hash: question.call_hash, shown: item.shown, ...(item.by ? { by: item.by } : {}), ...said });
    const isOpen = run.waiting?.some((one) => one.contract_id === question.contract_id && one.since === question.since);
    if (!isOpen) onDecided({ approved: said.approved ?? null, outcome: said.outcome, by: item.by || me.value?.name || "", isOwn: true });
    return true;
  } catch (error) {
    if (error.type === "already_decided") say(verdict(error.detail.decided || {}, true));
    else say(error.message, "harm");
    return false;
  }
}

/** What somebody decided, as a sentence. */
function verdict({ by, approved, at }, isLate = false) {
  const values = { who: by || _("somebody"), when: at ? clock(at).slice(0, 8) : "" };
  if (isLate) {
    return approved === false ? _("{who} has rejected this already, at {when}; nothing was changed.", values)
      : approved ? _("{who} has approved this already, at {when}; nothing was changed.", values)
        : _("{who} has answered this already, at {when}; nothing was changed.", values);
  }
  return approved === false ? _("{who} rejected this at {when}.", values)
    : approved ? _("{who} approved this at {when}.", values) : _("{who} answered this at {when}.", values);
}

/** In the place of the buttons, once it is decided: who decided what, and the person's own way on. */
function Decided({ decided, next }) {
  const isKnown = Boolean(decided.at);
  return html`<div class="deciding decided" role="status"><div class=${`note grow ${decided.approved === false ? "harm" : "good"}`}><span>
      <b>${isKnown ? verdict(decided) : _("This was just decided.")}</b> ${decided.comment && html`<${Text} value=${decided.comment} />`} ${_("Nothing you press here changes it.")}</span></div>
    ${next && html`<button class="next" onClick=${next}>${_("Next question")} <kbd>n</kbd></button>`}</div>`;
}

function Follow({ title, follow, isNo, isOneOfTwo }) {
  if (!follow) return null;
  const { does = [], ways, ends } = follow;
  return html`<div class="follow"><h3>${title}</h3><div class="flow">
    ${!isOneOfTwo && does.map((one) => html`<span title=${brief(one.input, 300)}>${_("calls")} <code><${Text} value=${one.effect} /></code></span>`)}
    ${ways.length > 0 && html`<span class="arrow" aria-hidden="true">→</span>`}
    ${ways.slice(0, 4).map((way, at) => html`${at > 0 && html`<span class="faint">${_("or")}</span>`}<span class="state" title=${way.when || undefined}><${Text} value=${way.target} /></span>`)}
    ${ends && html`<${Status} status=${ends} />`}
    ${!does.length && !ways.length && !ends && html`<span class="soft">${isNo ? _("the machine decides what follows") : _("the run goes on")}</span>`}
  </div></div>`;
}

function Reject({ item, back, send: give, isStop = false }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    if (!await give({ approved: false, comment: reason })) setBusy(false);
    else say(isStop ? _("Stopped.") : _("Rejected."));
  };
  return html`<form onSubmit=${send} onKeyDown=${(event) => event.key === "Escape" && back()}>
    <div class="field"><label for="reason">${_("Why not?")}</label>
      <input id="reason" ref=${field} value=${reason} onInput=${(event) => setReason(event.target.value)} maxlength="10000" placeholder=${_("kept in the journal; the run can read it")} /></div>
    <div class="ends"><button class="harm" disabled=${busy}>${isStop ? _("Stop") : _("Reject")}</button><button type="button" class="quiet" onClick=${back}>${_("Back")}</button></div></form>`;
}

/** Edited arguments, or the data of a form: both are checked against a schema. */
function Fill({ item, back, send: give, isForm, isWanted = false, children }) {
  const { question } = item;
  const schema = isForm ? question.schema || {} : item.args_schema || { type: "object" };
  const given = isForm ? initial(schema, question.data?.value) : question.call.input;
  const [value, setValue] = useState(given);
  const [wrong, setWrong] = useState({});
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  useFirstWrong(form, wrong);
  useEffect(() => { if (!isForm || isWanted) form.current?.querySelector("input, textarea, select")?.focus(); }, [isWanted]);
  const send = async (event) => {
    event.preventDefault();
    const found = problems(schema, value, "", isForm);
    setWrong(found);
    if (Object.keys(found).length) return;
    setBusy(true);
    const said = isForm ? { approved: true, data: value ?? {}, comment } : { approved: true, args: value, comment };
    if (await give(said)) say(isForm ? _("Answered.") : _("Approved with your arguments.")); else setBusy(false);
  };
  return html`<form ref=${form} onSubmit=${send} noValidate onKeyDown=${(event) => event.key === "Escape" && back && back()}>
    <${SchemaForm} schema=${schema} value=${value} change=${setValue} wrong=${wrong} prefix="fill" />
    ${!isForm && html`<div class="field"><label for="comment">${_("Comment")}</label><input id="comment" value=${comment} onInput=${(event) => setComment(event.target.value)} /></div>`}
    <div class="ends"><button class="main" disabled=${busy}>${isForm ? _("Send") : _("Approve with these arguments")}</button>
      ${back && html`<button type="button" class="quiet" onClick=${back}>${_("Back")}</button>`}${children}</div></form>`;
}

/** A result somebody types as JSON: the field, and what was typed; undefined where that is not JSON. */
function useResult(label) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const read = () => {
    if (!text.trim()) return {};
    try { return { result: JSON.parse(text) }; } catch (error) { setWrong(error.message); return undefined; }
  };
  const field = html`<div class="field"><label for="result">${label}</label>
    <textarea id="result" class="mono" value=${text} onInput=${(event) => { setText(event.target.value); setWrong(""); }} aria-invalid=${wrong ? "true" : "false"} />
    ${wrong && html`<div class="wrong" role="alert">${wrong}</div>`}</div>`;
  return [field, read];
}

function Doubt({ item, send: give }) {
  const [field, read] = useResult(_("If it did happen: what did it give? (JSON, may stay empty)"));
  const { data } = item.question;
  const send = (outcome) => async () => {
    const given = outcome === "happened" ? read() : {};
    if (given && await give({ outcome, ...given })) say(_("Answered."));
  };
  return html`<div class="stack grow">${field}
    <div class="row wrap"><button class="main" onClick=${send("happened")}>${_("It happened")}</button>
      <button disabled=${isUnderWay(data)} onClick=${send("not_happened")}>${_("It did not; do it")}</button><button class="harm" onClick=${send("give_up")}>${_("Give up")}</button>
      ${isUnderWay(data) && html`<small class="soft">${_("“It did not” can be said {when}", { when: ahead(data.lands_until) })}</small>`}</div></div>`;
}

/** The same deed was done before: do it again, use what it gave, or stop. */
function Repeat({ item, send: give, again, stop, isBusy, children }) {
  const { earlier } = item.question;
  const isKnown = "result" in earlier || earlier.is_shortened;
  const [field, read] = useResult(_("To use what it gave: what was it? (JSON, may stay empty)"));
  const use = async () => {
    const given = isKnown ? {} : read();
    if (given && await give({ outcome: "use", ...given })) say(_("Answered."));
  };
  return html`<div class="stack grow">${!isKnown && field}
    <div class="row wrap"><button disabled=${isBusy} onClick=${again}>${_("Do it again")}</button>
      <button class="main" disabled=${isBusy} onClick=${use}>${_("Use that result")}</button>
      <button class="harm" onClick=${stop}>${_("Stop…")} <kbd>r</kbd></button>${children}</div></div>`;
}

/** An answer that must be signed is given in a terminal: the commands instead of buttons. */
function Signed({ item }) {
  const { question, run_id: runId } = item;
  const about = [runId, question.contract_id].map((word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
  const yes = question.reason === "outcome_unknown" ? ["happened", "not-happened", "give-up"].map((outcome) => `answer ${about} --outcome ${outcome}`)
    : [question.reason === "form" ? `answer ${about} --data JSON` : `approve ${about}`, ...(question.earlier ? [`answer ${about} --outcome use`] : []), `reject ${about}`];
  return html`<div class="stack grow"><div class="note" role="note">${_("The answer must be signed with your SSH key, in a terminal:")}</div>
    ${yes.map((words) => html`<code class="mono"><${Text} value=${`detent ${words} --sign`} /></code>`)}</div>`;
}

function Deciding({ item, takesKeys: isWatching, onDecided }) {
  const { question } = item;
  const send = (said) => answer(item, said, onDecided);
  const takesKeys = isWatching && mayAnswer(question);
  const [mode, setMode] = useState("");
  const [busy, setBusy] = useState(false);
  const approveButton = useRef(null);
  const isForm = question.reason === "form";
  const isDoubt = question.reason === "outcome_unknown";
  const isRepeat = Boolean(question.earlier);
  const back = () => { setMode(""); };
  useKeys(takesKeys && !question.require_signature ? {
    a: () => { setMode(""); setTimeout(() => approveButton.current?.focus(), 0); },
    r: () => setMode("reject"),
    e: () => { if (!isDoubt) setMode("edit"); },
    Escape: back,
  } : {});
  const approve = async () => {
    setBusy(true);
    if (await send({ approved: true })) say(_("Approved.")); else setBusy(false);
  };
  if (question.require_signature) return html`<div class="deciding"><${Signed} item=${item} /></div>`;
  if (isDoubt) return html`<div class="deciding"><${Doubt} item=${item} send=${send} /></div>`;
  if (mode === "reject") return html`<div class="deciding"><${Reject} item=${item} send=${send} back=${back} isStop=${isRepeat} /></div>`;
  if (isForm) {
    return html`<div class="deciding"><${Fill} item=${item} send=${send} isForm=${true} isWanted=${mode === "edit"}>
      ${isRepeat && html`<button type="button" onClick=${() => send({ outcome: "use" })}>${_("Use that result")}</button>`}
      <button type="button" class="harm" onClick=${() => setMode("reject")}>${_("Reject…")} <kbd>r</kbd></button></${Fill}></div>`;
  }
  if (mode === "edit") return html`<div class="deciding"><${Fill} item=${item} send=${send} back=${back} isForm=${false} /></div>`;
  const edit = Object.keys(question.call.input).length > 0 && html`<button onClick=${() => setMode("edit")}>${_("Edit…")} <kbd>e</kbd></button>`;
  if (isRepeat) return html`<div class="deciding"><${Repeat} item=${item} send=${send} again=${approve} stop=${() => setMode("reject")} isBusy=${busy}>${edit}</${Repeat}></div>`;
  return html`<div class="deciding">
    <button class="main" ref=${approveButton} disabled=${busy} onClick=${approve}>${_("Approve")} <kbd>a</kbd></button>
    <button class="harm" onClick=${() => setMode("reject")}>${_("Reject…")} <kbd>r</kbd></button>
    ${edit}${((question.call.effect !== "ask" && item.kind !== "pure") || item.on_yes?.does?.length > 0) && html`<small class="soft once">${item.kind === "irreversible" ? _("There is no undo: what is approved is done.") : _("There is no undo.")}</small>`}</div>`;
}

/** What the policy in force says to the call, before anybody presses anything. */
function PolicySays({ item }) {
  const { policy, rule } = item;
  if (policy?.decision === "deny") return html`<div class="part"><div class="note harm" role="note"><span><b>${_("The policy denies this call:")}</b> <code><${Text} value=${policy.rule} /></code> <${Text} value=${policy.message || ""} /> ${_("A yes would not make it go through.")}</span></div></div>`;
  const says = { allow: _("The policy lets this call through:"), ask: _("The policy wants somebody to be asked; your yes lets the call through:"), later: _("The policy goes by what the call touches, and decides once more when it is made."), next: _("A yes calls nothing by itself. The policy decides about each call that follows when it is made.") }[policy?.decision];
  if (!rule && !says) return null;
  return html`<div class="part"><div class="about">${rule && html`<span>${_("Asked by the policy, rule")} <code><${Text} value=${rule} /></code></span>`}
    ${says && !(rule && policy.rule === rule) && html`<span>${says} ${policy.rule && html`<code><${Text} value=${policy.rule} /></code>`}</span>`}</div></div>`;
}

function ExactCall({ question, isFolded }) {
  const { call: asked } = question;
  const title = html`${_("The exact call")} <span class="faint mono" title=${question.call_hash}>${question.call_hash.slice(0, 12)}</span>`;
  const body = html`<div class="call"><div class="effect"><${Text} value=${asked.effect} /></div>
    ${Object.keys(asked.input).length > 0 ? html`<${Value} value=${asked.input} />` : html`<span class="faint">${_("without arguments")}</span>`}</div>`;
  return isFolded ? html`<details><summary>${title}</summary>${body}</details>` : html`<h3>${title}</h3>${body}`;
}

export function Question({ item, decided = null, takesKeys = false, isBare = false, onDecided, next, isFocused = false }) {
  const card = useRef(null);
  const key = item ? [item.run_id, item.shown, (item.question.answered || []).length, String(item.question.may?.answer), String(Boolean(decided))].join(" ") : "";
  const [isDead, guard] = useGuard(key);
  const [chosen, setChosen] = useState(/** @type {{shown?: string, name?: string}} */ ({})); // for whom is answered, chosen for this question and no other
  // Who has just decided goes on with the keyboard from here; nobody is taken away from a field.
  useEffect(() => { if (isFocused && (document.activeElement === document.body || !document.activeElement)) card.current?.focus({ preventScroll: true }); }, [item?.shown]);
  if (!item) return html`<article class="card question" ref=${card} tabIndex="-1" aria-label=${_("A question that was decided")}><${Decided} decided=${decided} next=${next} /></article>`;
  const { question } = item;
  const name = chosen.shown === item.shown ? chosen.name : firstName(question);
  const setName = (value) => setChosen({ shown: item.shown, name: value });
  const { call: asked } = question;
  const isOwn = asked.effect === "ask";
  const isDoubt = question.reason === "outcome_unknown";
  const isOdd = hasOdd(asked.input) || hasOdd(item.on_yes?.does) || hasOdd(question.question);
  const shown = ["arguments", "value", "choices", "key", ...(isDoubt ? OWN : [])];
  const data = Object.fromEntries(Object.entries(question.data || {}).filter(([name]) => !shown.includes(name)));
  // Who asks in the middle of harmless work says by itself what is to be decided; how it was called is not.
  const isFolded = question.reason === "approval" && item.kind !== "irreversible" && Object.keys(data).length > 0;
  return html`<article class=${`card question ${decided ? "over" : ""}`} ref=${card} tabIndex="-1" aria-label=${questionText(question)}>
    <div class="top">
      ${!isBare && html`<div class="about"><a href=${address(["runs", item.run_id])}><${Text} value=${item.title || item.machine} /></a>
        <span><span class="state"><${Text} value=${item.state} /></span></span>
        <time datetime=${iso(question.since)} title=${moment(question.since)}>${age(question.since)}</time></div>`}
      <div class=${`asks ${(question.question || "").length > LONG ? "long" : ""}`} role="heading" aria-level="2"><${Text} value=${question.question ? questionText(question) : _("May {action} go ahead?", { action: question.action })} /></div>
      <div class="about">
        ${item.asked_by && html`<span><${Said} text=${_("started by {who}")} who=${item.asked_by} /></span>`}
        <span class="faint mono"><${Text} value=${question.contract_id} /></span>
        ${item.attempt > 1 && html`<span class="tag warn">${_("attempt {count}", { count: item.attempt })}</span>`}
        ${!isOwn && item.kind && html`<span class=${`tag ${item.kind === "irreversible" ? "harm" : ""}`}>${KINDS()[item.kind] || item.kind}</span>`}
        ${question.expires_at && html`<span class="tag warn" title=${moment(question.expires_at)}>${_("expires {when}", { when: ahead(question.expires_at) })}</span>`}
        ${question.approvers?.length > 0 && html`<span>${_("for {names}", { names: question.approvers.join(", ") })}</span>`}
        ${question.require_signature && html`<span class="tag warn">${_("signature needed")}</span>`}
        ${question.quorum > 1 && html`<span class="tag here">${_("{done} of {count} have approved", { done: (question.answered || question.approved_by || []).length, count: question.quorum })}</span>`}
      </div></div>
    ${isOdd && html`<div class="part"><div class="note harm" role="note">${_("This holds characters that are invisible, turn text around or look like other letters. They are marked.")}</div></div>`}
    ${isDoubt && html`<${Doubtful} data=${question.data || {}} />`}
    ${question.earlier && html`<${Earlier} earlier=${question.earlier} />`}
    ${Object.keys(data).length > 0 && html`<div class="part"><h3>${_("Why it asks")}</h3><${Value} value=${data} /></div>`}
    ${!(isOwn && !Object.keys(asked.input).length) && html`<div class="part"><${ExactCall} question=${question} isFolded=${isFolded} /></div>`}
    ${isOwn && item.on_yes?.does?.length > 0 && html`<div class="part"><h3>${_("What is done then")}</h3>${item.on_yes.does.map((one) => html`<div class="call"><div class="effect"><${Text} value=${one.effect} /></div>
      ${Object.keys(one.input).length > 0 && html`<${Value} value=${one.input} />`}</div>`)}</div>`}
    ${(item.on_yes || item.on_no) && html`<div class="part follows">
      <${Follow} title=${question.reason === "form" ? _("When it is filled in") : isDoubt ? _("If it happened, or is done now") : question.earlier ? _("If it is done again, or its result used") : _("On yes")} follow=${item.on_yes} isOneOfTwo=${isDoubt || Boolean(question.earlier)} />
      <${Follow} title=${isDoubt ? _("If you give up") : question.earlier ? _("If you stop") : _("On no")} follow=${item.on_no} isNo=${true} /></div>`}
    <${PolicySays} item=${item} />
    ${!decided && html`<${Standing} question=${question} /><${AnswerAs} question=${question} name=${name} change=${setName} />`}
    <fieldset class=${`answering ${isDead ? "dead" : ""}`} ...${guard} disabled=${!decided && !mayAnswer(question)} aria-disabled=${isDead ? "true" : undefined} aria-describedby=${mayAnswer(question) ? undefined : whyId(question)}>
      ${decided ? html`<${Decided} decided=${decided} next=${next} />` : html`<${Deciding} key=${`${item.run_id} ${item.shown}`} item=${name ? { ...item, by: name } : item} takesKeys=${takesKeys} onDecided=${onDecided} />`}</fieldset>
    ${item.similar > 1 && !decided && mayAnswer(question) && html`<div class="part"><a href=${address(["many", item.run_id, question.contract_id])}>${_("Approve many: {count} ask the same", { count: item.similar })}</a></div>`}
  </article>`;
}
