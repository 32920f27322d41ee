"""Workflow files: YAML compiled to a Machine, with every problem of a file reported at once.

What a file may say is in `grammar`; what it means is in docs/reference/rules.md (R1 to R18). Undeclared targets `error`
and `error_state` are failed ends, `retry` enters the source state again, and every other unknown name is refused.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.effect_type import Effect
from detent.core.machine import Group, Limits, Machine
from detent.define.child_workflow import Shelf
from detent.define.compensation import read_last
from detent.define.compile_context import Page
from detent.define.deceptive_text import warn_of_disguises
from detent.define.document import Document, Route, read_document, read_file
from detent.define.error_handler import catch, handlers
from detent.define.grammar import GRAMMAR_VERSION
from detent.define.irreversible_call import is_irreversible
from detent.define.key_check import Fields, fields
from detent.define.lint import lint, lint_names
from detent.define.machine_builder import MachinePlan, lean
from detent.define.problem import BrokenDefinition, Problem, refuse
from detent.define.proof import MachineProof, prove, together
from detent.define.proof_report import tell
from detent.define.rate import read_rate
from detent.define.repeated_call import advise
from detent.define.secret_input import check_reads, name_secrets
from detent.define.standstill import find_standstill
from detent.define.state import declare, waits, work
from detent.define.steps import compile_steps, is_steps
from detent.define.tool import NamedTool, read_tools
from detent.define.tool_argument import check_arguments
from detent.define.transition import transitions
from detent.define.trigger import Trigger, read_triggers
from detent.define.value_check import NAME_MAX, mend_name, seconds
from detent.errors import DefinitionError, Part

MAX_TRANSITIONS = 1000


class Workflow(NamedTuple):
    """What a workflow file gives."""

    machine: Machine
    warnings: tuple[Problem, ...]
    source: str
    input: dict[str, Any]  # JSON Schema of what a run must be given; empty: anything
    advice: tuple[Problem, ...] = ()  # what is right as it stands, and worth knowing
    proof: MachineProof = MachineProof()  # what its irreversible actions cannot follow, where it was looked for
    triggers: tuple[Trigger, ...] = ()  # what starts its runs, once somebody has armed it
    tools: Mapping[str, str] = {}  # the tool of the file that an action calls, by the action's id
    stubbed: Mapping[str, NamedTool] = {}  # tools of the file that somebody else answers for


def load_workflow(
    path: str | Path,
    *,
    fragment: bool = False,
    known_effects: Iterable[str] = (),
    warn: bool = True,
    stubs: Iterable[str] = (),
) -> Workflow:
    """Read a workflow from a file; raises one DefinitionError with everything that is wrong with it.

    `warn=False` does not look for what is allowed and probably not meant. A tool of the file whose name is among the
    `stubs` stays a call of that name: somebody answers in its place.
    """
    wanted = Wanted.of(known_effects, warn)._replace(stubs=frozenset(stubs))
    return _from_file(Path(path), _shelf(wanted), wanted, is_fragment=fragment)


def read_workflow(
    text: str,
    name: str = "workflow",
    *,
    folder: Path | None = None,
    fragment: bool = False,
    known_effects: Iterable[str] = (),
) -> Workflow:
    """Read a workflow from a text; `name` stands for the file, and child workflows are looked for in `folder`."""
    document = read_document(text, name)
    return compile_document(document, folder=folder, fragment=fragment, known_effects=known_effects)


def compile_document(
    document: Document,
    *,
    folder: Path | None = None,
    fragment: bool = False,
    known_effects: Iterable[str] = (),
    stubs: Iterable[str] = (),
) -> Workflow:
    """Compile a document that has been read already, for example a part of a larger one."""
    wanted = Wanted.of(known_effects)._replace(stubs=frozenset(stubs))
    shelf = _shelf(wanted)
    if folder is not None:
        shelf.enter((folder / "document.yaml").resolve())
    return _compile(document, shelf, wanted, fragment)


class Wanted(NamedTuple):
    """What a file and its children are looked through for."""

    known_effects: frozenset[str]  # any other tool is a problem; empty: every tool will do
    warnings: bool = True
    effects: Mapping[str, Effect] = {}  # what they declare, where that is known
    stubs: frozenset[str] = frozenset()  # tools of the file that somebody else answers for

    @classmethod
    def of(cls, known_effects: Iterable[str], warnings: bool = True) -> "Wanted":
        """What is wanted with these tools, which may come with what they declare."""
        return cls(frozenset(known_effects), warnings, known_effects if isinstance(known_effects, Mapping) else {})


def _shelf(wanted: Wanted) -> Shelf:
    def child(file: Path, shelf: Shelf) -> tuple[Machine, list[Problem]]:
        made = _from_file(file, shelf, wanted, is_fragment=False)
        return made.machine, [*made.warnings, *made.advice]

    return Shelf(child)


def _from_file(path: Path, shelf: Shelf, wanted: Wanted, *, is_fragment: bool) -> Workflow:
    document = read_document(read_file(path), str(path))
    shelf.enter(path.resolve())
    try:
        return _compile(document, shelf, wanted, is_fragment)
    finally:
        shelf.leave()


def _compile(document: Document, shelf: Shelf, wanted: Wanted, is_fragment: bool) -> Workflow:
    page = Page(document, wanted.known_effects)
    try:
        tools = read_tools(page)
        page.tools = {name: tool for name, tool in tools.items() if name not in wanted.stubs}
        stubbed = {name: tool for name, tool in tools.items() if name in wanted.stubs}
        triggers = _read_triggers(page)
        machine, schema, proof = _workflow(page, shelf, wanted, is_fragment)
    except RecursionError:  # a document of 64 levels needs far less, but a caller may have left us little
        page.say((), "nested too deeply")
        raise BrokenDefinition(page.problems) from None
    refuse(page.problems)
    if machine is None:  # nothing was said and nothing came of it: say so rather than go on
        raise DefinitionError("this is not a workflow", f"{page.file}:1:1")
    found = sorted(dict.fromkeys(page.problems), key=lambda p: (p.file, p.line, p.column))
    warnings = tuple(p for p in found if p.severity == "warning")
    advice = tuple(p for p in found if p.severity == "advice")
    called = {id: min(names) for id, names in page.called.items() if len(names) == 1}
    return Workflow(machine, warnings, page.file, schema, advice, proof, triggers, called, stubbed)


def _read_triggers(page: Page) -> tuple[Trigger, ...]:
    """The triggers of a file of either grammar."""
    return read_triggers(page, ("triggers",), page.value.get("triggers")) if isinstance(page.value, dict) else ()


def _workflow(
    page: Page, shelf: Shelf, wanted: Wanted, is_fragment: bool
) -> tuple[Machine | None, dict[str, Any], MachineProof]:
    plans: list[MachinePlan] = []

    def nest(outer: MachinePlan, path: Route, value: Any, name: str) -> tuple[Machine, MachinePlan] | None:
        given = fields(page, path, value, "nested", f"the branch `{name}`")
        if given is None:
            return None
        inner = MachinePlan(page, path, is_fragment=False, nest=nest, find_child=shelf.child)
        inner.declared = given.get("variables", {})
        inner.variables = {**outer.variables, **inner.declared}
        machine = _machine(inner, given, name, wanted)
        plans.append(inner)
        return None if machine is None else (machine, inner)

    if isinstance(page.value, dict) and isinstance(page.value.get("variables"), dict):
        page.variables = {name: value for name, value in page.value["variables"].items() if isinstance(name, str)}
    if is_steps(page.value):
        judge = partial(is_irreversible, effects=wanted.effects)
        made = compile_steps(page, shelf.child, judge, warn=wanted.warnings)
        return made.machine, made.machine.input_schema if made.machine is not None else {}, made.proof
    name_secrets(page)
    given = fields(page, (), page.value, "workflow", "a workflow")
    if given is None:
        return None, {}, MachineProof()
    if given.get("grammar", GRAMMAR_VERSION) != GRAMMAR_VERSION:
        given.say("grammar", f"grammar {given['grammar']} is not known", f"this version reads {GRAMMAR_VERSION}")
    plan = MachinePlan(page, (), is_fragment=is_fragment, nest=nest, find_child=shelf.child)
    plan.variables = plan.declared = given.get("variables", {})
    machine = _machine(plan, given, given.get("name") or Path(page.file).stem or "workflow", wanted)
    check_reads(page, given.get("input", {}))
    if wanted.warnings:
        lint_names(page, [plan, *plans])
        warn_of_disguises(page, [plan, *plans])
    return machine, given.get("input", {}), together(one.proof for one in (plan, *plans))


def _machine(plan: MachinePlan, given: Fields, title: str, wanted: Wanted) -> Machine | None:
    """The machine of one set of states, or None after a note."""
    declare(plan, given.at("states"), given.get("states"))
    waits(plan)
    transitions(plan, given.at("transitions"), given.get("transitions"))
    found = handlers(plan, given.at("error_handlers"), given.get("error_handlers"))
    work(plan)  # what an action says of its own failures comes before the handlers
    catch(plan, found)
    limits, group = _limits(plan, given), _group(plan, given)
    on_failure, at_end = read_last(plan, given)
    if not plan.page.is_sound or not plan.initial:
        return None
    if plan.types[plan.initial] in ("final", "error"):
        plan.work.setdefault(plan.initial, ())
    name = title if title.isidentifier() and len(title) <= NAME_MAX else mend_name(title)
    try:
        machine = Machine(
            name=name,
            initial=plan.initial,
            transitions=tuple(plan.rows),
            work=plan.work,
            ends=plan.ends,
            variables=plan.variables,
            local=plan.local,
            timeouts_s=plan.timeouts_s,
            keeps=tuple(plan.events),
            limits=limits,
            output=given.get("output"),
            input_schema=given.get("input", {}),
            title=title if title != name else "",
            version=given.get("version", ""),
            group=group,
            attributes=given.get("attributes") or {},
            on_failure=on_failure,
            at_end=at_end,
        )
    except DefinitionError as error:
        plan.page.say(_place(plan, error.part), error.problem)
        return None
    check_arguments(plan, machine, wanted.effects)
    if wanted.warnings:
        lint(plan)
        proof = prove(machine, partial(is_irreversible, effects=wanted.effects))
        reasons = {name: state["endless"] for name, state in plan.states.items() if "endless" in state}
        still = find_standstill(machine, reasons)
        plan.proof = proof._replace(standstill=still, same=advise(plan, machine, wanted.effects))
        tell(plan, plan.proof)
    return machine


def _group(plan: MachinePlan, given: Fields) -> Group | None:
    """The group of a file; its key can read only what a run is given."""
    if "group" not in given:
        return None
    seen = len(plan.page.readings)
    wanted = fields(plan.page, given.at("group"), given["group"], "group", "`group`")
    for reading in plan.page.readings[seen:]:
        for read in reading.reads:
            if read.partition(".")[0] not in ("context", "run"):
                plan.page.say(reading.path, f"`{read}` is not known before a run begins", "read `context`, its input")
    if wanted is None or "key" not in wanted:
        return None
    if not isinstance(wanted["key"], str):
        wanted.say("key", "the key must be a text")
        return None
    rate, per_s = read_rate(wanted)
    if rate:
        _check_rate(wanted)
    said = {name: wanted[name] for name in ("limit", "when_full") if name in wanted}
    return lean(Group, key=wanted["key"], rate=rate, per_s=per_s, **said)


def _check_rate(wanted: Fields) -> None:
    if "limit" in wanted:
        wanted.say("limit", "a group has a `limit` or a `rate`, not both")
    if wanted.get("when_full") == "cancel_previous":
        wanted.say("when_full", "`cancel_previous` does not go with `rate`", "say queue, drop or ask")


def _limits(plan: MachinePlan, given: Fields) -> Limits:
    wanted = fields(plan.page, given.at("limits"), given.get("limits"), "limits", "`limits`")
    if wanted is None:
        return Limits(max_transitions=MAX_TRANSITIONS)
    return lean(
        Limits,
        max_transitions=wanted.get("max_transitions", MAX_TRANSITIONS),
        max_visits=wanted.get("max_visits", 0),
        max_duration_s=seconds(plan.page, wanted.at("max_duration"), wanted.get("max_duration"), "max_duration"),
        max_cost_usd=float(wanted.get("max_cost_usd", 0.0)),
        max_tokens=wanted.get("max_tokens", 0),
    )


def _place(plan: MachinePlan, part: Part) -> Route:
    """Where something stands that only the finished machine could find wrong."""
    if part.target:
        for row, path in zip(plan.rows, plan.row_paths, strict=True):
            if (row.source, row.target) == (part.state, part.target):
                return path
    if part.action in plan.actions:
        return plan.actions[part.action]
    return plan.path_of(part.state) if part.state in plan.states else plan.path
