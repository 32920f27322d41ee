"""Policy: which calls may be made without asking, which need a person, and which must not be made.

Rules are tried in order and the first that fits decides; where none fits, the machine's own question stands. The
verdict and the rule that gave it are journalled with the contract.
"""

from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

import msgspec

from detent.core.contract import Contract
from detent.core.expression import Evaluate, compile_condition
from detent.core.run import Run
from detent.errors import ExpressionError

Verdict = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a policy: the calls it speaks of, and what it says of them."""

    verdict: Verdict
    name: str = ""
    effects: tuple[str, ...] = ()  # names or patterns such as `mail.*`; empty: every effect
    kinds: tuple[str, ...] = ()
    when: str = ""  # an expression over `call`, `run` and `context`
    reason: str = ""
    approvers: tuple[str, ...] = ()
    quorum: int = 1


class Decision(msgspec.Struct, frozen=True):
    """What a policy says of one call."""

    verdict: Verdict
    rule: Rule


class Policy(msgspec.Struct, frozen=True, dict=True):
    """An ordered list of rules."""

    rules: tuple[Rule, ...] = ()

    @cached_property
    def _conditions(self) -> tuple[Evaluate | None, ...]:
        return tuple(compile_condition(rule.when) if rule.when else None for rule in self.rules)

    def check(self) -> None:
        """Compile every condition now; raises DefinitionError for a bad one."""
        _ = self._conditions

    def decide(self, run: Run, contract: Contract) -> Decision | None:
        """The first rule that fits this call; a condition that cannot be computed makes the rule strict, not absent."""
        scope = None
        for rule, condition in zip(self.rules, self._conditions, strict=True):
            if rule.effects and not any(fnmatchcase(contract.effect, pattern) for pattern in rule.effects):
                continue
            if rule.kinds and contract.kind not in rule.kinds:
                continue
            if condition is None:
                return Decision(rule.verdict, rule)
            scope = scope or _scope(run, contract)
            try:
                if condition(scope):
                    return Decision(rule.verdict, rule)
            except ExpressionError:
                if rule.verdict != "allow":
                    return Decision(rule.verdict, rule)
        return None


def _scope(run: Run, contract: Contract) -> dict[str, Any]:
    return {
        "call": {
            "effect": contract.effect,
            "kind": contract.kind,
            "input": contract.input,
            "attempt": contract.attempt,
        },
        "run": {"id": run.id, "by": run.by, "session": run.session, "state": run.state, "usage": run.usage},
        "context": run.context,
    }
