// Views of special kinds of runs: the one of its agent stands first among the tabs of a run. Each is fetched when the first of
// its runs is looked at, ours like those that other packages bring.
import { agentOf } from "../agent.js";
import { later } from "../later.js";
import { _ } from "../language.js";
import { signal } from "../lib.js";

const BUILT_IN = {
  notebook: ["notebook", () => _("Notebook"), later(() => import("./notebook.js"), "View")],
  coding: ["coding", () => _("Plan and tasks"), later(() => import("./coding.js"), "View")],
  assistant: ["chat", () => _("Conversation"), later(() => import("./chat.js"), "View")],
};
const guests = signal({}); // by agent: its view, or null for one that has none

function load(agent) {
  guests.value = { ...guests.value, [agent]: null };
  import(`/agents/${encodeURIComponent(agent)}/view.js`)
    .then((view) => { if (view.View && view.title) guests.value = { ...guests.value, [agent]: view }; })
    .catch(() => { /* it has none, or a broken one: its runs are shown like all others */ });
}

/** The views of a run, as rows of name, title and component. */
export function viewsOf(run) {
  const agent = agentOf(run);
  if (Object.hasOwn(BUILT_IN, agent)) {
    const [name, title, View] = BUILT_IN[agent];
    return [[name, title(), View]];
  }
  const guest = guests.value[agent];
  if (agent && guest === undefined) queueMicrotask(() => agent in guests.peek() || load(agent));
  return guest ? [[agent, guest.title(), guest.View]] : [];
}
