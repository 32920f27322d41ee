"""Stories of waiting inside a state: for signals, for a time, and for whichever comes first."""

from typing import Any

import pytest

from detent import Action, Await, Branch, Machine, Retry, Status, Wait, Wake, table
from detent.errors import EventRefused, NotWaiting
from tests.core.story import Story

ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
PAID = Await("PAID", "event.data.order == context.order")


def waiting(wait: Wait, rows: str = "a - done", **fields: Any) -> Machine:
    work = fields.pop("work", {"a": (Action("w", "wait", wait=wait, retry=fields.pop("retry", None)),)})
    return Machine("m", "a", table(rows), work, ENDS, **fields)


def test_a_wait_is_a_status_and_no_question() -> None:
    story = Story(waiting(Wait(events=(PAID,))), {"order": 7})
    assert (story.status, story.commands, story.run.waiting) == (Status.WAITING, (), ())
    assert story.machine.accepts("a") == ("PAID",)


def test_order_eight_does_not_pay_order_seven() -> None:
    machine = waiting(Wait(events=(PAID,)), rows="a - done if result.w.data.amount > 10")
    story = Story(machine, {"order": 7})
    with pytest.raises(EventRefused):
        story.signal("PAID", {"order": 8, "amount": 99})
    story.signal("PAID", {"order": 7, "amount": 11}, by="bank", id="e1")
    assert story.status is Status.COMPLETED
    expected = {"event": "PAID", "id": "e1", "data": {"order": 7, "amount": 11}, "by": "bank", "success": True}
    assert story.run.results["w"] == expected
    assert [t.event for t in story.taken if t.kind == "contract"] == ["resume", "succeed"]


def test_an_unwanted_signal_that_is_kept_stays_in_the_inbox() -> None:
    story = Story(waiting(Wait(events=(PAID,)), keeps=("PAID",)), {"order": 7})
    story.signal("PAID", {"order": 8}).signal("PAID", {"order": 7})
    assert story.status is Status.COMPLETED


def test_an_early_signal_is_not_lost() -> None:
    machine = waiting(Wait(), "a - done", work=early_work(), keeps=("PAID",))
    story = Story(machine, {"order": 7}).signal("PAID", {"order": 8}).signal("PAID", {"order": 7})
    assert len(story.run.inbox) == 2
    story.succeed("look")
    assert (story.state, story.run.results["w"]["data"]) == ("done", {"order": 7})


def early_work() -> dict[str, tuple[Action, ...]]:
    wait = Action("w", "wait", wait=Wait(events=(PAID,)))
    return {"a": (Action("look", "look"), wait, Action("l", "look", when="false"))}


def test_hundreds_of_early_signals_are_taken_in_one_event() -> None:
    waits = tuple(Action(f"w{n}", "wait", wait=Wait(events=(Await("PAID"),))) for n in range(500))
    machine = Machine("m", "a", table("a - done"), {"a": (Action("look", "look"), *waits)}, ENDS, keeps=("PAID",))
    story = Story(machine)
    for number in range(500):
        story.signal("PAID", {"n": number})
    story.succeed("look")
    assert story.status is Status.COMPLETED
    assert [story.run.results[f"w{n}"]["data"]["n"] for n in (0, 250, 499)] == [0, 250, 499]


def test_a_wait_comes_before_the_rows_of_the_state() -> None:
    machine = waiting(Wait(events=(Await("PAID"),)), rows="a - done\na PAID failed")
    assert Story(machine).signal("PAID").state == "done"


def test_one_of_several_signals_is_enough_and_the_row_can_tell_which() -> None:
    rows = "a - done if result.w.event == 'YES'\na - failed"
    machine = waiting(Wait(events=(Await("YES"), Await("NO"))), rows=rows)
    assert [Story(machine).signal(name).state for name in ("YES", "NO")] == ["done", "failed"]


