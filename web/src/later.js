// Parts of the page whose code and looks are fetched when somebody goes there: the first view is the lighter for it.
import { html, signal, useEffect } from "./lib.js";
import { _ } from "./language.js";
import { say } from "./toast.js";

const sheets = new Map(); // by address: when it is there

/** A style sheet, once. */
function dress(address) {
  if (!sheets.has(address)) {
    sheets.set(address, new Promise((resolve) => {
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = address;
      link.onload = link.onerror = resolve;
      document.head.append(link);
    }));
  }
  return sheets.get(address);
}

/** A component of a module that is not here yet; `sheet` is a style sheet that it needs. */
export function later(load, name, sheet = "") {
  const found = signal(null);
  return (props) => {
    useEffect(() => {
      if (found.value) return;
      Promise.all([load(), sheet && dress(sheet)]).then(([module]) => { found.value = module[name]; }, (error) => say(error.message, "harm"));
    }, []);
    return found.value ? html`<${found.value} ...${props} />` : html`<div class="skeleton" role="status" aria-label=${_("loading")}><i /><i /></div>`;
  };
}
