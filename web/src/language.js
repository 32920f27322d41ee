// Two languages. A sentence is written in English where it is used; `words/zh.js` has it in Chinese.
import { signal } from "./lib.js";

const KEPT = "detent.language";

const wished = () => {
  const kept = localStorage.getItem(KEPT);
  if (kept === "en" || kept === "zh") return kept;
  return (navigator.languages || [navigator.language]).some((name) => /^zh\b/i.test(name)) &&
    !/^en\b/i.test(navigator.languages?.[0] || "") ? "zh" : "en";
};

/** @type {Record<string, string>} */
let chinese = {};
// A third of the page's words is for one half of its readers: fetched when they are wanted.
const learn = async () => { chinese = (await import("./words/zh.js")).CHINESE; };
if (wished() === "zh") await learn();

export const language = signal(wished());

export async function speak(name) {
  if (name === "zh") await learn();
  localStorage.setItem(KEPT, name);
  language.value = name;
}

/** A sentence in the reader's language, with `{name}` filled in. */
export function _(sentence, values = {}) {
  const said = language.value === "zh" ? chinese[sentence] ?? sentence : sentence;
  return said.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const locale = () => (language.value === "zh" ? "zh-CN" : "en-GB");
