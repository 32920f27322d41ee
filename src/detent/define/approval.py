"""Who must say yes before a tool is called, and what follows when nobody does."""

from typing import Any

from detent.core.machine import Transition
from detent.core.question import Question
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import MachinePlan, lean
from detent.define.value_check import seconds

FOLLOWS = {"on_expire": "timeout.approval", "on_reject": "approval_rejected"}


def approval(plan: MachinePlan, given: Fields, id: str, state: str, *, is_needed: bool = False) -> Question | None:
    """The question of an action: what its `approval` says, or the plain one of a side effect."""
    wanted = given.get("approval", True if given.get("side_effect") or is_needed else None)
    if wanted is False and (given.get("side_effect") or is_needed):
        hint = "use `effect: irreversible` for one that need not be"
        given.say("approval", "a side effect is asked about first", hint)
    if wanted is None or wanted is False:
        return None
    plan.asking.add(state)
    if wanted is True:
        return Question()
    policy = fields(plan.page, given.at("approval"), wanted, "approval", "`approval`")
    if policy is None:
        return None
    _follow(plan, policy, id, state)
    return lean(
        Question,
        text=_text(policy, "question"),
        reason="form" if policy.get("form") else "approval",
        schema=policy.get("form", {}),
        approvers=_who(policy),
        quorum=_quorum(policy),
        separate=policy.get("different_from_initiator", False),
        expires_s=seconds(plan.page, policy.at("expires"), policy.get("expires"), "expires"),
        data=policy.get("data", {}),
        require_signature=policy.get("require_signature", False),
    )


def _text(policy: Fields, key: str) -> str:
    value: Any = policy.get(key, "")
    if isinstance(value, str):
        return value
    policy.say(key, f"`{key}` must be a text")
    return ""


def _who(policy: Fields) -> tuple[str, ...]:
    """People, and roles as `role:NAME`; who holds a role is in the policy, looked up when the question is asked."""
    roles = (name if name.startswith("role:") else f"role:{name}" for name in policy.get("roles", ()))
    return tuple(dict.fromkeys((*policy.get("approvers", ()), *roles)))


def _quorum(policy: Fields) -> int:
    quorum = int(policy.get("quorum", 1))
    who = _who(policy)
    if who and quorum > len(who) and not any(name.startswith("role:") for name in who):
        policy.say("quorum", f"a quorum of {quorum} can never be reached", f"{len(who)} may answer: {', '.join(who)}")
        return 1
    return quorum


def _follow(plan: MachinePlan, policy: Fields, id: str, state: str) -> None:
    """Where to go when the question expires or is denied: a row of the state for exactly this action's error."""
    for key, error in FOLLOWS.items():
        if key not in policy:
            continue
        if key == "on_expire" and "expires" not in policy.said:
            policy.say(key, "without `expires` the question stands for ever", "say `expires: 2h`, for example")
        target = plan.target(policy.at(key), policy[key])
        if target:
            # A branch keeps its results to itself when it fails, so there the type of the error must do.
            is_alone = len(policy.path) <= len(plan.path_of(state)) + 3
            when = f"{{{{ result.{id}.error.type == '{error}' }}}}" if is_alone else ""
            plan.add(Transition(state, target, error=error, when=when), policy.at(key))
