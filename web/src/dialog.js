// A dialog that keeps the focus inside and closes with Escape: the browser's own.
import { html, useEffect, useRef } from "./lib.js";
import { _ } from "./language.js";

export function Dialog({ title, close, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
    return () => dialog.current?.close();
  }, []);
  const outside = (event) => { if (event.target === dialog.current) close(); };
  return html`<dialog ref=${dialog} aria-label=${title} onCancel=${(event) => { event.preventDefault(); close(); }} onClick=${outside}>
    <div class="inside"><h2>${title}</h2>${children}</div></dialog>`;
}

export function Ends({ close, children }) {
  return html`<div class="ends"><button type="button" class="quiet" onClick=${close}>${_("Close")}</button>${children}</div>`;
}
