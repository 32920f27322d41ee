// The list of questions: ten thousand lines, of which only those in view are on the page.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { _ } from "../language.js";
import { age, iso, moment } from "../format.js";
import { address } from "../route.js";
import { questionText } from "../sentence.js";
import { Text } from "../text.js";
import { keyOf } from "./store.js";

const ROW = 84; // pixels; the same in desk.css
const MORE = 8; // lines kept above and below what is seen

export const AGES = () => ({ hour: _("less than an hour"), day: _("less than a day"), week: _("less than a week"), older: _("more than a week") });
export const DIMENSIONS = () => ({ machine: _("workflow"), effect: _("effect"), by: _("requester"), age: _("age") });

function Line({ line, place, count, isHere, decided, values }) {
  const style = `top:${place * ROW}px`;
  if (!line) return html`<li class="waits" style=${style} aria-hidden="true"><i /></li>`;
  const href = address(["inbox", line.run_id, line.contract_id], values);
  return html`<li style=${style} aria-setsize=${count} aria-posinset=${place + 1}><a href=${href} aria-current=${isHere ? "true" : undefined} class=${decided ? "decided" : ""}>
    <span class="asks"><${Text} value=${questionText(line)} /></span>
    <span class="meta">${decided ? html`<span class="tag ${decided.approved === false ? "harm" : "good"}">${decided.approved === false ? _("rejected") : decided.approved ? _("approved") : _("decided")}</span>` : null}
      <span class="cut"><${Text} value=${line.title || line.machine} /></span>
      <time datetime=${iso(line.since)} title=${moment(line.since)}>${age(line.since)}</time></span></a></li>`;
}

/** Lines by place; asks for those that come into view. */
export function Queue({ desk, chosen, values }) {
  const box = useRef(null);
  const [seen, setSeen] = useState({ top: 0, height: 800 });
  const count = desk.matching.value ?? 0;
  const lines = desk.lines.value;
  const first = Math.max(0, Math.floor(seen.top / ROW) - MORE);
  const last = Math.min(count, Math.ceil((seen.top + seen.height) / ROW) + MORE);
  const look = () => { const { scrollTop, clientHeight } = box.current; setSeen({ top: scrollTop, height: clientHeight || 800 }); };
  useLayoutEffect(() => { look(); addEventListener("resize", look); return () => removeEventListener("resize", look); }, []);
  useEffect(() => {
    for (let place = first; place < last; place += 1) if (!lines[place] && place < desk.base()) { desk.read(place); break; }
  }, [first, last, lines]);
  // What the person has chosen is brought into view; nothing else scrolls the list.
  useEffect(() => {
    const place = lines.findIndex((line) => line && keyOf(line) === chosen);
    const node = box.current;
    if (place < 0) return;
    const top = place * ROW;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + ROW > node.scrollTop + node.clientHeight) node.scrollTop = top + ROW - node.clientHeight;
  }, [chosen]);
  const shown = [];
  for (let place = first; place < last; place += 1) shown.push([place, lines[place]]);
  return html`<div class="roll" ref=${box} onScroll=${look} tabIndex="-1"><ol style=${`height:${count * ROW}px`}>
    ${shown.map(([place, line]) => html`<${Line} key=${line ? keyOf(line) : place} line=${line} place=${place} count=${count} isHere=${line && keyOf(line) === chosen} decided=${line && desk.decided.value.get(keyOf(line))} values=${values} />`)}</ol></div>`;
}

/** Questions by what they have in common: a click looks into a group. */
export function Groups({ desk, group, values }) {
  const named = (name) => (group === "age" ? AGES()[name] : name) || _("nobody in particular");
  return html`<ul class="groups">${desk.groups.value.map((one) => html`<li key=${one.name}>
    <a href=${address(["inbox"], { ...values, group: "", [group]: one.name })}><span class="grow cut"><${Text} value=${named(one.name)} /></span>
      <b>${one.count.toLocaleString()}</b><time class="faint" title=${moment(one.oldest)}>${age(one.oldest)}</time></a></li>`)}</ul>`;
}
