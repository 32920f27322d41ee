"""Figures over time: how many runs began and how they ended, how long runs, states and people took, what it cost.

They are counted while the search index takes in events (`run_index`), each event once, in hours and in classes of
duration. So a question about a year costs the same whether the journal holds a thousand runs or a million; a duration
is known to about four per cent.
"""

import math
import sqlite3
from typing import Literal, NamedTuple

import msgspec

from detent.core.contract import ASKED
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.run import Run

HOUR_S = 3600
PER_DOUBLING = 8  # classes between a duration and its double
LEAST_S = 0.001
ROWS_MAX = 200_000  # that one question reads; more than a year of a busy journal
FIGURE_SCHEMA = """
create table figures (hour integer not null, machine text not null, what text not null, name text not null,
    class integer not null, count integer not null, total real not null, primary key (hour, machine, what, name, class))
    without rowid;
create table since (run_id text not null, name text not null, state text not null, at real not null,
    primary key (run_id, name)) without rowid
"""
FIGURE_TABLES = ("figures", "since")
ADD = """
insert into figures values (?, ?, ?, ?, ?, 1, ?)
on conflict do update set count = count + 1, total = total + excluded.total
"""
What = Literal["started", "ended", "ran", "stayed", "asked", "cost", "tokens"]
STATE = "@state"  # what a row of `since` is about, if not about a contract


class FigureFilter(NamedTuple):
    """Of which time (seconds since the epoch), in steps of how many hours, and of which machine."""

    since: float
    until: float
    step_h: int = 24
    machine: str = ""


class FigureStep(msgspec.Struct, frozen=True):
    """What happened in one step of the time."""

    at: float
    started: int = 0
    ended: int = 0
    failed: int = 0  # of those that ended
    asked: int = 0  # questions that people were done with
    asked_s: float = 0.0  # how long they had waited, together
    cost_usd: float = 0.0
    tokens: float = 0.0


class Spread(msgspec.Struct, frozen=True):
    """How long something took: the middle, and what all but one in twenty stayed under."""

    machine: str
    name: str  # a state, or an action that asked; empty: the whole run
    count: int
    p50: float
    p95: float
    mean: float


class Figures(msgspec.Struct, frozen=True):
    """Figures of a time; the spreads are over all of it, the largest first."""

    steps: list[FigureStep]
    runs: list[Spread]
    states: list[Spread]
    questions: list[Spread]
    ends: dict[str, int]  # by status
    machines: list[str]
    is_cut: bool  # there was more than one question reads


def note_entry(db: sqlite3.Connection, machine: str, entry: Entry) -> None:
    """Count what one event of a run led to."""
    event, run, at = entry.event, entry.run, entry.event.at
    if entry.seq == 1:
        _count(db, at, machine, "started")
        _remember(db, run.id, STATE, _first_state(entry), at)
    for taken in entry.taken:
        if taken.kind == "transition":
            _stop(db, run.id, STATE, at, machine, "stayed")
            _remember(db, run.id, STATE, taken.target, at)
        elif taken.kind == "contract" and taken.target == "waiting" and _is_for_people(run, taken.subject):
            _remember(db, run.id, taken.subject, _action(taken.subject), at)
        elif taken.kind == "contract" and taken.source == "waiting":
            _stop(db, run.id, taken.subject, at, machine, "asked")
    if isinstance(event, ContractMoved) and event.usage:
        for what, unit in (("cost", "cost_usd"), ("tokens", "tokens")):
            if event.usage.get(unit):
                _count(db, at, machine, what, total=event.usage[unit])  # type: ignore[arg-type]  # one of the two
    if run.ended is not None:
        if _stop(db, run.id, STATE, at, machine, "stayed"):
            _count(db, at, machine, "ended", run.ended.value)
            _count(db, at, machine, "ran", seconds=at - run.started_at)
    elif db.execute("select 1 from since where run_id = ? and name = ?", (run.id, STATE)).fetchone() is None:
        _remember(db, run.id, STATE, run.state, at)  # it had ended and was tried again


def _first_state(entry: Entry) -> str:
    return next((taken.source for taken in entry.taken if taken.kind == "transition"), entry.run.state)


def _action(contract_id: str) -> str:
    return contract_id.split("/")[-2:][0]


def _is_for_people(run: Run, contract_id: str) -> bool:
    contract = run.contract(contract_id)
    return contract is not None and contract.question is not None and contract.question.reason in ASKED


def _remember(db: sqlite3.Connection, run_id: str, name: str, state: str, at: float) -> None:
    db.execute("insert or replace into since values (?, ?, ?, ?)", (run_id, name, state, at))