def test_a_sleep_ends_by_itself_and_survives_anything_but_its_time() -> None:
    story = Story(waiting(Wait(duration_s="{{ context.days * 86400 }}")), {"days": 2})
    assert story.commands == (Wake(100.0 + 2 * 86400),)
    assert story.wake(50_000.0).status is Status.WAITING
    assert story.wake().status is Status.COMPLETED
    assert story.run.results["w"] == {"slept": True, "success": True}


def test_a_sleep_of_no_time_is_over_at_once() -> None:
    assert Story(waiting(Wait(duration_s="{{ context.n }}")), {"n": 0}).status is Status.COMPLETED


@pytest.mark.parametrize("length", ["soon", True, -1, 1e11, None])
def test_a_time_must_be_a_number_of_seconds(length: Any) -> None:
    story = Story(waiting(Wait(duration_s="{{ context.n }}")), {"n": length})
    assert (story.status, story.error, story.opened) == (Status.FAILED, "validation_error", [])


def test_a_signal_that_does_not_come_is_a_timeout() -> None:
    story = Story(waiting(Wait(events=(PAID,), timeout_s=30), "a - done\na !timeout.event failed")).wake()
    assert (story.state, story.error) == ("failed", "timeout.event")
    assert [t.event for t in story.taken if t.kind == "contract"] == ["timeout"]


def test_a_timer_beaten_by_its_event_is_taken_back() -> None:
    story = Story(waiting(Wait(events=(Await("PAID"),), timeout_s=30), rows="a - b\nb X b")).signal("PAID")
    assert (story.state, story.run.wake_at, story.commands) == ("b", 0.0, (Wake(0.0),))
    assert story.wake(200.0).state == "b"


def test_a_wait_may_have_nothing_but_a_timeout() -> None:
    assert Story(waiting(Wait(timeout_s=5))).wake().error == "timeout.event"


def test_a_wait_can_be_tried_again() -> None:
    story = Story(waiting(Wait(events=(Await("PAID"),), timeout_s=30), retry=Retry(1))).wake()
    assert (story.open("w").status, story.open("w").attempt) == (Status.PENDING, 2)
    story.wake()
    assert story.run.wake_at == story.at + 30
    assert story.signal("PAID").status is Status.COMPLETED


def test_a_wait_is_not_answered_by_a_person() -> None:
    for wait, what in ((Wait(events=(PAID,)), "a signal"), (Wait(duration_s=5), "a time")):
        with pytest.raises(NotWaiting, match=f"waits for {what}, not for an answer"):
            Story(waiting(wait)).answer("w", approved=True)


def test_a_held_run_still_opens_its_waits_so_that_no_signal_is_lost() -> None:
    work = {"a": (Action("look", "look"), Action("w", "wait", wait=Wait(events=(Await("PAID"),))))}
    story = Story(waiting(Wait(), work=work)).signal("@hold").succeed("look")
    assert story.open("w").status is Status.WAITING
    assert story.signal("PAID").status is Status.COMPLETED


def test_two_waits_for_the_same_signal_take_one_each() -> None:
    wait = Action("w", "wait", wait=Wait(events=(Await("PAID"),)))
    both = Action("both", "branches", branches=(Branch("l", (wait,)), Branch("r", (wait,))))
    story = Story(waiting(Wait(), work={"a": (both,)})).signal("PAID")
    assert story.opened == ["a/both.1.w/1"]
    assert story.signal("PAID").status is Status.COMPLETED


def test_the_time_of_a_state_that_is_over_first_wins_even_when_the_wake_is_late() -> None:
    machine = waiting(Wait(duration_s=20), "a - done\na !timeout.state failed", timeouts_s={"a": 10})
    assert Story(machine).wake(500.0).state == "failed"


def test_a_sleep_that_ends_with_the_time_of_its_state_was_in_time() -> None:
    machine = waiting(Wait(duration_s=10), "a - done\na !timeout.state failed", timeouts_s={"a": 10})
    assert Story(machine).wake().state == "done"


def test_work_done_in_time_does_not_save_a_state_that_then_waits_for_a_signal() -> None:
    machine = waiting(Wait(duration_s=10), "a GO done\na !timeout.state failed", timeouts_s={"a": 10})
    assert Story(machine).wake().state == "failed"
