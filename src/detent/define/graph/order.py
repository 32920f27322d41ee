"""The order within the rows: barycentre sweeps and swaps of neighbours until fewer lines cross.

Lines beside a box move together with it. Nothing here is random: the same lattice gives the same order.
"""

from bisect import bisect_left, insort

from detent.define.graph.geometry import Lattice

SWEEPS_MAX = 24
_STALE_MAX = 6
_SWAPS_MAX = 60_000  # comparisons of neighbours in one sweep; beyond it a huge picture keeps its crossings


def arrange(lattice: Lattice) -> None:
    """Order the rows of the lattice in place."""
    order = _Order(lattice)
    order.refine(range(1, len(order.rows)), True)
    best, kept = order.crossings(), order.copy()
    stale = 0
    for sweep in range(SWEEPS_MAX):
        down = sweep % 2 == 1
        rows = range(1, len(order.rows)) if down else range(len(order.rows) - 2, -1, -1)
        order.refine(rows, down)
        order.swap()
        crossings = order.crossings()
        stale = 0 if crossings < best else stale + 1
        if crossings < best:
            best, kept = crossings, order.copy()
        if not best or stale > _STALE_MAX:
            break
    order.restore(kept)
    lattice.rows = [order.flat(row) for row in range(len(kept))]


class _Order:
    """Rows of heads; a head is a box or a line, and the lines beside a box follow it."""

    def __init__(self, lattice: Lattice) -> None:
        self.spots = lattice.spots
        self.beside: dict[int, list[int]] = {}
        self.rows: list[list[int]] = []
        for row in lattice.rows:
            self.rows.append([index for index in row if self.spots[index].host < 0])
            for index in row:
                if self.spots[index].host >= 0:
                    self.beside.setdefault(self.spots[index].host, []).append(index)
        self.place = [0] * len(self.spots)
        for number in range(len(self.rows)):
            self._number(number)

    def copy(self) -> list[list[int]]:
        return [list(row) for row in self.rows]

    def restore(self, rows: list[list[int]]) -> None:
        self.rows = rows
        for number in [*range(len(rows)), *range(len(rows))]:  # lines beside a box look at rows numbered after it
            self._number(number)

    def flat(self, number: int) -> list[int]:
        return [index for head in self.rows[number] for index in self.group(head)]

    def group(self, head: int) -> list[int]:
        """A head with the lines beside it, ordered by where those lead."""
        lines = self.beside.get(head)
        if not lines:
            return [head]
        ordered = sorted(lines, key=lambda index: (self._aim(index), index))
        left = [index for index in ordered if self.spots[index].side < 0]
        return [*left, head, *(index for index in ordered if self.spots[index].side > 0)]

    def _aim(self, index: int) -> float:
        spot = self.spots[index]
        near = spot.ups or spot.downs
        return sum(self.place[other] for other in near) / max(1, len(near))

    def _number(self, number: int) -> None:
        for place, index in enumerate(self.flat(number)):
            self.place[index] = place

    def refine(self, rows: range, down: bool) -> None:
        """Sort rows by the middle of what each head is connected to in the row before."""
        for number in rows:
            row = self.rows[number]
            middles = {head: middle for head in row if (middle := self._middle(head, down)) is not None}
            moved = iter(sorted(middles, key=lambda head: (middles[head], self.place[head])))
            self.rows[number] = [next(moved) if head in middles else head for head in row]
            self._number(number)

    def _middle(self, head: int, down: bool) -> float | None:
        near = [self.place[other] for index in self.group(head) for other in self._near(index, down)]
        return sum(near) / len(near) if near else None

    def _near(self, index: int, down: bool) -> list[int]:
        return self.spots[index].ups if down else self.spots[index].downs

    def swap(self) -> None:
        """Exchange neighbours as long as lines cross less."""
        budget = _SWAPS_MAX
        is_better = True
        while is_better and budget > 0:
            is_better = False
            for number, row in enumerate(self.rows):
                for at in range(len(row) - 1):
                    budget -= 1
                    left, right = row[at], row[at + 1]
                    if self._cost(right, left) < self._cost(left, right):
                        row[at], row[at + 1] = right, left
                        is_better = True
                self._number(number)

    def _cost(self, left: int, right: int) -> int:
        """How often the lines of two neighbours cross in this order."""
        cost = 0
        for down in (True, False):
            mine = sorted(self.place[other] for index in self.group(left) for other in self._near(index, down))
            yours = sorted(self.place[other] for index in self.group(right) for other in self._near(index, down))
            cost += sum(bisect_left(yours, place) for place in mine)
        return cost

    def crossings(self) -> int:
        """How often lines cross in the whole picture."""
        total = 0
        for number in range(len(self.rows) - 1):
            seen: list[int] = []
            for index in self.flat(number):
                ends = sorted(self.place[other] for other in self.spots[index].downs)
                total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total
