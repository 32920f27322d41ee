"""The x coordinates: every line as straight as the order allows, by the same simplex that found the layers."""

from collections.abc import Sequence

from detent.define.graph.geometry import Lattice, Metric, Segment
from detent.define.graph.simplex import Span, solve

_STRAIGHT = 8  # how much more a bend within one line costs than a bend at a box
_STEPS_MAX = 4_000


def place(lattice: Lattice, halves: Sequence[int], metric: Metric) -> None:
    """Give every spot its x, and every segment its place at the boxes it touches."""
    spots = lattice.spots
    position = {index: at for row in lattice.rows for at, index in enumerate(row)}
    _spread_evenly(lattice, halves, metric, position)
    block = _blocks(lattice, position)
    spans: dict[tuple[int, int], Span] = {}
    for row in lattice.rows:
        for left, right in _neighbours(lattice, row):
            key = (block[left], block[right])
            least = spots[left].right + spots[right].left
            weight = 1 if spots[left].host == right or spots[right].host == left else 0
            known = spans.get(key, Span(*key, 0, 0))
            spans[key] = Span(*key, max(least, known.least), known.weight + weight)
    every = list(spans.values())
    count = max(block, default=-1) + 1
    for segment in lattice.segments:
        top, bottom = block[segment.top], block[segment.bottom]
        if top != bottom:
            is_bend = spots[segment.top].kind != "box" and spots[segment.bottom].kind != "box"
            weight = segment.weight * (_STRAIGHT if is_bend else 1)
            # A helper point to the left of both ends: the sum of its two distances is how far the ends are apart.
            every.append(Span(count, top, -segment.top_offset, weight))
            every.append(Span(count, bottom, -segment.bottom_offset, weight))
            count += 1
    xs = solve(count, every, _STEPS_MAX)
    first = min((xs[block[index]] - spot.left for index, spot in enumerate(spots)), default=0)
    for index, spot in enumerate(spots):
        spot.x = xs[block[index]] - first
    _slide(lattice, halves, metric, position)


def spread(wanted: Sequence[int], weights: Sequence[int], low: int, high: int, gap: int) -> list[int]:
    """Places in this order, at least `gap` apart, within bounds, near what is wanted; the weightiest gets its wish."""
    if len(wanted) > 1:
        gap = min(gap, (high - low) // (len(wanted) - 1))
    pools: list[tuple[int, int, int]] = []  # value, weight of who decided it, members
    for at, (place_, weight) in enumerate(zip(wanted, weights, strict=True)):
        pools.append((place_ - at * gap, weight, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            last, before = pools.pop(), pools.pop()
            chief = last if last[1] > before[1] else before
            pools.append((chief[0], chief[1], before[2] + last[2]))
    values = [value for value, _, members in pools for _ in range(members)]
    ceiling = high - (len(wanted) - 1) * gap
    return [min(max(value, low), ceiling) + at * gap for at, value in enumerate(values)]


def _at_boxes(lattice: Lattice, position: dict[int, int]) -> list[tuple[int, bool, list[Segment]]]:
    """The segments at the top and at the bottom of each box, from left to right."""
    sides: dict[tuple[int, bool], list[Segment]] = {}
    for segment in lattice.segments:
        if lattice.spots[segment.top].kind == "box":
            sides.setdefault((segment.top, False), []).append(segment)
        if lattice.spots[segment.bottom].kind == "box":
            sides.setdefault((segment.bottom, True), []).append(segment)
    for (_, is_top), segments in sides.items():
        segments.sort(key=lambda segment: position[segment.top if is_top else segment.bottom])
    return [(box, is_top, segments) for (box, is_top), segments in sides.items()]


def _spread_evenly(lattice: Lattice, halves: Sequence[int], metric: Metric, position: dict[int, int]) -> None:
    """Before anything has a place: the main line in the middle, the others beside it."""
    for box, is_top, segments in _at_boxes(lattice, position):
        weights = [segment.weight for segment in segments]
        chief = weights.index(max(weights)) if max(weights) > min(weights) else (len(weights) - 1) / 2
        wanted = [round((at - chief) * metric.port) for at in range(len(segments))]
        bound = halves[box] - metric.port_pad
        for segment, offset in zip(segments, spread(wanted, weights, -bound, bound, metric.port), strict=True):
            if is_top:
                segment.bottom_offset = offset
            else:
                segment.top_offset = offset


def _slide(lattice: Lattice, halves: Sequence[int], metric: Metric, position: dict[int, int]) -> None:
    """Now that everything has its place: move the ends along the box to where the lines come from."""
    spots = lattice.spots
    for box, is_top, segments in _at_boxes(lattice, position):
        x, bound = spots[box].x, halves[box] - metric.port_pad
        far = [s.top if is_top else s.bottom for s in segments]
        wanted = [min(max(spots[index].x, x - bound), x + bound) for index in far]
        # Whoever can go straight must not be moved by one that cannot.
        weights = [s.weight + (100 if abs(spots[i].x - x) <= bound else 0) for s, i in zip(segments, far, strict=True)]
        for segment, at in zip(segments, spread(wanted, weights, x - bound, x + bound, metric.port), strict=True):
            if is_top:
                segment.bottom_offset = at - x
            else:
                segment.top_offset = at - x


def _blocks(lattice: Lattice, position: dict[int, int]) -> list[int]:
    """Number the spots so that those with one number get one x; a line that crosses a longer one is cut there."""
    group = list(range(len(lattice.spots)))
    accepted: dict[int, list[tuple[int, int]]] = {}
    for chain in sorted(lattice.chains, key=len, reverse=True):
        for above, below in zip(chain, chain[1:], strict=False):
            ends = (position[above], position[below])
            lines = accepted.setdefault(lattice.spots[above].row, [])
            if any((ends[0] - top) * (ends[1] - bottom) <= 0 for top, bottom in lines):
                continue
            lines.append(ends)
            group[below] = group[above]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(one, len(numbers)) for one in group]


def _neighbours(lattice: Lattice, row: list[int]) -> list[tuple[int, int]]:
    """Pairs that must not come closer than they need; lines beside a box that go up may stand above those that go down."""
    spots = lattice.spots
    groups: list[dict[str, list[int]]] = []
    for index in row:
        spot = spots[index]
        head = spot.host if spot.host >= 0 else index
        if not groups or groups[-1]["head"] != [head]:
            groups.append({"head": [head], "all": []})
        groups[-1]["all"].append(index)
    pairs: list[tuple[int, int]] = []
    edge: list[int] = []
    for group in groups:
        head = group["head"][0]
        ends: dict[int, list[int]] = {-1: [], 1: []}
        for is_up in (True, False):
            lines = [i for i in group["all"] if i == head or bool(spots[i].ups) == is_up]
            pairs += zip(lines, lines[1:], strict=False)
            for side, end in ((-1, lines[0]), (1, lines[-1])):
                if end not in ends[side]:
                    ends[side].append(end)
        for side, members in ends.items():
            ends[side] = [i for i in members if i != head] or members
        pairs += [(left, right) for left in edge for right in ends[-1]]
        edge = ends[1]
    return pairs
