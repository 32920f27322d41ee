// Views of special kinds of runs; each says itself which runs it fits, and stands first among the tabs of such a run.
// Those of agents that other packages bring are loaded when the first of their runs is looked at.
import { agentOf } from "../agent.js";
import { signal } from "../lib.js";
import * as chat from "./chat.js";
import * as coding from "./coding.js";
import * as notebook from "./notebook.js";

const VIEWS = [notebook, coding, chat];
const BUILT_IN = ["notebook", "coding", "assistant"];
const guests = signal({}); // by agent: its view, or null for one that has none

function load(agent) {
  guests.value = { ...guests.value, [agent]: null };
  import(`/agents/${encodeURIComponent(agent)}/view.js`)
    .then((view) => { if (view.View && view.title) guests.value = { ...guests.value, [agent]: view }; })
    .catch(() => { /* it has none, or a broken one: its runs are shown like all others */ });
}

/** The views of a run, as rows of name, title and component. */
export function viewsOf(run, store) {
  const agent = agentOf(run);
  const guest = guests.value[agent];
  if (agent && guest === undefined && !BUILT_IN.includes(agent)) queueMicrotask(() => agent in guests.peek() || load(agent));
  const own = /** @type {any[]} */ (VIEWS).filter((view) => view.fits(run, store)).map((view) => [view.name, view.title(), view.View]);
  return guest ? [[agent, guest.title(), guest.View], ...own] : own;
}
