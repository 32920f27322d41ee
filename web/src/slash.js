// Commands of a conversation: what begins with a slash and is for the page, not for the model.
import { signal } from "./lib.js";
import { _ } from "./language.js";
import { age } from "./format.js";
import { go } from "./route.js";
import { isOver } from "./status.js";
import { brief } from "./secret.js";
import { call, firstOf, query } from "./wire.js";

const SESSIONS = 30;
export const isVerbose = signal(false);

export const commands = () => ({
  "/help": _("what can be typed here"), "/model": _("another model for the next messages: /model openai:NAME"),
  "/tools": _("the tools, and which of them ask first"), "/cost": _("tokens and cost of this conversation"), "/memory": _("what is remembered; /memory NUMBER TEXT corrects, /memory forget NUMBER forgets"),
  "/sessions": _("earlier conversations"), "/resume": _("go on with another conversation: /resume NAME"),
  "/undo": _("take the last message and its answer out of the conversation"), "/compact": _("have the conversation so far summarised"),
  "/search": _("look for words in what was summarised: /search WORDS"), "/plan": _("plan first: only tools that change nothing, until /plan is typed again"),
  "/export": _("save the conversation as Markdown"), "/new": _("begin a new conversation"),
  "/verbose": _("show contract numbers, statuses and hashes, or hide them again"),
});

function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function transcript(session, lines) {
  const parts = [`# ${session}`];
  for (const line of lines.toReversed()) {
    const { context } = await call(`/api/runs/${encodeURIComponent(line.run_id)}`);
    if (!context.message) continue;
    const deeds = (context.executions || []).filter((one) => one.type === "tool_call").map((one) => `- ${one.line}`);
    parts.push("## You", context.message, ...(deeds.length ? [deeds.join("\n")] : []), ...(context.response ? ["## Assistant", context.response] : []));
  }
  return `${parts.join("\n\n")}\n`;
}

const spent = new Map(); // by turn that is over: what it has used, which does not change any more

/** Tokens and cost of a conversation, in words. */
export async function count(lines) {
  let tokens = 0; let dollars = 0; let unknown = 0;
  for (const line of lines) {
    const usage = spent.get(line.run_id) || (await call(`/api/runs/${encodeURIComponent(line.run_id)}`)).usage || {};
    if (isOver(line.status)) spent.set(line.run_id, usage);
    tokens += usage.tokens || 0; dollars += usage.cost_usd || 0; unknown += usage.unpriced_calls || 0;
  }
  const cost = dollars ? `$${dollars.toFixed(4)}` : unknown ? _("price not known") : "$0";
  return `${_("{count} tokens", { count: tokens })} · ${cost}`;
}

/** Earlier conversations, or going on with the one whose name begins so. */
async function list(isResumed, given, session) {
  const { runs } = await call(`/api/runs${query({ agent: "assistant", limit: 100 })}`);
  const turns = new Map();
  for (const run of runs) if (run.session) turns.set(run.session, [...(turns.get(run.session) || []), run]);
  if (isResumed) {
    const found = turns.has(given) ? [given] : [...turns.keys()].filter((name) => given && name.startsWith(given));
    if (found.length !== 1) throw new Error(_("`{name}` is not one conversation; /sessions lists them", { name: given.slice(0, 40) }));
    go(["chat", found[0]]);
    return [];
  }
  const shown = await Promise.all([...turns].slice(0, SESSIONS).map(async ([name, own]) => {
    const { context } = await call(`/api/runs/${encodeURIComponent(own.at(-1).run_id)}`);
    return `${name === session ? "* " : ""}${name}  ${age(own[0].updated_at)}  ${_("{count} messages", { count: own.length })}  ${brief(context.message || "", 60)}`;
  }));
  return shown.length ? shown : [_("nothing was said here yet")];
}

/** What a command says, as lines; `how` is what the next message is sent with. */
export async function obey(text, { session, lines, how, setHow, sent }) {
  const [word, ...rest] = text.trim().split(/\s+/);
  const given = rest.join(" ");
  const base = `/api/conversations/${encodeURIComponent(session)}`;
  if (word === "/help") return Object.entries(commands()).map(([name, about]) => `${name}  ${about}`);
  if (word === "/new") { go(["chat"]); return []; }
  if (word === "/tools") {
    const { tools } = await call(`/api/assistant/tools${how.plan ? "?plan=true" : ""}`);
    return tools.length ? tools.map((one) => `${one.name}  ${one.kind === "irreversible" ? _("asks first") : ""}  ${one.about}`) : [_("no tools: DETENT_TOOLS or detent.mcp.yaml")];
  }
  if (word === "/sessions" || word === "/resume") return await list(word === "/resume", given, session);
  if (word === "/verbose") { isVerbose.value = !isVerbose.value; return [isVerbose.value ? _("verbose") : _("brief")]; }
  if (word === "/model") {
    setHow({ ...how, model: given });
    return [given || (await call("/api/settings")).model_in_use];
  }
  if (word === "/plan") {
    setHow({ ...how, plan: !how.plan });
    return [how.plan ? _("no longer planning: all tools are offered again") : _("planning: nothing is changed until /plan is typed again")];
  }
  if (word === "/memory" && rest[0] === "forget") { await call(`/api/memories/${encodeURIComponent(rest[1] || "")}/forget`, {}); return [_("forgotten")]; }
  if (word === "/memory" && rest.length > 1 && /^\d+$/.test(rest[0])) { await call(`/api/memories/${rest[0]}`, { value: rest.slice(1).join(" ") }); return [_("corrected")]; }
  if (word === "/memory") {
    const { memories } = await call("/api/memories?limit=100");
    const kept = memories.filter((one) => one.category !== "execution");
    return kept.length ? kept.map((one) => `${one.id}  ${one.category}  ${one.key}: ${one.value}`) : [_("nothing is remembered")];
  }
  if (!(word in commands())) throw new Error(_("there is no command {word}; /help lists them", { word: word.slice(0, 40) }));
  if (!session) return [_("nothing was said here yet")];
  if (word === "/cost") return [await count(lines)];
  if (word === "/export") { save(`${session}.md`, await transcript(session, lines)); return []; }
  if (word === "/undo") {
    if (how.undo >= lines.length) return [_("there is nothing to take back")];
    setHow({ ...how, undo: how.undo + 1 });
    return [_("The next message takes its place; what was done stays done.")];
  }
  if (word === "/compact") { await firstOf(`${base}/compact`, {}); sent(); return [_("The conversation is being summarised.")]; }
  const { passages } = await call(`${base}/passages?text=${encodeURIComponent(given)}`);
  return passages.length ? passages.map((one) => `${one.role}: ${one.content.slice(0, 300)}`) : [_("nothing was found; only what was summarised is looked through")];
}
