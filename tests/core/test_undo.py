"""Deeds that are taken back, and those that are not: what is left standing is never left without a word."""

from typing import Any

import pytest

from detent import Action, Machine, Status, table
from detent.core.answer import answer_of
from detent.core.needed_result import find_unsaid
from detent.errors import Refused
from tests.core.story import Story

UNDO = Action("undo_pay", "look", {"id": "{{ result.pay.id }}"}, when="{{ result.pay.success }}", tolerate=1)
SWEEP = Action("undo_look", "look", {"n": 1}, when="{{ result.look.success }}", tolerate=1)


def saga(*undo: Action, **fields: Any) -> Machine:
    work = {"a": (Action("look", "look"), Action("pay", "pay")), "undoing": undo or (UNDO, SWEEP)}
    rows = table("a - b\nb GO done")
    return Machine("m", "a", rows, work=work, ends={"done": Status.COMPLETED}, on_failure="undoing", **fields)


def doubted(machine: Machine | None = None, **started: Any) -> Story:
    return Story(machine or saga(), **started).succeed("look").doubt("pay")


def test_giving_up_on_a_doubt_raises_an_alarm_and_takes_nothing_of_it_back() -> None:
    story = doubted().answer("pay", outcome="give_up", by="ann")
    assert story.opened == ["undoing/undo_look/1"]
    (alarm,) = story.succeed("undo_look").run.alarms
    assert alarm == "`a/pay/1` may have happened: ann gave up on it, and it was neither finished nor taken back"
    assert story.status is Status.FAILED


def test_so_does_giving_up_after_the_run_was_cancelled() -> None:
    story = doubted().signal("@cancel").answer("pay", outcome="give_up").succeed("undo_look")
    assert (story.status, len(story.run.alarms)) == (Status.CANCELLED, 1)


@pytest.mark.parametrize("result", [None, {}, {"other": 1}, "paid"])
def test_an_undo_is_not_called_with_values_that_nobody_has(result: Any) -> None:
    story = doubted().answer("pay", outcome="happened", result=result).signal("@cancel")
    assert story.opened == ["undoing/undo_look/1"], "the others go on"
    (alarm,) = story.succeed("undo_look").run.alarms
    assert alarm == "`undo_pay` was not done, so what it takes back stands: `result.pay.id` is not known"


def test_an_undo_has_the_values_that_somebody_said_also_null() -> None:
    for value in (7, None):
        story = doubted().answer("pay", outcome="happened", result={"id": value}).signal("@cancel")
        assert story.open("undo_pay").input == {"id": value}
        assert story.succeed("undo_pay").succeed("undo_look").run.alarms == ()


def test_an_undo_that_provides_for_a_missing_value_is_done() -> None:
    undo = Action("undo_pay", "look", {"id": "{{ result.pay.id or 'all' }}"}, when="{{ result.pay.success }}")
    story = doubted(saga(undo)).answer("pay", outcome="happened").signal("@cancel")
    assert story.open("undo_pay").input == {"id": "all"}


def test_an_undo_that_fails_raises_an_alarm_and_one_that_was_refused_does_not() -> None:
    story = doubted().answer("pay", outcome="happened", result={"id": 7}).signal("@cancel").fail("undo_pay")
    assert story.run.alarms == ("`undoing/undo_pay/1` failed, so what it takes back stands: broken",)
    story = doubted().answer("pay", outcome="happened", result={"id": 7}).signal("@cancel")
    assert story.fail("undo_pay", "approval_rejected", "ann said no").run.alarms == ()


def test_runs_that_began_by_older_rules_are_folded_as_they_were() -> None:
    story = doubted(rules=3).answer("pay", outcome="give_up", by="ann").succeed("undo_look")
    assert story.run.alarms == ()
    story = doubted(rules=3).answer("pay", outcome="happened").signal("@cancel")
    assert story.open("undo_pay").input == {"id": None}


def test_who_says_that_it_happened_is_asked_for_what_others_read() -> None:
    machine = saga(UNDO)
    pay = doubted(machine).open("pay")

    def unsaid(**said: Any) -> str:
        return find_unsaid(machine, pay, answer_of(said))

    assert "`id`; say it in `result`" in unsaid(outcome="happened")
    assert "`id`" in unsaid(outcome="happened", result="paid")
    assert unsaid(outcome="happened", result={"id": None}) == ""
    assert unsaid(outcome="not_happened") == unsaid(outcome="give_up") == ""
    plain = saga(SWEEP, output={"id": "{{ result.pay.id }}"})
    assert find_unsaid(plain, pay, answer_of({"outcome": "happened"})) == "", "no call reads it"


def closing(*undo: Action, rules: int = 5) -> Story:
    machine = Machine(
        "m",
        "a",
        table("a - done"),
        work={"a": (Action("look", "look"), Action("pay", "pay")), "last": (Action("clean", "look"),), "back": undo},
        ends={"done": Status.COMPLETED},
        at_end="last",
        on_failure="back" if undo else "",
    )
    return Story(machine, rules=rules).succeed("look").fail("pay")


def test_what_failed_is_tried_again_after_finally_which_is_then_done_again() -> None:
    story = closing().succeed("clean")
    assert story.status is Status.FAILED
    assert story.signal("@retry").opened == ["a/pay/2"]
    assert story.succeed("pay").opened == ["last/clean/2"]
    assert story.succeed("clean").status is Status.COMPLETED


def test_what_was_taken_back_is_not_tried_again_and_what_was_not_is() -> None:
    done = closing(SWEEP).succeed("undo_look").succeed("clean")
    with pytest.raises(Refused, match="nothing of run r1 can be tried again"):
        done.signal("@retry")
    assert closing(UNDO).succeed("clean").signal("@retry").opened == ["a/pay/2"]


def test_by_older_rules_nothing_is_tried_again_after_finally() -> None:
    with pytest.raises(Refused, match="nothing of run r1 can be tried again"):
        closing(rules=4).succeed("clean").signal("@retry")
