// Puts the page together in dist/: our sources as they are, the packages beside them with relative addresses.
// No bundler: a browser reads ES modules itself, and what it shows in its tools is what stands here.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const packages = join(here, "node_modules");
const final = join(here, "dist");
const dist = `${final}.new`;

// Bare names in the packages' own imports, and where each of them stands in dist/vendor.
const MODULES = {
  "preact": "preact/dist/preact.mjs",
  "preact/hooks": "preact/hooks/dist/hooks.mjs",
  "@preact/signals-core": "@preact/signals-core/dist/signals-core.mjs",
  "@preact/signals": "@preact/signals/dist/signals.mjs",
  "htm": "htm/dist/htm.mjs",
};
// The editor's: fetched by those who edit, and by nobody else.
const EDITOR = {
  "@codemirror/commands": "@codemirror/commands/dist/index.js",
  "@codemirror/lang-yaml": "@codemirror/lang-yaml/dist/index.js",
  "@codemirror/language": "@codemirror/language/dist/index.js",
  "@codemirror/lint": "@codemirror/lint/dist/index.js",
  "@codemirror/search": "@codemirror/search/dist/index.js",
  "@codemirror/state": "@codemirror/state/dist/index.js",
  "@codemirror/streamparser": "@codemirror/streamparser/dist/index.js",
  "@codemirror/view": "@codemirror/view/dist/index.js",
  "@lezer/common": "@lezer/common/dist/index.js",
  "@lezer/highlight": "@lezer/highlight/dist/index.js",
  "@lezer/lr": "@lezer/lr/dist/index.js",
  "@lezer/yaml": "@lezer/yaml/dist/index.js",
  "@marijn/find-cluster-break": "@marijn/find-cluster-break/src/index.js",
  "crelt": "crelt/index.js",
  "style-mod": "style-mod/src/style-mod.js",
  "w3c-keyname": "w3c-keyname/index.js",
};
Object.assign(MODULES, EDITOR);
const FILES = {
  "sans-400.woff2": "@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-400-normal.woff2",
  "sans-600.woff2": "@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-600-normal.woff2",
  "mono-400.woff2": "@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-400-normal.woff2",
  "mono-500.woff2": "@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-500-normal.woff2",
};
const LICENSES = ["preact", "@preact/signals", "@preact/signals-core", "htm", ...Object.keys(EDITOR)]
  .concat(["@fontsource/ibm-plex-sans", "@fontsource/ibm-plex-mono"]);
const TEXT = /\.(js|css|html|svg|webmanifest|txt)$/;

const flat = (name) => `${name.replace("@", "").replaceAll("/", "-")}.js`;

function relativeImports(text) {
  return text
    .replace(/((?:^|[;}])\s*(?:import\s*|(?:import|export)\b[^;"'()=]*?\bfrom\s*))(["'])([^"'./][^"']*)\2/gm, (whole, word, quote, name) => {
      if (!(name in MODULES)) throw new Error(`a package imports ${name}, which is not listed in build.mjs`);
      return `${word}"./${flat(name)}"`;
    })
    .replace(/\n?\/\/# sourceMappingURL=\S+\s*$/, "\n");
}

function* files(folder) {
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* files(path);
    else yield path;
  }
}

rmSync(dist, { recursive: true, force: true });
cpSync(join(here, "src"), dist, { recursive: true, filter: (path) => !path.endsWith(".d.ts") });
mkdirSync(join(dist, "vendor"));
for (const [name, path] of Object.entries(MODULES)) {
  writeFileSync(join(dist, "vendor", flat(name)), relativeImports(readFileSync(join(packages, path), "utf8")));
}
for (const [name, path] of Object.entries(FILES)) cpSync(join(packages, path), join(dist, "vendor", name));

const notices = LICENSES.map((name) => {
  const about = JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8"));
  const file = readdirSync(join(packages, name)).find((found) => /^licen[sc]e/i.test(found));
  const text = file ? readFileSync(join(packages, name, file), "utf8").trim() : "";
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
});
writeFileSync(join(dist, "vendor", "LICENSES.txt"), notices.join(`\n${"-".repeat(80)}\n\n`));

// How heavy a first visit is at most: the server sends text packed.
const sum = createHash("sha256");
let heavy = 0;
for (const path of files(dist)) {
  const content = readFileSync(path);
  sum.update(relative(dist, path)).update("\0").update(content);
  if (!path.endsWith("LICENSES.txt")) heavy += TEXT.test(path) ? gzipSync(content, { level: 9 }).length : content.length;
}
writeFileSync(join(dist, "version.txt"), `${sum.digest("hex").slice(0, 16)}\n`);
rmSync(final, { recursive: true, force: true });
renameSync(dist, final);
console.log(`dist/: ${Math.round(heavy / 1000)} kB compressed in all`);
