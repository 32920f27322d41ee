// Who may answer a question, who has and who still must: as the server says, before anybody clicks.
import { html } from "./lib.js";
import { _ } from "./language.js";
import { me } from "./me.js";
import { Text } from "./text.js";

const spokenFor = (question) => question.may?.speaks_for || [];
export const mayAnswer = (question) => (question.may?.answer ?? true) || spokenFor(question).length > 0;

/** In whose name an answer is given at first: one's own, unless only somebody else's counts. */
export const firstName = (question) => (question.may?.answer ?? true ? "" : spokenFor(question)[0] || "");

/** The choice of a name, for those who may speak for others; the journal keeps both names. */
export function AnswerAs({ question, name, change }) {
  if (!spokenFor(question).length) return null;
  const id = `as-${whyId(question)}`;
  return html`<div class="part"><div class="field"><label for=${id}>${_("Answer as")}</label>
    <select id=${id} value=${name} onChange=${(event) => change(event.target.value)}>
      ${question.may.answer && html`<option value="">${me.value?.name}</option>`}
      ${spokenFor(question).map((one) => html`<option value=${one}>${_("{who} for {name}", { who: me.value?.name, name: one })}</option>`)}</select></div></div>`;
}

const listed = (names) => names.join(_(", "));
const said = (one) => (one.spoken_by ? _("{who} for {name}", { who: one.spoken_by, name: one.by }) : one.by);

/** The state of an approval in one line, and the reason why you cannot give it. */
export function Standing({ question }) {
  const { may, needed, answered = [], claimed } = question;
  const names = (needed?.names || []).filter((name) => name !== me.value?.name);
  const isCertain = question.quorum > 1 || (question.approvers || []).length > 0 || me.value?.has_people;
  if (!claimed && !isCertain) return null;
  return html`<div class="part standing" role="group" aria-label=${_("Who may answer")}>
    <div class="about">
      ${answered.length > 0 && html`<span class="tag good">${_("Approved: {names}", { names: listed(answered.map(said)) })}</span>`}
      ${may?.answer && me.value?.has_people && html`<span class="tag good">${_("You may answer")}</span>`}
      ${names.length > 0 && html`<span>${may?.answer ? _("also: {names}", { names: listed(names) }) : _("can answer: {names}", { names: listed(names) })}</span>`}
      ${needed && me.value?.has_people && !names.length && !may?.answer && html`<span class="tag harm">${_("nobody can answer this now")}</span>`}
    </div>
    ${may && !mayAnswer(question) && html`<div class="note" role="note" id=${whyId(question)}><span><b>${_("You cannot answer this.")}</b> <${Text} value=${may.why || ""} /></span></div>`}
    ${claimed && html`<div class="note" role="note"><span><b>${_("Names are only claimed here.")}</b> ${_("This asks certain people, and nobody says who is who: anybody at this page counts as one of them.")} <code>detent people add</code></span></div>`}</div>`;
}

export const whyId = (question) => `why-${question.contract_id.replaceAll(/[^\w-]/g, "-")}`;
