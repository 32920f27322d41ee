"""What a program's answer says it cost: JSON with `model` and `usage` is counted in dollars, whoever made the call.

Prices are those of `llm`. LOBSTER_LLM_PRICING_JSON, `{MODEL: {input, output}}`, comes before them. A model that is in
neither is told in the result and counts nothing.
"""

import math
import os
from typing import Any

from msgspec.structs import replace

from detent.core.effect_type import Outcome
from detent.core.expression.step_filter import NOTHING, parse
from detent.effects.llm.price import MILLION, price_of

OWN_PRICES = "LOBSTER_LLM_PRICING_JSON"
INPUT = ("inputTokens", "input_tokens", "prompt_tokens")
OUTPUT = ("outputTokens", "output_tokens", "completion_tokens")


def with_usage(outcome: Outcome, answer: str | Any) -> Outcome:
    """The outcome with what the answer says it used."""
    if isinstance(answer, str):
        answer = parse(answer) if '"usage"' in answer else NOTHING
    told = [one for one in (answer if isinstance(answer, list) else [answer]) if _is_told(one)]
    if not told:
        return outcome
    dollars, tokens, unknown = 0.0, 0.0, []
    for one in told:
        used = _count(one["usage"], INPUT), _count(one["usage"], OUTPUT)
        rates = _rates(one.get("model"))
        tokens += sum(used)
        if rates is None:
            unknown.append(str(one.get("model")))
        else:
            dollars += (used[0] * rates[0] + used[1] * rates[1]) / MILLION
    result = {**outcome.result, "cost_usd": dollars}
    if unknown:
        result["note"] = f"no price is known for {', '.join(sorted(set(unknown)))}; it counts as nothing"
    return replace(outcome, result=result, usage={"cost_usd": dollars, "tokens": tokens})


def _is_told(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("usage"), dict)


def _count(usage: dict[str, Any], names: tuple[str, ...]) -> float:
    value = next((usage[name] for name in names if name in usage), 0)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(math.floor(value)) if is_number and math.isfinite(value) and value >= 0 else 0.0


def _rates(model: Any) -> tuple[float, float] | None:
    if not isinstance(model, str) or not model.strip():
        return None
    own = parse(os.environ.get(OWN_PRICES, ""))
    said = own.get(model) if isinstance(own, dict) else None
    if isinstance(said, dict) and all(_is_rate(said.get(name)) for name in ("input", "output")):
        return float(said["input"]), float(said["output"])
    found = price_of(model)
    return None if found is None else (found[0].input, found[0].output)


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
