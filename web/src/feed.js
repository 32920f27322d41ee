// What all pages know of the world: how many questions are open and which runs move, told by one stream.
import { batch, effect, signal } from "./lib.js";
import { _ } from "./language.js";
import { address } from "./route.js";
import { me } from "./me.js";
import { call, isRefused, stream, token } from "./wire.js";

export const waiting = signal(0); // open questions, of all runs
export const moved = signal([]); // the runs of the latest message
export const titles = signal({}); // of machines, by digest, as far as they were told
export const renewed = signal(0); // how often the stream was begun anew: what was heard before may have gaps

const HEARD_MAX = 5000;
const heard = new Set(); // questions that were told to somebody already
let stop = () => {};
let attempt = 0;

function hear(message) {
  const lines = message.runs || [];
  batch(() => {
    if (message.waiting !== undefined) waiting.value = message.waiting;
    if (message.titles) titles.value = { ...titles.peek(), ...message.titles };
    moved.value = lines;
  });
  for (const line of lines) for (const question of line.waiting) {
    const key = `${line.run_id} ${question.contract_id} ${question.since}`;
    if (!heard.has(key)) notify(line, question);
    heard.add(key);
  }
  for (const key of heard) { if (heard.size <= HEARD_MAX) break; heard.delete(key); }
}

async function connect() {
  stop();
  const mine = ++attempt;
  try {
    const found = await call("/api/inbox/lines?limit=0");
    if (mine !== attempt) return;
    waiting.value = found.total;
    stop = stream("/api/events", { after: found.cursor, hear });
    renewed.value += 1;
  } catch {
    if (!isRefused.value && mine === attempt) setTimeout(() => { if (mine === attempt) connect(); }, 2000);
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

function notify(line, question) {
  if (permission.value !== "granted" || !document.hidden || !holdsLock) return;
  const machine = titles.peek()[line.digest] || line.machine;
  const note = new Notification(_("{machine} asks", { machine }), {
    body: question.question.slice(0, 300), tag: `${line.run_id} ${question.contract_id}`, icon: "mark.svg",
  });
  note.onclick = () => { window.focus(); location.hash = address(["inbox", line.run_id, question.contract_id]); note.close(); };
}
