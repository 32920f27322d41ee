// Letters that pose as others. The terminal looks for the same ones in the same way: surfaces/disguise.py.

// Letters with a Latin twin, by script.
const TWINS = {
  Cyrillic: "аеорсухкіјѕһԁԛԝѵӏѡАВЕКМНОРСТУХІЈЅҮӀԚԜѴ",
  Greek: "αορνυικτγχηωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϿ",
  Armenian: "օոսհցզյՕՍՏ",
  Cherokee: "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏆᏒᏎᏔᏙᏚᏢᏦᏟᏞᏴᏏ",
  Coptic: "ⲟⲣⲥⲓⲕⲞⲢⲤⲔⲘⲚⲦⲨⲬⲎⲒⲂ",
  Lisu: "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ",
};
const SCRIPTS = Object.entries(TWINS).map(([name, twins]) => ({ name, of: new RegExp(`\\p{Script=${name}}`, "u"), twins: new Set(twins) }));
const LATIN = /\p{Script=Latin}/u;
// Latin themselves, and not what they seem; signs that stand for `.`, `/`, `:` and `-` between plain letters.
const LATIN_TWIN = /[\u0251\u0261\u0237\u01c0\u01c3\u0269\u028f]/u;
const DOTLESS = "\u0131"; // a letter of Turkish, and a trap in an address
const FALSE_SIGN = /(?<=[A-Za-z0-9])[\u2024\u3002\uff0e\uff61\u2044\u2215\u29f8\uff0f\ua789\u2236\uff1a\u2010-\u2012\u2212](?=[A-Za-z0-9])/gu;
const TOKEN = /[\p{L}\p{M}\p{N}_.\-@]+/gu;
const LETTERS = /\p{L}+/gu;
const ADDRESS = /@|[\p{L}\p{N}_]\.[\p{L}\p{N}_]/u;
const PLAIN = /^[\x21-\x7e]$/;

/** The script of a letter, if it matters here. */
const scriptOf = (letter) => (LATIN.test(letter) ? "Latin" : SCRIPTS.find(({ of }) => of.test(letter))?.name ?? "");

/** A run of letters: `mask` is the script of all of them if each has a Latin twin, `home` the one it plainly belongs to. */
function wordOf(text, at, token) {
  const letters = [...text];
  const scripts = new Set(letters.map(scriptOf).filter(Boolean));
  const [script = ""] = scripts;
  const twins = SCRIPTS.find(({ name }) => name === script)?.twins;
  const mask = twins && letters.every((letter) => twins.has(letter)) ? script : "";
  return { letters, at, token, scripts, mask, home: mask || scripts.size !== 1 ? "" : script };
}

function wordsOf(text) {
  return [...text.matchAll(TOKEN)].flatMap(({ 0: token, index }) => {
    const words = [...token.matchAll(LETTERS)].map((run) => wordOf(run[0], index + run.index, token));
    const inside = new Set(words.map(({ home }) => home));
    const isAddress = ADDRESS.test(token);
    return words.map((word) => ({ ...word, inside, isAddress }));
  });
}

/** For each word, the script of the last one before it that is not wholly of letters with Latin twins. */
function nearest(words) {
  let last = "";
  return words.map(({ mask, home }) => {
    const before = last;
    if (!mask) last = home;
    return before;
  });
}

function isStrange(letter, { scripts, isAddress }) {
  const mixed = scripts.size > 1 && scriptOf(letter) in TWINS;
  const trap = LATIN_TWIN.test(letter) || (letter === DOTLESS && isAddress);
  const folded = letter > "\u007f" ? letter.normalize("NFKC") : letter;
  return mixed || (trap && scripts.has("Latin")) || (folded !== letter && PLAIN.test(folded));
}

/** Where letters stand that only look like others; a word wholly of such letters is at home among others of its script. */
export function disguised(text) {
  const found = new Set([...text.matchAll(FALSE_SIGN)].map(({ index }) => index));
  const words = wordsOf(text);
  const before = nearest(words);
  const after = nearest([...words].reverse()).reverse();
  words.forEach((word, number) => {
    const around = word.isAddress ? word.inside : new Set([before[number], after[number]]);
    const isHome = around.has(word.mask) || (word.letters.length === 1 && /^\p{L}+$/u.test(word.token));
    let at = word.at;
    for (const letter of word.letters) {
      if (word.mask ? !isHome : isStrange(letter, word)) found.add(at);
      at += letter.length;
    }
  });
  return found;
}
