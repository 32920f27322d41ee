// The colours that programs write: escape sequences become names of classes; what is no colour stays and is pointed at.

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const SEQUENCE = /\x1b\[([0-9;:]*)m/g;
// What moves the cursor or clears a line says nothing on paper; what it would have hidden is left standing.
const MOVES = /\x1b\[[0-9;?]*[A-HJKSTfhlnsu]|\x1b[=>78]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g;

/** The nearest of eight colours to one of 256, or to red, green and blue.
 * @param {number[]} parts */
function nearest(parts) {
  let [red, green, blue] = parts;
  if (parts.length === 1) {
    const [code] = parts;
    if (code < 16) return COLOURS[code % 8];
    if (code > 231) return code > 243 ? "white" : "black";
    [red, green, blue] = [Math.floor((code - 16) / 36), Math.floor((code - 16) / 6) % 6, (code - 16) % 6].map((one) => one * 51);
  }
  const most = Math.max(red, green, blue);
  if (most < 64) return "black";
  const on = (one) => (one > most * 0.6 ? 1 : 0);
  return COLOURS[on(red) + 2 * on(green) + 4 * on(blue)];
}

/** @param {Record<string, any>} style @param {number[]} codes */
function apply(style, codes) {
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) for (const name of Object.keys(style)) delete style[name];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) { delete style.bold; delete style.dim; }
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.underline;
    else if (code === 27) delete style.inverse;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style.ink = COLOURS[code % 10];
    else if (code === 39) delete style.ink;
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) style.ground = COLOURS[code % 10];
    else if (code === 49) delete style.ground;
    else if (code === 38 || code === 48) {
      const length = codes[at + 1] === 2 ? 3 : 1;
      const found = nearest(codes.slice(at + 2, at + 2 + length).map((one) => one || 0));
      if (code === 38) style.ink = found; else style.ground = found;
      at += length + 1;
    }
  }
}

const names = (style) => [style.bold && "bold", style.dim && "dim", style.italic && "italic", style.underline && "underline", style.inverse && "inverse", style.ink && `ink-${style.ink}`, style.ground && `ground-${style.ground}`].filter(Boolean).join(" ");

/** A program's output in pieces of one look each; a line that was written over stands as a line of its own.
 * @param {string} written @returns {{text: string, look: string}[]} */
export function paint(written) {
  const text = written.replace(/\r+\n/g, "\n").replace(/\r/g, "\n").replace(MOVES, "");
  const pieces = [];
  const style = {};
  let from = 0;
  const add = (upto) => { if (upto > from) pieces.push({ text: text.slice(from, upto), look: names(style) }); };
  for (const found of text.matchAll(SEQUENCE)) {
    add(found.index);
    from = found.index + found[0].length;
    apply(style, found[1] === "" ? [0] : found[1].split(/[;:]/).map(Number));
  }
  add(text.length);
  return pieces;
}
