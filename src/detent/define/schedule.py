"""Schedules: when something is due, as times that are planned long before, by cron or every so often.

Everything here is computed from the schedule alone, so every process plans the same times. What a clock change does to
them is cron's own custom: a time that the clock leaves out is due right after it, one that it shows twice is due once.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from detent.errors import DefinitionError

EVERY_MIN_S = 1.0
FIELDS = {  # by the library's names: ours, and what stands there
    "minute": ("minute", "0 to 59"),
    "hour": ("hour", "0 to 23"),
    "day-of-month": ("day of the month", "1 to 31, `L` for the last, and one that the month has"),
    "month": ("month", "1 to 12, or jan to dec"),
    "day-of-week": ("day of the week", "0 to 7, or mon to sun, `mon#2` for the second, `5L` for the last"),
}
CatchUp = Literal["none", "last", "all"]


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a trigger is due: `cron` in a time zone, or every `every_s` seconds; times are seconds since 1970."""

    cron: str = ""
    every_s: float = 0.0
    timezone: str = "UTC"
    catch_up: CatchUp = "last"
    jitter_s: float = 0.0
    start: float = 0.0
    end: float = 0.0

    def times(self, after: float, until: float = 0.0) -> Iterator[float]:
        """The planned times after a moment, in order, up to and including another if one is given."""
        last = min((at for at in (self.end, until) if at), default=float("inf"))
        begin = max(after, self.start - 1e-6)
        for at in self._cron_times(begin) if self.cron else self._regular_times(begin):
            if at > last:
                return
            yield at

    def next(self, after: float, count: int = 1) -> list[float]:
        """The next planned times."""
        return list(islice(self.times(after), count))

    def _cron_times(self, after: float) -> Iterator[float]:
        from cronsim import CronSim  # noqa: PLC0415 - for those who have a schedule

        zone = find_zone(self.timezone)
        for at in CronSim(self.cron, datetime.fromtimestamp(after, zone)):
            yield at.timestamp()

    def _regular_times(self, after: float) -> Iterator[float]:
        """Counted from the start, or from 1970: whoever drives it, and since when, makes no difference."""
        number = max(int((after - self.start) // self.every_s), 0)
        while True:
            at = self.start + number * self.every_s
            if at > after:  # computed, and not counted: what is rounded must not come twice
                yield at
            number += 1

    def delay(self, mark: str, at: float) -> float:
        """How long after its planned time something begins: the same every time it is asked."""
        if not self.jitter_s:
            return 0.0
        drawn = int.from_bytes(hashlib.sha256(f"{mark} {at:.3f}".encode()).digest()[:6])
        return self.jitter_s * drawn / 2**48

    def describe_change(self, at: float) -> str:
        """What a clock change has done to a planned time: `moved`, `once` of two, or nothing."""
        if not self.cron:
            return ""
        from cronsim import CronSim  # noqa: PLC0415

        there = datetime.fromtimestamp(at, find_zone(self.timezone))
        wall = there.replace(tzinfo=None, fold=0)
        if next(iter(CronSim(self.cron, wall - timedelta(minutes=1))), None) != wall:
            return "moved"
        is_twice = there.replace(fold=0).utcoffset() != there.replace(fold=1).utcoffset()
        return "once" if is_twice and not self._repeats else ""

    @property
    def _repeats(self) -> bool:
        """Whether both of two equal hours count: cron lets what is due in every hour go by the real time."""
        return self.cron.split()[1].startswith("*")


@lru_cache(maxsize=64)
def find_zone(name: str) -> tzinfo:
    """A time zone by its name, such as Europe/Berlin."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise DefinitionError(
            f"`{name}` is not a time zone here; write one such as Europe/Berlin (`pip install tzdata` brings them all)"
        ) from None


def check_cron(cron: str) -> str:
    """What is wrong with a cron line; nothing if it is one that is due some day."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415

    if len(parts := cron.split()) != len(FIELDS):
        return (
            f"a cron line has five fields: {', '.join(name for name, _ in FIELDS.values())}; once a day is `0 0 * * *`"
        )
    try:
        found = next(iter(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC))), None)
    except CronSimError as error:
        at = next(n for n, word in enumerate(FIELDS) if str(error).lower().endswith(word))
        name, known = list(FIELDS.values())[at]
        return f"`{parts[at]}` cannot be the {name}: {known}; a range goes upwards, as in `1-5`"
    return "" if found is not None else "this never comes: there is no such day"


def parse_moment(text: str, timezone: str) -> float:
    """`2026-01-31`, `2026-01-31T08:00` in a time zone, or with an offset of its own, as seconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise DefinitionError(f"`{text}` is not a time; write 2026-01-31, or 2026-01-31T08:00") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(timezone))).timestamp()


def show_moment(at: float, timezone: str = "UTC") -> str:
    """A moment as people of a time zone write it, with its offset."""
    return datetime.fromtimestamp(at, find_zone(timezone)).isoformat(timespec="seconds")
