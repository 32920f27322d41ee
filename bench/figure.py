"""One measured figure, its floor and its bar."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured, against what, and whether that is good enough."""

    group: str
    name: str
    value: float
    unit: str
    floor: float
    ratio: float
    bar: str
    ok: bool


def best(work: Callable[[], object], times: int = 5) -> float:
    """The shortest of several wall times, in seconds: the one least disturbed by others."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)
