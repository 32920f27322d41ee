// What `lib.js` gives, with the packages' own types; for the type check alone, no browser sees it.
export { render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal } from "@preact/signals";
export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
