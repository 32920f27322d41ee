// Drafts: what was written and not saved, kept in this browser until it is saved or thrown away.

const KEPT = "detent.draft ";

/** @typedef {{text: string, hash: string, at: number}} Draft what was written, the file it began with, and when */

/** @param {string} name @returns {Draft | null} */
export function readDraft(name) {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT + name) || "null");
    return found && typeof found.text === "string" && typeof found.hash === "string" ? found : null;
  } catch { return null; }
}

/** Whether it could be kept. */
export function keepDraft(name, text, hash) {
  try { localStorage.setItem(KEPT + name, JSON.stringify({ text, hash, at: Date.now() / 1000 })); return true; } catch { return false; }
}

export function dropDraft(name) { try { localStorage.removeItem(KEPT + name); } catch { /* then there is none */ } }

/** Hear that another tab has written a draft of the same file; returns what stops it. */
export function hearOther(name, hear) {
  const listen = (event) => { if (event.key === KEPT + name && event.newValue) hear(); };
  addEventListener("storage", listen);
  return () => removeEventListener("storage", listen);
}
