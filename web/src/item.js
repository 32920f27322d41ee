// One question, kept true: as the server asks it now, or as it was when somebody decided it. It never becomes another.
import { effect, signal, useEffect, useMemo } from "./lib.js";
import { moved, renewed } from "./feed.js";
import { call } from "./wire.js";

export const itemPath = (runId, contractId) => `/api/inbox/${encodeURIComponent(runId)}/${contractId.split("/").map(encodeURIComponent).join("/")}`;

const isOther = (was, now) => was.since !== now.since || was.call_hash !== now.call_hash || was.question !== now.question
  || (was.approved_by || []).length !== (now.approved_by || []).length;

/** `{item, decided, trouble}` as a signal, and what ends its keeping. */
export function openItem(runId, contractId) {
  const state = signal({ item: null, decided: null, trouble: "" });
  let isClosed = false;
  let reading = 0;
  const read = async () => {
    const mine = ++reading;
    try {
      const found = await call(itemPath(runId, contractId));
      if (isClosed || mine !== reading) return;
      if (found.item) state.value = { item: found.item, decided: null, trouble: "" };
      else state.value = { item: state.peek().item, decided: found.decided, trouble: "" };
    } catch (error) {
      if (!isClosed && mine === reading) state.value = { ...state.peek(), trouble: state.peek().item ? "" : error.message };
    }
  };
  const close = [
    effect(() => {
      const line = moved.value.find((one) => one.run_id === runId);
      const { item, decided } = state.peek();
      if (!line || !item) return;
      const open = line.waiting.find((one) => one.contract_id === contractId);
      if (open && !decided && !isOther(item.question, open)) return;
      // Dead at once; who it was is asked for.
      if (!open && !decided) state.value = { item, decided: {}, trouble: "" };
      read();
    }),
    effect(() => { renewed.value; read(); }),
  ];
  return { state, close: () => { isClosed = true; close.forEach((end) => end()); } };
}

/** The question of a contract in a component. */
export function useItem(runId, contractId) {
  const opened = useMemo(() => (runId && contractId ? openItem(runId, contractId) : null), [runId, contractId]);
  useEffect(() => () => opened?.close(), [opened]);
  return opened ? opened.state.value : { item: null, decided: null, trouble: "" };
}
