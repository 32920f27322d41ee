"""An effect may raise several events at once: the states between are passed through, in one journal entry."""

from detent.core.effect_type import Declared
from detent.core.engine import advance
from detent.core.events import ContractMoved, Started
from detent.core.machine import Action, Machine, table
from detent.core.run import Run
from detent.core.status import Status

QUEUE = Machine(
    name="queue",
    initial="working",
    transitions=table("""
        working  DONE  between
        between  NEXT  working
        between  STOP  over
        working  !*    broken
    """),
    work={"working": (Action("work", "work"),), "between": (Action("look", "look"),)},
    ends={"over": Status.COMPLETED, "broken": Status.FAILED},
)


def begun() -> Run:
    effects = {name: Declared(kind="idempotent") for name in ("work", "look")}
    return advance(QUEUE, Run(id="r"), Started(machine=QUEUE.digest, effects=effects))[0]


def test_a_state_in_between_does_no_work() -> None:
    run, commands, taken = advance(QUEUE, begun(), ContractMoved("working/work/1", "succeed", raises="DONE NEXT"))
    assert (run.state, run.seq, run.raised) == ("working", 2, "")
    assert [c.id for c in run.contracts] == ["working/work/2"]
    assert [(t.source, t.event, t.target) for t in taken if t.kind == "transition"] == [
        ("working", "DONE", "between"),
        ("between", "NEXT", "working"),
    ]
    assert len(commands) == 1


def test_the_last_event_may_end_the_run() -> None:
    run, _, _ = advance(QUEUE, begun(), ContractMoved("working/work/1", "succeed", raises="DONE STOP"))
    assert (run.state, run.status) == ("over", Status.COMPLETED)


def test_one_event_alone_begins_the_work_of_its_state() -> None:
    run, _, _ = advance(QUEUE, begun(), ContractMoved("working/work/1", "succeed", raises="DONE"))
    assert [c.id for c in run.contracts] == ["between/look/1"]


def test_a_second_event_without_a_way_is_an_error_that_says_so() -> None:
    run, _, _ = advance(QUEUE, begun(), ContractMoved("working/work/1", "succeed", raises="DONE NOWHERE"))
    assert run.ended is Status.FAILED
    assert run.error is not None
    assert run.error.type == "no_transition"
    assert "NOWHERE" in run.error.message
