// Where a message is written: many lines, files and images that go with it, commands, and stopping what is being answered.
import { html, useEffect, useRef, useState } from "./lib.js";
import { _ } from "./language.js";
import { mayDo } from "./me.js";
import { go } from "./route.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { commands, count, isVerbose, obey } from "./slash.js";
import { call, firstOf } from "./wire.js";

const FILE_MAX = 100_000;
const IMAGE_MAX = 3_000_000;
const TYPED = "detent.typed"; // what was typed before, in this browser
const TYPED_MAX = 200;
const IMAGES = /^image\/(png|jpeg|gif|webp)$/;

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

/** Files of the server's folder that the words name: `@file`, `@"a file"`. Only what was typed is looked at, not what is attached. */
const named = (text) => [...text.matchAll(/(?<!\S)@(?:"([^"]+)"|([^\s"]+))/g)].map((found) => found[1] ?? found[2]).slice(0, 20);

const BEGUN = /(?<!\S)@"?([^\s"]*)$/; // a name that is being typed

/** Files whose name begins as the word before the cursor does; asked for while one types. */
function useFiles(before) {
  const [found, setFound] = useState([]);
  const begun = BEGUN.exec(before)?.[1];
  useEffect(() => {
    if (begun === undefined || !mayDo("start")) { setFound([]); return undefined; }
    let isLate = false;
    call(`/api/assistant/files?begun=${encodeURIComponent(begun)}`).then(({ names }) => { if (!isLate) setFound(names.filter((name) => name !== begun)); }).catch(() => {});
    return () => { isLate = true; };
  }, [begun]);
  return begun === undefined ? [] : found;
}

const withName = (before, name) => `${before.slice(0, BEGUN.exec(before).index)}@${/\s/.test(name) ? `"${name}"` : name}${name.endsWith("/") ? "" : " "}`;

/** What was typed before, the latest first. */
function recall() {
  try { return JSON.parse(localStorage.getItem(TYPED) || "[]"); } catch { return []; }
}

function keep(text) {
  try { localStorage.setItem(TYPED, JSON.stringify([text, ...recall().filter((one) => one !== text)].slice(0, TYPED_MAX))); } catch { /* a browser that keeps nothing */ }
}

/** The model, the conversation and what it has cost so far, as the line below the input. */
function Spent({ session, lines, how }) {
  const [told, setTold] = useState("");
  const [model, setModel] = useState("");
  useEffect(() => { call("/api/settings").then((said) => setModel(said.model_in_use)).catch(() => {}); }, []);
  useEffect(() => { count(lines).then(setTold).catch(() => {}); }, [lines.map((line) => `${line.run_id} ${line.status}`).join()]);
  return html`<div class="faint spent"><${Text} value=${[how.model || model, session, lines.length ? told : ""].filter(Boolean).join(" · ")} />${how.plan ? ` · ${_("planning")}` : ""}${isVerbose.value ? ` · ${_("verbose")}` : ""}</div>`;
}

