"""The decisions of a whole journal in the order of time, read through the port, a run at a time."""

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import msgspec

from detent.core.duration import seconds_of
from detent.errors import DetentError, JournalError, Refused, Unknown
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.kit.audit.decision import AuditDecision, DecisionFold
from detent.kit.audit.external_sort import SpillOrder, spilling
from detent.kit.every_run import walk_runs

WAYS = "give a length of time like 30d, or a date like 2026-01-31 or 2026-01-31T12:00"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditDecision).decode


class AuditFilter(NamedTuple):
    """Which decisions are wanted; what is left empty does not matter."""

    since: float | None = None
    until: float | None = None
    who: str = ""
    effect: str = ""  # a pattern with `*`, `?` and `[…]`
    run_id: str = ""

    def matches(self, one: AuditDecision) -> bool:
        """Whether this one is wanted."""
        return (
            (self.since is None or one.at >= self.since)
            and (self.until is None or one.at < self.until)
            and (not self.who or one.by == self.who)
            and (not self.effect or fnmatchcase(one.effect, self.effect))
        )


def parse_time(text: str, name: str, now: float | None = None) -> float | None:
    """A moment as people write it: so long ago, or a date; None for nothing."""
    if not text:
        return None
    ago = seconds_of(text)
    if ago is not None:
        return (time.time() if now is None else now) - ago
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).timestamp()
    raise Refused(f"{name}: `{text[:40]}` is not a time; {WAYS}")


def list_runs(reader: Reader, since: float | None = None, run_id: str = "") -> Iterator[Summary]:
    """The runs that have moved since a time, newest first; then raises if the list itself is damaged."""
    if run_id:
        yield reader.find(run_id)
        return
    yield from walk_runs(reader, Query(moved_since=since))


def read_decisions(reader: Reader, wanted: AuditFilter) -> Generator[AuditDecision, None, None]:
    """The decisions that are wanted, oldest first; runs that cannot be read are told at the end, by a JournalError."""
    problems: list[str] = []
    find_name = NameFinder(reader)
    with spilling() as spill:
        try:
            for summary in list_runs(reader, wanted.since, wanted.run_id):
                try:
                    for one in decisions_of(reader, summary.run_id, find_name):
                        if wanted.matches(one):
                            spill.add(SpillOrder(one.at, summary.no, one.seq), _encode(one))
                except Unknown:
                    continue  # it was pruned meanwhile
                except DetentError as error:
                    problems.append(str(error))
        except JournalError as error:
            problems.append(str(error))
        for body in spill.read():
            yield _decode(body)
    if problems:
        raise JournalError(f"{len(problems)} runs cannot be read; the first: {problems[0]}")


def decisions_of(reader: Reader, run_id: str, find_name: "NameFinder") -> Iterator[AuditDecision]:
    """The decisions of one run, in the order in which their outcomes became known."""
    fold = DecisionFold(run_id, find_name)
    for entry in reader.entries(run_id):
        yield from fold.take(entry)
    yield from fold.close()


class NameFinder:
    """The names of machines by their digests, each looked up once."""

    def __init__(self, reader: Reader) -> None:
        self._look_up = lru_cache(1000)(lambda digest: reader.machine(digest).name)

    def __call__(self, digest: str) -> str:
        return self._look_up(digest)
