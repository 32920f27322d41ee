"""The machine of a guarded function: one call under one contract, and nothing else."""

import re
from typing import Literal

import msgspec

from detent.core.call_budget import CallBudget
from detent.core.effect_type import Kind, Scope
from detent.core.machine import Action, Machine, table
from detent.core.question import Question

Repeat = Literal["refuse", "reuse", "ask", "allow"]


class ToolTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is agreed about a tool's calls: what they do to the world, who is asked, and when two are the same."""

    name: str
    kind: Kind
    is_asked: bool
    has_key: bool
    repeat: Repeat
    scope: Scope = "global"
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    expires_s: float = 0.0
    timeout_s: float = 0.0
    budget: CallBudget | None = None


def build_tool_machine(terms: ToolTerms) -> Machine:
    """The machine whose run is one call: `context` has the arguments, the question, and the key if there is one."""
    asked = Question("{{ context.question }}", approvers=terms.approvers, quorum=terms.quorum,
                     expires_s=terms.expires_s)  # fmt: skip
    is_deed = terms.kind == "irreversible"
    call = Action(
        "call",
        terms.name,
        "{{ context.args }}",
        kind=terms.kind,
        ask=asked if terms.is_asked else None,
        key="{{ context.key }}" if terms.has_key and is_deed else "",
        scope=terms.scope if is_deed else "",
        on_repeat=terms.repeat if is_deed else "",
        timeout_s=terms.timeout_s,
    )
    return Machine(
        name=re.sub(r"\W|^(?=\d)", "_", terms.name),
        title=terms.name,
        initial="call",
        transitions=table("""
            call  -                   done
            call  !approval_rejected  rejected
            call  !already_done       rejected
            call  !key_held           rejected
        """),
        work={"call": (call,)},
        ends={"done": "completed", "rejected": "rejected"},
        output="{{ result.call }}",
    )
