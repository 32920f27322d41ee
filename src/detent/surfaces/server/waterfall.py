"""A run as bars over time: every state it was in, every contract, attempt, wait and child run. A projection of the run.

It keeps what a bar needs and no inputs or results, so a run of a hundred thousand events stays small, and whoever looks
at one gets a part of the bars and sums over all of them.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import msgspec

from detent.core.consequence import Consequence
from detent.core.contract import Contract
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.status import TERMINAL, Status
from detent.host.parts.child import child_id

LOGS_MAX = 2000  # lines of the run's own log that are kept, the latest
TEXT_MAX = 500  # letters of one of them
DIGEST = 16


class BarSpan(msgspec.Struct, frozen=True, array_like=True):
    """From when on a bar had a status."""

    status: str
    at: float


class Bar(msgspec.Struct, omit_defaults=True):
    """A state the run was in, or a contract of it: when each of its statuses began, and when it was over."""

    id: str
    kind: Literal["state", "contract", "child"]
    name: str
    seq: int  # the event with which it began
    spans: list[BarSpan]
    end: float | None = None
    end_seq: int = 0
    effect: str = ""
    attempt: int = 1
    lane: str = ""
    run_id: str = ""  # of a child: its run
    left_by: str = ""  # of a state: the event that led out of it
    asks: bool = False  # people were asked
    error: str = ""
    model: str = ""
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cost_usd: float = 0.0
    call: str = ""  # digests of what went in and what came out: enough to see that two runs differ
    gave: str = ""

    @property
    def begin(self) -> float:
        """When it began."""
        return self.spans[0].at

    @property
    def status(self) -> str:
        """What it is now, or became at last."""
        return self.spans[-1].status

    def seconds(self, until: float, status: str = "") -> float:
        """How long it has lasted, in one status or in all of them."""
        over = self.end if self.end is not None else max(until, self.spans[-1].at)
        if not status:
            return max(0.0, over - self.begin)
        ends = [*(span.at for span in self.spans[1:]), over]
        return sum(max(0.0, end - span.at) for span, end in zip(self.spans, ends, strict=True) if span.status == status)


class LogLine(msgspec.Struct, frozen=True):
    """Something the workflow itself has said."""

    seq: int
    at: float
    level: str
    state: str
    text: str


class RunBars:
    """All bars of one run, in the order in which they began."""

    name: ClassVar[str] = "bars"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.bars: list[Bar] = []
        self.ended: list[Bar] = []  # the same, as far as they are over, in the order in which they ended
        self.logs: list[LogLine] = []
        self.sums: tuple[int, list[int], list[ActionTime]] | None = None  # over all bars, as of an event
        self._open: dict[str, Bar] = {}  # contracts that have not ended
        self._here: Bar | None = None  # the state the run is in

    def take(self, entry: Entry) -> None:
        """Take in what one event did."""
        run = entry.run
        if self._here is None:
            self._enter(next((one.source for one in entry.taken if one.kind == "transition"), run.state), entry)
        for one in entry.taken:
            if one.kind == "contract":
                self._move(one, entry)
            elif one.kind == "transition":
                self._leave(one.event, entry)
                self._enter(one.target, entry)
            elif one.kind == "log":
                text = one.value if isinstance(one.value, str) else msgspec.json.encode(one.value).decode()
                self.logs.append(LogLine(entry.seq, entry.event.at, one.event, run.state, text[:TEXT_MAX]))
        if len(self.logs) > LOGS_MAX:
            self.logs = self.logs[-LOGS_MAX:]  # a new list: somebody may look at the old one in another thread
        if run.ended is not None and self._here is not None and self._here.end is None:
            self._here.spans.append(BarSpan(run.status.value, entry.event.at))
            self._end(self._here, entry)
        elif run.ended is None and self._here is not None and self._here.end is not None:  # it was tried again
            self._enter(run.state, entry)

    def _enter(self, state: str, entry: Entry) -> None:
        self._here = Bar(f"{state}@{entry.seq}", "state", state, entry.seq, [BarSpan("running", entry.event.at)])
        self.bars.append(self._here)

    def _leave(self, event: str, entry: Entry) -> None:
        if self._here is not None and self._here.end is None:
            self._here.left_by = event
            self._end(self._here, entry)

    def _end(self, bar: Bar, entry: Entry) -> None:
        bar.end, bar.end_seq = entry.event.at, entry.seq
        self.ended.append(bar)

    def _move(self, taken: Consequence, entry: Entry) -> None:
        """A contract has moved: its bar begins, goes on in another colour, or ends."""
        at, bar = entry.event.at, self._open.get(taken.subject)
        contract = entry.run.contract(taken.subject)
        if bar is None:
            bar = self._begin(taken.subject, contract, entry)
        if taken.target != bar.status:
            bar.spans.append(BarSpan(taken.target, at))
        bar.asks = bar.asks or (contract is not None and contract.is_asking)
        if Status(taken.target) in TERMINAL:
            self._end(bar, entry)
            self._open.pop(taken.subject, None)
            _describe_end(bar, entry)

    def _begin(self, id: str, contract: Contract | None, entry: Entry) -> Bar:
        known = contract or Contract(id, id.split("/")[-2:][0], "")
        is_child = known.effect == "child"
        bar = Bar(
            id,
            "child" if is_child else "contract",
            known.action,
            entry.seq,
            [BarSpan("pending", known.created_at or entry.event.at)],
            effect=known.effect,
            attempt=known.attempt,
            lane=known.lane,
            run_id=(known.reopens or child_id(self.run_id, id)) if is_child else "",
            call=digest_of(known.input),
        )
        self._open[id] = bar
        self.bars.append(bar)
        return bar

    def dump(self) -> bytes:
        """Everything, for the next process."""
        return msgspec.json.encode((self.bars, self.logs))

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "RunBars":
        """What another process has dumped."""
        made = cls(run_id)
        made.bars, made.logs = msgspec.json.decode(body, type=tuple[list[Bar], list[LogLine]])
        made.ended = sorted((bar for bar in made.bars if bar.end is not None), key=lambda bar: bar.end_seq)
        made._open = {bar.id: bar for bar in made.bars if bar.kind != "state" and bar.end is None}
        made._here = next((bar for bar in reversed(made.bars) if bar.kind == "state"), None)
        return made


def _describe_end(bar: Bar, entry: Entry) -> None:
    """What a contract ended with: its error, what it used, and a digest of what it gave."""
    event = entry.event
    if not isinstance(event, ContractMoved) or event.contract_id != bar.id:
        return
    bar.error = event.error.type if event.error is not None else ""
    bar.gave = digest_of(event.result) if event.result is not None else ""
    bar.cost_usd = event.usage.get("cost_usd", 0.0)
    told: Any = event.result if isinstance(event.result, dict) else {}
    used = told.get("usage") if isinstance(told.get("usage"), dict) else {}
    if event.usage.get("tokens") or used:
        bar.model = str(told.get("model", ""))[:200]
        bar.tokens_in, bar.tokens_out = _number(used.get("input_tokens")), _number(used.get("output_tokens"))
        if not used:
            bar.tokens_in = event.usage.get("tokens", 0.0)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def digest_of(value: Any) -> str:
    """A value in a few letters: the same for the same value, whatever the order of its names."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:DIGEST]


