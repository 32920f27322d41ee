"""Backtesting: what a changed policy would have done with the calls of the past, beside what people decided.

The dangerous ones come first: calls that it would have let pass although a person refused or changed them.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from detent.core.expression import names
from detent.core.policy import Policy, Rule
from detent.errors import DetentError, JournalError, Unknown
from detent.host.port import Reader
from detent.kit.audit.decision_trail import list_runs
from detent.kit.audit.past_call import CallFold, PastCall

LISTED_MAX = 100
KNOWN = frozenset({"args", "tool", "kind", "workflow", "initiator", "cost", "run"})  # what the journal has of a call
KNOWN_KEYS = frozenset(
    {"name", "decision", "tools", "workflows", "initiators", "kinds", "when", "cost_over", "approvers", "quorum",
     "separate", "expires_s", "message", "is_for_named", "on_repeat", "sandbox",
     "require_signature"}
)  # fmt: skip


class RuleCount(msgspec.Struct, frozen=True):
    """How many calls a rule decided about, and what people said to them; the rule "" is no rule at all."""

    rule: str
    allow: int = 0
    ask: int = 0
    deny: int = 0
    approved: int = 0  # by people
    refused: int = 0
    edited: int = 0


class Unknowable(msgspec.Struct, frozen=True):
    """What a rule reads that the journal does not have, so that its part of the result is a guess."""

    rule: str
    reads: list[str]


class BacktestChange(msgspec.Struct, frozen=True):
    """A call whose verdict changes, and where it stands."""

    at: float
    run_id: str
    seq: int
    contract_id: str
    workflow: str
    effect: str
    effect_kind: str
    arguments: dict[str, Any]
    was: str
    was_rule: str
    now: str
    now_rule: str
    said: str  # what a person said: approve, reject, edit, or nothing
    by: str


class BacktestReport(msgspec.Struct, frozen=True):
    """What came of a backtest."""

    policy: str  # its digest
    calls: int
    runs: int
    was: dict[str, int]  # by decision
    now: dict[str, int]
    old_rules: list[RuleCount]
    new_rules: list[RuleCount]
    dangerous: list[BacktestChange]  # would be allowed although a person refused or changed it
    dangerous_count: int
    changes: list[BacktestChange]  # the others, newest first
    change_count: int
    unknown: list[Unknowable]
    damaged: list[str]  # runs that cannot be read


class Period(NamedTuple):
    """From when on, and up to when."""

    since: float | None = None
    until: float | None = None

    def has(self, at: float) -> bool:
        """Whether a moment is in it."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class Backtest:
    """Counts what a policy would have done, call by call; keeps the newest of what it lists."""

    def __init__(self, policy: Policy, listed_max: int = LISTED_MAX) -> None:
        self.policy = policy
        self._listed_max = listed_max
        self._count = self._dangers = self._changed = self._blind = 0
        self._was: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._old: dict[str, Counter[str]] = {}
        self._new: dict[str, Counter[str]] = {rule.name: Counter() for rule in policy.rules}
        self._dangerous: list[tuple[float, int, PastCall]] = []
        self._changes: list[tuple[float, int, PastCall]] = []

    def take(self, call: PastCall) -> None:
        """Count one call."""
        self._count += 1
        self._blind += not call.has_facts
        self._was[call.was.decision] += 1
        self._now[call.now.decision] += 1
        for counts, ruled in ((self._old, call.was), (self._new, call.now)):
            counter = counts.setdefault(ruled.rule, Counter())
            counter[ruled.decision] += 1
            counter[call.said] += 1
        if is_dangerous(call):
            self._dangers += 1
            self._keep(self._dangerous, call)
        elif call.was.decision != call.now.decision:
            self._changed += 1
            self._keep(self._changes, call)

    def _keep(self, kept: list[tuple[float, int, PastCall]], call: PastCall) -> None:
        heapq.heappush(kept, (call.at, self._count, call))
        if len(kept) > self._listed_max:
            heapq.heappop(kept)

    def report(self, runs: int, damaged: list[str]) -> BacktestReport:
        """What came of it."""
        return BacktestReport(
            self.policy.digest,
            self._count, runs, _by_decision(self._was), _by_decision(self._now),
            _rule_counts(self._old), _rule_counts(self._new),
            _list_changes(self._dangerous), self._dangers, _list_changes(self._changes), self._changed,
            find_unknown(self.policy, has_facts=not self._blind), damaged,
        )  # fmt: skip


def run_backtest(reader: Reader, policy: Policy, period: Period, listed_max: int = LISTED_MAX) -> BacktestReport:
    """Replay the calls of a time through a policy."""
    test, damaged, runs, last = Backtest(policy, listed_max), list[str](), 0, ""
    for call in past_calls(reader, policy, period, damaged):
        test.take(call)
        runs, last = runs + (call.run_id != last), call.run_id  # they come run by run
    return test.report(runs, damaged)


def past_calls(reader: Reader, policy: Policy, period: Period, damaged: list[str]) -> Iterator[PastCall]:
    """The calls of a time, run by run; what cannot be read is noted in `damaged`."""
    find_machine = lru_cache(1000)(reader.machine)
    try:
        for summary in list_runs(reader, period.since):
            fold = CallFold(summary.run_id, find_machine, policy)
            try:
                for entry in reader.entries(summary.run_id):
                    yield from (call for call in fold.take(entry) if period.has(call.at))
                yield from (call for call in fold.close() if period.has(call.at))
            except Unknown:
                continue  # it was pruned meanwhile
            except DetentError as error:
                damaged.append(str(error))
    except JournalError as error:
        damaged.append(str(error))


def is_dangerous(call: PastCall) -> bool:
    """Whether a call would have been made although a person did not want it like this."""
    return call.now.decision == "allow" and call.said in ("reject", "edit")


def find_unknown(policy: Policy, *, has_facts: bool) -> list[Unknowable]:
    """The rules that read what the journal does not have of every call, with what that is."""
    found = []
    for rule in policy.rules:
        reads = [] if has_facts else [*sorted(_roots(rule) - KNOWN), *_strange_keys(rule)]
        if reads:
            found.append(Unknowable(rule.name, reads))
    return found


def _roots(rule: Rule) -> set[str]:
    return {read.partition(".")[0] for read in names(rule.when)} if rule.when else set()


def _strange_keys(rule: Rule) -> list[str]:
    """The keys of a rule that are for facts which only the process that makes a call can find out."""
    bare = Rule(rule.name, rule.decision)
    names = [name for name in rule.__struct_fields__ if name not in KNOWN_KEYS]
    return [name for name in names if getattr(rule, name) != getattr(bare, name)]


def _by_decision(counts: Counter[str]) -> dict[str, int]:
    return {decision: counts[decision] for decision in ("allow", "ask", "deny")}


def _rule_counts(counts: dict[str, Counter[str]]) -> list[RuleCount]:
    return [
        RuleCount(rule, one["allow"], one["ask"], one["deny"], one["approve"], one["reject"], one["edit"])
        for rule, one in counts.items()
    ]


def _list_changes(kept: list[tuple[float, int, PastCall]]) -> list[BacktestChange]:
    """Newest first."""
    return [
        BacktestChange(
            one.at, one.run_id, one.seq, one.contract_id, one.workflow, one.effect, one.effect_kind,
            dict(one.arguments), one.was.decision, one.was.rule, one.now.decision, one.now.rule, one.said, one.by,
        )
        for _at, _no, one in sorted(kept, reverse=True, key=lambda kept: kept[:2])
    ]  # fmt: skip
