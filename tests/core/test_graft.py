"""Stories of runs that go on elsewhere: forked from another run, or migrated to another machine."""

from typing import Any

import msgspec
import pytest

from detent import (
    Action,
    Await,
    Branch,
    Limits,
    Machine,
    Perform,
    Question,
    Retry,
    Run,
    Signalled,
    Started,
    Status,
    Wait,
    advance,
    table,
)
from detent.core.events import RULES
from detent.core.fork_migrate import FORK_RULES
from detent.errors import EventRefused, Refused
from tests.core.story import EFFECTS, Story

ENDS = {"done": Status.COMPLETED}
LOOK = Action("look", "look")
PAY = Action("pay", "pay", input={"n": "{{ context.n }}"}, ask=Question("Pay?"))
NAP = Action("nap", "wait", wait=Wait(events=(Await("PAID"),)))


def machine(*actions: Action, rows: str = "a - done", **fields: Any) -> Machine:
    return Machine("m", "a", table(rows), {"a": actions}, ENDS, **fields)


def forked(story: Story, *, is_old: bool = False, **fields: Any) -> Story:
    """The story of a new run that begins as this one is; an old fork is one that was made by 0.1."""
    fork = {"run": msgspec.to_builtins(story.run), "run_id": "r1", "seq": story.run.seq, "checkpoint": "c1"}
    fork |= {} if is_old else {"rules": FORK_RULES}
    new = Story.__new__(Story)
    new.machine, new.run, new.events, new.performed, new.at = story.machine, Run(id="r2"), [], [], 900.0
    rules = 1 if is_old else RULES
    return new.tell(Started(story.machine.digest, {}, EFFECTS, fork=fork, rules=rules, at=900.0, **fields))


# forks


def test_a_fork_has_the_values_of_the_run_and_opens_anew_what_was_open() -> None:
    story = Story(machine(LOOK, PAY), {"n": 1}, by="ann", session="s")
    story.succeed("look", {"x": 1}).answer("pay", approved=True)
    fork = forked(story, by="bob")
    assert (fork.run.id, fork.state, fork.run.context, fork.run.seq) == ("r2", "a", {"n": 1}, 1)
    assert fork.run.results == story.run.results
    assert (fork.run.by, fork.run.session, fork.run.started_at) == ("bob", "s", 900.0)
    assert fork.asked == ["a/pay/2"]  # the parent's consent was for the parent
    assert fork.open("pay").key == story.open("pay").key
    assert fork.answer("pay", approved=True).succeed("pay").status is Status.COMPLETED


def test_a_fork_does_not_repeat_the_branches_that_are_done() -> None:
    both = Action("both", "branches", branches=(Branch("l", (LOOK,)), Branch("r", (Action("other", "look"),))))
    fork = forked(Story(machine(both)).succeed("look", {"x": 1}))
    assert fork.commands == (Perform("a/both.1.other/2"),)
    assert fork.succeed("other").run.results["look"] == {"x": 1, "success": True}


def test_a_fork_leaves_behind_what_the_parent_has_in_doubt() -> None:
    story = Story(machine(Action("pay", "pay"), rows="a - done\na NEXT b\nb X b")).signal("NEXT")
    assert story.opened == ["a/pay/1"]
    fork = forked(story)
    assert (fork.opened, fork.state, fork.commands) == ([], "b", ())


def test_a_fork_of_an_ended_run_has_ended() -> None:
    fork = forked(Story(machine(LOOK), {"n": 1}).succeed("look"))
    assert (fork.status, fork.run.output, fork.run.wake_at) == (Status.COMPLETED, {"n": 1}, 0.0)


def test_a_fork_has_limits_of_its_own() -> None:
    limited = machine(LOOK, limits=Limits(max_duration_s=60), timeouts_s={"a": 30})
    fork = forked(Story(limited).move("look", "suspend", question=Question(), usage={"tokens": 5.0}))
    assert (fork.run.deadline, fork.run.state_deadline, fork.run.usage) == (960.0, 930.0, {})