class ActionTime(msgspec.Struct, frozen=True):
    """Where the time of a run went: one action, over all its attempts."""

    name: str
    effect: str
    count: int
    failed: int
    running_s: float
    waiting_s: float
    longest_s: float
    tokens: float
    cost_usd: float


def sum_actions(bars: Iterable[Bar], until: float, most: int) -> list[ActionTime]:
    """The actions that took most, first."""
    by_name: dict[tuple[str, str], list[Bar]] = {}
    for bar in bars:
        if bar.kind != "state":
            by_name.setdefault((bar.name, bar.effect), []).append(bar)
    made = [
        ActionTime(
            name,
            effect,
            len(held),
            sum(bar.status == "failed" for bar in held),
            sum(bar.seconds(until, "running") for bar in held),
            sum(bar.seconds(until, "waiting") for bar in held),
            max(bar.seconds(until) for bar in held),
            sum(bar.tokens_in + bar.tokens_out for bar in held),
            sum(bar.cost_usd for bar in held),
        )
        for (name, effect), held in by_name.items()
    ]
    return sorted(made, key=lambda one: -(one.running_s + one.waiting_s))[:most]


def count_begun(bars: Iterable[Bar], since: float, until: float, pieces: int) -> list[int]:
    """How many bars began in each piece of the time between."""
    counts = [0] * pieces
    width = max(until - since, 1e-9) / pieces
    for bar in bars:
        if since <= bar.begin <= until:
            counts[min(pieces - 1, int((bar.begin - since) / width))] += 1
    return counts


def choose_bars(bars: list[Bar], wishes: list[Callable[[Bar], bool]], sort: str, until: float) -> list[Bar]:
    """The bars that fulfil every wish: in the order of their beginning, or the longest first."""
    found = [bar for bar in bars if all(wish(bar) for wish in wishes)] if wishes else bars
    return sorted(found, key=lambda bar: -bar.seconds(until)) if sort == "longest" else found
