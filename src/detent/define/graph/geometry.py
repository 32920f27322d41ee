"""The words of the layout: what goes in, what comes out, and the lattice in between.

All numbers are whole, so that one layout serves pixels and terminal cells alike: a box reaches from `x - half` to
`x + half`, both included.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

Points = list[tuple[int, int]]

MAIN_WEIGHT = 6  # from here on a line is part of the main way


class Metric(NamedTuple):
    """The distances of one medium."""

    box_margin: int  # free room beside a box; between two boxes it counts twice
    line_margin: int
    label_margin: int
    port: int  # between two lines at the top or the bottom of a box
    port_pad: int  # from the corner to the first of them
    side_port: int  # between two lines at the side of a box
    side_pad: int
    lead: int  # from a row to the first horizontal piece below it
    tip: int  # from the last horizontal piece to the box below: room for the arrow
    track: int  # between two horizontal pieces
    plain: int  # from row to row where all lines go straight down
    loop: int  # how far a loop reaches out
    loop_gap: int  # from a loop to its label


class Shape(NamedTuple):
    """The size of one box: halves of width and height; `head` is kept free above it."""

    half_width: int
    half_height: int
    head: int = 0


class Wire(NamedTuple):
    """A line from box to box; wires of the same `bundle` text and target may share their way."""

    source: int
    target: int
    label_width: int = 0
    label_height: int = 0
    weight: int = 1
    bundle: str = ""


class Rect(NamedTuple):
    """Left, top, right, bottom; the borders belong to it."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def x(self) -> int:
        """The middle."""
        return (self.x0 + self.x1) // 2

    @property
    def y(self) -> int:
        """The middle."""
        return (self.y0 + self.y1) // 2


class WireRoute(NamedTuple):
    """Where a wire runs; wires of one net share part of their way, and the label."""

    points: Points
    label: Rect | None
    net: int = -1


class Layout(NamedTuple):
    """A finished layout: boxes and routes in the order they were given."""

    width: int
    height: int
    boxes: list[Rect]
    routes: list[WireRoute]


@dataclass(slots=True)
class LayerSpot:
    """One place in a row: a box, a piece of a line, or the label on a line."""

    row: int
    left: int  # room it needs to the left of its x, margin included
    right: int
    up: int = 0
    down: int = 0
    kind: str = "line"  # box, line or label
    host: int = -1  # of a line beside a box: the box's spot
    side: int = 0  # and on which side: -1 or 1
    ups: list[int] = field(default_factory=list)  # neighbours in the row above
    downs: list[int] = field(default_factory=list)
    x: int = 0


@dataclass(slots=True)
class Segment:
    """A piece of line between two neighbouring rows; those of one net may lie on each other."""

    top: int
    bottom: int
    net: int
    weight: int = 1
    top_offset: int = 0  # where it leaves a box, from the box's middle
    bottom_offset: int = 0


@dataclass(slots=True)
class Lattice:
    """The layered graph; the first spots are the boxes."""

    spots: list[LayerSpot]
    segments: list[Segment]
    chains: list[list[int]]  # spots that should stand straight above each other
    paths: list[list[int]]  # per wire the spots from its source to its target; empty for a loop
    labels: list[int]  # per wire the spot of its label, or -1
    nets: list[int]  # per wire its net; wires of one net share their way and their label
    loops: dict[int, tuple[int, int]]  # box: its loop's side and wire
    rows: list[list[int]]  # spots from left to right
