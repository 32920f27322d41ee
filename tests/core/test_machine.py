"""Machines: what is refused when they are built, what they are identified by, and how they are written down."""

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from detent import CONTRACT, Action, Await, Branch, Limits, Machine, Question, Retry, Status, Transition, Wait, table
from detent.core.machine import did_you_mean
from detent.errors import DefinitionError

LOOK = Action("p", "look")
ENDS = {"done": Status.COMPLETED}

FULL = Machine(
    "order",
    "draft",
    (
        *table("""
            draft  SEND      sent
            sent   -         done    if result.mail.success
            sent   !timeout  draft
            *      ABANDON   lost
        """),
        Transition("sent", "sent", even_failed=True, is_retry=True, when="attempt < 3", priority=-1),
    ),
    work={
        "sent": (
            Action(
                "mail",
                "mail.send",
                input={"to": "{{ context.to }}", "copies": [1, 2.5, None, True]},
                kind="irreversible",
                ask=Question("Send to {{ context.to }}?", approvers=("ann", "bob"), quorum=2, expires_s=60),
                retry=Retry(3, on=("timeout",), delay_s=1),
                key="{{ context.id }}",
                timeout_s=5,
            ),
            Action("nap", "wait", wait=Wait(events=(Await("PAID", "event.data.n > 1"),), timeout_s="{{ 60 * 2 }}")),
            Action("both", "branches", branches=(Branch("l", (LOOK,)), Branch("r", (LOOK,))), join=1),
        )
    },
    ends={**ENDS, "lost": Status.CANCELLED},
    variables={"max": 3},
    local={"sent": {"tries": 0}},
    timeouts_s={"sent": 60},
    keeps=("PAID",),
    limits=Limits(max_transitions=100, max_duration_s=5),
    output={"to": "{{ context.to }}"},
    title="An order",
    version="7",
)


def test_a_machine_that_went_through_json_is_equal_and_has_the_same_digest() -> None:
    again = Machine.from_json(FULL.to_json())
    assert again == FULL
    assert again.digest == FULL.digest
    assert again.to_json() == Machine.from_json(again.to_json()).to_json()


def test_equal_machines_have_one_digest_whatever_the_order_of_their_keys() -> None:
    one = Machine("m", "a", table("a GO a"), variables={"x": 1, "y": {"b": 1, "a": 2}}, timeouts_s={"a": 5})
    two = Machine("m", "a", table("a GO a"), variables={"y": {"a": 2, "b": 1}, "x": 1}, timeouts_s={"a": 5.0})
    assert one.digest == two.digest
    assert list(one.variables["y"]) == list(two.variables["y"])  # or `keys` would tell them apart


def test_a_whole_number_is_one_however_it_is_written() -> None:
    def digest(value: float) -> str:
        return Machine("m", "a", table("a GO a"), variables={"value": value}).digest

    for whole in (0, -3, 7, 10**15, 10**16, 3 * 10**20):
        assert digest(float(whole)) == digest(whole)
    assert digest(0.5) != digest(0)


def test_a_digest_does_not_change_from_one_release_to_the_next() -> None:
    assert CONTRACT.digest == "c5db0445d6a1cfe4b6900b98608a64dc991683dd268f6505eebfa16fdb854695"


def test_every_difference_changes_the_digest() -> None:
    machine = Machine("m", "a", table("a GO a"))
    others = [
        replace(machine, name="n"),
        replace(machine, transitions=table("a GONE a")),
        replace(machine, title="t"),
        replace(machine, work={"a": (LOOK,)}),
        replace(machine, keeps=("GO",)),
    ]
    assert len({machine.digest, *(other.digest for other in others)}) == 6


def test_a_table_is_rows_of_source_event_and_target() -> None:
    rows = table("""
        a  GO        b

        a  -         c  if context.n > 1
        b  !timeout  c
    """)
    assert rows == (
        Transition("a", "b", on="GO"),
        Transition("a", "c", when="context.n > 1"),
        Transition("b", "c", error="timeout"),
    )


