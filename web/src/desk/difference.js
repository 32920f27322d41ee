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
