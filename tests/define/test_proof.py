"""What `validate` proves of a workflow, on small ones both ways, and on random machines against the engine itself."""

# ruff: noqa: E501 - a file of a few words reads best on one line

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent import (
    Action,
    ContractMoved,
    Declared,
    Failure,
    Machine,
    Perform,
    Question,
    Run,
    Started,
    Status,
    Transition,
    advance,
)
from detent.core.events import RULES
from detent.core.expression import names
from detent.define.condition_truth import truth
from detent.define.irreversible_call import BUILTIN, is_irreversible
from detent.define.proof import prove
from detent.define.workflow import read_workflow
from detent.effects import Known
from detent.errors import Refused

irreversible = partial(is_irreversible, effects={})

DEPLOY = """
states:
  build: {type: initial, actions: [{id: make, tool: shell, effect: idempotent, params: {argv: [make]}}]}
  report: {actions: [{id: note, tool: files.write, params: {path: r, text: "{{ result.make.exit }}"}}]}
  deploy: {actions: [{id: ship, tool: shell, params: {argv: [ship]}%s}]}
  done: {type: final}
transitions:
  - {from: build, to: report%s}
  - {from: report, to: deploy%s}
  - {from: deploy, to: done}
"""


def told(text: str) -> list[str]:
    return [str(warning) for warning in read_workflow(text).warnings if "cannot be undone" in str(warning)]


OPEN = {
    "a condition that always holds": ("", ', condition: "{{ true }}"', ""),
    "a condition that is about something else": ("", ', condition: "{{ context.is_friday }}"', ""),
    "a later look at something else": ("", ', condition: "{{ true }}"', ', condition: "{{ result.note.success }}"'),
    "an error that later work has wiped out": ("", ', condition: "{{ true }}"', ', condition: "{{ error is none }}"'),
    "attempts of another state": ("", ', condition: "{{ true }}"', ', condition: "{{ attempt < 3 }}"'),
    "a deed that is asked about": (", side_effect: true", ', condition: "{{ true }}"', ""),
    "a deed under a condition of its own": (', when: "{{ context.is_friday }}"', ', condition: "{{ true }}"', ""),
}
CLOSED = {
    "no condition": ("", "", ""),
    "a condition that reads the result": ("", ', condition: "{{ result.make.exit in [0, 1] }}"', ""),
    "a condition that reads the error": ("", ", condition: \"{{ error.type != 'timeout' }}\"", ""),
    "on: error": ("", ", on: error", ""),
    "a later look at the result": (
        "",
        ', condition: "{{ true }}"',
        ', condition: "{{ result.make.success and result.note.success }}"',
    ),
    "a deed that looks itself": (', when: "{{ result.make.success }}"', ', condition: "{{ true }}"', ""),
    "a deed that can be repeated": (", effect: idempotent", ', condition: "{{ true }}"', ""),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_way_past_a_failure_is_told_state_by_state(name: str) -> None:
    (warning,) = told(DEPLOY % OPEN[name])
    assert (
        ":8:5: warning: `ship` in `deploy` cannot be undone, and can be done after `make` in `build` has failed"
        in warning
    )
    assert "build (line 3) → report (line 4) → deploy (line 5)" in warning


@pytest.mark.parametrize("name", CLOSED)
def test_where_somebody_looks_at_the_failure_nothing_is_told(name: str) -> None:
    assert told(DEPLOY % CLOSED[name]) == []


def test_what_was_looked_at_is_counted() -> None:
    assert read_workflow(DEPLOY % ("", "", "")).proof.deeds == 1
    assert read_workflow(DEPLOY % (", effect: pure", "", "")).proof.deeds == 0


def test_a_value_kept_from_the_failure_is_a_look_at_it() -> None:
    way = ', condition: "{{ true }}", on_transition: [{action: set_variable, variable: ok, value: "{{ result.make.success }}"}]'
    assert told(DEPLOY % ("", way, ', condition: "{{ context.ok and not error }}"')) == []
    assert told(DEPLOY % ("", way, ', condition: "{{ context.other and not error }}"')) != []


def test_the_condition_of_one_action_says_nothing_of_another() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: one, tool: t}, {id: two, tool: t}]}
  b: {actions: [{id: pay, tool: pay, effect: irreversible}]}
  z: {type: final}
