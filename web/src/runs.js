// All runs, live; the filter is in the address.
import { html, signal, useEffect, useRef, useSignal } from "./lib.js";
import { _ } from "./language.js";
import { Bulk } from "./bulk.js";
import { mayDo } from "./me.js";
import { moved } from "./feed.js";
import { age, iso, moment, money, now, short } from "./format.js";
import { useKeys } from "./key.js";
import { address, place, tune } from "./route.js";
import { STATUSES, Status, word } from "./status.js";
import { Sentence, questionText, told } from "./sentence.js";
import { Text } from "./text.js";
import { cover } from "./secret.js";
import { call, query, returned } from "./wire.js";

const SPANS = { "": () => _("any time"), 3600: () => _("last hour"), 86400: () => _("last day"), 604800: () => _("last week"), 2592000: () => _("last month") };

const read = (values) => ({
  status: (values.get("status") || "").split(",").filter(Boolean), machine: values.get("machine") || "",
  text: values.get("text") || "", where: values.get("where") || "", sort: values.get("sort") || "", within: values.get("within") || "", top: values.get("top") === "1",
});

const wanted = ({ status, machine, text, within, top }, before = 0) => query({
  status, machine, text, since: within ? Math.floor(Date.now() / 1000 - Number(within)) : "", top, before: before || "", limit: 50,
});

/** What words, expressions and attributes find is the server's index to say; the rest of the filter is put in words too. */
const isSearch = ({ text, where, sort }) => Boolean(text || where || sort);
const sought = (filter, offset = 0) => query({ ...selected(filter), sort: filter.sort, offset: offset || "", limit: 50 });

/** Only a filter that says something is a choice of runs: nobody stops everything by accident. */
const isNarrow = (filter) => isSearch(filter) || filter.status.length > 0 || Boolean(filter.machine) || Boolean(filter.within);
function selected({ status, machine, text, where, within, top }) {
  const parts = [where && `(${where})`, within && `started_at >= ${Math.floor(Date.now() / 1000 - Number(within))}`, top && 'parent == ""'].filter(Boolean);
  return { status, machine, text, where: parts.join(" and ") };
}

async function readPage(filter, before, abort) {
  if (!isSearch(filter)) return call(`/api/runs${wanted(filter, before)}`, undefined, abort);
  const page = await call(`/api/search${sought(filter, before)}`, undefined, abort);
  const after = (before || 0) + page.found.length;
  return { runs: page.found.map(({ run, attributes }) => ({ ...run, attributes })), next: after < page.total ? after : null, total: countOf(page) };
}

/** A search looks at the newest runs only: of more it knows that they are there. */
const countOf = ({ total, is_cut: isCut }) => `${total.toLocaleString()}${isCut ? "+" : ""}`;

/** How many there are, and the attributes of the newest: the index knows both, and may have to catch up first. */
const lookUp = (filter, abort) => call(`/api/search${sought(filter)}`, undefined, abort);
const LOOK_MS = 3000; // at most so often while runs move
/** How many attributes have a column, as far as there is room; what is more stands below the name. In a narrow window columns are lines. */
const countColumns = () => (innerWidth >= 1440 || innerWidth < 1000 ? 4 : innerWidth >= 1200 ? 3 : 1);
const columnCount = signal(countColumns());
addEventListener("resize", () => { columnCount.value = countColumns(); });
const columnsOf = (lines) => [...new Set((lines || []).flatMap((line) => Object.keys(line.attributes || {})))].slice(0, columnCount.value);

function fits(line, filter) {
  if (filter.status.length && !filter.status.includes(line.status)) return false;
  if (filter.machine && line.machine !== filter.machine) return false;
  if (filter.top && line.parent) return false;
  if (filter.within && line.started_at < now.peek() - Number(filter.within)) return false;
  return !isSearch(filter);
}

/** What the list can be sorted by: the words every run has, and the attributes of those that are shown. */
const OWN_SORTS = { "": () => _("newest first"), started_at: () => _("oldest first"), "-updated_at": () => _("changed last first"), "-cost_usd": () => _("most expensive first"), machine: () => _("by machine"), state: () => _("by state") };
const sorts = (lines) => [...Object.keys(OWN_SORTS), ...new Set((lines || []).flatMap((line) => Object.keys(line.attributes || {})).flatMap((name) => [name, `-${name}`]))];
const sortWord = (name) => (OWN_SORTS[name] ? OWN_SORTS[name]() : name.startsWith("-") ? _("{name}, highest first", { name: name.slice(1) }) : _("{name}, lowest first", { name }));

function Attribute({ name, value }) {
  const said = value === undefined ? undefined : String(cover(name, value));
  return html`<td class=${`attribute cut ${typeof value === "number" ? "number" : ""}`} title=${said}>${said !== undefined && html`<span class="faint label"><${Text} value=${name} /></span> <${Text} value=${said} />`}</td>`;
}