export function Composer({ session, lines = [], sent }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState([]);
  const [told, setTold] = useState([]);
  const [how, setHow] = useState({ undo: 0, plan: false, model: "" });
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  const looking = useRef({ at: -1, words: "" }); // in what was typed before
  const [cursor, setCursor] = useState(0);
  const names = useFiles(text.slice(0, cursor));
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
    keep(text);
    looking.current = { at: -1, words: "" };
    try {
      if (text.startsWith("/")) {
        setTold(await obey(text, { session, lines, how, setHow, sent }));
        setText("");
        return;
      }
      const images = files.filter((one) => one.image).map((one) => one.image);
      const more = { ...(session ? { session_id: session } : {}), ...(images.length ? { images } : {}), ...(named(text).length ? { files: named(text) } : {}), ...(how.undo ? { undo: how.undo } : {}), ...(how.plan ? { plan: true } : {}), ...(how.model ? { model: how.model } : {}) };
      const { session_id: id } = await firstOf("/chat", { message: render(text, files), ...more });
      setText("");
      setFiles([]);
      setHow({ ...how, undo: 0 });
      if (id !== session) go(["chat", id]); else sent();
    } catch (error) { say(error.message, "harm"); } finally { setBusy(false); }
  };
  const offered = /^\/\w*$/.test(text) ? Object.entries(commands()).filter(([name]) => name.startsWith(text) && name !== text) : [];
  const complete = (name) => {
    const begun = withName(text.slice(0, cursor), name);
    setText(begun + text.slice(cursor));
    setCursor(begun.length);
    requestAnimationFrame(() => { field.current?.focus(); field.current?.setSelectionRange(begun.length, begun.length); });
  };
  // Arrows go through what was typed before; of that only what holds the words that stand here.
  const isLooking = (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const place = event.target;
    const isInside = step === 1 ? place.value.slice(0, place.selectionStart).includes("\n") : place.value.slice(place.selectionEnd).includes("\n");
    if (!step || event.shiftKey || event.isComposing || isInside || (step < 0 && looking.current.at < 0)) return false;
    if (looking.current.at < 0) looking.current.words = text;
    const found = recall().filter((one) => one.includes(looking.current.words) && one !== looking.current.words);
    const at = Math.min(looking.current.at + step, found.length - 1);
    looking.current.at = Math.max(at, -1);
    setText(at < 0 ? looking.current.words : found[at]);
    return true;
  };
  // Enter may also end a word that is being put together, as in Chinese: that is not meant for us.
  const press = (event) => {
    if (event.key === "Tab" && offered.length) { event.preventDefault(); setText(`${offered[0][0]} `); return; }
    if (event.key === "Tab" && !event.shiftKey && names.length) { event.preventDefault(); complete(names[0]); return; }
    if (isLooking(event)) { event.preventDefault(); return; }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) send(event);
  };
  const paste = (event) => { const found = [...event.clipboardData.files]; if (found.length) { event.preventDefault(); attach(found); } };
  return html`<form class="composer card" onSubmit=${send} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); attach([...event.dataTransfer.files]); }}>
    <div class="grow">
      ${told.length > 0 && html`<div class="faint lines" role="status">${told.map((line) => html`<div><${Text} value=${line} /></div>`)}</div>`}
      ${offered.length > 0 && html`<div class="faint lines">${offered.map(([name, about]) => html`<div><code>${name}</code> ${about}</div>`)}</div>`}
      ${names.length > 0 && html`<div class="faint lines files" aria-label=${_("Files")} role="group">${names.map((name) => html`<button type="button" class="small" tabindex="-1" onClick=${() => complete(name)}><${Text} value=${name} /></button>`)}</div>`}
      ${(files.length > 0 || how.plan || how.undo > 0) && html`<div class="row">${how.plan && html`<span class="tag">${_("planning")}</span>`}${how.undo > 0 && html`<span class="tag">/undo ${how.undo}</span>`}
        ${files.map((file, at) => html`<button type="button" class="small" title=${_("Remove")} onClick=${() => setFiles(files.toSpliced(at, 1))}><${Text} value=${file.name} /> ×</button>`)}</div>`}
      <label class="unseen" for="message">${_("Message")}</label>
      <textarea id="message" ref=${field} rows="2" maxlength="200000" value=${text} onInput=${(event) => { looking.current.at = -1; setText(event.target.value); setCursor(event.target.selectionEnd); }} onSelect=${(event) => setCursor(event.target.selectionEnd)} onKeyDown=${press} onPaste=${paste} placeholder=${_("Write to the assistant; Enter sends, Shift+Enter begins a new line")} />
      <${Spent} session=${session} lines=${lines} how=${how} /></div>
    <label class="button small" title=${_("Attach files or images")}>${_("Attach")}<input class="unseen" type="file" multiple onChange=${(event) => { attach([...event.target.files]); event.target.value = ""; }} /></label>
    ${isAnswering && html`<button type="button" onClick=${stop}>${_("Stop")} <kbd>Esc</kbd></button>`}
    <button class="main" disabled=${busy || !text.trim() || !mayDo("start")} title=${mayDo("start") ? undefined : _("Your roles do not let you do this.")}>${_("Send")}</button></form>`;
}
