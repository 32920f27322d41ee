// A card that has just appeared, changed or moved takes no decision for a moment: whoever was about to press something
// else must not press this.
import { useEffect, useLayoutEffect, useRef, useState } from "./lib.js";

export const DEAD_MS = 400;
const LOOK_MS = 100; // between two looks at where a card stands
const MOVED = 6; // pixels

/** Where something stands: on the page, and in the window. A scroll changes one of them, a shift of the page both. */
function standing(element) {
  const { top, left } = (element.querySelector(".deciding") || element).getBoundingClientRect();
  return { at: performance.now(), page: [top + scrollY, left + scrollX], window: [top, left] };
}

const apart = (one, two) => Math.max(Math.abs(one[0] - two[0]), Math.abs(one[1] - two[1]));
const hasMoved = (one, two) => Math.min(apart(one.page, two.page), apart(one.window, two.window)) > MOVED;

/** For what takes decisions: a ref, whether it is dead now, and the handlers that keep a press from it while it is. */
export function useGuard(key) {
  const ref = useRef(null);
  const since = useRef(0);
  const places = useRef([]);
  const [isDead, setDead] = useState(true);
  const dying = useRef(0);
  // The time counts from when it can be seen: a busy browser paints later than it changes the page.
  const die = () => {
    const mine = ++dying.current;
    since.current = Infinity;
    setDead(true);
    requestAnimationFrame(() => requestAnimationFrame(() => { if (mine === dying.current) since.current = performance.now(); }));
  };
  useLayoutEffect(() => { places.current = []; die(); }, [key]);
  useEffect(() => {
    const shown = () => { if (!document.hidden) die(); };
    const look = () => {
      if (document.hidden || !ref.current) return;
      const now = standing(ref.current);
      if (places.current.some((one) => hasMoved(one, now))) { places.current = []; die(); }
      places.current = [...places.current.filter((one) => now.at - one.at < DEAD_MS), now];
      if (performance.now() - since.current >= DEAD_MS) setDead(false);
    };
    document.addEventListener("visibilitychange", shown);
    const timer = setInterval(look, LOOK_MS);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", shown); };
  }, []);
  // `at`: when the press was made, which may be long before anybody has time to look at it.
  const isFresh = (at) => {
    if (at - since.current < DEAD_MS) return true;
    const now = ref.current && standing(ref.current);
    return Boolean(now) && places.current.some((one) => hasMoved(one, now));
  };
  // Who presses again and again means what was there before: each press in vain asks for another moment of rest.
  const stop = (event) => {
    if (!isFresh(event.timeStamp)) return;
    event.preventDefault();
    event.stopPropagation();
    if (since.current !== Infinity) { since.current = Math.max(since.current, event.timeStamp); setDead(true); }
  };
  // A key that is held down presses again and again: only its first press counts.
  const press = (event) => { if (event.repeat && (event.key === "Enter" || event.key === " ") && !event.target.closest("textarea")) event.preventDefault(); };
  return /** @type {const} */ ([isDead, { ref, onClickCapture: stop, onSubmitCapture: stop, onKeyDownCapture: press }]);
}
