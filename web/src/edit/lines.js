// What differs between two texts, line by line; and where a place that the server names stands in a text.

const CELLS_MAX = 4_000_000; // of the table that finds the longest common part; beyond it the middle is told as replaced

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Line */

/** Every line of both texts, in order: what stays, what goes, what comes.
 * @param {string} before @param {string} after @returns {Line[]} */
export function differ(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let begin = 0;
  while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin += 1;
  let end = 0;
  while (end < a.length - begin && end < b.length - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (text) => ({ kind: /** @type {const} */ ("same"), text });
  return [...a.slice(0, begin).map(same), ...middle(a.slice(begin, a.length - end), b.slice(begin, b.length - end)), ...a.slice(a.length - end).map(same)];
}

/** @param {string[]} a @param {string[]} b @returns {Line[]} */
function middle(a, b) {
  /** @type {(text: string) => Line} */
  const removed = (text) => ({ kind: "removed", text });
  /** @type {(text: string) => Line} */
  const added = (text) => ({ kind: "added", text });
  if (!a.length || !b.length || a.length * b.length > CELLS_MAX) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width); // longest common part of what follows both places
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push({ kind: /** @type {const} */ ("same"), text: a[i] }); i += 1; j += 1; }
    else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) { found.push(removed(a[i])); i += 1; }
    else { found.push(added(b[j])); j += 1; }
  }
  return found;
}

/** The lines around what differs; a `null` stands for those that were left out.
 * @param {Line[]} lines @param {number} around @returns {(Line | null)[]} */
export function trim(lines, around = 3) {
  const near = new Set(lines.flatMap((line, at) => (line.kind === "same" ? [] : Array.from({ length: 2 * around + 1 }, (_, by) => at - around + by))));
  return lines.flatMap((line, at) => (near.has(at) ? [line] : near.has(at - 1) || (at === 0 && near.size) ? [null] : []));
}

/** Where the column of a line begins and what is marked there ends, in UTF-16 units from the line's beginning. The
 * server counts characters.
 * @param {string} line @param {number} column from 1 @returns {[number, number]} */
export function spot(line, column) {
  const from = Math.min([...line].slice(0, Math.max(0, column - 1)).join("").length, line.length);
  const word = /^["']?[^\s,{}[\]"']+/.exec(line.slice(from));
  return [from, word ? from + word[0].length : line.length];
}
