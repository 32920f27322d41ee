"""How an agent's runs are spoken of on the terminal, where that is not the way of all runs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from detent.core.run import Run

Words = tuple[str, ...]  # of a command, without `detent`


class Manner(NamedTuple):
    """Commands and output of an agent's own; what is left out is as for every run."""

    resume: Words = ()  # goes on after a pause
    ways: Mapping[str, tuple[Words, ...]] = {}  # by state: what can be said there; it checks more than a plain signal
    has_own_retry: bool = False  # so that `detent retry` is not offered
    files: Callable[[Run], tuple[str, ...]] = lambda _: ()  # what an ended run has left on disk
    response: Callable[[Any], str] = lambda _: ""  # what of a run's output is text for people; empty: show it all


USUAL = Manner()
