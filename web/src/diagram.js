// The picture of a machine, drawn from nodes and edges with their places. The places come with the picture: they
// are detent's own layout, the same as `detent graph`.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { _ } from "./language.js";
import { Text } from "./text.js";

const MARGIN = 22;
const NAME_LINE = 20;
const SMALL_LINE = 16;

const MARKS = {
  ask: "M5 9V4.2a1 1 0 0 1 2 0V8M7 8V2.8a1 1 0 0 1 2 0V8M9 8V3.6a1 1 0 0 1 2 0V9M11 9V5.8a1 1 0 0 1 2 0v4.7a4 4 0 0 1-4 4h-.6a4.5 4.5 0 0 1-3.5-1.8L2.7 10a1.1 1.1 0 0 1 1.7-1.4l.6.7",
  wait: "M8 2a6 6 0 1 1 0 12a6 6 0 1 1 0-12M8 4.8V8l2.3 1.6",
  parallel: "M3.5 3v10M8 3v10M12.5 3v10",
  completed: "M3 8.6l3.3 3.3L13 4.6", failed: "M4 4l8 8M12 4l-8 8",
  rejected: "M8 2a6 6 0 1 1 0 12a6 6 0 1 1 0-12M3.8 3.8l8.4 8.4", cancelled: "M8 2a6 6 0 1 1 0 12a6 6 0 1 1 0-12M5 8h6",
};

/** A line through points with rounded corners, ending a little before the last one: there is the arrow. */
function line(points) {
  const [first, ...rest] = points;
  let path = `M${first[0]} ${first[1]}`;
  let from = first;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (!next) { path += `L${point[0]} ${point[1]}`; return; }
    const before = Math.hypot(point[0] - from[0], point[1] - from[1]);
    const after = Math.hypot(next[0] - point[0], next[1] - point[1]);
    const radius = Math.min(9, before / 2, after / 2);
    const cut = (to, length) => [point[0] + ((to[0] - point[0]) / (length || 1)) * radius, point[1] + ((to[1] - point[1]) / (length || 1)) * radius];
    const [ax, ay] = cut(from, before);
    const [bx, by] = cut(next, after);
    path += `L${ax} ${ay}Q${point[0]} ${point[1]} ${bx} ${by}`;
    from = point;
  });
  return path;
}

function tip(points) {
  const [x, y] = points[points.length - 1];
  const [px, py] = points[points.length - 2] || [x, y - 1];
  const length = Math.hypot(x - px, y - py) || 1;
  const [dx, dy] = [(x - px) / length, (y - py) / length];
  const [bx, by] = [x - dx * 9, y - dy * 9];
  return `M${x} ${y}L${bx - dy * 4.2} ${by + dx * 4.2}L${bx + dy * 4.2} ${by - dx * 4.2}z`;
}

const shorten = (text, length) => ([...text].length > length ? `${[...text].slice(0, length - 1).join("")}…` : text);

/** How far the lanes of a state have come, in one thin line: a part for each status, as long as there are such lanes. */
function Progress({ sum, x, y, width }) {
  const counts = [["completed", sum.completed], ["failed", sum.failed], ["waiting", sum.waiting], ["running", sum.begun - sum.completed - sum.failed - sum.waiting]];
  let from = x;
  return counts.filter(([, count]) => count > 0).map(([name, count]) => {
    const length = (width * count) / sum.total;
    from += length;
    return html`<rect class=${`part ${name}`} x=${from - length} y=${y} width=${Math.max(1, length)} height="3" />`;
  });
}

const LETTERS = { p: "pending", r: "running", w: "waiting", c: "completed", f: "failed" };

/** The name of a state in a picture that is too small for its own letters: as much of it as can be read, or nothing. */
function TinyName({ node: { box, text }, size }) {
  const letters = Math.floor((box.width - 8) / (size * 0.58));
  return letters >= 3 && size < box.height && html`<text class="name" style=${{ fontSize: `${size}px` }} x=${box.x + box.width / 2} y=${box.y + box.height / 2 + size * 0.35}>${shorten(text, letters)}</text>`;
}

