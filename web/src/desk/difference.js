// What differs between calls that are to be approved together: values taken apart and compared part by part.

/** A value as `path: leaf`.
 * @param {unknown} value @param {string} path @param {Map<string, string>} found @returns {Map<string, string>} */
export function leaves(value, path = "", found = new Map()) {
  if (value && typeof value === "object" && Object.keys(value).length) for (const [name, inner] of Object.entries(value)) leaves(inner, path ? `${path}.${name}` : name, found);
  else found.set(path, JSON.stringify(value) ?? "");
  return found;
}

/** The paths in which these values are not all the same; and what they have in common.
 * @param {unknown[]} values */
export function differences(values) {
  const each = values.map((value) => leaves(value));
  const paths = [...new Set(each.flatMap((one) => [...one.keys()]))];
  const differing = paths.filter((path) => each.some((one) => one.get(path) !== each[0].get(path)));
  const common = paths.filter((path) => !differing.includes(path)).map((path) => [path, each[0].get(path)]);
  return { each, differing, common };
}

/** Texts cut to a length around the place where they first differ.
 * @param {string[]} texts @param {number} length */
function around(texts, length) {
  let at = 0;
  while (at < texts[0].length && texts.every((text) => text[at] === texts[0][at])) at += 1;
  const from = at > length / 2 ? at - Math.floor(length / 4) : 0;
  return texts.map((text) => `${from ? "…" : ""}${text.slice(from, from + length)}${text.length > from + length ? "…" : ""}`);
}

/** Texts cut to a length, and where two of them would look the same then, the place where those differ beside it.
 * @param {string[]} texts @param {number} length @returns {Map<string, string>} */
export function windows(texts, length) {
  const each = [...new Set(texts)];
  if (each.every((text) => text.length <= length)) return new Map(each.map((text) => [text, text]));
  const shown = around(each, length);
  const found = new Map(each.map((text, at) => [text, shown[at]]));
  for (const view of new Set(shown)) {
    const alike = each.filter((_text, at) => shown[at] === view);
    if (alike.length > 1) for (const [text, other] of windows(alike, length)) found.set(text, `${view} ${other}`);
  }
  return found;
}
