// The common part of Markdown as elements: nothing of it becomes markup, a link is only shown, a picture is only named.
import { html } from "./lib.js";
import { Text } from "./text.js";

const INLINE = /(`+)([\s\S]+?)\1|\*\*([^\s*](?:[\s\S]*?[^\s*])?)\*\*|(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\w*])|!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)/g;
const DEEP = 4;

function inline(text, depth = 0) {
  const parts = [];
  let at = 0;
  for (const found of depth < DEEP ? text.matchAll(INLINE) : []) {
    const [whole, , code, bold, slanted, label, target] = found;
    if (found.index > at) parts.push(html`<${Text} value=${text.slice(at, found.index)} />`);
    if (code !== undefined) parts.push(html`<code><${Text} value=${code} /></code>`);
    else if (bold !== undefined) parts.push(html`<b>${inline(bold, depth + 1)}</b>`);
    else if (slanted !== undefined) parts.push(html`<i>${inline(slanted, depth + 1)}</i>`);
    else parts.push(html`<span><${Text} value=${label} />${target && html` <span class="faint">(<${Text} value=${target} />)</span>`}</span>`);
    at = found.index + whole.length;
  }
  if (at < text.length) parts.push(html`<${Text} value=${text.slice(at)} />`);
  return parts;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const isRule = (line) => /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(line) && line.includes("-");
const isBegin = (line) => !line.trim() || /^(#{1,6}\s|```|>|\s*([-*+]|\d{1,9}[.)])\s)/.test(line);

/** The block that begins at a line, and the line after it. */
function block(lines, at) {
  const line = lines[at];
  const until = (fits) => { let end = at + 1; while (end < lines.length && fits(lines[end], end)) end += 1; return end; };
  if (line.startsWith("```")) {
    const end = until((one) => !one.startsWith("```"));
    return [html`<pre><${Text} value=${lines.slice(at + 1, end).join("\n")} /></pre>`, end + 1];
  }
  const head = /^(#{1,6})\s+(.*)/.exec(line);
  if (head) return [head[1].length > 2 ? html`<h3>${inline(head[2])}</h3>` : html`<h2>${inline(head[2])}</h2>`, at + 1];
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) return [html`<hr />`, at + 1];
  if (line.startsWith(">")) {
    const end = until((one) => one.startsWith(">"));
    return [html`<blockquote>${inline(lines.slice(at, end).map((one) => one.replace(/^>\s?/, "")).join("\n"))}</blockquote>`, end];
  }
  if (line.includes("|") && lines[at + 1] !== undefined && isRule(lines[at + 1]) && lines[at + 1].includes("|")) {
    const end = until((one, index) => index === at + 1 || (one.includes("|") && one.trim()));
    return [html`<div class="scroll"><table><thead><tr>${cells(line).map((cell) => html`<th>${inline(cell)}</th>`)}</tr></thead><tbody>${lines.slice(at + 2, end).map((row) => html`<tr>${cells(row).map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`, end];
  }
  const item = ITEM.exec(line);
  if (item) {
    const end = until((one) => ITEM.test(one) || (/^\s+\S/.test(one) && one.trim()));
    const items = [];
    for (const one of lines.slice(at, end)) { const found = ITEM.exec(one); if (found) items.push(found[3]); else items[items.length - 1] += `\n${one.trim()}`; }
    return [html`<${/\d/.test(item[2]) ? "ol" : "ul"}>${items.map((text) => html`<li>${inline(text)}</li>`)}<//>`, end];
  }
  const end = until((one) => !isBegin(one));
  return [html`<p>${inline(lines.slice(at, end).join("\n"))}</p>`, end];
}

export function Markdown({ text }) {
  const lines = String(text ?? "").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) { at += 1; continue; }
    const [made, next] = block(lines, at);
    blocks.push(made);
    at = next;
  }
  return html`<div class="md">${blocks}</div>`;
}
