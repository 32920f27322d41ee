"""Addresses for those who look at where the time of a run went: its bars, and two runs side by side."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detent.core.events import Started
from detent.core.status import TERMINAL
from detent.host.port import Reader
from detent.host.reading import Summary
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.branch_progress import LaneSum, LaneView, list_lanes
from detent.surfaces.server.run_comparison import BarPair, Compared, compare_bars
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.waterfall import (
    ActionTime,
    Bar,
    BarSpan,
    LogLine,
    RunBars,
    choose_bars,
    count_begun,
    sum_actions,
)

PIECES = 120  # of the whole time, each with how many bars began in it
ACTIONS_MAX = 50
LOGS_MAX = 200  # of one answer
INPUT_BYTES = 64 * 1024  # larger ones are not shown side by side
BEFORE_FIRST = 10  # rows that are shown before the first difference

Only = Literal["", "asked", "failed", "models", "children", "slow"]


class WaterfallQuery(Asked, frozen=True):
    """Which bars: of a time, of one kind, with some letters in their names; the longest first, or as they began."""

    since: float | None = None
    until: float | None = None
    only: Only = ""
    find: Annotated[str, Meta(max_length=200)] = ""
    sort: Literal["begin", "longest"] = "begin"
    offset: shape.Seq = 0
    limit: Count = 200
    within: shape.Within = 0.0


class BarView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One bar; `spans` are the statuses it had, each with when it began."""

    id: str
    kind: Literal["state", "contract", "child"]
    name: str
    seq: int
    spans: list[BarSpan]
    end: float | None = None
    end_seq: int = 0
    effect: str = ""
    attempt: int = 1
    lane: str = ""
    run_id: str = ""
    left_by: str = ""
    asks: bool = False
    error: str = ""
    model: str = ""
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cost_usd: float = 0.0


class WaterfallPage(msgspec.Struct, frozen=True):
    """A part of a run's bars, with sums over all of them."""

    run_id: str
    seq: int
    upto: int  # the event up to which the bars are known; less than `seq` only where `within` was given
    started_at: float
    until: float  # the end of the run, or its latest event
    is_over: bool
    bars: list[BarView]
    offset: int
    matching: int
    total: int
    begun: list[int]  # how many bars began in each of equal pieces of the time
    actions: list[ActionTime]
    logs: list[LogLine]


class DifferenceQuery(Asked, frozen=True):
    """With which run, and which part; without `offset` the part with the first difference."""

    other: Annotated[str, Meta(min_length=1, max_length=100)]
    offset: shape.Seq | None = None
    limit: Count = 100


class Side(msgspec.Struct, frozen=True):
    """One of two runs."""

    run: shape.RunLine
    input: dict[str, Any] | None  # nothing where it is too large to be shown
    bars: int


class RunDifference(msgspec.Struct, frozen=True):
    """Two runs bar by bar; `first` is the place of the first pair that differs, nothing where none does."""

    left: Side
    right: Side
    pairs: list[BarPair]
    offset: int
    total: int
    first: int | None
    differing: int


class LaneQuery(Asked, frozen=True):
    """Which moment, the lanes in which lane, and which of them."""

    at: shape.Seq = 0
    path: Annotated[str, Meta(max_length=1000)] = ""
    only: Literal["", "pending", "running", "waiting", "completed", "failed"] = ""
    offset: shape.Seq = 0
    limit: Count = 100


class LanePage(msgspec.Struct, frozen=True):
    """Some of an action's lanes; none where the run has no work side by side there, or no longer."""

    run_id: str
    seq: int
    state: str
    sum: LaneSum | None
    lanes: list[LaneView]
    offset: int
    matching: int


async def waterfall(room: HttpServer, call: HttpCall) -> WaterfallPage:
    """The bars of a run."""
    found = await room.find(call.path["run_id"])
    return await room.ask(_page, room.reader, found, call.query)


def _page(reader: Reader, found: Summary, asked: WaterfallQuery) -> WaterfallPage:
    made, upto = reader.project_part(found.run_id, RunBars, asked.within or None)
    bars, logs = list(made.bars), made.logs  # at once: whoever folds may move on in another thread
    now = reader.summary(found.run_id) or found
    since, until = now.started_at, now.updated_at
    if made.sums is None or made.sums[0] != upto:  # a long run has many bars: they are summed once for every event
        made.sums = (upto, count_begun(bars, since, until, PIECES), sum_actions(bars, until, ACTIONS_MAX))
    _, begun, actions = made.sums
    chosen = choose_bars(bars, _list_wishes(asked, until), asked.sort, until)
    shown = [_view(bar) for bar in chosen[asked.offset : asked.offset + asked.limit]]
    first, last = asked.since or since, asked.until or until
    return WaterfallPage(
        run_id=found.run_id,
        seq=now.seq,
        upto=min(upto, now.seq),
        started_at=since,
        until=until,
        is_over=now.status in TERMINAL,
        bars=shown,
        offset=asked.offset,
        matching=len(chosen),
        total=len(bars),
        begun=begun,
        actions=actions,
        logs=[line for line in logs if first <= line.at <= last][-LOGS_MAX:],
    )


