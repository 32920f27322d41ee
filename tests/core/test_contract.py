"""The life of a contract: seven statuses, nine moves, and no other, whoever asks."""

import msgspec
import pytest

from detent import CONTRACT, Action, ContractMoved, Failure, Machine, Question, Retry, Run, Status, advance, table
from detent.core.contract import MOVES, Contract
from detent.core.status import TERMINAL
from detent.errors import EventRefused, NotWaiting, Refused
from tests.core.story import Story

SEED = """
    pending  start    running
    running  succeed  completed
    running  fail     failed
    running  reject   rejected
    running  suspend  waiting
    running  cancel   cancelled
    waiting  resume   running
    waiting  cancel   cancelled
    waiting  timeout  cancelled
"""
TRIGGERS = ("start", "succeed", "fail", "reject", "suspend", "cancel", "resume", "timeout")
WORKING = Machine(
    "m",
    "a",
    table("a - b\nb GO b"),
    work={"a": (Action("p", "look", retry=Retry(1, delay_s=10.0)),)},
)


def test_there_are_exactly_seven_statuses_and_four_of_them_are_final() -> None:
    assert " ".join(Status) == "pending running waiting completed failed rejected cancelled"
    assert {s for s in Status if s.is_terminal} == TERMINAL
    assert len(TERMINAL) == 4


def test_the_machine_of_a_contract_is_the_table_of_the_seed() -> None:
    assert CONTRACT.transitions == table(SEED)
    assert len(MOVES) == 9
    assert {s.value for s in Status} == set(CONTRACT.states)
    assert CONTRACT.ends == {s.value: s for s in TERMINAL}


def test_a_final_status_cannot_be_left() -> None:
    assert not [status for status, _ in MOVES if status.is_terminal]


def contract_that_is(status: Status) -> tuple[Run, str]:
    """A run, and the id of a contract of it that has this status."""
    story = Story(WORKING)
    first = story.opened[0]
    match status:
        case Status.PENDING:
            story.fail("p")  # the second attempt waits for its time
            return story.run, story.opened[0]
        case Status.WAITING:
            story.move("p", "suspend", question=Question("Sure?", "outcome_unknown"))
        case Status.COMPLETED:
            story.succeed("p")
        case Status.FAILED:
            story.fail("p", "validation_error")
        case Status.REJECTED:
            story.move("p", "reject")
        case Status.CANCELLED:
            story.move("p", "cancel")
    return story.run, first


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("status", Status)
def test_a_contract_moves_as_the_table_says_and_otherwise_stays_as_it_is(status: Status, trigger: str) -> None:
    run, contract_id = contract_that_is(status)
    before = msgspec.json.encode(run)
    moved = ContractMoved(contract_id, trigger, {"outcome": "not_happened"}, at=200.0)
    if (status, trigger) in MOVES:
        _, _, taken = advance(WORKING, run, moved)
        told = next(t for t in taken if t.kind == "contract")
        assert (told.subject, told.source, told.event) == (contract_id, status, trigger)
        assert told.target == MOVES[status, trigger]
    else:
        with pytest.raises(NotWaiting if status.is_terminal or trigger == "resume" else EventRefused):
            advance(WORKING, run, moved)
    assert msgspec.json.encode(run) == before


def test_a_move_that_does_not_exist_is_refused_with_those_that_do() -> None:
    run, contract_id = contract_that_is(Status.WAITING)
    with pytest.raises(EventRefused) as refused:
        advance(WORKING, run, ContractMoved(contract_id, "explode"))
    assert refused.value.accepts == ("resume", "cancel", "timeout")


def test_a_contract_nobody_knows_is_not_open() -> None:
    run, _ = contract_that_is(Status.RUNNING)
    with pytest.raises(NotWaiting, match="contract `a/q/1` of run r1 is not open"):
        advance(WORKING, run, ContractMoved("a/q/1", "succeed"))


def test_a_pending_contract_can_be_started_early_but_not_while_the_run_is_held() -> None:
    story = Story(WORKING).fail("p")
    assert story.open("p").status is Status.PENDING
    story.signal("@hold")
    with pytest.raises(Refused, match="the run is held"):
        story.move("p", "start")
    story.signal("@release").move("p", "start")
    assert story.performed == ["a/p/1", "a/p/2"]


def test_an_error_is_matched_by_its_type_a_parent_of_it_or_the_cause_inside_a_branch() -> None:
    failure = Failure("tool_failure.exit", "code 1")
    assert failure.matches("tool_failure.exit")
    assert failure.matches("tool_failure")
    assert failure.matches("*")
    assert not failure.matches("tool")
    assert not failure.matches("tool_failure.exit.code")
    assert Failure("branch_failed", data={"causes": ["timeout.action"]}).matches("timeout")


def test_a_contract_without_an_end_is_open_and_only_irreversible_ones_are_so() -> None:
    contract = Contract("a/p/1", "p", "pay", kind="irreversible")
    assert contract.is_open
    assert contract.is_irreversible
    assert not msgspec.structs.replace(contract, status=Status.FAILED).is_open
