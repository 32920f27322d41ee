"""A layered layout: rows of boxes from top to bottom, lines with right angles between them.

The steps of Sugiyama, Tagawa and Toda: break cycles, assign layers, order the layers, assign coordinates, route.
"""

from collections.abc import Sequence

from detent.define.graph.geometry import Layout, Metric, Shape, Spot, Wire
from detent.define.graph.layer import lattice
from detent.define.graph.order import arrange
from detent.define.graph.place import place
from detent.define.graph.route import route


def lay_out(shapes: Sequence[Shape], wires: Sequence[Wire], metric: Metric) -> Layout:
    """Place boxes and lead wires; the same input gives the same output. The first box is where reading begins."""
    if not shapes:
        return Layout(0, 0, [], [])
    made = lattice(shapes, wires, metric)
    halves = []
    for index, shape in enumerate(shapes):
        spot = made.spots[index]
        ends = max(len(spot.ups), len(spot.downs)) - 1
        sides = max(_beside(made.spots, index, side) for side in (-1, 1)) - 1
        half_width = max(shape.half_width, metric.port_pad + (ends * metric.port + 1) // 2)
        half_height = max(shape.half_height, metric.side_pad + (sides * metric.side_port + 1) // 2)
        grown = half_width - shape.half_width
        spot.left, spot.right = spot.left + grown, spot.right + grown
        spot.up = max(spot.up, half_height + shape.head)
        spot.down = max(spot.down, half_height)
        halves.append((half_width, half_height))
    arrange(made)
    place(made, [half_width for half_width, _ in halves], metric)
    return route(made, wires, halves, metric)


def _beside(spots: Sequence[Spot], box: int, side: int) -> int:
    return sum(spot.host == box and spot.side == side for spot in spots)