def _list_wishes(asked: WaterfallQuery, until: float) -> list[Callable[[Bar], bool]]:
    """What a bar must be to be shown; nothing where all are wanted."""
    since, upto, text = asked.since, asked.until, asked.find.lower()
    kinds: dict[str, Callable[[Bar], bool]] = {
        "asked": lambda bar: bar.asks,
        "failed": lambda bar: bar.status == "failed",
        "models": lambda bar: bool(bar.model or bar.tokens_in),
        "children": lambda bar: bar.kind == "child",
        "slow": lambda bar: bar.kind != "state" and bar.seconds(until) >= 1.0,
    }
    wishes = [kinds[asked.only]] if asked.only else []
    if since is not None:
        wishes.append(lambda bar: (bar.end if bar.end is not None else until) >= since)
    if upto is not None:
        wishes.append(lambda bar: bar.begin <= upto)
    if text:
        wishes.append(lambda bar: text in f"{bar.id} {bar.effect} {bar.model} {bar.error}".lower())
    return wishes


def _view(bar: Bar) -> BarView:
    fields = {name: getattr(bar, name) for name in BarView.__struct_fields__}
    return BarView(**{**fields, "spans": list(bar.spans)})


async def lanes(room: HttpServer, call: HttpCall) -> LanePage:
    """The lanes of a run's state, now or at an earlier moment."""
    run_id = (await room.find(call.path["run_id"])).run_id
    return await room.ask(_page_lanes, room.reader, run_id, call.query)


def _page_lanes(reader: Reader, run_id: str, asked: LaneQuery) -> LanePage:
    standing = reader.at(run_id, asked.at) if asked.at else reader.standing(run_id)
    run = standing.run
    lanes_sum, lanes = list_lanes(standing.machine, run, asked.path) or (None, [])
    found = [one for one in lanes if not asked.only or one.status == asked.only]
    shown = found[asked.offset : asked.offset + asked.limit]
    return LanePage(run_id, run.seq, run.state, lanes_sum, shown, asked.offset, len(found))


async def difference(room: HttpServer, call: HttpCall) -> RunDifference:
    """Two runs side by side."""
    asked: DifferenceQuery = call.query
    left, right = await room.find(call.path["run_id"]), await room.find(asked.other)

    def read() -> RunDifference:
        compared = compare_bars(
            list(room.reader.project(left.run_id, RunBars).bars), list(room.reader.project(right.run_id, RunBars).bars)
        )
        return _differ(room.reader, left, right, compared, asked)

    return await room.ask(read)


def _differ(reader: Reader, left: Summary, right: Summary, compared: Compared, asked: DifferenceQuery) -> RunDifference:
    offset = max(0, (compared.first or 0) - BEFORE_FIRST) if asked.offset is None else asked.offset
    return RunDifference(
        _side(reader, left, compared.left),
        _side(reader, right, compared.right),
        compared.pairs[offset : offset + asked.limit],
        offset,
        len(compared.pairs),
        compared.first,
        compared.differing,
    )


def _side(reader: Reader, found: Summary, bars: int) -> Side:
    first = next(iter(reader.entries(found.run_id, upto=1))).event
    given = first.input if isinstance(first, Started) else {}
    is_small = len(msgspec.json.encode(given)) <= INPUT_BYTES
    return Side(api_view.line(found), given if is_small else None, bars)


ROUTES = (
    Route("GET", "/api/runs/{run_id}/lanes", lanes, "Work side by side, item by item", LanePage, query=LaneQuery,
          errors=(404, 409),
          about="Each item of a `for_each`, or each branch of a parallel state, with where it stands; `path` goes into "
          "lanes that have lanes of their own. A run without work side by side there has no `sum`."),
    Route("GET", "/api/runs/{run_id}/waterfall", waterfall, "Where the time of a run went", WaterfallPage,
          query=WaterfallQuery, errors=(404, 409),
          about="One bar for each state the run was in and for each contract, attempt by attempt, with its waits, the "
          "tokens and the cost of model calls, and the runs of children. `begun`, `actions` and `total` are over the "
          "whole run, whatever part is asked for. With `within`, what is known of a long run after so many seconds; "
          "whoever asks again gets more."),
    Route("GET", "/api/runs/{run_id}/difference", difference, "Two runs side by side", RunDifference,
          query=DifferenceQuery, errors=(404, 409),
          about="Bars are paired by what they are; times are no difference, what went in, what came out, how it ended "
          "and where the run went are."),
)  # fmt: skip
