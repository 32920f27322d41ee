// The inbox: everything that waits for a person, oldest first.
import { effect, html, useEffect } from "./lib.js";
import { _ } from "./language.js";
import { askPermission, gone, inbox, permission } from "./feed.js";
import { age, iso, moment } from "./format.js";
import { useKeys } from "./key.js";
import { Question } from "./question.js";
import { address, go, place } from "./route.js";
import { Text } from "./text.js";
import { say } from "./toast.js";

const isSame = (item, runId, contractId) => item.run_id === runId && item.question.contract_id === contractId;
const wide = matchMedia("(min-width: 981px)");

function Quiet() {
  return html`<div class="card empty">
    <svg viewBox="0 0 64 64" fill="none" aria-hidden="true"><path d="M8 30h14a10 10 0 0 0 20 0h14v20a3 3 0 0 1-3 3H11a3 3 0 0 1-3-3z" stroke="var(--edge)" stroke-width="2"/><circle cx="32" cy="24" r="9" stroke="var(--green)" stroke-width="2.5"/><path d="m28 24 3 3 5-6" stroke="var(--green)" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"/></svg>
    <h2>${_("Nothing waits for you")}</h2><p>${_("A question appears here the moment a run asks it.")}</p></div>`;
}

export function Inbox() {
  const items = inbox.value;
  const [, runId, contractId] = place.value.parts;
  const isChosen = Boolean(runId);
  const at = items ? items.findIndex((item) => isSame(item, runId, contractId)) : -1;
  const shown = items && (at >= 0 ? items[at] : !isChosen || wide.matches ? items[0] : null);
  const isDecided = isChosen && items && at < 0;
  const choose = (item) => item && go(["inbox", item.run_id, item.question.contract_id]);
  const index = items && shown ? items.indexOf(shown) : -1;
  useKeys({
    j: () => choose(items?.[Math.min(index + 1, items.length - 1)]),
    k: () => choose(items?.[Math.max(index - 1, 0)]),
  });
  // The open question was decided elsewhere: say so, and go on with the next.
  useEffect(() => effect(() => {
    const decided = gone.value;
    if (!decided) return;
    const [, openRun, openContract] = place.peek().parts;
    if (isSame(decided, openRun, openContract)) {
      const next = inbox.peek()?.[0];
      if (next && wide.matches) choose(next); else go(["inbox"]);
    }
  }), []);
  return html`<header><div class="grow"><h1>${_("Inbox")}</h1>
      <p class="lede">${items ? (items.length ? _("{count} waiting for a decision, oldest first", { count: items.length }) : _("All decided")) : ""}</p></div>
      ${permission.value === "default" && html`<button class="small" onClick=${() => askPermission().then(() => permission.value === "granted" && say(_("You will be notified while this page is in the background.")))}>${_("Notify me")}</button>`}</header>
    ${!items ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`
    : !items.length ? html`<${Quiet} />`
      : html`<div class=${`inbox ${isChosen && shown ? "one" : "none"}`}>
        <nav class="queue" aria-label=${_("Questions")}>${items.map((item) => html`<a key=${`${item.run_id} ${item.question.contract_id}`}
          href=${address(["inbox", item.run_id, item.question.contract_id])} aria-current=${item === shown ? "true" : undefined}>
          <span class="asks"><${Text} value=${item.question.question || item.question.action} /></span>
          <span class="meta"><span class="cut"><${Text} value=${item.title || item.machine} /></span>
            <time datetime=${iso(item.question.since)} title=${moment(item.question.since)}>${age(item.question.since)}</time></span></a>`)}</nav>
        <div class="detail stack">${isDecided && !wide.matches && html`<div class="note good">${_("This was decided already.")}</div>`}
          ${isChosen && html`<a class="back" href="#/inbox">← ${_("All questions")}</a>`}
          ${shown && html`<${Question} item=${shown} takesKeys=${true} />`}</div></div>`}`;
}
