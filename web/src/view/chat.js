// Chat: what was said, with the tools' contracts between the words; a question of a tool is answered where it stands.
import { html, useEffect } from "../lib.js";
import { _ } from "../language.js";
import { inbox } from "../feed.js";
import { Question } from "../question.js";
import { Status } from "../status.js";
import { Text } from "../text.js";
import { Value } from "../value.js";

export const name = "chat";
export const title = () => _("Conversation");
export const fits = (run) => run.machine === "assistant";

function Tool({ life, store }) {
  const { contract } = life;
  const item = contract.status === "waiting" && !store.past.value && inbox.value?.find((one) => one.run_id === store.run.value.run_id && one.question.contract_id === contract.id);
  if (item) return html`<${Question} item=${item} takesKeys=${true} isBare=${true} />`;
  return html`<div class="say tool"><details><summary class="contract row"><code><${Text} value=${contract.effect} /></code><${Status} status=${contract.status} />${contract.kind === "irreversible" && html`<span class="tag harm">${_("cannot be taken back")}</span>`}</summary>
    <div class="contract"><${Value} value=${contract.input || {}} />${contract.result !== undefined && contract.result !== null && html`<${Value} value=${contract.result} />`}${contract.error && html`<div class="wrong"><${Text} value=${`${contract.error.type} ${contract.error.message || ""}`} /></div>`}</div></details></div>`;
}

export function View({ store }) {
  useEffect(() => store.wantLives(), [store]);
  const run = store.shown.value;
  const { context } = run;
  const upto = store.past.value?.seq || Infinity;
  const own = (store.lives.value?.contracts || []).filter((life) => !/^(assistant\.|llm$)/.test(life.contract.effect) && !["", "set", "log", "choose", "wait"].includes(life.contract.effect) && (life.moves[0]?.seq ?? 0) <= upto);
  const said = [...(Array.isArray(context.history) ? context.history : []), { role: "user", content: context.message || "" }].filter((one) => one.content);
  const streamed = [...store.voices.value.values()].flat().map((one) => one.text ?? one.delta ?? "").join("");
  const reply = context.response || streamed;
  return html`<div class="talk" role="log" aria-label=${_("Conversation")}>
    ${said.map((one, at) => html`<div key=${at} class=${`say ${one.role}`}><span class="unseen">${one.role === "user" ? _("You") : _("Assistant")}: </span><${Text} value=${typeof one.content === "string" ? one.content : JSON.stringify(one.content)} /></div>`)}
    ${own.map((life) => html`<${Tool} key=${life.contract.id} life=${life} store=${store} />`)}
    ${reply && html`<div class="say assistant"><span class="unseen">${_("Assistant")}: </span><${Text} value=${reply} /></div>`}
    ${!reply && run.status === "running" && html`<p class="faint" role="status">${_("thinking…")}</p>`}</div>`;
}
