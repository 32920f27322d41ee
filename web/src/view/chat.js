// Chat: what was said, with the tools' contracts between the words; a question of a tool is answered where it stands.
import { readAnswer } from "../answer.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { _ } from "../language.js";
import { useItem } from "../item.js";
import { Markdown } from "../markdown.js";
import { Question } from "../question.js";
import { Status, isOver } from "../status.js";
import { Sentence } from "../sentence.js";
import { Text } from "../text.js";
import { brief } from "../secret.js";
import { Value } from "../value.js";
import { isVerbose } from "../slash.js";
import { call } from "../wire.js";

const INNER = /^(assistant\.(?!form$)|llm$|set$|log$|choose$|wait$|$)/;

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

/** Images among what a tool gave or somebody attached. */
export function picture(value, depth = 0) {
  if (!value || typeof value !== "object" || depth > 6) return [];
  const { data, type } = value;
  const media = value.media_type || value.mimeType || value.mime_type;
  if (typeof data === "string" && IMAGE.test(media) && BASE64.test(data) && (type === undefined || type === "image")) return [`data:${media};base64,${data}`];
  return Object.values(value).flatMap((inner) => picture(inner, depth + 1)).slice(0, 8);
}

const Pictures = ({ of }) => picture(of).map((source) => html`<img class="shown" src=${source} alt=${_("an image")} loading="lazy" />`);

/** What a call would change in a file, before somebody says yes to it. */
function Change({ run, contract }) {
  const [lines, setLines] = useState([]);
  useEffect(() => {
    const abort = new AbortController();
    call(`/api/runs/${encodeURIComponent(run)}/changes?contract=${encodeURIComponent(contract.id)}`, undefined, abort).then((found) => setLines(found.lines)).catch(() => {});
    return () => abort.abort();
  }, [run, contract.id, contract.question?.since]);
  return lines.length > 0 && html`<pre class="diff" aria-label=${_("what it would change")}>${lines.map((line) => html`<span class=${{ "+": "added", "-": "gone" }[line[0]] || "faint"}><${Text} value=${`${line}\n`} /></span>`)}</pre>`;
}

function Tool({ life, store, takesKeys }) {
  const { contract } = life;
  // A card that somebody else decides stays where it is and says so; one's own decision makes room for what came of it.
  const [own, setOwn] = useState(0); // when the question was asked that was decided here
  const wasAsked = useRef(false);
  const isAsking = contract.status === "waiting" && !store.past.value && contract.question?.since !== own;
  wasAsked.current = isAsking || (wasAsked.current && !own && !store.past.value);
  const { item, decided } = useItem(wasAsked.current ? store.run.value.run_id : "", wasAsked.current ? contract.id : "");
  const card = wasAsked.current && item && html`<${Question} item=${item} decided=${decided} takesKeys=${takesKeys && !decided} isBare=${true} onDecided=${() => setOwn(item.question.since)} />`;
  if (isAsking && card) return html`<${Change} run=${store.run.value.run_id} contract=${contract} />${card}`;
  if (contract.effect === "assistant.form") return card || null;
  const said = isOver(contract.status) ? "" : [...store.voices.value].filter(([id]) => id === contract.id).map(([, told]) => told.at(-1)).map((one) => one?.text || one?.message || (one?.progress ?? "")).join("");
  return html`${card}<div class="say tool"><details><summary class="contract row"><code><${Text} value=${contract.effect} /></code><span class="faint cut grow"><${Text} value=${said ? brief(String(said), 80) : brief(contract.input || {}, 80)} /></span>${isVerbose.value && html`<span class="faint mono"><${Text} value=${`${contract.id} ${["pending", ...life.moves.map((move) => move.status)].join(" → ")}`} /></span>`}<${Status} status=${contract.status} />${contract.kind === "irreversible" && html`<span class="tag harm">${_("cannot be taken back")}</span>`}</summary>
    <${Pictures} of=${contract.result} /><div class="contract"><${Value} value=${contract.input || {}} />${contract.result !== undefined && contract.result !== null && html`<div><h3>${_("Result")}</h3><${Value} value=${contract.result} /></div>`}${contract.error && html`<div class="wrong"><${Text} value=${`${contract.error.type} ${contract.error.message || ""}`} /></div>`}</div></details></div>`;
}

function Saying({ who, text }) {
  return html`<div class=${`say ${who}`}><span class="unseen">${who === "user" ? _("You") : _("Assistant")}: </span>${who === "assistant" && typeof text === "string" ? html`<${Markdown} text=${text} />` : html`<${Text} value=${typeof text === "string" ? text : JSON.stringify(text)} />`}</div>`;
}

/** One turn: the message, what tools did about it, and the reply. */
export function Turn({ store, takesKeys = true }) {
  useEffect(() => store.wantLives(), [store]);
  const run = store.shown.value;
  const { context } = run;
  const upto = store.past.value?.seq || Infinity;
  const own = (store.lives.value?.contracts || []).filter((life) => !INNER.test(life.contract.effect) && (life.moves[0]?.seq ?? 0) <= upto);
  // Only the thinking speaks to the person; what else asks a model does so for itself.
  const streamed = [...store.voices.value].filter(([id]) => id.startsWith("reasoning/think/")).map(([, said]) => readAnswer(said.map((one) => one.text ?? one.delta ?? "").join(""))).join("\n\n").trim();
  // Before a tool has done its work, the words are about what it is going to do.
  const isBefore = run.status === "waiting" || run.state === "tools";
  const reply = streamed || context.response;
  const words = reply && html`<${Saying} who="assistant" text=${reply} />`;
  const isSummary = context.message === "" && isOver(run.status);
  return html`${isSummary && html`<p class="faint">${_("The conversation so far was summarised here.")}</p>`}${context.message && html`<${Saying} who="user" text=${context.message} />`}${context.images?.length > 0 && html`<div class="attached"><${Pictures} of=${context.images} /></div>`}
    ${isBefore && words}${own.map((life) => html`<${Tool} key=${life.contract.id} life=${life} store=${store} takesKeys=${takesKeys} />`)}${!isBefore && words}
    ${run.status === "running" && !streamed && html`<p class="faint" role="status">${_("thinking…")}</p>`}
    ${isOver(run.status) && run.status !== "completed" && html`<div class="note harm" role="alert"><div><${Status} status=${run.status} /> <${Sentence} text=${run.error?.message} /></div></div>`}`;
}

export function View({ store }) {
  const { context } = store.shown.value;
  const said = (Array.isArray(context.history) ? context.history : []).filter((one) => one.content && one.role !== "system");
  return html`<div class="talk" role="log" aria-label=${_("Conversation")}>
    ${said.map((one, at) => html`<${Saying} key=${at} who=${one.role} text=${one.content} />`)}
    <${Turn} store=${store} /></div>`;
}
