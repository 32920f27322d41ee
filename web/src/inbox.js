// The inbox: every open question in a list that stands still, and one of them as a card that never becomes another.
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { _ } from "./language.js";
import { askPermission, permission } from "./feed.js";
import { useItem } from "./item.js";
import { useKeys } from "./key.js";
import { Question } from "./question.js";
import { address, go, place, replace, tune } from "./route.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { AGES, DIMENSIONS, Groups, Queue } from "./desk/queue.js";
import { Offer, countDecision } from "./desk/rule.js";
import { FILTERS, GROUPS, keyOf, openDesk } from "./desk/store.js";
import { call } from "./wire.js";

const wide = matchMedia("(min-width: 981px)");

function Quiet({ isFiltered }) {
  return html`<div class="card empty">
    <svg viewBox="0 0 64 64" fill="none" aria-hidden="true"><path d="M8 30h14a10 10 0 0 0 20 0h14v20a3 3 0 0 1-3 3H11a3 3 0 0 1-3-3z" stroke="var(--edge)" stroke-width="2"/><circle cx="32" cy="24" r="9" stroke="var(--green)" stroke-width="2.5"/><path d="m28 24 3 3 5-6" stroke="var(--green)" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"/></svg>
    ${isFiltered ? html`<h2>${_("Nothing here fits the filter")}</h2><p><a href="#/inbox">${_("All questions")}</a></p>`
    : html`<h2>${_("Nothing waits for you")}</h2><p>${_("A question appears here the moment a run asks it.")}</p><p><a href="#/definitions">${_("Start a run")}</a></p>`}</div>`;
}

