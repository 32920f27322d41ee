"""The x coordinates: every line as straight as the order allows, by the same simplex that found the layers."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from detent.define.graph.geometry import MAIN_WEIGHT, Lattice, Metric, Segment
from detent.define.graph.network_simplex import Span, solve

_STRAIGHT = 8  # how much more a bend within one line costs than a bend at a box
_SPINE = 4  # how much more a bend in the main way costs than elsewhere
_FAN = 3  # but where more lines fan out, a box looks better above their middle
_STEPS_MAX = 4_000


def place(lattice: Lattice, halves: Sequence[int], metric: Metric) -> int:
    """Give every spot its x, and every segment its place at the boxes it touches; how far lines lead sideways."""
    spots = lattice.spots
    position = {index: at for row in lattice.rows for at, index in enumerate(row)}
    _spread_evenly(lattice, halves, metric, position)
    block = _blocks(lattice, position)
    spans: dict[tuple[int, int], Span] = {}
    for row in lattice.rows:
        for left, right in _neighbours(lattice, row):
            key = (block[left], block[right])
            least = spots[left].right + spots[right].left
            known = spans.get(key, Span(*key, least))
            spans[key] = Span(*key, max(least, known.least), 0)
    for index, spot in enumerate(spots):
        if spot.host >= 0:
            key = (block[spot.host], block[index]) if spot.side > 0 else (block[index], block[spot.host])
            spans[key] = Span(*key, spans[key].least if key in spans else 0, 1)
    every = list(spans.values())
    count = max(block, default=-1) + 1
    for segment in lattice.segments:
        top, bottom = block[segment.top], block[segment.bottom]
        if top != bottom:
            weight = segment.weight * _stiffness(lattice, segment)
            # A helper point to the left of both ends: the sum of its two distances is how far the ends are apart.
            every.append(Span(count, top, -segment.top_offset, weight))
            every.append(Span(count, bottom, -segment.bottom_offset, weight))
            count += 1
    xs = solve(count, every, _STEPS_MAX)
    first = min((xs[block[index]] - spot.left for index, spot in enumerate(spots)), default=0)
    for index, spot in enumerate(spots):
        spot.x = xs[block[index]] - first
    _slide(lattice, halves, metric, position)
    return sum(
        abs(spots[segment.top].x + segment.top_offset - spots[segment.bottom].x - segment.bottom_offset)
        for segment in lattice.segments
    )


def _stiffness(lattice: Lattice, segment: Segment) -> int:
    """How dear a bend is: most within a line, more at a box with one line there than where lines fan out anyway."""
    top, bottom = lattice.spots[segment.top], lattice.spots[segment.bottom]
    if top.kind != "box" and bottom.kind != "box":
        return _STRAIGHT
    lines = len(top.downs) if top.kind == "box" else len(bottom.ups)
    is_spine = segment.weight >= MAIN_WEIGHT and lines <= _FAN
    return (3 if lines == 1 else 2) * (_SPINE if is_spine else 1)


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
        main = [at for at, weight in enumerate(weights) if weight >= MAIN_WEIGHT]
        chief = min(main, key=lambda at: segments[at].net, default=(len(weights) - 1) / 2)  # the first that was written
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
        for above, below in pairwise(chain):
            ends = (position[above], position[below])
            lines = accepted.setdefault(lattice.spots[above].row, [])
            if any((ends[0] - top) * (ends[1] - bottom) <= 0 for top, bottom in lines):
                continue
            lines.append(ends)
            group[below] = group[above]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(one, len(numbers)) for one in group]


def _neighbours(lattice: Lattice, row: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs that need room between them; of lines beside boxes, one that goes up may stand above one that goes down."""
    spots = lattice.spots
    upper = [index for index in row if spots[index].host < 0 or spots[index].ups]
    lower = [index for index in row if spots[index].host < 0 or spots[index].downs]
    yield from dict.fromkeys([*pairwise(upper), *pairwise(lower)])
