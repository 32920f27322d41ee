// What a person reads of an answer while it comes: the text itself, or the response inside one JSON object, with or
// without a fence around it. A brace or a backtick at the beginning stalls nothing.
const KEYS = ["response", "emotion", "memory_update", "tool_call", "ecs_request", "intent"];
const FENCE = /^\s*```(?:json)?[ \t]*\r?\n/i;

/** The object an answer begins, if it is one; undefined as long as it could still become one. */
function inner(raw) {
  if (/^\s*(`{1,2}|```(j|js|jso|json)?[ \t]*\r?)?$/i.test(raw)) return undefined;
  const fence = FENCE.exec(raw);
  const text = fence ? raw.slice(fence[0].length) : raw;
  if (/^\s*(\{\s*)?$/.test(text)) return undefined;
  const begin = /^\s*\{\s*"([A-Za-z_]*)("?)/.exec(text);
  if (!begin) return null;
  if (begin[2]) return KEYS.includes(begin[1]) ? text : null;
  return begin[0].length === text.length && KEYS.some((key) => key.startsWith(begin[1])) ? undefined : null;
}

export function readAnswer(raw) {
  const object = inner(raw);
  if (object === undefined) return "";
  if (object === null) return raw;
  const begin = /"response"\s*:\s*"/.exec(object);
  if (!begin) return "";
  const letters = /^(?:\\u[0-9a-f]{4}|\\[^u]|[^"\\])*/i.exec(object.slice(begin.index + begin[0].length))[0];
  try { return JSON.parse(`"${letters.replace(/\\u[dD][89abAB][0-9a-f]{2}$/i, "").replace(/[\n\r\t]/g, (one) => JSON.stringify(one).slice(1, -1))}"`); } catch { return ""; }
}
