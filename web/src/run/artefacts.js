// The files that a run and the runs below it have kept, each to be fetched.
import { html, useEffect, useSignal } from "../lib.js";
import { _ } from "../language.js";
import { moment } from "../format.js";
import { Text } from "../text.js";
import { say } from "../toast.js";
import { call, download } from "../wire.js";

const leaf = (name) => name.split("/").pop() || name;

export function Artefacts({ store }) {
  const files = useSignal([]);
  const run = store.run.value;
  useEffect(() => {
    const abort = new AbortController();
    call(`${store.base}/artefacts`, undefined, abort).then((found) => { files.value = found.artefacts; }).catch(() => undefined);
    return () => abort.abort();
  }, [store, run.last]);
  if (!files.value.length) return null;
  const fetch = (file) => download(`/api/runs/${encodeURIComponent(file.run_id)}/artefacts/${file.digest}`, leaf(file.name)).catch((error) => say(error.message, "harm"));
  return html`<section class="card"><header><h2>${_("Artefacts")}</h2></header><ul class="body stack">${files.value.map((file) => html`<li key=${`${file.run_id}${file.digest}${file.name}`} class="row wrap">
    <button class="small" onClick=${() => fetch(file)}><${Text} value=${file.name} /></button>
    <span class="faint">${_("{count} bytes", { count: file.size.toLocaleString() })} · ${moment(file.at)}</span>
    <span class="faint mono" title=${file.digest}>${file.digest.slice(0, 12)}</span></li>`)}</ul></section>`;
}
