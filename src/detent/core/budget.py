"""What a run may cost: usage is counted with every move, and once a limit is reached nothing that costs begins.

What a call will cost nobody knows before it has answered. What costs is known: an effect that declares it, and every
effect of which a call in this run has reported usage.
"""

from detent.core.contract import Contract, Failure
from detent.core.effect_type import Declared
from detent.core.working_copy import WorkingCopy

EXCEEDED = "budget_exceeded"
UNDECLARED = Declared()


def count(draft: WorkingCopy, contract: Contract, usage: dict[str, float]) -> None:
    """Add what an attempt has used, and remember whose attempt it was."""
    total = dict(draft.run.usage)
    for name, amount in usage.items():
        total[name] = total.get(name, 0) + amount
    draft.changes["usage"] = total
    if draft.chart.has_budget and draft.run.rules >= 2 and contract.effect not in draft.run.priced:
        draft.changes["priced"] = (*draft.run.priced, contract.effect)


def over(draft: WorkingCopy) -> str:
    """What is over its limit; empty when nothing is."""
    limits, total = draft.machine.limits, draft.get("usage")
    cost, tokens, unpriced = (total.get(name, 0) for name in ("cost_usd", "tokens", "unpriced_calls"))
    if limits.max_cost_usd and cost > limits.max_cost_usd:
        return f"cost {cost:.4f} USD is over {limits.max_cost_usd:g}"
    if limits.max_cost_usd and unpriced:
        return (
            f"the cost of {unpriced:g} calls is not known, so {limits.max_cost_usd:g} USD cannot be kept; "
            "name it in the table of DETENT_PRICES, or limit max_tokens"
        )
    if limits.max_tokens and tokens > limits.max_tokens:
        return f"{tokens:g} tokens are over {limits.max_tokens}"
    return ""


def stops(draft: WorkingCopy, action: str, effect: str) -> Failure | None:
    """The failure where a call may not begin, because it costs and a limit is reached."""
    usage, limits = draft.get("usage"), draft.machine.limits
    if not usage or draft.get("rules") < 2:
        return None
    declared = draft.get("effects")
    known: Declared = declared.get(effect) or declared.get("*", UNDECLARED)
    if not known.is_priced and effect not in draft.get("priced"):
        return None
    problem = over(draft)
    if not problem and limits.max_cost_usd and usage.get("cost_usd", 0) >= limits.max_cost_usd:
        problem = f"the {limits.max_cost_usd:g} USD of this run are spent"
    elif not problem and limits.max_tokens and usage.get("tokens", 0) >= limits.max_tokens:
        problem = f"the {limits.max_tokens} tokens of this run are used"
    return Failure(EXCEEDED, f"{problem}: `{action}` is not begun") if problem else None