def _stop(db: sqlite3.Connection, run_id: str, name: str, at: float, machine: str, what: What) -> bool:
    """Count how long something lasted that is over now; whether anything was."""
    row = db.execute("delete from since where run_id = ? and name = ? returning state, at", (run_id, name)).fetchone()
    if row is None:
        return False
    _count(db, at, machine, what, row[0], seconds=at - row[1])
    return True


def _count(
    db: sqlite3.Connection,
    at: float,
    machine: str,
    what: What,
    name: str = "",
    *,
    seconds: float | None = None,
    total: float = 0.0,
) -> None:
    bucket = 0 if seconds is None else class_of(seconds)
    db.execute(ADD, (int(at // HOUR_S), machine, what, name, bucket, total if seconds is None else max(0.0, seconds)))


def class_of(seconds: float) -> int:
    """The class of a duration."""
    return round(PER_DOUBLING * math.log2(max(seconds, LEAST_S)))


def read_figures(db: sqlite3.Connection, wanted: FigureFilter) -> Figures:
    """The figures of a time."""
    first, last, step = int(wanted.since // HOUR_S), int(wanted.until // HOUR_S), max(1, wanted.step_h)
    start = first - first % step
    rows = db.execute(
        "select (hour - :start) / :step, machine, what, name, class, sum(count), sum(total) from figures"
        " where hour between :start and :last and (:machine = '' or machine = :machine)"
        " group by 1, 2, 3, 4, 5 limit :most",
        {"start": start, "step": step, "last": last, "machine": wanted.machine, "most": ROWS_MAX + 1},
    ).fetchall()
    is_cut = len(rows) > ROWS_MAX
    steps = [_Sums() for _ in range((last - start) // step + 1)]
    spreads: dict[tuple[str, str, str], dict[int, tuple[int, float]]] = {}
    ends: dict[str, int] = {}
    for place, machine, what, name, bucket, count, total in rows[:ROWS_MAX]:
        steps[place].add(what, name, count, total)
        if what in ("ran", "stayed", "asked"):
            held = spreads.setdefault((what, machine, name), {})
            was = held.get(bucket, (0, 0.0))
            held[bucket] = (was[0] + count, was[1] + total)
        elif what == "ended":
            ends[name] = ends.get(name, 0) + count
    made = {what: _spreads(spreads, what) for what in ("ran", "stayed", "asked")}
    names = [row[0] for row in db.execute("select distinct machine from figures order by machine limit 500")]
    told = [one.step((start + place * step) * HOUR_S) for place, one in enumerate(steps)]
    return Figures(told, made["ran"], made["stayed"], made["asked"], ends, names, is_cut)


class _Sums:
    def __init__(self) -> None:
        self.counts = {"started": 0, "ended": 0, "failed": 0, "asked": 0}
        self.totals = {"asked": 0.0, "cost": 0.0, "tokens": 0.0}

    def add(self, what: str, name: str, count: int, total: float) -> None:
        if what in self.counts:
            self.counts[what] += count
        if what in self.totals:
            self.totals[what] += total
        if what == "ended" and name == "failed":
            self.counts["failed"] += count

    def step(self, at: float) -> FigureStep:
        counts, totals = self.counts, self.totals
        asked = (counts["asked"], totals["asked"], totals["cost"], totals["tokens"])
        return FigureStep(at, counts["started"], counts["ended"], counts["failed"], *asked)


def _spreads(found: dict[tuple[str, str, str], dict[int, tuple[int, float]]], wanted: str) -> list[Spread]:
    made = []
    for (what, machine, name), classes in found.items():
        if what == wanted:
            count, total = sum(one for one, _ in classes.values()), sum(one for _, one in classes.values())
            middle, high = _percentile(classes, count, 0.5), _percentile(classes, count, 0.95)
            made.append(Spread(machine, name, count, middle, high, total / count))
    return sorted(made, key=lambda one: (-one.count * one.mean, one.machine, one.name))[:200]


def _percentile(classes: dict[int, tuple[int, float]], count: int, part: float) -> float:
    """A duration that this part of all stays under; in its class, the mean of what was counted."""
    left = math.ceil(part * count)
    for bucket in sorted(classes):
        left -= classes[bucket][0]
        if left <= 0:
            return classes[bucket][1] / classes[bucket][0]
    return 0.0


def read_totals(db: sqlite3.Connection) -> list[tuple[str, str, str, int, float]]:
    """Everything that was ever counted: machine, what, name, how often, how much."""
    query = "select machine, what, name, sum(count), sum(total) from figures group by 1, 2, 3 limit ?"
    return db.execute(query, (ROWS_MAX,)).fetchall()
