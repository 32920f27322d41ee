// The page's view of a tidy run: what it found, and what became of each file. It uses the page's own modules.
import { html, useEffect, useState } from "/lib.js";
import { language } from "/language.js";
import { Text } from "/text.js";
import { call } from "/wire.js";

const CHINESE = { "Old files": "旧文件", "{count} bytes": "{count} 字节", "removed": "已删除", "left alone": "未删除", "found": "已找到" };
const _ = (text) => (language.value === "zh" ? CHINESE[text] ?? text : text);

export const title = () => _("Old files");

export function View({ store }) {
  const [sheet, setSheet] = useState(null);
  const run = store.run.value;
  useEffect(() => { call(`${store.base}/tidy`).then(setSheet).catch(() => setSheet(null)); }, [run.seq]);
  const fate = (name) => (sheet.removed.includes(name) ? _("removed") : sheet.changed.includes(name) ? _("left alone") : _("found"));
  return html`<section class="card"><header><h2>${title()}</h2></header><ul class="body">${(sheet?.found || []).map((file) => html`<li key=${file.name} class="row">
    <code class="grow"><${Text} value=${file.name} /></code><span class="faint">${_("{count} bytes").replace("{count}", file.bytes)}</span><span class="tag">${fate(file.name)}</span></li>`)}</ul></section>`;
}