def between_two_tries() -> Story:
    """A wait that took too long is to be tried again, and what it waits for has come meanwhile."""
    patient = Action("nap", "wait", wait=Wait(events=(Await("PAID"),), timeout_s=20), retry=Retry(2, delay_s=60))
    story = Story(machine(patient, keeps=("PAID",))).wake().signal("PAID")
    assert (story.state, story.open("nap").status) == ("a", Status.PENDING)
    return story


def test_a_fork_between_two_tries_waits_for_the_second_one_like_the_run_itself() -> None:
    story = between_two_tries()
    fork = forked(story)
    assert (fork.state, fork.open("nap").status, fork.run.inbox) == ("a", Status.PENDING, story.run.inbox)
    assert fork.run.wake_at - fork.at == pytest.approx(story.run.wake_at - story.at)
    assert fork.wake().status is story.wake().status is Status.COMPLETED


def test_a_fork_of_a_held_run_begins_by_its_timer_what_had_not_begun() -> None:
    story = between_two_tries().signal("@hold").wake()
    fork = forked(story)
    assert (fork.open("nap").status, fork.run.wake_at) == (Status.PENDING, fork.at)
    assert fork.wake().status is Status.COMPLETED


def test_a_fork_opens_what_was_open_even_if_its_condition_no_longer_holds() -> None:
    first = Action("look", "look", when="not result.look or result.look.success", retry=Retry(1, delay_s=60))
    fork = forked(Story(machine(first)).fail("look"))
    assert fork.wake().performed == ["a/look/3"]


def test_a_fork_of_an_old_journal_is_what_it_was() -> None:
    fork = forked(between_two_tries(), is_old=True)
    assert (fork.status, fork.run.inbox) == (Status.COMPLETED, ())


def test_a_fork_under_another_machine_begins_the_state_again() -> None:
    story = Story(machine(LOOK, PAY), {"n": 1}).succeed("look")
    other = machine(Action("more", "look"), LOOK, PAY)
    event = Started(other.digest, effects=EFFECTS, fork={"run": msgspec.to_builtins(story.run)})
    run, commands, _ = advance(other, Run(id="r2"), event)
    assert (commands, run.context) == ((Perform("a/more/1"),), {"n": 1})