function Node({ node, isLit, isSeen, mark, lit, lanes, open, tinySize = 0 }) {
  const { box } = node;
  const marks = node.marks.length ? node.marks : node.is_end ? [node.kind] : [];
  const height = NAME_LINE + (node.details.length + node.lanes.length) * SMALL_LINE + (node.lanes.length ? 4 : 0);
  const middle = box.x + box.width / 2;
  let y = box.y + (box.height - height) / 2 + 15;
  const name = shorten(node.text, 40);
  const shift = marks.length ? 11 : 0;
  const title = [node.text, ...node.details, ...(node.members || []), ...node.lanes].join("\n");
  const names = ["node", node.kind, isSeen && "seen", isLit && "lit", mark].filter(Boolean).join(" ");
  const parts = [];
  const details = node.members?.length && isLit ? [_("now: {state}", { state: lit })] : node.members?.length ? [_("{count} states", { count: node.members.length })] : node.details;
  const sums = isLit ? (lanes || []).filter((sum) => !sum.path) : [];
  details.forEach((text) => { y += SMALL_LINE; parts.push(html`<text class="detail" x=${middle} y=${y}>${shorten(text, 36)}</text>`); });
  if (node.lanes.length) y += 4;
  node.lanes.forEach((text, at) => {
    y += SMALL_LINE;
    const [each, branch] = [sums.find((sum) => sum.is_each), sums.find((sum) => !sum.is_each && sum.marks)];
    parts.push(html`<g><rect class=${`lane ${LETTERS[branch?.marks[at]] || ""}`} x=${box.x + 8} y=${y - 12} width=${box.width - 16} height="15" rx="3" />${each && html`<${Progress} sum=${each} x=${box.x + 8} y=${y + 3} width=${box.width - 16} />`}<text class="detail" x=${middle} y=${y}>${shorten(text, 36)}</text></g>`);
  });
  const top = box.y + (box.height - height) / 2 + 15;
  const half = Math.min(box.width / 2 - 14, name.length * 4.1);
  return html`<g class=${names} data-state=${node.id} onClick=${open && node.members?.length ? () => open(node.id) : undefined} aria-current=${isLit ? "step" : undefined}><title>${title}</title>
    ${node.members?.length > 0 && html`<rect class="box behind" x=${box.x + 5} y=${box.y + 5} width=${box.width} height=${box.height} rx="9" />`}
    <rect class="halo" x=${box.x - 4} y=${box.y - 4} width=${box.width + 8} height=${box.height + 8} rx="13" />
    <rect class="box" x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx=${node.is_end ? Math.min(22, box.height / 2) : 9} />
    ${node.is_end && html`<rect class="inner" x=${box.x + 3.5} y=${box.y + 3.5} width=${box.width - 7} height=${box.height - 7} rx=${Math.min(19, box.height / 2 - 3)} />`}
    ${node.is_initial && html`<g><circle class="dot" cx=${middle} cy=${box.y - 24} r="5" /><path class="wire" d=${`M${middle} ${box.y - 19}V${box.y - 4}`} /><path class="tip" d=${tip([[middle, box.y - 19], [middle, box.y]])} /></g>`}
    ${marks.slice(0, 2).map((mark, at) => html`<path class="mark" d=${MARKS[mark]} transform=${`translate(${middle - half - 12 - at * 20} ${top - 12})`} />`)}
    ${tinySize ? html`<${TinyName} node=${node} size=${tinySize} />` : html`<text class="name" x=${middle + shift} y=${top}>${name}</text>`}${parts}</g>`;
}

function Edge({ edge, isTaken }) {
  if (edge.points.length < 2) return null;
  const names = `edge ${edge.kind} ${isTaken ? "taken" : ""}`;
  return html`<g class=${names}><title>${`${edge.source} → ${edge.target}${edge.labels.length ? `: ${edge.labels.map((label) => label.text).join(", ")}` : ""}`}</title>
    <path class="wire" d=${line(edge.points)} /><path class="tip" d=${tip(edge.points)} /></g>`;
}

function Labels({ edge, isTaken }) {
  const { label_box: box, labels } = edge;
  if (!box || !labels.length) return null;
  const pitch = box.height / labels.length;
  return html`<g><rect class="under" x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="3" />
    ${labels.map((label, at) => html`<text class=${`label ${label.kind} ${isTaken && label.is_visited ? "taken" : ""}`} x=${box.x + box.width / 2} y=${box.y + pitch * (at + 0.5) + 4}>${shorten(label.text, 44)}</text>`)}</g>`;
}

