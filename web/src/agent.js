// Which agent a run belongs to: its source says so, never the name of its machine; a run of a run belongs to nobody.
export const agentOf = (run) => (run.source?.startsWith("agent:") && !run.parent ? run.source.slice(6).split(" ")[0] : "");
