// What looks secret by its name is covered, also where a value has only one line.
export const SECRET = /pass(word|wd|phrase)?$|secret|token$|api_?key|authorization|credential|private_?key/i;
export const COVER = "••••••••";

/** A value under its name, where there is no room to click on it: covered for good if it looks secret.
 * @param {string} name @param {any} value */
export const cover = (name, value) => (SECRET.test(name) && typeof value === "string" && value ? COVER : value);

/** One line about a value, for places without room.
 * @param {any} value */
export function brief(value, length = 90) {
  let text;
  try { text = typeof value === "string" ? value : JSON.stringify(value, cover) ?? ""; } catch { text = ""; }
  text = text.replace(/\s+/g, " ");
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
