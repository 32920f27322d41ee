// Every view has an address: `#/runs/ID?tab=timeline&at=12`. Filters are in it, so a link shows what its sender saw.
import { computed, signal } from "./lib.js";

const read = () => {
  const [path, search = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { parts, query: new URLSearchParams(search) };
};

export const place = signal(read());
export const page = computed(() => place.value.parts[0] || "inbox");
addEventListener("hashchange", () => { place.value = read(); });

export const address = (parts, values = {}) => {
  const search = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const text = search.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
};

export function go(parts, values = {}) { location.hash = address(parts, values); }

/** Go somewhere without a step in the history. */
export function replace(parts, values = {}) {
  history.replaceState(null, "", address(parts, values));
  place.value = read();
}

/** Change a few values of the present address, without a step in the history. */
export function tune(values) {
  const { parts, query } = place.value;
  const next = { ...Object.fromEntries(query), ...values };
  history.replaceState(null, "", address(parts, next));
  place.value = read();
}
