// The page: a frame around seven views, chosen by the address.
import { effect, html, render, useEffect, useRef, useState } from "./lib.js";
import { _, language, speak } from "./language.js";
import { begin, waiting } from "./feed.js";
import { Inbox } from "./inbox.js";
import { Help, isHelping } from "./key.js";
import { Palette } from "./palette.js";
import { page, place } from "./route.js";
import { later } from "./later.js";
import { RunPage } from "./run/page.js";
import { Runs } from "./runs.js";
import { Toasts } from "./toast.js";
import { clock, compact } from "./format.js";
import { Mark } from "./mark.js";
import { Login, WhoAmI, findMe, isAsked, me } from "./me.js";
import { cutAt, isCut, isRefused, useToken } from "./wire.js";

const ICONS = {
  inbox: "M2.5 9.5h3.2a2.3 2.3 0 0 0 4.6 0h3.2M2.5 9.5 4.3 3.5h7.4l1.8 6v3.5h-11z",
  runs: "M2.5 4h1M6 4h7.5M2.5 8h1M6 8h7.5M2.5 12h1M6 12h7.5",
  chat: "M2.5 3.5h11v7.5h-6L4.5 13.5V11h-2zM5.5 6.2h5M5.5 8.4h3",
  figures: "M2.5 13.5h11M4 11V8M7 11V4.5M10 11V6.5M13 11V2.5",
  definitions: "M5.5 2.5h5v3.5h-5zM2 10h4.5v3.5H2zM9.5 10H14v3.5H9.5zM8 6v2M4.25 10V8h7.5v2",
};

const Icon = ({ name }) => html`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

function Rail() {
  const link = (name, text, count) => html`<a href=${`#/${name}`} aria-current=${page.value === name || (name === "definitions" && ["compare", "edit"].includes(page.value)) || (name === "inbox" && page.value === "many") ? "page" : undefined}><${Icon} name=${name} />${text}${count ? html`<span class="count" title=${count.toLocaleString()}><span aria-hidden="true">${compact(count)}</span><span class="unseen">${_("{count} waiting", { count })}</span></span>` : null}</a>`;
  return html`<div class="rail" role="banner"><a class="brand" href="#/inbox"><${Mark} />detent</a>
    <nav aria-label=${_("Main")}>${link("inbox", _("Inbox"), waiting.value)}${link("runs", _("Runs"))}${link("chat", _("Chat"))}${link("definitions", _("Definitions"))}${link("figures", _("Figures"))}</nav>
    <div class="foot"><${WhoAmI} /><div class=${`live ${isCut.value ? "cut" : ""}`} role="status"><i /><span>${isCut.value ? _("no connection; trying again") : _("live")}</span></div>
      <button class="link help" onClick=${() => { isHelping.value = true; }}>${_("Keyboard")} <kbd>?</kbd></button>
      <button class="link" lang=${language.value === "zh" ? "en" : "zh-CN"} onClick=${() => speak(language.value === "zh" ? "en" : "zh")}>${language.value === "zh" ? "English" : "中文"}</button></div></div>`;
}

function Token() {
  const [text, setText] = useState("");
  return html`<main class="token"><form class="card question" onSubmit=${(event) => { event.preventDefault(); useToken(text.trim()); findMe(); }}>
    <div class="top"><h1>${_("This server wants a token")}</h1><p class="soft">${_("It was printed when the server started, or stands in its token file. It is kept in this tab only.")}</p>
    <div class="field"><label for="token">${_("Token")}</label><input id="token" type="password" autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <div><button class="main">${_("Go on")}</button></div></div></form></main>`;
}

const definitions = () => import("./definitions.js");
const PAGES = { inbox: Inbox, runs: () => (place.value.parts[1] ? html`<${RunPage} key=${place.value.parts[1]} />` : html`<${Runs} />`), many: later(() => import("./desk/many.js"), "Many"), chat: later(() => import("./chat.js"), "Chat"), definitions: later(definitions, "Definitions"), compare: later(definitions, "Compare"), figures: later(() => import("./figures.js"), "FiguresPage", "style/seeing.css"), edit: later(() => import("./edit/page.js"), "Edit", "style/edit.css") };
const TITLES = { inbox: () => _("Inbox"), many: () => _("Approve many"), runs: () => _("Runs"), chat: () => _("Chat"), definitions: () => _("Definitions"), compare: () => _("Compare two versions"), figures: () => _("Figures"), edit: () => _("Editor") };

function Lost() {
  return html`<div class="card empty"><h1>${_("There is no such page")}</h1><p><a href="#/inbox">${_("Inbox")}</a></p></div>`;
}

/** Said where everybody looks, for what is on the page may be old. */
function Away() {
  return html`<div class="away" role="alert">${isCut.value && html`<div class="note"><i aria-hidden="true" /><span><b>${_("No answer from the server since {when}.", { when: clock(cutAt.value).slice(0, 8) })}</b> ${_("What you see may be old. This page tries again and goes on by itself; runs are not lost.")}</span></div>`}</div>`;
}

function App() {
  const main = useRef(null);
  const Page = Object.hasOwn(PAGES, page.value) ? PAGES[page.value] : Lost;
  // A conversation keeps its place on the page: its own code scrolls to what was said last.
  const where = place.value.parts.slice(0, page.value === "chat" ? 1 : 2).join("/");
  const first = useRef(true);
  // A new page is read from its beginning, also by those who do not see it.
  useEffect(() => { if (first.current) { first.current = false; return; } if (page.value !== "inbox") { scrollTo(0, 0); main.current?.focus({ preventScroll: true }); } }, [where]);
  if (isAsked()) return html`<${Login} />`;
  if (isRefused.value) return html`<${Token} />`;
  if (!me.value) return null;
  return html`<div class="frame"><${Rail} /><main ref=${main} id="main" tabIndex="-1"><${Away} /><${Page} /></main></div><${Toasts} /><${Help} /><${Palette} />`;
}

effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
  const title = (TITLES[page.value] || (() => "detent"))();
  document.title = `${waiting.value ? `(${waiting.value}) ` : ""}${title} · detent`;
});
findMe().then(begin);
render(html`<${App} />`, document.getElementById("page"));