/** The head of an attribute's column: a press sorts by it, and another one turns that round. */
function SortBy({ name, sort }) {
  const way = sort === name ? "ascending" : sort === `-${name}` ? "descending" : undefined;
  return html`<th scope="col" class="attribute" aria-sort=${way}><button class="link cut" title=${sortWord(way === "ascending" ? `-${name}` : name)} onClick=${() => tune({ sort: way === "ascending" ? `-${name}` : name })}><${Text} value=${name} />${way ? html`<span aria-hidden="true">${way === "ascending" ? " ↑" : " ↓"}</span>` : null}</button></th>`;
}

function Row({ line, columns, isNew, isHere }) {
  const more = Object.entries(line.attributes || {}).filter(([name]) => !columns.includes(name));
  const asked = line.waiting[0];
  const isAlarming = line.alarms?.length > 0;
  return html`<tr class=${`${isNew ? "new" : ""} ${isAlarming ? "alarming" : ""}`} aria-current=${isHere ? "true" : undefined}>
    <td class="is"><${Status} status=${line.status} failed=${line.failed} /></td>
    <td class="name"><a href=${address(["runs", line.run_id])}><${Text} value=${line.machine} /></a><small>${short(line.run_id, 16)}</small>${more.map(([name, value]) => html`<span class="tag attribute cut" key=${name} title=${String(cover(name, value))}><span class="faint"><${Text} value=${name} /></span> <${Text} value=${String(cover(name, value))} /></span>`)}</td>
    <td class="in"><span class="state"><${Text} value=${line.state} /></span></td>
    ${columns.map((name) => html`<${Attribute} key=${name} name=${name} value=${line.attributes?.[name]} />`)}
    <td class="asked cut">${isAlarming ? html`<b class="wrong"><${Sentence} text=${line.alarms.at(-1)} /></b>` : asked ? html`<${Text} value=${questionText(asked)} />` : line.error && html`<span class="wrong"><${Text} value=${`${line.error.type}: ${told(line.error.message)}`} /></span>`}${line.waiting.length > 1 ? ` +${line.waiting.length - 1}` : ""}</td>
    <td class="soft when"><time datetime=${iso(line.updated_at)} title=${moment(line.updated_at)}>${age(line.updated_at)}</time>
      <small><time datetime=${iso(line.started_at)} title=${moment(line.started_at)}>${_("started {when}", { when: age(line.started_at) })}</time></small></td>
    <td class="number">${money(line.cost_usd)}</td></tr>`;
}

