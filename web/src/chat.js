// Chat: conversations with the assistant. One turn is one run, so each of them has a page of its own; here they stand one
// after the other, with the tools between the words, and a place to write.
import { agentOf } from "./agent.js";
import { effect, html, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState } from "./lib.js";
import { _ } from "./language.js";
import { Composer } from "./composer.js";
import { moved } from "./feed.js";
import { age, iso, moment } from "./format.js";
import { address, place } from "./route.js";
import { openRun } from "./run/store.js";
import { Status } from "./status.js";
import { isVerbose } from "./slash.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { Turn } from "./view/chat.js";
import { brief } from "./secret.js";
import { call, query, returned } from "./wire.js";

const TURNS = 10; // shown at first, and added by "Show earlier"
const LINES = 100;
const NEAR = 160; // pixels from the end: somebody so near to it wants to see what comes

const ofSession = (session) => `/api/runs${query({ agent: "assistant", text: session, limit: LINES })}`;

/** The assistant's runs, newest first, kept fresh by the page's stream; one session's or everybody's. */
function useTurns(session) {
  const lines = useSignal(null);
  const read = () => call(session ? ofSession(session) : `/api/runs${query({ agent: "assistant", limit: LINES })}`)
    .then(({ runs }) => { lines.value = merge(lines.peek() || [], runs, session); }).catch((error) => { if (error.type === "no_answer") return; lines.value ||= []; say(error.message, "harm"); });
  useEffect(() => { lines.value = null; }, [session]);
  useEffect(() => { read(); }, [session, returned.value]);
  useEffect(() => effect(() => {
    const fresh = moved.value.filter((line) => agentOf(line) === "assistant");
    if (fresh.length && lines.peek()) lines.value = merge(lines.peek(), fresh, session);
  }), [session]);
  return [lines.value, read];
}

function merge(known, fresh, session) {
  const all = new Map(known.map((line) => [line.run_id, line]));
  for (const line of fresh) if (!session || line.session === session) all.set(line.run_id, line);
  return [...all.values()].sort((a, b) => b.started_at - a.started_at || (a.run_id < b.run_id ? 1 : -1));
}

/** The first words of a conversation are its name. */
function Topic({ line }) {
  const [topic, setTopic] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    call(`/api/runs/${encodeURIComponent(line.run_id)}`, undefined, abort)
      .then(({ context }) => setTopic(brief(context.history?.[0]?.content || context.message || "", 70))).catch(() => {});
    return () => abort.abort();
  }, [line.session]);
  return html`<${Text} value=${topic || line.session || line.run_id} />`;
}

function Conversations({ chosen }) {
  const [lines] = useTurns("");
  const newest = new Map();
  for (const line of lines || []) if (line.session && !newest.has(line.session)) newest.set(line.session, line);
  return html`<nav class="queue" aria-label=${_("Conversations")}>
    <a class="fresh" href="#/chat" aria-current=${chosen ? undefined : "true"}><span class="asks">+ ${_("New conversation")}</span></a>
    ${[...newest.values()].slice(0, 12).map((line) => html`<a key=${line.session} href=${address(["chat", line.session])} aria-current=${line.session === chosen ? "true" : undefined}>
      <span class="asks"><${Topic} line=${line} /></span><span class="meta"><${Status} status=${line.status} /><time datetime=${iso(line.updated_at)} title=${moment(line.updated_at)}>${age(line.updated_at)}</time></span></a>`)}</nav>`;
}

/** A turn with its run; only the newest has a stream of its own, for a browser has few connections to one server. */
function Told({ line, isLast }) {
  const store = useMemo(() => openRun(line.run_id, { isPlain: true }), [line.run_id]);
  useEffect(() => () => store.close(), [store]);
  useEffect(() => store.listen(isLast), [store, isLast]);
  useEffect(() => { if (store.run.peek() && line.seq > store.run.peek().seq) store.reread(); }, [line.seq]);
  if (store.trouble.value) return html`<div class="note harm" role="alert">${store.trouble.value}</div>`;
  if (!store.shown.value) return html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /></div>`;
  return html`<section class="talk" aria-label=${_("Message and reply")}><${Turn} store=${store} takesKeys=${isLast} /><a class="faint turn" href=${address(["runs", line.run_id])} title=${moment(line.started_at)}>${_("how this came about")}</a></section>`;
}

function Talk({ session, lines }) {
  const [shown, setShown] = useState(TURNS);
  const box = useRef(null);
  const first = useRef(true);
  // Whoever reads the end goes on reading the end; whoever reads something earlier is left in peace.
  useLayoutEffect(() => {
    const page = document.scrollingElement;
    let isNear = true;
    const look = () => { isNear = page.scrollHeight - page.scrollTop - page.clientHeight < NEAR; };
    const grown = new ResizeObserver(() => { if (isNear || first.current) page.scrollTop = page.scrollHeight; });
    addEventListener("scroll", look, { passive: true });
    grown.observe(box.current);
    const wait = setTimeout(() => { first.current = false; }, 1500);
    return () => { clearTimeout(wait); removeEventListener("scroll", look); grown.disconnect(); };
  }, [session]);
  const turns = lines.slice(0, shown).toReversed();
  return html`<div class="talk" ref=${box} role="log" aria-label=${_("Conversation")}>
    ${lines.length > shown && html`<div class="row older"><button class="small" onClick=${() => setShown(shown + TURNS)}>${_("Show earlier")}</button></div>`}
    ${turns.map((line) => html`<${Told} key=${line.run_id} line=${line} isLast=${line === lines[0]} />`)}</div>`;
}

function Conversation({ session }) {
  const [lines, read] = useTurns(session);
  return html`${!lines ? html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`
    : lines.length ? html`<${Talk} session=${session} lines=${lines} />`
      : html`<div class="card empty"><h2>${_("Nothing was said here yet")}</h2></div>`}
    <${Composer} session=${session} lines=${lines || []} sent=${read} />`;
}

export function Chat() {
  const [, session = ""] = place.value.parts;
  return html`<header><div class="grow"><h1>${_("Chat")}</h1>
      <p class="lede">${session ? html`<span class="mono"><${Text} value=${session} /></span>` : _("A conversation with the assistant. What cannot be taken back, it asks about first.")}</p></div>
      ${session && html`<a class="button back" href="#/chat">${_("Conversations")}</a>`}</header>
    <div class=${`chat ${session ? "one" : "none"} ${isVerbose.value ? "verbose" : "brief"}`}><${Conversations} chosen=${session} />
      <div class="stack">${session ? html`<${Conversation} key=${session} session=${session} />`
    : html`<div class="card empty hint"><h2>${_("What shall be done?")}</h2><p>${_("Tools are the effects of the file in DETENT_TOOLS and of MCP servers; the model is the one in DETENT_MODEL.")}</p></div><${Composer} session="" sent=${() => {}} />`}</div></div>`;
}
