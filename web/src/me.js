// Who looks at this page, as the server knows them: found out first, shown in the frame, and ended by logging out.
import { html, signal, useState } from "./lib.js";
import { _ } from "./language.js";
import { call, isRefused, token } from "./wire.js";
import { Mark } from "./mark.js";
import { Text } from "./text.js";

export const me = signal(null); // null: not known yet

// A link that logs in once, as `detent people link` prints it: taken out of the address at once, used by a click only,
// so that nobody is logged in as somebody they did not choose.
const carried = /^#login=([^&]+)(?:&to=(\/[^&]*))?$/.exec(location.hash);
export const link = signal("");
if (carried) {
  try { link.value = decodeURIComponent(carried[1]); } catch { /* no link at all */ }
  history.replaceState(null, "", `#${carried[2] || "/inbox"}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Ask the server who this is; once more when it has just told the browser to forget an ended session. */
export async function findMe(isAgain = false) {
  try {
    me.value = await call("/api/me");
    isRefused.value = me.value.has_people && !me.value.name;
  } catch (error) {
    if (error.status === 401 && error.type === "login_wanted" && !isAgain) return findMe(true);
    if (error.status === 401) isRefused.value = true; // the server's own token is wanted
    else setTimeout(findMe, 2000);
  }
  return me.value;
}

async function enter(said) {
  me.value = await call("/api/login", said);
  link.value = "";
  isRefused.value = false;
  token.value = ""; // the cookie does it from here on
}

async function leave() {
  try { await call("/api/logout", {}); } catch { /* it had ended already */ }
  location.reload(); // nothing of what was seen stays
}

/** Whether a verb is for this person; without people everything is for everybody. */
export const mayDo = (verb) => me.value?.may?.includes(verb) ?? true;

export const isAsked = () => Boolean(link.value) || (me.value?.has_people && isRefused.value);

/** The page for those who are not logged in, or hold a link. */
export function Login() {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const name = link.value.slice(0, link.value.lastIndexOf("."));
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    setWrong("");
    try { await enter(link.value ? { link: link.value } : { token: text.trim() }); } catch (error) {
      if (link.value) link.value = "";
      setWrong(error.status === 429 ? _("Too many attempts. Wait a moment, then try again.") : error.type === "login_wanted" && !name ? _("This token is nobody's.") : error.message);
      findMe();
    }
    setBusy(false);
  };
  return html`<main class="token"><form class="card question" onSubmit=${send}><div class="top">
    <div class="brand"><${Mark} />detent</div>
    <h1>${link.value ? _("Log in as {name}?", { name }) : _("Log in")}</h1>
    ${link.value ? html`<p class="soft">${_("This link works once. What you do then is done in this name.")}</p>`
    : html`<p class="soft">${_("Your token says who you are. An admin gives you one, or a link that works once.")}</p>
    <div class="field"><label for="token">${_("Token")}</label><input id="token" type="password" autocomplete="current-password" value=${text} onInput=${(event) => setText(event.target.value)} /></div>`}
    ${wrong && html`<div class="note harm" role="alert"><${Text} value=${wrong} /></div>`}
    <div><button class="main" disabled=${busy || (!link.value && !text.trim())}>${_("Log in")}</button></div></div></form></main>`;
}

const ROLES = () => ({ viewer: _("viewer"), operator: _("operator"), approver: _("approver"), admin: _("admin") });

/** Name, roles and the way out, in the frame of every page. */
export function WhoAmI() {
  const who = me.value;
  if (!who?.has_people || !who.name) return null;
  const roles = who.roles.map((role) => ROLES()[role] || role).join(", ");
  const out = who.log_out === "session" ? html`<button class="link" onClick=${leave}>${_("Log out")}</button>`
    : who.log_out ? html`<a class="link" href=${who.log_out}>${_("Log out")}</a>`
      : who.known_by === "os_user" ? html`<button class="link" title=${_("You are known as a user of this machine.")} onClick=${() => { isRefused.value = true; }}>${_("Somebody else?")}</button>` : null;
  return html`<div class="me" role="group" aria-label=${_("Who you are")}><b><${Text} value=${who.name} /></b><span class="faint">${roles}</span>${out}</div>`;
}