export function Runs() {
  const filter = read(place.value.query);
  const key = JSON.stringify(filter);
  const found = useSignal(null);
  const next = useSignal(null);
  const total = useSignal(null);
  const fresh = useSignal(new Set());
  const machines = useSignal([]);
  const trouble = useSignal("");
  const here = useSignal(-1);
  const isActing = useSignal(false);
  const isStale = useSignal(false); // what is shown was found for the filter before
  const where = useSignal(filter.where); // as it is being written: a list that moves meanwhile takes no letter of it away
  useEffect(() => { where.value = filter.where; }, [filter.where]);
  const counting = useRef(0);
  const learn = (page) => {
    const known = new Map(page.found.map(({ run, attributes }) => [run.run_id, attributes]));
    total.value = countOf(page);
    found.value = (found.peek() || []).map((line) => (known.has(line.run_id) ? { ...line, attributes: known.get(line.run_id) } : line));
  };
  const search = useRef(null);
  useEffect(() => { call("/api/machines").then((names) => { machines.value = names; }).catch(() => {}); }, []);
  useEffect(() => {
    const abort = new AbortController();
    isStale.value = found.peek() !== null;
    const wait = setTimeout(() => {
      readPage(filter, 0, abort).then((page) => {
        found.value = page.runs; total.value = page.total ?? (page.next ? null : page.runs.length.toLocaleString()); next.value = page.next; trouble.value = ""; here.value = -1; isStale.value = false;
        if (!isSearch(filter)) lookUp(filter, abort).then(learn, () => {});
      }).catch((error) => { if (error.name !== "AbortError" && error.type !== "no_answer") { trouble.value = error.message; isStale.value = false; } });
    }, found.peek() ? 120 : 0);
    return () => { clearTimeout(wait); clearTimeout(counting.current); counting.current = 0; abort.abort(); };
  }, [key, returned.value]);
  useEffect(() => moved.subscribe((lines) => {
    if (!found.peek() || !lines.length) return;
    let list = found.peek();
    const arrived = new Set();
    for (const line of lines) {
      const at = list.findIndex((one) => one.run_id === line.run_id);
      const isFit = fits(line, filter) || (isSearch(filter) && at >= 0);
      if (at >= 0) list = isFit ? list.with(at, { ...line, attributes: list[at].attributes }) : list.toSpliced(at, 1);
      else if (isFit) { list = [line, ...list].sort((a, b) => b.no - a.no); arrived.add(line.run_id); }
      if (!machines.peek().includes(line.machine)) machines.value = [...machines.peek(), line.machine].sort();
    }
    if (arrived.size) fresh.value = arrived;
    found.value = list;
    if (!next.peek()) total.value = list.length.toLocaleString();
    counting.current ||= setTimeout(() => { counting.current = 0; if (!document.hidden) lookUp(filter).then(learn, () => {}); }, LOOK_MS);
  }), [key]);
  const columns = columnsOf(found.value);
  const older = async () => {
    let page = { runs: [], next: next.value };
    // A search looks at a part of the journal each time: an empty page is no end.
    for (let tries = 0; tries < 5 && !page.runs.length && page.next; tries += 1) page = await readPage(filter, page.next);
    found.value = [...found.value, ...page.runs];
    next.value = page.next;
  };
  const move = (by) => {
    here.value = Math.max(0, Math.min((found.value?.length || 1) - 1, here.value + by));
    /** @type {HTMLElement} */ (document.querySelectorAll(".runs tbody a")[here.value])?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1), "/": () => search.current?.focus() });
  const toggle = (status) => tune({ status: (filter.status.includes(status) ? filter.status.filter((one) => one !== status) : [...filter.status, status]).join(",") });
  return html`<header><div class="grow"><h1>${_("Runs")}</h1><p class="lede" role="status">${isStale.value ? _("Searching…") : total.value === null ? _("Every run of this journal, newest first") : isNarrow(filter) ? _("{count} found", { count: total.value }) : _("{count} runs, newest first", { count: total.value })}</p></div>
      ${isNarrow(filter) && found.value?.length > 0 && mayDo("cancel") && html`<button onClick=${() => { isActing.value = true; }}>${_("Act on these…")}</button>`}
      <a class="button" href="#/definitions">${_("Start a run")}</a></header>
    ${isActing.value && html`<${Bulk} selection=${selected(filter)} close=${() => { isActing.value = false; }} />`}
    <div class="filters" role="search">
      <div class="chips" role="group" aria-label=${_("Status")}>${STATUSES.map((status) => html`<button key=${status} aria-pressed=${String(filter.status.includes(status))} onClick=${() => toggle(status)}>${word(status)}</button>`)}</div>
      <div class="line"><input type="search" ref=${search} aria-label=${_("Search text")} placeholder=${_("Search all texts")} title=${_("Search inputs, questions, outputs, names")} value=${filter.text} onInput=${(event) => tune({ text: event.target.value })} />
        <input type="search" class="mono where" aria-label=${_("Condition")} placeholder=${_("where amount > 100")} title=${_("where, such as customer == 'Nordwind'")} value=${where.value} onInput=${(event) => { where.value = event.target.value; }} onChange=${() => tune({ where: where.value })} />
        <select aria-label=${_("Machine")} value=${filter.machine} onChange=${(event) => tune({ machine: event.target.value })}><option value="">${_("all machines")}</option>
          ${[...new Set([...machines.value, ...(filter.machine ? [filter.machine] : [])])].map((name) => html`<option value=${name}>${name}</option>`)}</select>
        <select aria-label=${_("Order")} value=${filter.sort} onChange=${(event) => tune({ sort: event.target.value })}>${[...new Set([...sorts(found.value), ...(filter.sort ? [filter.sort] : [])])].map((name) => html`<option key=${name} value=${name}>${sortWord(name)}</option>`)}</select>
        <select aria-label=${_("Time")} value=${filter.within} onChange=${(event) => tune({ within: event.target.value })}>${Object.entries(SPANS).sort(([a], [b]) => Number(a) - Number(b)).map(([value, text]) => html`<option value=${value}>${text()}</option>`)}</select></div></div>
    ${trouble.value && html`<div class="note harm" role="alert">${trouble.value}</div>`}
    ${!found.value ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /><i /></div>`
    : !found.value.length && !next.value ? html`<div class="card empty"><h2>${key === JSON.stringify(read(new URLSearchParams())) ? _("No runs yet") : _("No run fits")}</h2><p>${_("Start one under Definitions, or with: detent run FILE")}</p></div>`
      : html`<div class=${`card ${isStale.value ? "stale" : ""}`} aria-busy=${String(isStale.value)}><table class=${`runs ${columns.length ? "wide" : ""}`}><thead><tr><th scope="col">${_("Status")}</th><th scope="col">${_("Machine")}</th><th scope="col">${_("State")}</th>${columns.map((name) => html`<${SortBy} key=${name} name=${name} sort=${filter.sort} />`)}<th scope="col">${_("Question or error")}</th><th scope="col">${_("Changed")}</th><th scope="col" class="number">${_("Cost")}</th></tr></thead>
        <tbody>${found.value.map((line, at) => html`<${Row} key=${line.run_id} line=${line} columns=${columns} isNew=${fresh.value.has(line.run_id)} isHere=${at === here.value} />`)}</tbody></table></div>
      ${next.value && html`<p class="row older"><button onClick=${() => older().catch((error) => { trouble.value = error.message; })}>${_("Show older")}</button></p>`}`}`;
}
