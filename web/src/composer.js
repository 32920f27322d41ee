// Where a message is written: many lines, files and images that go with it, commands, and stopping what is being answered.
import { html, useEffect, useRef, useState } from "./lib.js";
import { _ } from "./language.js";
import { mayDo } from "./me.js";
import { go } from "./route.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { call, firstOf } from "./wire.js";

const FILE_MAX = 100_000;
const IMAGE_MAX = 3_000_000;
const IMAGES = /^image\/(png|jpeg|gif|webp)$/;

const commands = () => ({
  "/help": _("what can be typed here"), "/model": _("another model for the next messages: /model openai:NAME"),
  "/cost": _("tokens and cost of this conversation"), "/memory": _("what is remembered; /memory forget NUMBER forgets"),
  "/undo": _("take the last message and its answer out of the conversation"), "/compact": _("have the conversation so far summarised"),
  "/search": _("look for words in what was summarised: /search WORDS"), "/plan": _("plan first: only tools that change nothing, until /plan is typed again"),
  "/export": _("save the conversation as Markdown"), "/new": _("begin a new conversation"),
});

const asDataUrl = (file) => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.onerror = () => fail(reader.error);
  reader.readAsDataURL(file);
});

/** A file as it goes with a message: an image as an image, a text as text. */
async function read(file) {
  if (IMAGES.test(file.type)) {
    if (file.size > IMAGE_MAX) throw new Error(_("{name} is too large", { name: file.name }));
    return { name: file.name, image: await asDataUrl(file) };
  }
  const text = await file.slice(0, 4 * FILE_MAX).text();
  if (text.includes("\u0000") || text.includes("\ufffd")) throw new Error(_("{name} is neither text nor an image", { name: file.name }));
  return { name: file.name, text: text.length > FILE_MAX ? `${text.slice(0, FILE_MAX)}\n…` : text };
}

const render = (text, files) => [text, ...files.filter((one) => one.text !== undefined).map(({ name, text: inside }) => {
  const fence = inside.includes("```") ? "~~~~~~" : "```";
  return `File ${name}:\n${fence}\n${inside}\n${fence}`;
})].join("\n\n");

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

async function count(lines) {
  let tokens = 0; let dollars = 0; let unknown = 0;
  for (const line of lines) {
    const { usage = {} } = await call(`/api/runs/${encodeURIComponent(line.run_id)}`);
    tokens += usage.tokens || 0; dollars += usage.cost_usd || 0; unknown += usage.unpriced_calls || 0;
  }
  const cost = dollars ? `$${dollars.toFixed(4)}` : unknown ? _("price not known") : "$0";
  return `${_("{count} tokens", { count: tokens })} · ${cost}`;
}

