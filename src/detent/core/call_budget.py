"""A budget of calls: how many of one tool may be made in a time, and how much their arguments may come to."""

from typing import Any

import msgspec

from detent.core.duration import seconds_of
from detent.errors import DefinitionError

PER_S = 86_400.0
NAMES = ("calls", "per", "total")


class CallBudget(msgspec.Struct, frozen=True):
    """At most so many calls in the last `per_s` seconds; the sum of each named argument is at most so much."""

    calls: int = 0  # 0: any number
    per_s: float = PER_S
    total: dict[str, float] = {}

    def find_excess(self, made: list[dict[str, Any]], next_one: dict[str, Any]) -> str:
        """What one more call would exceed, as a phrase, given the arguments of those made; empty if nothing."""
        if self.calls and len(made) >= self.calls:
            return f"{self.calls} calls"
        for name, most in self.total.items():
            if sum(_amount(args.get(name)) for args in (*made, next_one)) > most:
                return f"`{name}` up to {most:g} in all"
        return ""


def _amount(value: Any) -> float:
    """What an argument adds. What is no number, or would give back what was spent, adds nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0.0, float(value)) if is_number else 0.0


def parse_budget(value: Any) -> CallBudget:
    """A budget as people write it: `{calls: 20, per: 1h, total: {amount: 1000}}`."""
    if not isinstance(value, dict) or not set(value) & {"calls", "total"} or set(value) - set(NAMES):
        raise DefinitionError("a budget is a mapping with `calls` or `total`, and `per`: how long it counts")
    calls, per, total = value.get("calls", 0), value.get("per", PER_S), value.get("total", {})
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 0 or ("calls" in value and not calls):
        raise DefinitionError(f"`calls` of a budget is {calls!r}; it must be a number of calls, at least 1")
    per_s = seconds_of(per) if isinstance(per, str) else per
    if isinstance(per_s, bool) or not isinstance(per_s, int | float) or not per_s > 0:
        raise DefinitionError(f"`per` of a budget is {per!r}; it must be a time such as 90s, 1h or 1d")
    if not isinstance(total, dict) or not all(_is_limit(name, most) for name, most in total.items()):
        raise DefinitionError("`total` of a budget maps names of arguments to the most that they may come to")
    return CallBudget(calls, float(per_s), {name: float(most) for name, most in total.items()})


def _is_limit(name: Any, most: Any) -> bool:
    return isinstance(name, str) and isinstance(most, int | float) and not isinstance(most, bool) and most >= 0
