"""The order within the rows: barycentre sweeps and swaps of neighbours until fewer lines cross.

Lines beside a box move together with it. Sweeps find a hollow, not the deepest one, so they begin from several orders;
nothing here is random, and the same lattice gives the same orders.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import pairwise

from detent.define.graph.geometry import MAIN_WEIGHT, Lattice

Rows = list[list[int]]

SWEEPS_MAX = 24
SWEEPS_FEW = 8  # for a huge picture
_MAIN_COPIES = 3  # crossing the main way counts as often
_LINE_COPIES = 2  # and crossing a line far from its ends, where both would have to bend
_STALE_MAX = 6
_LONG = 3  # rows from which on a line is worth moving as a whole
_SWAPS_MAX = 20_000  # comparisons of neighbours in one sweep; beyond it a huge picture keeps its crossings
_SPOTS_SOME, _SPOTS_MANY = 500, 1_500  # from here on fewer beginnings must do
_MOVES_MAX = 60_000  # spots of the picture times moves of whole lines
_STARTS = 6
_IMPROVED = 2  # how many of the found orders are worth a second effort
_KEPT = 3


def orders(lattice: Lattice) -> list[tuple[int, Rows]]:
    """Good orders of the rows with the number of crossings in each, the best first."""
    size = len(lattice.spots)
    tried: list[tuple[int, int, _Order]] = []
    for start in range(1 if size > _SPOTS_MANY else 2 if size > _SPOTS_SOME else _STARTS):
        order = _Order(lattice, start)
        order.settle(begins_down=start % 2 == 0)
        crossings = order.crossings()
        if all(crossings != known[0] or order.rows != known[2].rows for known in tried):
            tried.append((crossings, start, order))
    tried.sort(key=lambda one: one[:2])
    found: list[tuple[int, Rows]] = []
    for at, (_, _, order) in enumerate(tried[:_KEPT]):
        if at < _IMPROVED:
            order.move_lines(lattice.chains, _MOVES_MAX // size)
        found.append((order.crossings(), order.flat_rows()))
    return sorted(found, key=lambda result: result[0])


class _Order:
    """Rows of heads; a head is a box or a line, and the lines beside a box follow it."""

    def __init__(self, lattice: Lattice, start: int) -> None:
        self.spots = lattice.spots
        self.above: Rows = [[] for _ in self.spots]
        self.below: Rows = [[] for _ in self.spots]
        for segment in lattice.segments:
            is_inner = self.spots[segment.top].kind != "box" and self.spots[segment.bottom].kind != "box"
            copies = _MAIN_COPIES if segment.weight >= MAIN_WEIGHT else _LINE_COPIES if is_inner else 1
            self.above[segment.bottom] += [segment.top] * copies
            self.below[segment.top] += [segment.bottom] * copies
        self.beside: dict[int, list[int]] = {}
        self.rows: Rows = []
        for row in lattice.rows:
            heads = [index for index in row if self.spots[index].host < 0]
            if start // 2 == 1:
                heads.reverse()
            elif start // 2 == 2:
                heads.sort(key=lambda index: self.spots[index].kind == "box")
            self.rows.append(heads)
            for index in row:
                if self.spots[index].host >= 0:
                    self.beside.setdefault(self.spots[index].host, []).append(index)
        self.place = [0] * len(self.spots)
        self.sweeps = SWEEPS_FEW if len(self.spots) > _SPOTS_MANY else SWEEPS_MAX
        self._number_all()

    def settle(self, begins_down: bool) -> None:
        """Sweep until it no longer helps."""
        best, kept = self.crossings(), [list(row) for row in self.rows]
        stale = 0
        for sweep in range(self.sweeps):
            down = (sweep % 2 == 0) == begins_down
            self.refine(down)
            self.swap(range(len(self.rows)))
            crossings = self.crossings()
            stale = 0 if crossings < best else stale + 1
            if crossings < best:
                best, kept = crossings, [list(row) for row in self.rows]
            if not best or stale > _STALE_MAX:
                break
        self._keep(kept)

    def _keep(self, rows: Rows) -> None:
        self.rows = rows
        self._number_all()

    def move_lines(self, chains: Rows, moves_max: int) -> None:
        """Try the longest lines as a whole at either edge of the picture, alone or with the box they end at."""
        best = self.crossings()
        lines = [[index for index in chain if self.spots[index].host < 0] for chain in chains]
        longest = sorted((line for line in lines if len(line) >= _LONG), key=len, reverse=True)
        for line in longest[: moves_max // 4]:
            for moving in (line, [*line, *(set(self.below[line[-1]]) - set(self.beside))]):
                for is_left in (True, False):
                    before = [list(row) for row in self.rows]
                    self._shift(moving, is_left)
                    crossings = self.crossings()
                    if crossings < best:
                        best = crossings
                    else:
                        self._keep(before)

    def _shift(self, moving: list[int], is_left: bool) -> None:
        touched: set[int] = set()
        for index in moving:
            number = self.spots[index].row
            touched |= {near for near in (number - 1, number, number + 1) if 0 <= near < len(self.rows)}
            head = self.spots[index].host if self.spots[index].host >= 0 else index
            row = self.rows[number]
            row.remove(head)
            row.insert(0 if is_left else len(row), head)
        self._number_all()
        self.swap(touched)

    def flat_rows(self) -> Rows:
        """The rows with all their spots; lines beside a box stand where they need not bend."""
        rows = [self.flat(number) for number in range(len(self.rows))]
        for row in rows:
            self._loosen(row)
        return rows

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
        near = self.above[index] or self.below[index]
        return sum(self.place[other] for other in near) / max(1, len(near))

    def _loosen(self, row: list[int]) -> None:
        """Let a line beside a box step over lines that pass, where it would have to cross them anyway."""
        is_better = True
        while is_better:
            is_better = False
            for at, (one, other) in enumerate(pairwise(row)):
                side, passing = (one, other) if self.spots[one].host >= 0 else (other, one)
                outward = 1 if side == one else -1
                spot = self.spots[side]
                if spot.host < 0 or spot.side != outward or self.spots[passing].kind == "box":
                    continue
                if self.spots[passing].host >= 0:
                    continue
                near = self.above if self.above[side] else self.below
                mine = [outward * self.place[index] for index in near[side]]
                theirs = [outward * self.place[index] for index in near[passing]]
                if mine and theirs and min(mine) > max(theirs):
                    row[at], row[at + 1] = other, one
                    is_better = True
                    break

    def _number(self, number: int) -> None:
        for place, index in enumerate(self.flat(number)):
            self.place[index] = place

    def _number_all(self) -> None:
        for _ in range(2):  # lines beside a box look at rows that are numbered after it
            for number in range(len(self.rows)):
                self._number(number)

    def refine(self, down: bool) -> None:
        """Sort the rows by the middle of what each head is connected to in the row before."""
        for number in range(1, len(self.rows)) if down else range(len(self.rows) - 2, -1, -1):
            row = self.rows[number]
            middles = {head: middle for head in row if (middle := self._middle(head, down)) is not None}
            moved = iter(sorted(middles, key=lambda head: (middles[head], self.place[head])))
            self.rows[number] = [next(moved) if head in middles else head for head in row]
            self._number(number)

    def _middle(self, head: int, down: bool) -> float | None:
        near = self._ends(head, self.above if down else self.below)
        return sum(near) / len(near) if near else None

    def _ends(self, head: int, near: Rows) -> list[int]:
        if head in self.beside:
            return [self.place[other] for index in self.group(head) for other in near[index]]
        return [self.place[other] for other in near[head]]

    def swap(self, rows: Iterable[int]) -> None:
        """Exchange neighbours in these rows, and then in those next to a changed one, as long as lines cross less."""
        budget = _SWAPS_MAX
        waiting = set(rows)
        while waiting and budget > 0:
            now, waiting = sorted(waiting), set()
            for number in now:
                row = self.rows[number]
                is_changed = False
                ends = {head: [sorted(self._ends(head, near)) for near in (self.above, self.below)] for head in row}
                for at in range(len(row) - 1):
                    budget -= 1
                    left, right = ends[row[at]], ends[row[at + 1]]
                    if _crossings(right, left) < _crossings(left, right):
                        row[at], row[at + 1] = row[at + 1], row[at]
                        is_changed = True
                if is_changed:
                    self._number(number)
                    waiting |= {near for near in (number - 1, number, number + 1) if 0 <= near < len(self.rows)}

    def crossings(self) -> int:
        """How often lines cross in the whole picture."""
        total = 0
        for number in range(len(self.rows) - 1):
            seen: list[int] = []
            for index in self.flat(number):
                ends = [self.place[other] for other in self.below[index]]
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total


def _crossings(left: Rows, right: Rows) -> int:
    """How often the lines of two neighbours cross, upwards and downwards."""
    return sum(bisect_left(yours, end) for mine, yours in zip(left, right, strict=True) for end in mine)
