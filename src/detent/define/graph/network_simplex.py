"""Whole positions on a line that keep every distance and make the weighted sum of lengths smallest.

The network simplex of Gansner, Koutsofios, North and Vo (1993), used for the layers and for the x coordinates. Every
intermediate answer keeps the distances, so a limit on the number of steps costs beauty and never correctness.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class Span(NamedTuple):
    """`head` comes at least `least` after `tail`; being longer costs `weight` for each unit."""

    tail: int
    head: int
    least: int
    weight: int = 0


def solve(count: int, spans: Sequence[Span], steps_max: int = 20_000) -> list[int]:
    """A position for each of `count` points; the smallest is 0. The spans must form no cycle."""
    root = count
    heads = {span.head for span in spans}
    # Weighs nothing, so it pulls nothing; it only makes the network one piece.
    anchored = [*spans, *(Span(root, point, 0) for point in range(count) if point not in heads)]
    network = _Network(count + 1, anchored)
    network.stand()
    network.join()
    for _ in range(steps_max):
        if not network.improve():
            break
    places = network.place[:count]
    first = min(places, default=0)
    return [place - first for place in places]


class _Network:
    def __init__(self, count: int, spans: list[Span]) -> None:
        self.count = count
        self.spans = spans
        self.place = [0] * count
        self.touching: list[list[int]] = [[] for _ in range(count)]
        self.supply = [0] * count  # weight that leaves a point less the weight that arrives
        for index, span in enumerate(spans):
            self.touching[span.tail].append(index)
            self.touching[span.head].append(index)
            self.supply[span.tail] += span.weight
            self.supply[span.head] -= span.weight
        self.parent = [-1] * count
        self.link = [-1] * count  # the span to the parent
        self.children: list[set[int]] = [set() for _ in range(count)]
        self.flow = [0] * count  # supply of the whole subtree: the cut value of the link, but for its sign

    def slack(self, index: int) -> int:
        span = self.spans[index]
        return self.place[span.head] - self.place[span.tail] - span.least

    def stand(self) -> None:
        """Put every point as early as the distances allow, and those that nothing precedes as late."""
        missing = [0] * self.count
        for span in self.spans:
            missing[span.head] += 1
        ready = [point for point in range(self.count) if not missing[point]]
        done = 0
        while ready:
            point = ready.pop()
            done += 1
            for index in self.touching[point]:
                span = self.spans[index]
                if span.tail == point:
                    self.place[span.head] = max(self.place[span.head], self.place[point] + span.least)
                    missing[span.head] -= 1
                    if not missing[span.head]:
                        ready.append(span.head)
        if done < self.count:
            raise ValueError("the spans form a cycle")
        sources = {span.tail for span in self.spans} - {span.head for span in self.spans if span.tail != self.count - 1}
        for point in sorted(sources - {self.count - 1}):
            out = [self.spans[i] for i in self.touching[point] if self.spans[i].tail == point]
            self.place[point] = min(self.place[span.head] - span.least for span in out)
        self.place[-1] = min(self.place)

    def join(self) -> None:
        """Grow a tree of spans without slack over all points, pushing the tree along where none is left."""
        shift = 0  # how far the tree has been pushed; inside it, places are kept without the shift
        inside = [False] * self.count
        outward: list[tuple[int, int]] = []
        inward: list[tuple[int, int]] = []
        order: list[int] = []
        point, via = self.count - 1, -1
        while True:
            inside[point] = True
            order.append(point)
            self.place[point] -= shift
            if via >= 0:
                span = self.spans[via]
                above = span.tail if span.head == point else span.head
                self.parent[point], self.link[point] = above, via
                self.children[above].add(point)
            for index in self.touching[point]:
                span = self.spans[index]
                if span.tail == point and not inside[span.head]:
                    heappush(outward, (self.slack(index), index))
                elif span.head == point and not inside[span.tail]:
                    heappush(inward, (self.slack(index), index))
            while outward and inside[self.spans[outward[0][1]].head]:
                heappop(outward)
            while inward and inside[self.spans[inward[0][1]].tail]:
                heappop(inward)
            if not outward and not inward:
                break
            ahead = outward[0][0] - shift if outward else None
            behind = inward[0][0] + shift if inward else None
            if behind is None or (ahead is not None and ahead <= behind):
                _, via = heappop(outward)
                point = self.spans[via].head
                shift += ahead or 0
            else:
                _, via = heappop(inward)
                point = self.spans[via].tail
                shift -= behind
        self._sum(order)

    def _sum(self, order: list[int]) -> None:
        self.flow = list(self.supply)
        for point in reversed(order):
            if self.parent[point] >= 0:
                self.flow[self.parent[point]] += self.flow[point]

    def improve(self) -> bool:
        """Exchange the worst link of the tree for a better span; False when there is no bad one."""
        worst, leaving = 0, -1
        for point in range(self.count - 1):
            span = self.spans[self.link[point]]
            cut = self.flow[point] if span.tail == point else -self.flow[point]
            if cut < worst:
                worst, leaving = cut, point
        if leaving < 0:
            return False
        falls = self.spans[self.link[leaving]].tail == leaving
        part = self._subtree(leaving)
        members = set(part)
        best, entering = -1, -1
        for point in part:
            for index in self.touching[point]:
                span = self.spans[index]
                near, far = (span.head, span.tail) if falls else (span.tail, span.head)
                if near == point and far not in members and index != self.link[leaving]:
                    slack = self.slack(index)
                    if entering < 0 or slack < best:
                        best, entering = slack, index
        if entering < 0:
            return False
        if best:
            push = -best if falls else best
            for point in part:
                self.place[point] += push
        self._exchange(leaving, entering, members)
        return True

    def _subtree(self, top: int) -> list[int]:
        found = [top]
        for point in found:
            found.extend(self.children[point])
        return found

    def _exchange(self, leaving: int, entering: int, members: set[int]) -> None:
        """Hang the subtree of `leaving` on `entering`, turning the links on the way round."""
        total = self.flow[leaving]
        above = self.parent[leaving]
        self.children[above].discard(leaving)
        while above >= 0:
            self.flow[above] -= total
            above = self.parent[above]
        span = self.spans[entering]
        point, above = (span.tail, span.head) if span.tail in members else (span.head, span.tail)
        anchor, via, carried = above, entering, total
        while True:
            next_point, next_via, next_carried = self.parent[point], self.link[point], total - self.flow[point]
            self.parent[point], self.link[point], self.flow[point] = above, via, carried
            self.children[above].add(point)
            if point == leaving:
                break
            self.children[next_point].discard(point)
            above, point, via, carried = point, next_point, next_via, next_carried
        while anchor >= 0:
            self.flow[anchor] += total
            anchor = self.parent[anchor]
