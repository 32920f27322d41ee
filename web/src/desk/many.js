// Approve many: questions of one action side by side, of which only what differs is shown. Each gets its own answer.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { _ } from "../language.js";
import { moved } from "../feed.js";
import { age, moment } from "../format.js";
import { useGuard } from "../guard.js";
import { itemPath } from "../item.js";
import { mayAnswer } from "../permission.js";
import { address, place } from "../route.js";
import { Text, hasOdd } from "../text.js";
import { say } from "../toast.js";
import { differences, windows } from "./difference.js";
import { COVER, SECRET } from "../secret.js";
import { call, query } from "../wire.js";

const AT_ONCE = 50; // the server takes no more
const LEAF = 200; // letters of a value in a cell
const keyOf = (item) => `${item.run_id} ${item.question.contract_id}`;

// What looks secret is covered, as everywhere; that two of them differ is still seen.
// A text is shown without its quotes, unless it could be taken for a number or another value.
const plain = (text) => { const value = JSON.parse(text || "null"); return typeof value === "string" && !/^(-?\d|true$|false$|null$|[[{"]|$)/.test(value) ? value : text; };
const isSecret = (path) => SECRET.test(path.split(".").pop());
/** What is shown of the values under one path: cut where they are long, and never so that a difference is cut away. */
function columnOf(path, texts) {
  const given = texts.map((text) => (text === undefined ? "—" : isSecret(path) ? COVER : plain(text)));
  const shown = windows(given, LEAF);
  return given.map((text) => shown.get(text));
}

function Table({ items, chosen, toggle, results, isBusy }) {
  const { each, differing, common } = differences(items.map((item) => ({ question: item.question.question, ...item.question.call.input })));
  const columns = new Map(differing.map((path) => [path, columnOf(path, each.map((one) => one.get(path)))]));
  return html`<div class="part"><h2>${_("The same in all")}</h2>${common.length ? html`<dl class="facts">${common.map(([path, text]) => html`<dt><${Text} value=${path} /></dt><dd class="mono"><${Text} value=${columnOf(path, [text])[0]} /></dd>`)}</dl>` : html`<span class="faint">${_("nothing")}</span>`}</div>
    <div class="part wide"><h2>${_("What differs")}</h2><div class="scroll" tabIndex="0" role="region" aria-label=${_("What differs")}><table class="many"><thead><tr><th scope="col"><span class="unseen">${_("chosen")}</span></th>${differing.map((path) => html`<th key=${path}><${Text} value=${path} /></th>`)}<th>${_("requester")}</th><th>${_("age")}</th></tr></thead>
    <tbody>${items.map((item, index) => {
    const key = keyOf(item);
    const became = results.get(key);
    return html`<tr key=${key} class=${became ? (became.is_taken ? "taken" : "left") : ""}><td>${became ? html`<span class=${`tag ${became.is_taken ? "good" : "warn"}`} title=${became.problem || undefined}>${became.is_taken ? _("approved") : _("not taken")}</span>`
      : html`<input type="checkbox" aria-label=${_("approve {run}", { run: item.run_id })} checked=${chosen.has(key)} disabled=${isBusy || !mayAnswer(item.question)} onChange=${() => toggle(key)} />`}</td>
      ${differing.map((path) => html`<td key=${path} class="mono"><${Text} value=${columns.get(path)[index]} /></td>`)}
      <td><${Text} value=${item.asked_by || ""} /></td><td><a href=${address(["inbox", item.run_id, item.question.contract_id])} title=${moment(item.question.since)}>${age(item.question.since)}</a>${became?.problem && html`<div class="wrong"><${Text} value=${became.problem} /></div>`}</td></tr>`;
  })}</tbody></table></div></div>`;
}

export function Many() {
  const [, runId, contractId] = place.value.parts;
  const [items, setItems] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [chosen, setChosen] = useState(new Set());
  const [results, setResults] = useState(new Map());
  const [comment, setComment] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [isDead, { onClickCapture: _free, ...guard }] = useGuard(`${runId} ${contractId} ${items ? items.length : ""}`); // choosing is harmless
  useEffect(() => {
    let isOver = false;
    (async () => {
      try {
        const { item } = await call(itemPath(runId, contractId));
        if (!item) throw new Error(_("This was decided already."));
        const found = await call(`/api/inbox${query({ digest: item.digest, action: item.question.action, batch: true, limit: AT_ONCE })}`);
        const rest = found.items.filter((one) => keyOf(one) !== keyOf(item));
        if (!isOver) setItems([item, ...rest].slice(0, AT_ONCE));
      } catch (error) { if (!isOver) setTrouble(error.message); }
    })();
    return () => { isOver = true; };
  }, [runId, contractId]);
  // What somebody else decides meanwhile stays in its row, and is no longer chosen.
  const lines = moved.value;
  useEffect(() => {
    const gone = (items || []).filter((item) => { const line = lines.find((one) => one.run_id === item.run_id); return line && !results.has(keyOf(item)) && !line.waiting.some((one) => one.contract_id === item.question.contract_id); });
    if (!gone.length || isBusy) return;
    setResults(new Map([...results, ...gone.map((item) => [keyOf(item), { is_taken: false, problem: _("decided elsewhere") }])]));
    setChosen(new Set([...chosen].filter((key) => !gone.some((item) => keyOf(item) === key))));
  }, [lines, isBusy]);
  const open = useMemo(() => (items || []).filter((item) => !results.has(keyOf(item)) && mayAnswer(item.question)), [items, results]);
  if (trouble) return html`<div class="card empty"><h2>${_("These cannot be approved together")}</h2><p><${Text} value=${trouble} /></p><p><a href="#/inbox">${_("Inbox")}</a></p></div>`;
  if (!items) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  const toggle = (key) => { const next = new Set(chosen); if (!next.delete(key)) next.add(key); setChosen(next); };
  const send = async (event) => {
    event.preventDefault();
    const wanted = items.filter((item) => chosen.has(keyOf(item)) && !results.has(keyOf(item)));
    setBusy(true);
    try {
      const report = await call("/api/inbox/approve", { comment, items: wanted.map((item) => ({ run_id: item.run_id, contract_id: item.question.contract_id, call_hash: item.question.call_hash, shown: item.shown })) });
      setResults(new Map([...results, ...report.answers.map((one) => [`${one.run_id} ${one.contract_id}`, one])]));
      setChosen(new Set());
      say(_("{taken} of {count} approved.", { taken: report.taken, count: wanted.length }));
    } catch (error) { say(error.message, "harm"); }
    setBusy(false);
  };
  const [{ question, title, machine }] = items;
  const isOdd = items.some((item) => hasOdd(item.question.call.input) || hasOdd(item.question.question));
  return html`<header><div class="grow"><h1>${_("Approve many")}</h1><p class="lede"><${Text} value=${title || machine} /> · <code><${Text} value=${question.action} /></code> · <code><${Text} value=${question.call.effect} /></code></p></div><a href="#/inbox">${_("Inbox")}</a></header>
    <form class="card question" onSubmit=${send} ...${guard}>
      ${isOdd && html`<div class="part"><div class="note harm" role="note">${_("This holds characters that are invisible, turn text around or look like other letters. They are marked.")}</div></div>`}
      <${Table} items=${items} chosen=${chosen} toggle=${toggle} results=${results} isBusy=${isBusy} />
      <div class="part"><div class="field"><label for="many-comment">${_("Comment")}</label><input id="many-comment" value=${comment} maxlength="10000" onInput=${(event) => setComment(event.target.value)} placeholder=${_("the same for all of them")} /></div></div>
      <div class=${`deciding ${isDead ? "dead" : ""}`}><button class="main" disabled=${isDead || isBusy || !chosen.size}>${_("Approve {count}", { count: chosen.size })}</button>
        <button type="button" disabled=${isBusy || !open.length} onClick=${() => setChosen(chosen.size === open.length ? new Set() : new Set(open.map(keyOf)))}>${chosen.size === open.length && open.length ? _("Choose none") : _("Choose all {count}", { count: open.length })}</button>
        <small class="soft once">${_("Each gets an answer and an entry of its own. There is no undo.")}</small></div></form>`;
}
