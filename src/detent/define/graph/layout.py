"""A layered layout: rows of boxes from top to bottom, lines with right angles between them.

The steps of Sugiyama, Tagawa and Toda: break cycles, assign layers, order the layers, assign coordinates, route.
"""

from collections import Counter
from collections.abc import Sequence

from detent.define.graph.geometry import Lattice, Layout, Metric, Shape, Wire
from detent.define.graph.layering import lattice
from detent.define.graph.line_route import route
from detent.define.graph.row_order import Rows, orders
from detent.define.graph.x_coordinate import place

_CROSSING = 3  # a crossing is as bad as a detour of so many ports


def lay_out(shapes: Sequence[Shape], wires: Sequence[Wire], metric: Metric) -> Layout:
    """Place boxes and lead wires; the same input gives the same output. The first box is where reading begins."""
    if not shapes:
        return Layout(0, 0, [], [])
    made = lattice(shapes, wires, metric)
    beside = Counter((spot.host, spot.side) for spot in made.spots)
    halves = []
    for index, shape in enumerate(shapes):
        spot = made.spots[index]
        ends = max(len(spot.ups), len(spot.downs)) - 1
        sides = max(beside[index, -1], beside[index, 1]) - 1
        half_width = max(shape.half_width, metric.port_pad + (ends * metric.port + 1) // 2)
        half_height = max(shape.half_height, metric.side_pad + (sides * metric.side_port + 1) // 2)
        grown = half_width - shape.half_width
        spot.left, spot.right = spot.left + grown, spot.right + grown
        spot.up = max(spot.up, half_height + shape.head)
        spot.down = max(spot.down, half_height)
        halves.append((half_width, half_height))
    widths = [half_width for half_width, _ in halves]
    made.rows = _best(made, widths, metric)
    place(made, widths, metric)
    return route(made, wires, halves, metric)


def _best(made: Lattice, widths: Sequence[int], metric: Metric) -> Rows:
    """The order that looks best: few crossings, and lines that lead little sideways."""
    best: tuple[int, Rows] | None = None
    for crossings, rows in orders(made):
        made.rows = rows
        price = place(made, widths, metric) + crossings * _CROSSING * metric.port
        if best is None or price < best[0]:
            best = (price, rows)
    return best[1] if best else []