function Filters({ desk, values }) {
  const chips = FILTERS.filter((name) => name !== "text" && values[name]);
  const gone = desk.decided.value.size;
  const timer = useRef(0);
  const search = (event) => { const text = event.target.value; clearTimeout(timer.current); timer.current = setTimeout(() => tune({ text }), 250); };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<div class="desk-filters">
    <input type="search" aria-label=${_("Search the questions")} placeholder=${_("Search")} defaultValue=${values.text} value=${values.text} onInput=${search} />
    <select aria-label=${_("Group by")} value=${values.group} onChange=${(event) => tune({ group: event.target.value })}>
      <option value="">${_("not grouped")}</option>${GROUPS.map((name) => html`<option value=${name}>${_("by {what}", { what: DIMENSIONS()[name] })}</option>`)}</select>
    <div class="chips" role="group" aria-label=${_("Filter")}>${chips.map((name) => html`<button key=${name} class="chip" onClick=${() => tune({ [name]: "" })} aria-label=${_("remove {name}", { name: values[name] })}>
      <span class="faint">${DIMENSIONS()[name]}</span> <span class="cut"><${Text} value=${name === "age" ? AGES()[values[name]] || values[name] : values[name]} /></span> <span aria-hidden="true">×</span></button>`)}
      <button class="chip clear" disabled=${!gone} onClick=${() => desk.renew()}>${_("Clear {count} decided", { count: gone })}</button></div></div>`;
}

const countOf = (desk, isFiltered) => {
  if (desk.matching.value === null) return "";
  if (!desk.total.value) return _("All decided");
  const count = desk.total.value.toLocaleString();
  return isFiltered ? _("{shown} of {count} waiting for a decision, oldest first", { shown: desk.open.value.toLocaleString(), count })
    : _("{count} waiting for a decision, oldest first", { count });
};

/** An address that names only a run leads to its first question; else it is said why not. */
function useFirstQuestion(runId, contractId, values) {
  const [lost, setLost] = useState("");
  useEffect(() => {
    setLost("");
    if (!runId || contractId) return;
    call(`/api/runs/${encodeURIComponent(runId)}`).then(({ run_id: id, waiting: [one] }) => {
      if (one) replace(["inbox", id, one.contract_id], values); else setLost(_("This run asks nothing now."));
    }, (error) => setLost(error.message));
  }, [runId, contractId]);
  return lost;
}

export function Inbox() {
  const { parts: [, runId, contractId], query } = place.value;
  const values = Object.fromEntries([...FILTERS, "group"].map((name) => [name, query.get(name) || ""]));
  const wanted = JSON.stringify(values);
  const desk = useMemo(() => openDesk(values, values.group), [wanted]);
  useEffect(() => () => desk.close(), [desk]);
  const chosen = runId ? `${runId} ${contractId}` : "";
  const { item, decided, trouble: unknown } = useItem(runId, contractId);
  const trouble = useFirstQuestion(runId, contractId, values) || unknown;
  const choose = (line) => line && go(["inbox", line.run_id, line.contract_id], values);
  const step = (by) => {
    const lines = desk.lines.peek();
    const at = lines.findIndex((line) => line && keyOf(line) === chosen);
    choose(lines[Math.min(Math.max(at + by, 0), lines.length - 1)]);
  };
  const next = async () => {
    const line = await desk.next(chosen);
    if (line) choose(line); else go(["inbox"], values);
  };
  useKeys({ j: () => step(1), k: () => step(-1), n: next });
  const isFiltered = FILTERS.some((name) => values[name]);
  const lines = desk.lines.value;
  const isGrouped = Boolean(values.group);
  // With room for both, the first question is opened, and from then on it is in the address: it stays whatever comes.
  const first = !runId && !isGrouped && wide.matches ? lines.find((line) => line && !desk.decided.value.has(keyOf(line))) : null;
  useEffect(() => { if (first) replace(["inbox", first.run_id, first.contract_id], values); }, [first]);
  useEffect(() => { if (decided && chosen && !desk.decided.peek().get(chosen)?.by) desk.settle(chosen, decided); }, [decided, chosen]);
  const onDecided = (said) => { desk.settle(chosen, said); countDecision(item, said); next(); };
  const isEmpty = desk.matching.value === 0 && !runId;
  const isLoading = desk.matching.value === null;
  const isAllDecided = !runId && !isLoading && !isGrouped && lines.length > 0 && !desk.open.value;
  return html`<header><div class="grow"><h1>${_("Inbox")}</h1><p class="lede">${countOf(desk, isFiltered)}</p></div>
      ${permission.value === "default" && html`<button class="small" onClick=${() => askPermission().then(() => permission.value === "granted" && say(_("You will be notified while this page is in the background.")))}>${_("Notify me")}</button>`}</header>
    ${isLoading ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`
    : isEmpty && !isFiltered && !isGrouped ? html`<${Quiet} />`
      : html`<div class=${`inbox ${runId ? "one" : "none"}`}>
        <nav class="queue" aria-label=${_("Questions")}><${Filters} desk=${desk} values=${values} />
          ${isGrouped ? html`<${Groups} desk=${desk} group=${values.group} values=${values} />` : isEmpty && !wide.matches ? html`<${Quiet} isFiltered=${isFiltered && Boolean(desk.total.value)} />` : html`<${Queue} key=${wanted} desk=${desk} chosen=${chosen} values=${values} />`}</nav>
        <div class="detail stack">
          ${runId && html`<a class="back" href=${address(["inbox"], values)}>← ${_("All questions")}</a>`}
          ${runId && trouble && html`<div class="card empty"><h2>${_("There is no such question")}</h2><p><${Text} value=${trouble} /></p></div>`}
          ${runId && !trouble && !item && !decided && html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`}
          ${runId && (item || decided) && html`<${Question} key=${chosen} item=${item} decided=${decided} takesKeys=${true} onDecided=${onDecided} next=${next} isFocused=${Boolean(item)} />`}
          ${!runId && (isAllDecided || (isEmpty && wide.matches)) && html`<${Quiet} isFiltered=${isFiltered && Boolean(desk.total.value)} />`}
          ${!runId && isGrouped && wide.matches && desk.groups.value.length > 0 && html`<div class="card empty"><h2>${_("Choose a group")}</h2><p>${_("It opens as a list of its questions, oldest first.")}</p></div>`}
          <${Offer} /></div></div>`}`;
}