/** Where a state stands in a picture: on its own, or in a group that is drawn as one box. */
const standing = (graph, name) => graph.nodes.find((one) => one.id === name) || graph.nodes.find((one) => one.members?.includes(name));

/** In words, for those who do not see it. */
function describe(graph, lit, status) {
  const begin = graph.nodes.find((node) => node.is_initial)?.text || "";
  const first = _("State machine {name}: {count} states, begins in {begin}.", { name: graph.machine, count: graph.nodes.reduce((sum, node) => sum + (node.members?.length || 1), 0), begin });
  return lit ? `${first} ${_("The run is {status} in {state}.", { status, state: lit })}` : first;
}

/** `way`: the transitions a run took, `{source, target}`; `marks`: classes by state, for comparisons. */
export function Machine({ graph, lit = "", status = "", seen, marks = {}, isSmall = false, scale = 1, wayOf, lanes = [], open }) {
  const svg = useRef(null);
  const here = lit && standing(graph, lit)?.id;
  const isSeen = (node) => (seen ? seen.has(node.id) : node.is_visited);
  const isTaken = (edge) => (wayOf ? wayOf(edge) : edge.visits > 0);
  const [width, height] = [graph.width + 2 * MARGIN, graph.height + 2 * MARGIN];
  useLayoutEffect(() => {
    if (lit && performance.getEntriesByName("detent:heard").length) {
      performance.measure("detent:lit", "detent:heard");
      performance.clearMarks("detent:heard");
    }
  }, [lit, status]);
  // An edge that is taken is drawn anew, above the others: Chromium keeps the colours of one that is moved and changed at once.
  const keyOf = (edge) => `${edge.source} ${edge.target} ${isTaken(edge)}`;
  const edges = [...graph.edges].sort((a, b) => Number(isTaken(a)) - Number(isTaken(b)));
  const fit = Math.min(THUMB_WIDTH / width, THUMB_HEIGHT / height);
  const tinySize = isSmall && fit < LEAST ? TINY_LETTER / fit : 0;
  return html`<svg ref=${svg} class=${`machine ${status} ${tinySize ? "tiny" : ""}`} role="img" aria-label=${describe(graph, lit, status)} viewBox=${`0 0 ${width} ${height}`}
      width=${isSmall ? undefined : width * scale} height=${isSmall ? undefined : height * scale}>
    <g transform=${`translate(${MARGIN} ${MARGIN})`}>
      ${edges.map((edge) => html`<${Edge} key=${keyOf(edge)} edge=${edge} isTaken=${isTaken(edge)} />`)}
      ${!isSmall && edges.map((edge) => html`<${Labels} key=${keyOf(edge)} edge=${edge} isTaken=${isTaken(edge)} />`)}
      ${graph.nodes.map((node) => html`<${Node} key=${node.id} node=${node} isLit=${node.id === here} isSeen=${isSeen(node)} mark=${marks[node.id]} lit=${lit} lanes=${lanes} open=${open} tinySize=${tinySize} />`)}
    </g></svg>`;
}

const [THUMB_WIDTH, THUMB_HEIGHT] = [280, 166];
const LEAST = 0.6; // smaller than that nobody reads the names; the rest is then reached by moving the picture
const TINY_LETTER = 8.5; // pixels of a letter in a thumbnail
const [MIN, MAX, STEP] = [0.15, 2.5, 1.25];
const WHOLE = "whole";
const MANY = 8; // states; of fewer, everybody finds theirs
const BAR = 16; // pixels of a scrollbar

const ICONS = {
  full: "M2.5 2.5h11v11h-11zM5.5 5.5h5v5h-5z", out: "M3 8h10", in: "M3 8h10M8 3v10", whole: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
};

function Tool({ icon, text, about, press, isOn }) {
  return html`<button type="button" class="quiet small" onClick=${press} aria-pressed=${isOn === undefined ? undefined : String(isOn)} title=${about}>
    <svg viewBox="0 0 16 16" width="15" height="15" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${ICONS[icon]} /></svg><span class="unseen">${text}</span></button>`;
}

