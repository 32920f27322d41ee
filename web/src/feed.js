// What all pages know of the world: the open questions and the runs that move, kept fresh by one stream.
import { batch, computed, effect, signal } from "./lib.js";
import { _ } from "./language.js";
import { address } from "./route.js";
import { me } from "./me.js";
import { call, isRefused, stream, token } from "./wire.js";

export const inbox = signal(null); // open questions, oldest first; null: not known yet
export const waiting = computed(() => inbox.value?.length ?? 0);
export const moved = signal([]); // the runs of the latest message
export const gone = signal(null); // the question that was decided last, by whoever

const keyOf = (item) => `${item.run_id} ${item.question.contract_id}`;
let stop = () => {};
let asking = null;
let again = false;

/** Read the inbox anew; while one reading is under way, at most one more is kept for after it. */
export function refresh() {
  if (asking) { again = true; return asking; }
  asking = call("/api/inbox?limit=200").then((found) => {
    const known = new Set((inbox.value || []).map(keyOf));
    const fresh = inbox.value ? found.items.filter((item) => !known.has(keyOf(item))) : [];
    inbox.value = found.items;
    fresh.forEach(notify);
    return found.cursor;
  }).finally(() => {
    asking = null;
    if (again) { again = false; refresh().catch(() => {}); }
  });
  return asking;
}

/** A question that is decided disappears before anybody asks the server again. */
export function forget(runId, contractId) {
  if (!inbox.value) return;
  const rest = inbox.value.filter((item) => item.run_id !== runId || item.question.contract_id !== contractId);
  if (rest.length !== inbox.value.length) inbox.value = rest;
}

function hear(message) {
  const lines = message.runs || [];
  batch(() => {
    let isNew = false;
    let items = inbox.value || [];
    for (const line of lines) {
      const open = new Map(line.waiting.map((one) => [one.contract_id, one]));
      const kept = items.filter((item) => item.run_id !== line.run_id || open.has(item.question.contract_id));
      for (const item of items) if (!kept.includes(item)) gone.value = item;
      items = kept;
      const known = new Map(items.filter((item) => item.run_id === line.run_id).map((item) => [item.question.contract_id, item]));
      for (const [id, one] of open) {
        const was = known.get(id)?.question;
        if (!was || was.since !== one.since || was.question !== one.question || (was.approved_by || []).length !== (one.approved_by || []).length) isNew = true;
      }
    }
    if (inbox.value && items.length !== inbox.value.length) inbox.value = items;
    moved.value = lines;
    if (isNew) refresh().catch(() => {});
  });
}

async function connect() {
  stop();
  try {
    const cursor = await refresh();
    stop = stream("/api/events", { after: cursor, hear, onOpen: () => {} });
  } catch {
    if (!isRefused.value) setTimeout(connect, 2000);
  }
}

/** One stream for each page that is seen; of the hidden ones only the one that holds the lock goes on listening, so
    that a browser's few connections to one server are not used up and a notification comes once. */
let holdsLock = false;
export function begin() {
  effect(() => { token.value; me.value?.name; if (!isRefused.value) connect(); else stop(); });
  // The page that held the lock may be closed while this one is hidden: then it is for this one to listen.
  if (navigator.locks) navigator.locks.request("detent-notifier", () => { holdsLock = true; if (document.hidden) connect(); return new Promise(() => {}); });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else if (!holdsLock) stop();
  });
}

export const permission = signal(typeof Notification === "undefined" ? "denied" : Notification.permission);

export async function askPermission() { permission.value = await Notification.requestPermission(); }

function notify(item) {
  if (permission.value !== "granted" || !document.hidden || !holdsLock) return;
  const note = new Notification(_("{machine} asks", { machine: item.title || item.machine }), {
    body: item.question.question.slice(0, 300), tag: keyOf(item), icon: "mark.svg",
  });
  note.onclick = () => { window.focus(); location.hash = address(["inbox", item.run_id, item.question.contract_id]); note.close(); };
}