@pytest.mark.parametrize("fork", [{}, {"run": 5}, {"run": {"id": 7}}, {"run": {"id": "r1", "state": "nowhere"}}])
def test_a_fork_of_nothing_is_refused(fork: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        advance(machine(LOOK), Run(id="r2"), Started(machine(LOOK).digest, fork=fork))


# migrations


def migrated(story: Story, to: Machine, **data: Any) -> Story:
    story.machine = to
    return story.signal("@migrate", {"machine": to.digest, **data})


def test_a_waiting_run_goes_on_under_another_machine_where_it_stood() -> None:
    story = Story(machine(LOOK, PAY, variables={"v": 1}), {"n": 1}).succeed("look")
    to = machine(LOOK, Action("between", "look"), PAY, Action("after", "look"), variables={"v": 2, "w": 3})
    migrated(story, to)
    assert (story.run.machine, story.commands) == (to.digest, ())
    assert story.run.variables == {"v": 1, "w": 3}
    story.answer("pay", approved=True).succeed("pay")
    assert story.opened == ["a/after/1"]


def test_a_run_can_be_taken_to_a_state_of_another_name_and_inside_its_branches() -> None:
    both = Action("both", "branches", branches=(Branch("l", (LOOK, NAP)), Branch("r", (NAP,))))
    story = Story(machine(both)).succeed("look")
    to = Machine("m", "b", table("b - done"), {"b": (LOOK, Action("s", "set", input={"name": "x"}), both)}, ENDS)
    migrated(story, to, state="b")
    assert (story.state, story.run.lanes[0].position) == ("b", 2)
    assert story.signal("PAID").signal("PAID").status is Status.COMPLETED


def test_what_is_waiting_may_have_another_name_in_the_new_machine() -> None:
    paying = msgspec.structs.replace(PAY, id="settle")
    to = machine(paying, output={"paid": "{{ result.settle.success }}"})
    story = migrated(Story(machine(PAY)), to, actions={"pay": "settle"})
    story.answer("settle", approved=True).succeed("settle")
    assert (story.status, story.run.output) == (Status.COMPLETED, {"paid": True})


def test_a_wait_goes_with_its_state_to_another_name() -> None:
    def waiting(state: str) -> Machine:
        nap = msgspec.structs.replace(NAP, id=state)
        rows = table(f"{state} - done if result.{state}.event == 'PAID'")
        return Machine("m", state, rows, {state: (nap,)}, ENDS)

    story = migrated(Story(waiting("rest")), waiting("pause"), state="pause")
    assert story.signal("PAID").status is Status.COMPLETED


def test_timers_are_those_of_the_new_machine() -> None:
    to = machine(PAY, timeouts_s={"a": 10}, limits=Limits(max_duration_s=50))
    story = migrated(Story(machine(PAY)), to)
    assert (story.run.state_deadline, story.run.deadline) == (110.0, 150.0)


def test_an_idle_run_goes_on_waiting_or_begins_the_work_if_nothing_else_could_move_it() -> None:
    idle = Machine("m", "a", table("a GO a"))
    assert migrated(Story(idle), machine(LOOK, rows="a - done\na GO a")).opened == []
    assert migrated(Story(idle), machine(LOOK)).opened == ["a/look/1"]
    assert migrated(Story(idle), machine(LOOK), state="done").status is Status.COMPLETED


def test_new_declarations_come_with_the_migration() -> None:
    story = migrated(Story(machine(PAY)), machine(PAY, title="t"), effects={"mail": {"kind": "pure"}})
    assert story.run.effects["mail"].kind == "pure"
    assert story.run.effects["pay"].kind == "irreversible"


def refusal(story: Story, to: Machine, **data: Any) -> str:
    with pytest.raises(Refused) as refused:
        advance(to, story.run, Signalled("@migrate", data))
    return str(refused.value)


def test_a_migration_that_could_not_go_on_is_refused() -> None:
    waiting = Story(machine(PAY))
    assert "the new machine has no state `a`; map it to one of b" in refusal(waiting, Machine("m", "b", table("b X b")))
    assert "has no action `pay`, which is waiting" in refusal(waiting, machine(LOOK))
    assert "has no action `pey`, which is waiting; map it to one of pay" in refusal(
        waiting, machine(PAY), actions={"pay": "pey"}
    )
    assert "no action `look` is waiting; open: pay" in refusal(waiting, machine(PAY), actions={"look": "pay"})
    assert "from name to name" in refusal(waiting, machine(PAY), actions={"pay": 1})
    other = msgspec.structs.replace(PAY, effect="mail")
    assert "action `pay` of the new machine is no longer `pay`" in refusal(waiting, machine(other))
    assert "is to be migrated to machine abc" in refusal(waiting, machine(PAY, title="t"), machine="abc")
    assert "declarations do not fit" in refusal(waiting, machine(PAY, title="t"), effects={"pay": {"kind": "odd"}})
    assert "only while nothing of it is at work" in refusal(Story(machine(LOOK)), machine(LOOK, title="t"))
    both = Action("both", "branches", branches=(Branch("l", (NAP,)), Branch("r", (NAP,))))
    one = msgspec.structs.replace(both, branches=both.branches[:1])
    assert "has no branch `both.1`" in refusal(Story(machine(both)), machine(one))


def test_an_ended_run_is_not_migrated() -> None:
    story = Story(machine(LOOK)).succeed("look")
    with pytest.raises(EventRefused):
        migrated(story, machine(LOOK, title="t"))