/** What a command says, as lines; `how` is what the next message is sent with. */
async function obey(text, { session, lines, how, setHow, sent }) {
  const [word, ...rest] = text.trim().split(/\s+/);
  const given = rest.join(" ");
  const base = `/api/conversations/${encodeURIComponent(session)}`;
  if (word === "/help") return Object.entries(commands()).map(([name, about]) => `${name}  ${about}`);
  if (word === "/new") { go(["chat"]); return []; }
  if (word === "/model") {
    setHow({ ...how, model: given });
    return [given || (await call("/api/settings")).model_in_use];
  }
  if (word === "/plan") {
    setHow({ ...how, plan: !how.plan });
    return [how.plan ? _("no longer planning: all tools are offered again") : _("planning: nothing is changed until /plan is typed again")];
  }
  if (word === "/memory" && rest[0] === "forget") { await call(`/api/memories/${encodeURIComponent(rest[1] || "")}/forget`, {}); return [_("forgotten")]; }
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

export function Composer({ session, lines = [], sent }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState([]);
  const [told, setTold] = useState([]);
  const [how, setHow] = useState({ undo: 0, plan: false, model: "" });
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  const newest = lines[0];
  const isAnswering = newest?.status === "running";
  useEffect(() => { if (matchMedia("(min-width: 761px)").matches) field.current?.focus({ preventScroll: true }); }, [session]);
  const stop = async () => {
    try { await call(`/api/runs/${encodeURIComponent(newest.run_id)}/cancel`, { reason: "stopped on the page" }); } catch (error) { if (error.status !== 409) say(error.message, "harm"); }
  };
  // A dialog closes with Esc by itself; only where none is open does it stop the answer.
  useEffect(() => {
    if (!isAnswering) return undefined;
    const press = (event) => { if (event.key === "Escape" && !event.isComposing && !document.querySelector("dialog[open]")) stop(); };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isAnswering, newest?.run_id]);
  const attach = async (chosen) => {
    for (const file of chosen) {
      try { const one = await read(file); setFiles((known) => [...known, one]); } catch (error) { say(error.message, "harm"); }
    }
  };
  const send = async (event) => {
    event?.preventDefault();
    if (busy || !text.trim()) return;
    setBusy(true);
    setTold([]);
    try {
      if (text.startsWith("/")) {
        setTold(await obey(text, { session, lines, how, setHow, sent }));
        setText("");
        return;
      }
      const images = files.filter((one) => one.image).map((one) => one.image);
      const more = { ...(session ? { session_id: session } : {}), ...(images.length ? { images } : {}), ...(how.undo ? { undo: how.undo } : {}), ...(how.plan ? { plan: true } : {}), ...(how.model ? { model: how.model } : {}) };
      const { session_id: id } = await firstOf("/chat", { message: render(text, files), ...more });
      setText("");
      setFiles([]);
      setHow({ ...how, undo: 0 });
      if (id !== session) go(["chat", id]); else sent();
    } catch (error) { say(error.message, "harm"); } finally { setBusy(false); }
  };
  const offered = /^\/\w*$/.test(text) ? Object.entries(commands()).filter(([name]) => name.startsWith(text) && name !== text) : [];
  // Enter may also end a word that is being put together, as in Chinese: that is not meant for us.
  const press = (event) => {
    if (event.key === "Tab" && offered.length) { event.preventDefault(); setText(`${offered[0][0]} `); return; }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) send(event);
  };
  const paste = (event) => { const found = [...event.clipboardData.files]; if (found.length) { event.preventDefault(); attach(found); } };
  return html`<form class="composer card" onSubmit=${send} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); attach([...event.dataTransfer.files]); }}>
    <div class="grow">
      ${told.length > 0 && html`<div class="faint lines" role="status">${told.map((line) => html`<div><${Text} value=${line} /></div>`)}</div>`}
      ${offered.length > 0 && html`<div class="faint lines">${offered.map(([name, about]) => html`<div><code>${name}</code> ${about}</div>`)}</div>`}
      ${(files.length > 0 || how.plan || how.undo > 0) && html`<div class="row">${how.plan && html`<span class="tag">${_("planning")}</span>`}${how.undo > 0 && html`<span class="tag">/undo ${how.undo}</span>`}
        ${files.map((file, at) => html`<button type="button" class="small" title=${_("Remove")} onClick=${() => setFiles(files.toSpliced(at, 1))}><${Text} value=${file.name} /> ×</button>`)}</div>`}
      <label class="unseen" for="message">${_("Message")}</label>
      <textarea id="message" ref=${field} rows="2" maxlength="200000" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press} onPaste=${paste} placeholder=${_("Write to the assistant; Enter sends, Shift+Enter begins a new line")} /></div>
    <label class="button small" title=${_("Attach files or images")}>${_("Attach")}<input class="unseen" type="file" multiple onChange=${(event) => { attach([...event.target.files]); event.target.value = ""; }} /></label>
    ${isAnswering && html`<button type="button" onClick=${stop}>${_("Stop")} <kbd>Esc</kbd></button>`}
    <button class="main" disabled=${busy || !text.trim() || !mayDo("start")} title=${mayDo("start") ? undefined : _("Your roles do not let you do this.")}>${_("Send")}</button></form>`;
}
