// Triggers: what starts runs by itself, its last and next times as a small calendar, and firing or pausing it by hand.
import { html, useEffect, useSignal } from "./lib.js";
import { _ } from "./language.js";
import { mayDo } from "./me.js";
import { age, iso, moment, now } from "./format.js";
import { address, go } from "./route.js";
import { Text } from "./text.js";
import { say } from "./toast.js";
import { call, query, returned } from "./wire.js";

const AGAIN_MS = 5000;
const COUNT = 12;

const CHANGE = () => ({ moved: _("moved: the clock leaves its time out"), once: _("once: the clock shows this time twice") });

/** The planned times by their day, as the trigger's own time zone has it. */
function Calendar({ times }) {
  const days = new Map();
  for (const one of times) days.set(one.time.slice(0, 10), [...(days.get(one.time.slice(0, 10)) || []), one]);
  return html`<div class="body calendar"><h3>${_("What starts next")}</h3><dl>${[...days].map(([day, planned]) => html`<div key=${day}><dt>${day}</dt><dd>${planned.map((one) => html`<div><time datetime=${iso(one.at)} title=${moment(one.at)}>${one.time.slice(11, 16)}</time> <${Text} value=${one.trigger} />
      ${one.change && html` <span class="tag warn">${CHANGE()[one.change]}</span>`}</div>`)}</dd></div>`)}</dl>
    <p class="faint">${_("Each time is in its trigger's own time zone.")}</p></div>`;
}

function Row({ one, refresh }) {
  const move = async (verb) => {
    try {
      const done = await call(`/api/triggers/${encodeURIComponent(one.name)}/${verb}`, {});
      if (done.run_id) go(["runs", done.run_id]);
      else refresh();
    } catch (error) { say(error.message, "harm"); }
  };
  const isBarred = !mayDo("start");
  return html`<tr><td><${Text} value=${one.name} /><div class="faint mono"><${Text} value=${one.about} /></div></td>
    <td><span class="tag">${one.state === "paused" ? _("paused") : _("armed")}</span>
      ${one.file_state === "changed" && html` <span class="tag warn">${_("the file has changed since: add it again")}</span>`}
      ${one.file_state === "gone" && html` <span class="tag harm">${_("the file is unreadable")}</span>`}
      ${one.problem && html`<div class="soft"><${Text} value=${one.problem} /></div>`}</td>
    <td>${one.last_run && html`<a href=${address(["runs", one.last_run])}><time datetime=${iso(one.last_at)} title=${moment(one.last_at)}>${now.value && age(one.last_at)}</time></a>`}</td>
    <td>${one.next_at > 0 && html`<time datetime=${iso(one.next_at)}>${moment(one.next_at)}</time>`}</td>
    <td><div class="row"><button disabled=${isBarred} onClick=${() => move("fire")}>${_("Fire now")}</button>
      <button disabled=${isBarred} onClick=${() => move(one.state === "paused" ? "resume" : "pause")}>${one.state === "paused" ? _("Resume") : _("Pause")}</button></div></td></tr>`;
}

export function Triggers() {
  const found = useSignal(null);
  const refresh = () => call(`/api/triggers${query({ count: COUNT })}`).then((made) => { found.value = made; }).catch(() => {});
  useEffect(() => {
    refresh();
    const again = setInterval(() => { if (!document.hidden) refresh(); }, AGAIN_MS);
    return () => clearInterval(again);
  }, [returned.value]);
  if (!found.value?.triggers.length) return null;
  const { triggers, next, is_driven: isDriven } = found.value;
  return html`<section class="card triggers"><header><h2>${_("Triggers")}</h2></header>
    ${!isDriven && html`<div class="note">${_("Nothing drives them now.")}</div>`}
    <table class="body"><thead><tr><th>${_("Trigger")}</th><th>${_("Status")}</th><th>${_("Last run")}</th><th>${_("Next run")}</th><th></th></tr></thead>
      <tbody>${triggers.map((one) => html`<${Row} key=${one.name} one=${one} refresh=${refresh} />`)}</tbody></table>
    ${next.length > 0 && html`<${Calendar} times=${next} />`}</section>`;
}