transitions: [{from: a, to: b, condition: "{{ result.one.success }}"}, {from: a, to: error, on: error}, {from: b, to: z}]
"""
    assert ["after `two` in `a` has failed" in one for one in told(text)] == [True]
    assert told(text.replace("{{ result.one.success }}", "{{ result.one.success and result.two.success }}")) == []


def test_trying_again_until_it_succeeds_is_no_way_past_a_failure() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: make, tool: make}%s]}
  b: {actions: [{id: pay, tool: pay, effect: irreversible}]}
  z: {type: final}
transitions: [{from: a, to: b}, {from: a, to: a, condition: "{{ context.n < 3 }}"}, {from: b, to: z}]
"""
    assert told(text % "") == []
    assert told(text % ", {id: tell, tool: tell, effect: irreversible}") != [], "what fails itself is done again"


def test_an_error_of_another_type_takes_the_rows_behind() -> None:
    rows = (
        Transition("a", "a", when="true", even_failed=True),
        Transition("a", "done", error="approval_rejected"),
        Transition("a", "b", error="tool_failure"),
        Transition("a", "done"),
        Transition("b", "c", when="true", even_failed=True),
        Transition("c", "done"),
    )
    work = {
        "a": (Action("look", "look"),),
        "b": (Action("see", "look"),),
        "c": (Action("pay", "pay", kind="irreversible"),),
    }
    machine = Machine("m", "a", rows, work, {"done": Status.COMPLETED})
    assert [(hole.action, hole.deed) for hole in prove(machine, irreversible).holes] == [("see", "pay")]


GATE = """
states:
  check: {type: initial}
  gate: {actions: [{id: sign, tool: ask, approval: {question: "Publish?"}}]}
  again: {actions: [%s]}
  publish: {actions: [{id: upload, tool: shell, effect: irreversible, params: {argv: [upload]}}]}
  done: {type: final}
transitions:
  - {from: check, to: gate}
  - {from: gate, to: publish}
  - {from: gate, to: %s}
  - {from: again, to: publish}
  - {from: publish, to: done}
"""
ASK = '{id: sure, tool: ask, approval: {question: "Really?"}}'
LOG = "{type: log, message: well}"


def test_a_way_past_a_no_is_told_even_where_somebody_looked() -> None:
    for way in ("publish, on: error", 'publish, condition: "{{ error }}"', "again, on: error"):
        (warning,) = [one for one in told(GATE % (LOG, way)) if "after a no" in one]
        assert (
            "`upload` in `publish` cannot be undone, and can be done after a no to `sign` in `gate`: gate (line 4)"
            in warning
        )
    for ok in ("error, on: error", "done, on: error"):
        assert told(GATE % (LOG, ok)) == []
    assert told(GATE % (ASK, "again, on: error")) == [], "a new question is a new answer"
    assert told(GATE % (LOG, 'publish, condition: "{{ result.sign.success }}"')) == [], "which a no never is"


def test_a_handler_for_a_no_may_not_lead_to_the_deed() -> None:
    handler = (
        "error_handlers: [{on_state: gate, error_type: approval_rejected, action: log_error, fallback_state: %s}]\n"
    )
    closed = GATE % (LOG, "error, on: error")
    assert told(closed + handler % "done") == []
    assert len(told(closed + handler % "again")) == 1


