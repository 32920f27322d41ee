"""What every host must do, as checks that take a way to open one.

    CHECKS["the_first_answer_wins"](open_host, home)

A check gets `open_host(home, effects, clock)`: an async context manager that gives a host on the journal of `home`.
Leaving the block and opening again is a restart; what was at work then is cut off in the middle, as by a crash. A host
that passes them all keeps the promises of the port: order, once-only, early and repeated signals, timers, children,
claims across runs, recovery, and following without gaps. `PLACE_CHECKS` is for hosts with workers on several machines.
"""

from detent.testing.conformance.checks import CHECKS
from detent.testing.conformance.fixtures import (
    ASKING,
    DOING,
    DOOR,
    Check,
    HandClock,
    HostOpener,
    Outside,
    one,
    parent_of,
    until,
)
from detent.testing.conformance.worker_affinities import PLACE_CHECKS, PlaceOpener

__all__ = [
    "CHECKS",
    "PLACE_CHECKS",
    "PlaceOpener",
    "Check",
    "HostOpener",
    "HandClock",
    "Outside",
    "DOOR",
    "ASKING",
    "DOING",
    "one",
    "parent_of",
    "until",
]