/** How large the frame is; it changes with the window. */
function useRoom(frame) {
  const [room, setRoom] = useState(null);
  useLayoutEffect(() => {
    const look = () => {
      // Less a scrollbar, whether there is one or not: else its coming and going would change the room it comes and goes by.
      const width = frame.current.offsetWidth - BAR;
      const height = (parseFloat(getComputedStyle(frame.current).maxHeight) || frame.current.clientHeight) - BAR;
      setRoom((was) => (was?.width === width && was.height === height ? was : { width, height }));
    };
    const watch = new ResizeObserver(look);
    watch.observe(frame.current.parentElement);
    look();
    return () => watch.disconnect();
  }, []);
  return room;
}

/** Move the picture with the mouse, as one moves a map, and enlarge it with Ctrl and the wheel. A finger scrolls anyway. */
function useHand(frame, enlarge) {
  const now = useRef(enlarge);
  now.current = enlarge;
  useEffect(() => {
    const box = frame.current;
    let from = null;
    const down = (event) => { if (event.pointerType === "mouse" && event.button === 0) from = { x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop, id: event.pointerId }; };
    const move = (event) => {
      if (!from) return;
      if (!box.hasPointerCapture(from.id)) { box.setPointerCapture(from.id); box.classList.add("held"); }
      box.scrollTo({ left: from.x - event.clientX, top: from.y - event.clientY, behavior: "instant" });
    };
    const up = () => { from = null; box.classList.remove("held"); };
    const wheel = (event) => { if (event.ctrlKey) { event.preventDefault(); now.current(Math.exp(-event.deltaY / 300), event); } };
    const heard = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, wheel };
    for (const [name, hear] of Object.entries(heard)) box.addEventListener(name, hear, { passive: false });
    return () => { for (const [name, hear] of Object.entries(heard)) box.removeEventListener(name, hear); };
  }, []);
}