def test_the_same_call_unasked_is_the_deed_of_a_question() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: pay, tool: pay, side_effect: true, params: {to: "{{ context.to }}"}}]}
  force: {actions: [{id: anyway, tool: pay, effect: irreversible, params: {to: "{{ context.%s }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z}, {from: a, to: force, on: error}, {from: force, to: z}]
"""
    assert len(told(text % "to")) == 1
    assert told(text % "other") == []


def test_a_child_is_as_irreversible_as_what_it_does() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: t, tool: t}]}
  p: {type: parallel, branches: {one: {states: {x: {type: initial, actions: [{id: pay, tool: pay%s}]}, y: {type: final}}, transitions: [{from: x, to: y}]}}}
  z: {type: final}
transitions: [{from: a, to: p, condition: "{{ true }}"}, {from: p, to: z}]
"""
    assert len(told(text % ", effect: irreversible")) == 1
    assert told(text % "") == []


def test_the_table_of_our_own_effects_is_theirs() -> None:
    known = Known()
    for name in known:
        ours, theirs = BUILTIN.get(name), known[name].declared
        assert (theirs.kind == "irreversible") is (ours is not None), name
        if ours is not None:
            assert (ours.is_lenient, ours.kind_by, ours.kinds) == (theirs.is_lenient, theirs.kind_by, theirs.kinds)


@pytest.mark.parametrize(
    ("condition", "known", "is_so"),
    [
        ("", {}, True),
        ("{{ true }}", {}, True),
        ("not a.b", {"a.b": False}, True),
        ("a.b and c", {"a.b": False}, False),
        ("a.b and c", {"a.b": True}, None),
        ("a.b or c", {"a.b": True}, True),
        ("a.b == 'x'", {"a.b": "x"}, True),
        ("a.b != 'x'", {"a.b": "x"}, False),
        ("a == 1", {"a": True}, False),
        ("a.b is none", {"a.b": None}, True),
        ("a.b is defined", {"a.b": 1}, True),
        ("a.b is not none", {}, None),
        ("a['b'].c", {"a.b.c": 1}, True),
        ("a | length > 3", {"a": []}, None),
    ],
)
def test_a_condition_is_certain_only_where_it_is(condition: str, known: dict[str, object], is_so: bool | None) -> None:
    assert truth(condition, known) is is_so


# random machines, every way the engine can go

STATES = ("a", "b", "c")
ENDS = {"done": Status.COMPLETED, "dead": Status.FAILED}
EFFECTS = {"look": Declared(kind="pure"), "pay": Declared(kind="irreversible", scope="run")}
CONDITIONS = ("true", "context.flag", "result.look_{0}.success", "not result.look_{0}.success", "result.look_a.success", "result.ask_a.success",
              "error.type == 'tool_failure'", "not error", "error", "attempt < 1", "result.ask_{0}.success")  # fmt: skip
WORK = {
    "look": lambda state: Action(f"look_{state}", "look"),
    "pay": lambda state: Action(f"pay_{state}", "pay", {"n": state}, kind="irreversible"),
    "asked": lambda state: Action(
        f"asked_{state}", "pay", {"n": "asked"}, kind="irreversible", ask=Question("May it?")
    ),
    "ask": lambda state: Action(f"ask_{state}", "ask", ask=Question("May we?")),
    "careful": lambda state: Action(
        f"care_{state}", "pay", {"n": state}, kind="irreversible", when="result.look_a.success"
    ),
}


@st.composite
def rows(draw: st.DrawFn, source: str) -> list[Transition]:
    """A few rows to different targets, so that a step says which row was taken."""
    targets = draw(st.lists(st.sampled_from([*STATES, *ENDS]), min_size=1, max_size=4, unique=True))
    made = []
    for target in targets:
        kind = draw(st.sampled_from(["plain", "when", "when", "when", "on error", "typed", "net"]))
        when = draw(st.sampled_from(CONDITIONS)).format(source)
        if kind == "plain":
            made.append(Transition(source, target))
        elif kind == "when":
            made.append(
                Transition(
                    source, target, when=when, even_failed=True, is_retry=source == target and draw(st.booleans())
                )
            )
        elif kind == "on error":
            made.append(
                Transition(source, target, even_failed=True, only_failed=True, when=draw(st.sampled_from(["", when])))
            )
        else:
            error = "*" if kind == "net" else draw(st.sampled_from(["tool_failure", "approval_rejected", "timeout"]))
            made.append(Transition(source, target, error=error))
    return made


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    table = [row for state in STATES for row in draw(rows(state))]
    work = {}
    for state in STATES:
        kinds = draw(st.lists(st.sampled_from(list(WORK)), min_size=1, max_size=2, unique=True))
        work[state] = tuple(WORK[kind](state) for kind in kinds)
    return Machine("m", "a", tuple(table), work=work, ends=ENDS)


class Mark(NamedTuple):
    """A failure that nobody has looked at, or a no."""

    kind: str
    state: str
    action: str
    is_no: bool
    is_fresh: bool = True  # whether `error` still tells of it


class Path(NamedTuple):
    """One story so far."""

    run: Run
    marks: frozenset[Mark]
    bad: bool = False


def outcomes(run: Run) -> Iterator[tuple[ContractMoved, str]]:
    """Everything that can happen next: the event, and what it is to the action."""
    for contract in run.contracts[:1]:
        if contract.status is Status.WAITING:
            for said in (True, False):
                answer = ContractMoved(contract.id, "resume", {"approved": said, "by": "ann"}, at=1.0)
                yield answer, "" if said else "failure"
        else:
            yield ContractMoved(contract.id, "succeed", {}, at=1.0), ""
            yield ContractMoved(contract.id, "succeed", {"success": False}, at=1.0), "no"
            yield ContractMoved(contract.id, "fail", error=Failure("tool_failure", "x"), at=1.0), "failure"


def looks(row: Transition, mark: Mark) -> bool:
    roots = {f"result.{mark.action}", f"approval.{mark.action}"}
    if mark.is_fresh and not mark.is_no:
        roots.add("error")
    return (
        any(read == root or read.startswith(root + ".") for read in names(row.when) for root in roots)
        if row.when
        else False
    )


def stepped(machine: Machine, path: Path, event: ContractMoved, how: str) -> Path | None:
    before = path.run
    contract = before.contract(event.contract_id)
    assert contract is not None
    try:
        run, commands, taken = advance(machine, before, event)
    except Refused:
        return None
    marks = set(path.marks)
    said_no = {m for m in marks if m.kind == "said"}  # a no of this execution that no row has taken yet
    marks -= said_no
    if how == "no":
        said_no.add(Mark("said", before.state, contract.action, is_no=True))
    # A row that takes an error looks at what ended the work, whatever was answered before.
    pending = {Mark("failure", before.state, contract.action, is_no=False)} if how == "failure" else said_no
    for step in taken:
        if step.kind != "transition":
            continue
        (row,) = [row for row in machine.transitions if (row.source, row.target) == (step.source, step.target)]
        worked = bool(machine.work.get(step.source))
        marks = {m._replace(is_fresh=m.is_fresh and not worked) for m in marks if m.state != step.source}
        marks = {m for m in marks if not looks(row, m)}
        if pending and not (row.error or row.only_failed or "attempt" in names(row.when or "true")):
            marks |= {m._replace(kind="failure") for m in pending if not looks(row, m)}
        pending = set()
    if not any(step.kind == "transition" for step in taken):
        marks |= said_no
    bad = path.bad
    for command in commands:
        done = run.contract(command.contract_id) if isinstance(command, Perform) else None
        if done is not None and done.is_irreversible:
            order = [action.id for action in machine.work[run.state]]
            action = machine.work[run.state][order.index(done.action)]
            bad = bad or any(is_broken(m, run.state, action, order) for m in marks)
    return Path(run, frozenset(marks), bad)


def is_broken(mark: Mark, state: str, action: Action, order: list[str]) -> bool:
    if mark.kind == "said" or looks(Transition("x", "x", when=action.when), mark):
        return False
    return mark.state != state or order.index(action.id) <= order.index(mark.action)


def has_bad_story(machine: Machine, depth: int = 7) -> bool:
    for flag in (True, False):
        begun = Started(machine.digest, {"flag": flag}, EFFECTS, rules=RULES, at=1.0)
        stories = [Path(advance(machine, Run(id="r"), begun)[0], frozenset())]
        seen = set()
        for _ in range(depth):
            following = []
            for path in stories:
                for event, how in outcomes(path.run):
                    after = stepped(machine, path, event, how)
                    if after is None or after.run.ended:
                        continue
                    if after.bad:
                        return True
                    key = (
                        after.run.state,
                        after.run.contracts[0].action if after.run.contracts else "",
                        after.marks,
                        str(after.run.results),
                        str(after.run.failures),
                        str(after.run.error),
                    )
                    if key not in seen:
                        seen.add(key)
                        following.append(after)
            stories = following[:200]
    return False


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(machines())
def test_what_is_proved_no_story_breaks(machine: Machine) -> None:
    proof = prove(machine, irreversible)
    if not any(hole.after == "failure" for hole in proof.holes):
        assert not has_bad_story(machine), "\n".join(map(str, (*machine.transitions, *machine.work.items())))
