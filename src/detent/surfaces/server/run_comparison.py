"""Two runs bar by bar: what both did, what only one did, and where they began to differ."""

from typing import Literal, NamedTuple

import msgspec

from detent.surfaces.server.waterfall import Bar

Field = Literal["missing", "effect", "input", "result", "status", "error", "left_by", "model"]


class BarSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bar as it stands beside another one."""

    id: str
    kind: Literal["state", "contract", "child"]
    name: str
    seq: int
    begin: float
    end: float | None
    status: str
    effect: str = ""
    attempt: int = 1
    left_by: str = ""
    error: str = ""
    run_id: str = ""


class BarPair(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in one row; `differs` names what is not the same."""

    left: BarSummary | None = None
    right: BarSummary | None = None
    differs: list[Field] = []


class Compared(NamedTuple):
    """All pairs of two runs."""

    pairs: list[BarPair]
    first: int | None
    differing: int
    left: int
    right: int


def compare_bars(left: list[Bar], right: list[Bar]) -> Compared:
    """Pair bars that are the same step of both runs, in the order in which they began."""
    ours, theirs = _name_bars(left), _name_bars(right)
    pairs: list[BarPair] = []
    place, taken = 0, set[str]()
    order = list(theirs)
    for name, bar in ours.items():
        # What only the other run did comes where it did it: before the next step that both have.
        if name in theirs:
            while place < len(order) and order[place] != name and order[place] not in ours:
                pairs.append(BarPair(right=_summary(theirs[order[place]]), differs=["missing"]))
                taken.add(order[place])
                place += 1
            pairs.append(_pair(bar, theirs[name]))
            taken.add(name)
            while place < len(order) and order[place] in taken:
                place += 1
        else:
            pairs.append(BarPair(left=_summary(bar), differs=["missing"]))
    pairs += [BarPair(right=_summary(theirs[name]), differs=["missing"]) for name in order if name not in taken]
    return Compared(pairs, _find_first(pairs), sum(bool(pair.differs) for pair in pairs), len(left), len(right))


def _find_first(pairs: list[BarPair]) -> int | None:
    """Where two runs began to differ: of a state that was left otherwise, the contract in it that is why."""
    first = next((at for at, pair in enumerate(pairs) if pair.differs), None)
    if first is None or not _is_state(pairs[first]):
        return first
    for at in range(first + 1, len(pairs)):
        if _is_state(pairs[at]):
            break
        if pairs[at].differs:
            return at
    return first


def _is_state(pair: BarPair) -> bool:
    bar = pair.left or pair.right
    return bar is not None and bar.kind == "state"


def _name_bars(bars: list[Bar]) -> dict[str, Bar]:
    """Bars by what they are: a contract by its id, a state by its name and the how-manieth time it was entered."""
    named: dict[str, Bar] = {}
    visits: dict[str, int] = {}
    for bar in bars:
        if bar.kind == "state":
            visits[bar.name] = visits.get(bar.name, 0) + 1
            named[f"@{bar.name}/{visits[bar.name]}"] = bar
        else:
            named[bar.id] = bar
    return named


def _pair(left: Bar, right: Bar) -> BarPair:
    same: list[tuple[Field, object, object]] = [
        ("effect", left.effect, right.effect),
        ("input", left.call, right.call),
        ("result", left.gave, right.gave),
        ("status", left.status, right.status),
        ("error", left.error, right.error),
        ("left_by", left.left_by, right.left_by),
        ("model", left.model, right.model),
    ]
    return BarPair(_summary(left), _summary(right), [field for field, ours, theirs in same if ours != theirs])


def _summary(bar: Bar) -> BarSummary:
    return BarSummary(
        bar.id,
        bar.kind,
        bar.name,
        bar.seq,
        bar.begin,
        bar.end,
        bar.status,
        bar.effect,
        bar.attempt,
        bar.left_by,
        bar.error,
        bar.run_id,
    )
