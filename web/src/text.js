// Text from runs is hostile: it is only ever shown as text, and what would deceive the eye is made visible.
import { html } from "./lib.js";
import { _ } from "./language.js";
import { disguised } from "./disguise.js";

// Control, format, private and unassigned characters, lone surrogates, and spaces that are not what they seem.
const ODD = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u0334-\u0338\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb\u2800\u034f\u00a0\u1680\u2000-\u200a\u202f\u205f\u115f\u1160\u3164\uffa0]/u;
const PLAIN = new Set(["\n", "\t"]);
// Marks piled upon one letter cover the lines above; no language needs more than three.
const PILED = /(?<=\p{Mn}{3})\p{Mn}/gu;

const NAMES = {
  0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding", 0x202c: "pop directional",
  0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "pop isolate",
  0x200b: "zero-width space", 0x200c: "zero-width non-joiner", 0x200d: "zero-width joiner", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x2060: "word joiner", 0xfeff: "byte-order mark", 0x00a0: "no-break space",
  0x1b: "escape", 0x00: "null", 0x07: "bell", 0x08: "backspace", 0x0d: "carriage return", 0xad: "soft hyphen",
};

const code = (letter) => `U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The text in pieces: strings, and `{letter, kind}` for what must be pointed at. */
export function pieces(text) {
  if (/^[\x20-\x7e\n\t]*$/.test(text)) return [text];
  const posing = disguised(text);
  const piled = new Set([...text.matchAll(PILED)].map(({ index }) => index));
  const found = [];
  let plain = "";
  let at = 0;
  const flush = () => { if (plain) found.push(plain); plain = ""; };
  for (const letter of text) {
    if ((ODD.test(letter) && !PLAIN.has(letter)) || piled.has(at)) { flush(); found.push({ letter, kind: "odd" }); }
    else if (posing.has(at)) { flush(); found.push({ letter, kind: "lookalike" }); }
    else plain += letter;
    at += letter.length;
  }
  flush();
  return found;
}

export const isOdd = (text) => pieces(text).some((piece) => typeof piece !== "string");

function mark({ letter, kind }) {
  const name = NAMES[letter.codePointAt(0)];
  const title = kind === "lookalike"
    ? _("{code}: looks like another letter", { code: code(letter) })
    : `${code(letter)}${name ? ` ${name}` : ""}`;
  return kind === "lookalike"
    ? html`<span class="odd lookalike" title=${title}>${letter}<span class="code">${code(letter)}</span></span>`
    : html`<span class="odd" title=${title}>${code(letter)}</span>`;
}

/** Text as text, in a direction of its own. */
export function Text({ value, class: name = "" }) {
  const text = typeof value === "string" ? value : String(value ?? "");
  return html`<bdi class=${`text ${name}`}>${pieces(text).map((piece) => (typeof piece === "string" ? piece : mark(piece)))}</bdi>`;
}

/** A sentence with hostile values in it: `text` still has its `{name}`s, each becomes a text of its own. */
export function Said({ text, ...values }) {
  return text.split(/(\{\w+\})/).map((part) => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    return name && name in values ? html`<${Text} value=${values[name]} />` : part;
  });
}

/** A warning where a value holds such letters anywhere. */
export function hasOdd(value) {
  if (typeof value === "string") return isOdd(value);
  if (Array.isArray(value)) return value.some(hasOdd);
  if (value && typeof value === "object") return Object.entries(value).some(([key, inner]) => isOdd(key) || hasOdd(inner));
  return false;
}
