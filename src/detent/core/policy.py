"""The policy: rules that decide whether a call may be made, must be asked about, or may not be made at all.

Pure data and one pure function. A rule whose condition cannot be computed errs on the careful side: one that asks or
denies applies, one that allows does not.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from detent.core.effect_type import Kind
from detent.core.expression import compile_condition, compile_template, is_constant
from detent.core.expression import names as names_in
from detent.core.question import Question
from detent.core.value import digest
from detent.errors import ExpressionError

Decision = Literal["allow", "ask", "deny"]
Repeat = Literal["", "ask", "allow", "refuse", "reuse"]
Level = Literal["", "off", "home", "folder", "strict"]
DECISIONS = ("allow", "ask", "deny")
FACTS = ("program", "paths", "host", "sandbox")
LEVELS = ("off", "home", "folder", "strict")
# What the expressions of a rule can read; the last four are facts that the host has found out about the call.
ROOTS = ("args", "tool", "kind", "workflow", "initiator", "cost", "run", "program", "paths", "host", "sandbox")
ROLE, SPEAKER = "role:", "policy:"  # how a role is named among people, and how the policy signs its answers


class Call(NamedTuple):
    """A call that is about to be made, as rules see it."""

    tool: str
    args: Mapping[str, Any]
    kind: str = "pure"
    workflow: str = ""
    initiator: str = ""
    cost: float = 0.0  # what the run has cost so far, in USD
    run: Mapping[str, Any] = {}
    program: str = ""  # the real path of the program that would run
    paths: tuple[str, ...] = ()  # real paths that it would read, write or work in, as far as they are known
    host: str = ""  # whom it would talk to
    sandbox: str = ""  # the level at which it would run, if it starts a program

    @property
    def scope(self) -> dict[str, Any]:
        """What an expression can see of it."""
        return self._asdict() | {"paths": list(self.paths)}


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """One rule: the calls it is for, and what it decides; what is left empty holds for every call."""

    name: str
    decision: Decision
    tools: tuple[str, ...] = ()  # these four are patterns with `*`, `?` and `[…]`
    workflows: tuple[str, ...] = ()
    initiators: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    when: str = ""
    cost_over: float = -1.0  # only once the run has cost more than this, in USD
    approvers: tuple[str, ...] = ()  # people, and roles as `role:NAME`
    quorum: int = 1
    separate: bool = False
    expires_s: float = 0.0
    message: str = ""
    is_for_named: bool = False  # an `allow` that also answers questions meant for certain people
    on_repeat: Repeat = ""  # what to do when the same deed was done in another run; "": as the action says
    sandbox: Level = ""  # the weakest sandbox in which its calls may be made; "": what the policy says for all
    programs: tuple[str, ...] = ()  # patterns for what the host has found out about the call, see `Call`
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    require_signature: bool = False  # whoever answers must sign

    @cached_property
    def _patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        named = (("tool", self.tools), ("workflow", self.workflows), ("initiator", self.initiators))
        return tuple((field, _pattern(globs)) for field, globs in named if globs)

    @cached_property
    def _facts(self) -> tuple[re.Pattern[str] | None, ...]:
        return tuple(_pattern(globs) if globs else None for globs in (self.programs, self.paths, self.hosts))

    def _fits(self, call: Call) -> bool:
        """Whether what the host has found out about the call is what this rule is for."""
        program, path, host = self._facts
        if program is not None and not (
            call.program and (program.match(call.program) or program.match(call.program.rpartition("/")[2]))
        ):
            return False
        # A folder is meant by what is in it, too: who works there writes there under names that nobody sees before.
        if path is not None and not any(path.match(one) or path.match(f"{one}/") for one in call.paths):
            return False
        return host is None or bool(call.host and host.match(call.host))

    @cached_property
    def reads_facts(self) -> bool:
        """Whether its expressions read what the host has found out about a call."""
        return any(
            read.partition(".")[0] in FACTS
            for text in (self.when, "" if is_constant(self.message) else self.message)
            if text
            for read in names_in(text)
        )

    @cached_property
    def _condition(self) -> Any:
        return compile_condition(self.when) if self.when else None

    def takes(self, call: Call) -> str | None:
        """Whether the rule is for this call: None if not, else why although its condition failed, or nothing."""
        if self.kinds and call.kind not in self.kinds:
            return None
        if call.cost <= self.cost_over:
            return None
        if not all(pattern.match(getattr(call, field)) for field, pattern in self._patterns):
            return None
        if (self.programs or self.paths or self.hosts) and not self._fits(call):
            return None
        if self._condition is None:
            return ""
        try:
            return "" if self._condition(call.scope) else None
        except ExpressionError as error:
            return None if self.decision == "allow" else f"its condition cannot be computed: {error}"

    def says(self, call: Call) -> str:
        """Its message about this call."""
        if is_constant(self.message):
            return self.message
        try:
            return str(compile_template(self.message)(call.scope))
        except ExpressionError:
            return self.message


def _pattern(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(glob) for glob in globs))


class Verdict(NamedTuple):
    """What the policy says to a call, and which rule said it; a default is called `default:KIND`."""

    decision: Decision
    rule: str
    message: str = ""
    question: Question | None = None  # of an `ask`: who may answer, and how long
    is_rule: bool = True
    is_for_named: bool = False
    on_repeat: Repeat = ""
    sandbox: Level = ""


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """Rules in the order they are tried, what holds where none applies, and who holds which role."""

    rules: tuple[Rule, ...] = ()
    default: dict[str, Decision] = {}  # by kind of effect; a kind that is not there is left to the machine's author
    roles: dict[str, tuple[str, ...]] = {}
    mcp_may_approve_irreversible: bool = False  # whether the user of an MCP client may, as on the command line
    sandbox: Level = ""  # the weakest sandbox that an action may choose; a rule may say otherwise for its calls

    @cached_property
    def has_sandbox(self) -> bool:
        """Whether it says anything about sandboxes."""
        return bool(self.sandbox) or any(rule.sandbox for rule in self.rules)

    @cached_property
    def digest(self) -> str:
        """The policy's identity."""
        return digest(msgspec.to_builtins(self))

    @cached_property
    def has_facts(self) -> bool:
        """Whether any rule goes by what the host has found out about a call."""
        return any(rule.programs or rule.paths or rule.hosts or rule.reads_facts for rule in self.rules)

    def decide(self, call: Call) -> Verdict | None:
        """What the first rule for this call says; None where the policy has nothing to say."""
        for rule in self.rules:
            doubt = rule.takes(call)
            if doubt is not None:
                return self._verdict(rule, call, doubt)
        decision = self.default.get(call.kind)
        if decision is None:
            return None
        question = Question(f"May `{call.tool}` do this?") if decision == "ask" else None
        return Verdict(decision, f"default:{call.kind}", question=question, is_rule=False)

    def _verdict(self, rule: Rule, call: Call, doubt: str) -> Verdict:
        message = "; ".join(part for part in (rule.says(call), doubt) if part)
        question = None
        if rule.decision == "ask":
            question = Question(
                text=message or f"May `{call.tool}` do this?",
                approvers=self.people(rule.approvers),
                quorum=rule.quorum,
                separate=rule.separate,
                expires_s=rule.expires_s,
                require_signature=rule.require_signature,
            )
        return Verdict(
            rule.decision,
            rule.name,
            message,
            question,
            is_for_named=rule.is_for_named,
            on_repeat=rule.on_repeat,
            sandbox=rule.sandbox,
        )

    def people(self, names: Iterable[str]) -> tuple[str, ...]:
        """These names with the holders of each known role in its place."""
        found: list[str] = []
        for name in names:
            found += self.roles.get(name.removeprefix(ROLE), (name,)) if name.startswith(ROLE) else (name,)
        return tuple(dict.fromkeys(found))


def stricter(asked: Question, wanted: Question, message: str = "") -> Question:
    """The author's question, with what the policy wants of whoever answers it as well."""
    both = tuple(name for name in asked.approvers if name in wanted.approvers)
    approvers = both or wanted.approvers or asked.approvers
    quorum = max(asked.quorum, wanted.quorum)
    if approvers and quorum > len(approvers):  # nobody could ever reach it: the policy's own wish stands
        approvers, quorum = wanted.approvers or asked.approvers, wanted.quorum if wanted.approvers else asked.quorum
    times = [s for s in (asked.expires_s, wanted.expires_s) if s]
    return replace(
        asked,
        text=message or asked.text,
        approvers=approvers,
        quorum=quorum,
        separate=asked.separate or wanted.separate,
        expires_s=min(times, default=0.0),
        require_signature=asked.require_signature or wanted.require_signature,
    )