/** The picture in a frame: as large as can be read, with the lit state in view; it can be moved and enlarged. */
export function Diagram(props) {
  const { graph, lit, unfold } = props;
  const frame = useRef(null);
  const room = useRoom(frame);
  const [zoom, setZoom] = useState(null); // null: by itself
  const fit = room ? Math.min(1, room.width / (graph.width + 2 * MARGIN)) : 1;
  const all = room ? Math.min(fit, room.height / (graph.height + 2 * MARGIN)) : 1;
  const scale = zoom === WHOLE ? all : zoom ?? Math.max(all, Math.min(1, Math.max(LEAST, fit)));
  const kept = useRef(null); // the point of the picture that stays where it is while the scale changes
  const enlarge = (by, event) => {
    const box = frame.current;
    const edge = box.getBoundingClientRect();
    const [x, y] = event ? [event.clientX - edge.left, event.clientY - edge.top] : [box.clientWidth / 2, box.clientHeight / 2];
    kept.current = { x, y, px: (box.scrollLeft + x) / scale, py: (box.scrollTop + y) / scale };
    setZoom(Math.min(MAX, Math.max(MIN, scale * by)));
  };
  useHand(frame, enlarge);
  useLayoutEffect(() => {
    const point = kept.current;
    if (point) frame.current.scrollTo({ left: point.px * scale - point.x, top: point.py * scale - point.y, behavior: "instant" });
    kept.current = null;
  }, [scale]);
  const first = useRef(true);
  useEffect(() => {
    const box = frame.current;
    const node = lit && standing(graph, lit)?.box;
    if (!node || !box || !room) return;
    const isQuiet = first.current || matchMedia("(prefers-reduced-motion: reduce)").matches;
    const [x, y] = [(node.x + MARGIN + node.width / 2) * scale, (node.y + MARGIN + node.height / 2) * scale];
    first.current = false;
    box.scrollTo({ left: Math.max(0, x - box.clientWidth / 2), top: Math.max(0, y - box.clientHeight / 2), behavior: isQuiet ? "instant" : "smooth" });
  }, [lit, Boolean(room), zoom === null, graph.width, graph.height]);
  const [found, setFound] = useState(""); // a state that somebody looks for
  const [isFull, setFull] = useState(false);
  const whole = useRef(null);
  const groups = graph.groups || [];
  const opened = groups.filter((one) => one.is_open).map((one) => one.name);
  const toggle = (name) => unfold(opened.includes(name) ? opened.filter((one) => one !== name) : [...opened, name]);
  const show = (text) => {
    const fits = (one) => one === text || one.toLowerCase().includes(text.toLowerCase());
    const names = [...graph.nodes.map((one) => one.id), ...groups.flatMap((one) => one.states)];
    const name = text && (names.find((one) => one === text) || graph.nodes.find((one) => fits(one.text))?.id || names.find(fits));
    setFound(name || "");
    if (!name) return;
    if (standing(graph, name).id !== name && unfold) { unfold([...opened, standing(graph, name).id]); return; } // it is shown when it is there
    near(standing(graph, name));
  };
  const near = (node) => {
    const large = Math.max(scale, 1);
    const box = frame.current;
    kept.current = { x: box.clientWidth / 2, y: box.clientHeight / 2, px: node.box.x + MARGIN + node.box.width / 2, py: node.box.y + MARGIN + node.box.height / 2 };
    if (large === scale) { box.scrollTo({ left: kept.current.px * scale - kept.current.x, top: kept.current.py * scale - kept.current.y, behavior: "instant" }); kept.current = null; } else setZoom(large);
  };
  useEffect(() => { const node = found && graph.nodes.find((one) => one.id === found); if (node) near(node); }, [graph.nodes.length]);
  useEffect(() => {
    const change = () => setFull(document.fullscreenElement === whole.current);
    document.addEventListener("fullscreenchange", change);
    return () => document.removeEventListener("fullscreenchange", change);
  }, []);
  const fill = () => (document.fullscreenElement ? document.exitFullscreen() : whole.current.requestFullscreen?.())?.catch?.(() => {});
  const press = (event) => {
    const by = { "+": STEP, "=": STEP, "-": 1 / STEP }[event.key];
    if (by && !event.ctrlKey && !event.metaKey) { event.preventDefault(); enlarge(by); }
  };
  return html`<div class="diagram-frame" ref=${whole}><div class="diagram" ref=${frame} tabIndex="0" role="region" aria-label=${props.name ? `${_("Picture of the machine")}: ${props.name}` : _("Picture of the machine")} onKeyDown=${press}><${Machine} ...${props} open=${unfold && toggle} scale=${scale} marks=${found ? { ...props.marks, [found]: `${props.marks?.[found] || ""} found` } : props.marks} /></div>
    <div class="turner">${graph.nodes.length > MANY && html`<input type="search" class="small" list=${`states-${graph.digest}`} aria-label=${_("Find a state")} placeholder=${_("{count} states", { count: graph.nodes.reduce((sum, node) => sum + (node.members?.length || 1), 0) })} onChange=${(event) => show(event.target.value.trim())} /><datalist id=${`states-${graph.digest}`}>${graph.nodes.flatMap((node) => (node.members?.length ? node.members : [node.id])).map((name) => html`<option key=${name} value=${name} />`)}</datalist>`}<${Tool} icon="out" text=${_("Smaller")} about=${_("Smaller")} press=${() => enlarge(1 / STEP)} /><${Tool} icon="in" text=${_("Larger")} about=${_("Larger; the picture can be moved with the mouse")} press=${() => enlarge(STEP)} />
      <${Tool} icon="whole" text=${_("Whole")} about=${_("Show the whole picture")} press=${() => setZoom(zoom === WHOLE ? null : WHOLE)} isOn=${zoom === WHOLE} /><${Tool} icon="full" text=${isFull ? _("Leave full screen") : _("Full screen")} about=${isFull ? _("Leave full screen") : _("Full screen")} press=${fill} isOn=${isFull} /></div>
    ${unfold && groups.length > 0 && html`<details class="groups"><summary>${_("{count} groups of states, {open} unfolded", { count: groups.length, open: opened.length })}</summary><div class="chips" role="group" aria-label=${_("Groups of states")}>
      <button type="button" onClick=${() => unfold(opened.length ? [] : groups.map((one) => one.name))}>${opened.length ? _("Fold all") : _("Unfold all")}</button>${groups.map((one) => html`<button type="button" key=${one.name} aria-pressed=${String(one.is_open)} onClick=${() => toggle(one.name)}><${Text} value=${one.name} /> <span class="number">${one.states.length}</span></button>`)}</div></details>`}</div>`;
}
