// Errors that are stored: in English, as machines read them. Who reads Chinese gets detent's own in Chinese; the server
// knows them. Until it has answered, and of what it does not know, the English is shown.
import { html, signal } from "./lib.js";
import { language } from "./language.js";
import { Text } from "./text.js";
import { call } from "./wire.js";

const LONGEST = 4000;
const MOST = 100; // of one request
const known = signal(new Map()); // by the English one
const wanted = new Set();
let timer = null;

async function ask() {
  timer = null;
  const texts = [...wanted].slice(0, MOST);
  texts.forEach((text) => wanted.delete(text));
  if (wanted.size) timer = setTimeout(ask, 0);
  const told = await call("/api/sentences", { texts }).then((found) => found.texts, () => texts);
  known.value = new Map([...known.peek(), ...texts.map((text, at) => /** @type {[string, string]} */ ([text, told[at]]))]);
}

/** A stored sentence in the reader's language, as far as it is known by now. */
export function told(text) {
  if (language.value !== "zh" || !text || text.length > LONGEST) return text;
  const found = known.value.get(text);
  if (found === undefined) { wanted.add(text); timer ??= setTimeout(ask, 0); }
  return found ?? text;
}

export function Sentence({ text }) { return html`<${Text} value=${told(text || "")} />`; }

/** What is asked, in the reader's language where detent asks by itself: a doubt is its own question, all others are people's.
 * @param {{question?: string, reason?: string, action?: string}} asked */
export const questionText = ({ question, reason, action }) => (reason === "outcome_unknown" && question ? question.split("\n").map(told).join("\n") : question || action || "");