@pytest.mark.parametrize("line", ["a GO", "a GO b c", "a ! b"])
def test_a_line_that_is_no_row_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(DefinitionError, match=r"table row 2: .* is not a row of `source EVENT target`"):
        table(f"\n{line}")


def test_a_state_accepts_its_signals_those_of_everywhere_and_those_it_waits_for() -> None:
    assert FULL.accepts("draft") == ("SEND", "ABANDON")
    assert FULL.accepts("sent") == ("ABANDON", "PAID")
    assert FULL.accepts("done") == ()
    with pytest.raises(DefinitionError, match="machine `order` has no state `gone`"):
        FULL.accepts("gone")


def test_states_come_in_the_order_of_the_table() -> None:
    assert FULL.states == ("draft", "sent", "done", "lost")


def test_a_machine_knows_the_effects_its_host_must_have() -> None:
    work: dict[str, tuple[Action, ...]] = {
        "a": (
            Action("x", "mail.send"),
            Action("y", "ask", ask=Question("?")),
            Action("z", "branches", branches=(Branch("l", (Action("x", "shell"), Action("w", "{{ context.e }}"))),)),
            Action("v", "set", input={"name": "n", "value": 1}),
        )
    }
    assert Machine("m", "a", table("a - done"), work, ENDS).chart.effects == ("mail.send", "shell", "*")


def test_json_that_is_no_machine_is_refused() -> None:
    for text in ("", "[]", '{"name": 1}', '{"name": "m", "initial": "a", "ends": {"a": "finished"}}'):
        with pytest.raises(DefinitionError):
            Machine.from_json(text)


def test_a_name_close_to_a_known_one_is_suggested() -> None:
    assert did_you_mean("donne", ["done", "lost"]) == "; did you mean `done`?"
    assert did_you_mean("xyz", ["done"]) == ""


def machine(rows: str = "a GO a", **fields: Any) -> Machine:
    return Machine("m", "a", table(rows), **fields)


def acting(*actions: Action) -> Machine:
    return machine("a - done", work={"a": actions}, ends=ENDS)


def branching(**fields: Any) -> Machine:
    both = (Branch("l", (LOOK,)), Branch("r", (LOOK,)))
    return acting(Action("p", "branches", **{"branches": both, **fields}))


def deep(levels: int) -> Action:
    action = LOOK
    for _ in range(levels):
        action = Action("p", "branches", branches=(Branch("l", (action,)),))
    return action


REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "a machine's name": (lambda: Machine("my machine", "a", table("a GO a")), "name 'my machine' is not an identifier"),
    "no initial state": (lambda: Machine("m", "", table("a GO a")), "the initial state '' is not an identifier"),
    "everywhere as initial": (lambda: Machine("m", "*", table("* GO a")), "is not an identifier"),
    "an unknown initial state": (
        lambda: Machine("m", "b", table("a GO a")),
        "machine `m`: the initial state `b` appears nowhere else",
    ),
    "a state's name": (lambda: machine("a GO a\nb-c GO a"), "state 'b-c' is not an identifier"),
    "a long name": (lambda: machine(f"{'a' * 101} GO a\na GO a"), "is not an identifier"),
    "an unknown target": (
        lambda: machine("a GO dome", ends=ENDS),
        "`a` leads to `dome`, which has no transition, no work and is not an end; did you mean `done`",
    ),
    "an event's name": (lambda: machine("a GO-ON a"), "event 'GO-ON' is not an identifier"),
    "a row for two things": (
        lambda: Machine("m", "a", (Transition("a", "a", on="GO", error="timeout"),)),
        "a row is for a signal or for an error, not for both",
    ),
    "an error type": (lambda: machine("a !Time-Out a\na GO a"), "`Time-Out` is not an error type"),
    "a way out of an end": (
        lambda: machine("a GO done\ndone - a", ends=ENDS),
        "`done` → `a`: an end can be left only on a signal",
    ),
    "work on the way": (
        lambda: Machine("m", "a", (Transition("a", "a", on="GO", then=(LOOK,)),)),
        "on the way only `set` and `log` are possible",
    ),
    "a nameless set on the way": (
        lambda: Machine("m", "a", (Transition("a", "a", on="GO", then=(Action("s", "set"),)),)),
        "`set` needs an input with `name`",
    ),
    "work in an end": (
        lambda: machine("a GO done", ends=ENDS, work={"done": (LOOK,)}),
        "state `done`: an end may only `set` and `log`",
    ),
    "an action's id": (lambda: acting(Action("1st", "look")), "action id '1st' is not an identifier"),
    "an id used twice": (lambda: acting(LOOK, LOOK), "the action id `p` is used twice"),
    "no effect": (lambda: acting(Action("p", "")), "'' is not the name of an effect"),
    "an effect's name": (lambda: acting(Action("p", "send mail")), "'send mail' is not the name of an effect"),
    "input that is not JSON": (lambda: acting(Action("p", "look", input={"x": {1, 2}})), "`input` holds something"),
    "a tuple in the input": (lambda: acting(Action("p", "look", input={"x": (1, 2)})), "`input` holds something"),
    "no number": (lambda: acting(Action("p", "look", input={"x": float("nan")})), "`input` holds something"),
    "a key that is no text": (lambda: acting(Action("p", "look", input={1: 2})), "`input` holds something"),
    "a set without input": (lambda: acting(Action("p", "set", input="x")), "`set` needs an input with `name`"),
    "a set of nothing": (lambda: acting(Action("p", "set", input={"value": 1})), "`set` needs an input with `name`"),
    "a private variable": (
        lambda: acting(Action("p", "set", input={"name": "_x"})),
        "'_x' is not the name of a variable",
    ),
    "a log of nothing": (lambda: acting(Action("p", "log")), "`log` needs an input with `message`"),
    "a choice of nothing": (lambda: acting(Action("p", "choose")), "`choose` needs an input with `condition`"),
    "an ask without question": (lambda: acting(Action("p", "ask")), "an `ask` action needs its question in `ask`"),
    "a wait without wait": (
        lambda: acting(Action("p", "wait")),
        "an action has a wait exactly when its effect is `wait`",
    ),
    "a wait elsewhere": (
        lambda: acting(Action("p", "look", wait=Wait(duration_s=1))),
        "an action has a wait exactly when its effect is `wait`",
    ),
    "a wait for nothing": (
        lambda: acting(Action("p", "wait", wait=Wait())),
        "a wait needs `events`, a `duration_s` or a `timeout_s`",
    ),
    "a wait for two things": (
        lambda: acting(Action("p", "wait", wait=Wait(events=(Await("X"),), duration_s=1))),
        "a wait has a `duration_s`, or `events` with a `timeout_s`, not both",
    ),
    "a negative wait": (lambda: acting(Action("p", "wait", wait=Wait(duration_s=-1))), "`duration_s` is -1"),
    "an awaited event": (
        lambda: acting(Action("p", "wait", wait=Wait(events=(Await("no way"),)))),
        "event 'no way' is not an identifier",
    ),
    "a negative timeout": (lambda: acting(Action("p", "look", timeout_s=-1.0)), "`timeout_s` is -1.0"),
    "an endless timeout": (lambda: acting(Action("p", "look", timeout_s=float("inf"))), "`timeout_s` is inf"),
    "a negative retry": (lambda: acting(Action("p", "look", retry=Retry(-1))), "`retry.limit` is -1"),
    "a quorum of none": (
        lambda: acting(Action("p", "look", ask=Question(quorum=0))),
        "a quorum of 0 can never be reached",
    ),
    "a quorum of too many": (
        lambda: acting(Action("p", "look", ask=Question(quorum=2, approvers=("ann", "ann")))),
        "a quorum of 2 can never be reached",
    ),
    "a doubt asked first": (
        lambda: acting(Action("p", "look", ask=Question(reason="outcome_unknown"))),
        "a question asked first is an approval or a form, not `outcome_unknown`",
    ),
    "branches elsewhere": (
        lambda: acting(Action("p", "look", branches=(Branch("l", ()),))),
        "an action has branches exactly when its effect is `branches`",
    ),
    "no branches": (
        lambda: acting(Action("p", "branches")),
        "an action has branches exactly when its effect is `branches`",
    ),
    "each of two": (lambda: branching(each="{{ [1] }}"), "`each` needs exactly one branch"),
    "too many to join": (lambda: branching(join=3), "join 3 can never be reached"),
    "none to join": (lambda: branching(join=0), "join 0 can never be reached"),
    "a branch twice": (
        lambda: branching(branches=(Branch("l", ()), Branch("l", ()))),
        "the branch `l` is there twice",
    ),
    "a branch's name": (lambda: branching(branches=(Branch("", ()),)), "branch '' is not an identifier"),
    "branches too deep": (lambda: acting(deep(9)), "branches are nested deeper than 8"),
    "an unknown state with variables": (
        lambda: machine(local={"b": {}}),
        "`local` names the unknown state `b`",
    ),
    "an unknown state with a timeout": (lambda: machine(timeouts_s={"aa": 1}), "did you mean `a`"),
    "a negative state timeout": (lambda: machine(timeouts_s={"a": -1}), "`timeouts_s of `a`` is -1"),
    "a negative limit": (lambda: machine(limits=Limits(max_visits=-1)), "`max_visits` is -1"),
    "variables that are not JSON": (lambda: machine(variables={"x": b"x"}), "`variables` holds something"),
    "output that is not JSON": (lambda: machine(output={"x": {1}}), "`output` holds something"),
    "a kept signal's name": (lambda: machine(keeps=("@wake",)), "kept signal '@wake' is not an identifier"),
    "a circle": (
        lambda: machine("a - b\nb - c\nc - b", ends=ENDS),
        "b → c → b is a circle that needs no event and does no work",
    ),
    "a circle through everywhere": (
        lambda: machine("a - b\nb GO b\n* - a"),
        "a → b → a is a circle that needs no event and does no work",
    ),
    "a broken condition": (lambda: machine("a GO a if context."), "machine `m`, `a` → `a`: "),
    "a broken input": (
        lambda: acting(Action("p", "look", input={"x": "{{ 1 + }}"})),
        "machine `m`, state `a`, action `p`: ",
    ),
    "a broken output": (lambda: machine(output="{{ 1 + }}"), "machine `m`, output: "),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_machine_that_could_not_run_is_not_built(what: str) -> None:
    build, message = REFUSALS[what]
    with pytest.raises(DefinitionError) as refused:
        build()
    assert message in str(refused.value)


def test_eight_levels_of_branches_are_allowed() -> None:
    assert acting(deep(8)).states == ("a", "done")


def test_a_circle_with_a_condition_work_or_a_change_on_the_way_may_be_meant() -> None:
    step = (Action("s", "set", input={"name": "n", "value": 1}),)
    assert machine("a - b if context.x\nb - a\na - done", ends=ENDS).states == ("a", "b", "done")
    assert machine("a - b\nb - a", work={"b": (LOOK,)}).states == ("a", "b")
    assert Machine("m", "a", (Transition("a", "b", then=step), Transition("b", "a"))).states == ("a", "b")


def test_type_checkers_are_told_of_exactly_the_fields_there_are() -> None:
    tree = ast.parse(inspect.getsource(Machine))
    written = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert [one.arg for one in written.args.args[1:]] == list(Machine.__struct_fields__)
