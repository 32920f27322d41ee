"""A failed run that is tried again: it goes on from what failed, and what is done stays done."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from detent import Action, Branch, Limits, Machine, Question, Retry, Status, Transition, table
from detent.errors import Refused
from tests.core.story import Story

LOOK = Action("look", "look")
PAY = Action("pay", "pay", {"to": "{{ context.to }}"}, ask=Question("Pay?"))
ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}


def working(*actions: Action, rows: str = "a - done", **fields: Any) -> Machine:
    return Machine("m", "a", table(rows), work={"a": actions}, ends=ENDS, **fields)


def again(story: Story) -> Story:
    return story.signal("@retry", by="ann")


def test_it_goes_on_from_the_action_that_failed() -> None:
    more = Action("more", "look")
    story = Story(working(LOOK, more, Action("last", "look"))).succeed("look", {"n": 1}).fail("more")
    assert story.status is Status.FAILED
    again(story)
    assert (story.state, story.opened, story.run.error) == ("a", ["a/more/2"], None)
    assert story.open("more").key == "r1/a/more/1", "the same deed"
    assert story.succeed("more").succeed("last").status is Status.COMPLETED
    assert story.performed == ["a/look/1", "a/more/1", "a/more/2", "a/last/1"]
    assert story.run.results["look"] == {"n": 1, "success": True}


def test_it_goes_back_from_the_end_a_failure_led_to_also_past_what_was_tidied_up() -> None:
    rows = (Transition("a", "tidy", even_failed=True, only_failed=True), *table("a - done\ntidy - failed"))
    local = {"a": {"n": 7}}
    machine = Machine("m", "a", rows, {"a": (LOOK,), "tidy": (Action("sweep", "look"),)}, ENDS, local=local)
    story = Story(machine).fail("look").succeed("sweep")
    assert (story.state, story.status) == ("failed", Status.FAILED)
    again(story)
    assert (story.state, story.opened, story.run.local) == ("a", ["a/look/2"], {"n": 7})
    assert story.succeed("look").state == "done"


def test_branches_that_have_ended_are_not_done_again() -> None:
    left, right = (
        Branch("l", (LOOK, Action("after", "look"))),
        Branch("r", (Action("other", "look"), Action("end", "look"))),
    )
    both = Action("both", "branches", branches=(left, right))
    story = Story(working(both, LOOK)).succeed("a/both.0.look/1", {"n": 1}).succeed("after").fail("other")
    assert story.status is Status.FAILED
    assert story.run.results["after"]["success"] is True
    again(story)
    assert story.opened == ["a/both.1.other/2"]
    story.succeed("other").succeed("end")
    assert story.opened == ["a/look/1"]
    assert story.run.results["both"]["success"] is True
    assert story.succeed("look").status is Status.COMPLETED


def test_items_and_nested_branches_keep_their_places() -> None:
    inner = Action(
        "inner", "branches", branches=(Branch("x", (Action("x", "look"),)), Branch("y", (Action("y", "look"),)))
    )
    each = Action("all", "branches", each="{{ context.items }}", branches=(Branch("one", (inner,)),))
    story = Story(working(each), {"items": [1, 2]})
    for name in ("a/all.0.inner.0.x/1", "a/all.0.inner.1.y/1", "a/all.1.inner.0.x/1"):
        story.succeed(name, {"of": name})
    story.fail("a/all.1.inner.1.y/1")
    assert story.error == "branch_failed"
    again(story)
    assert story.opened == ["a/all.1.inner.1.y/2"]
    story.succeed("a/all.1.inner.1.y/2")
    assert (story.status, len(story.performed)) == (Status.COMPLETED, 5)
    assert [item["success"] for item in story.run.results["all"]["items"]] == [True, True]


def test_branches_that_were_cut_off_are_begun_again() -> None:
    both = Action(
        "both", "branches", branches=(Branch("l", (LOOK,)), Branch("r", (Action("other", "look"),))), fail_fast=True
    )
    story = Story(working(both)).fail("look")
    assert again(story).opened == ["a/both.0.look/2", "a/both.1.other/2"]


def test_an_approval_holds_for_the_same_call_and_is_asked_anew_for_another() -> None:
    story = Story(working(PAY), {"to": "bob"}).answer("pay", approved=True, by="ann")
    story.fail("pay", "tool_failure", "no route")
    again(story)
    assert (story.performed, story.asked) == (["a/pay/1", "a/pay/2"], [])
    other = Story(working(Action("prepare", "look"), PAY), {"to": "bob"}).succeed("prepare")
    other.answer("pay", approved=True, by="ann").fail("pay", "tool_failure", "no route")
    other.run = replace(other.run, context={"to": "eva"})
    assert again(other).asked == ["a/pay/2"]


def test_whoever_said_no_is_asked_again() -> None:
    story = Story(working(PAY), {"to": "bob"}).answer("pay", approved=False, by="ann")
    assert story.status is Status.REJECTED
    assert again(story).asked == ["a/pay/2"]
    assert story.answer("pay", approved=True, by="ann").performed == ["a/pay/2"]


def test_an_action_that_said_no_is_done_again_and_what_succeeded_is_not() -> None:
    last = Action("last", "look")
    count = Action("count", "set", {"name": "seen", "value": "{{ result.more.n }}"})
    story = Story(working(LOOK, Action("more", "look"), count, last))
    story.succeed("look").succeed("more", {"success": False, "n": 1}).succeed("last")
    assert (story.status, story.error) == (Status.FAILED, "tool_failure")
    again(story)
    assert story.opened == ["a/more/2"]
    assert story.succeed("more", {"n": 2}).status is Status.COMPLETED
    assert (story.performed[-1], story.run.context) == ("a/more/2", {"seen": 2})
    story = Story(working(LOOK, rows="a - done")).succeed("look", {"success": False})
    assert again(story).succeed("look", {"success": False}).status is Status.FAILED


def test_a_no_inside_a_branch_is_done_again_alone() -> None:
    both = Action("both", "branches", branches=(Branch("l", (LOOK,)), Branch("r", (Action("other", "look"),))))
    story = Story(working(both)).succeed("look", {"success": False}).succeed("other", {"n": 1})
    assert (story.status, again(story).opened) == (Status.FAILED, ["a/both.0.look/2"])
    assert story.succeed("look").status is Status.COMPLETED


def test_it_has_its_further_attempts_once_more() -> None:
    story = Story(working(Action("look", "look", retry=Retry(1, delay_s=0.0)))).fail("look").fail("look")
    assert story.status is Status.FAILED
    again(story).fail("look")
    assert story.opened == ["a/look/4"]
    assert story.fail("look").status is Status.FAILED


def test_a_state_that_took_too_long_begins_where_it_was() -> None:
    story = Story(working(LOOK, Action("more", "look"), timeouts_s={"a": 30.0})).succeed("look").wake()
    assert story.error == "timeout.state"
    again(story)
    assert (story.opened, story.run.state_deadline) == (["a/more/2"], story.at + 30.0)


def test_a_run_may_be_tried_again_more_than_once() -> None:
    story = Story(working(LOOK)).fail("look")
    for number in (2, 3, 4):
        assert again(story).opened == [f"a/look/{number}"]
        story.fail("look")
    assert again(story).succeed("look").status is Status.COMPLETED


REFUSED: dict[str, tuple[Callable[[], Story], str]] = {
    "one that goes on": (lambda: Story(working(LOOK)), "has not ended"),
    "one that has completed": (lambda: Story(working(LOOK)).succeed("look"), "has ended as completed"),
    "one that was cancelled": (lambda: Story(working(LOOK)).signal("@cancel"), "has ended as cancelled"),
    "one of the first rules": (lambda: Story(working(LOOK), rules=1).fail("look"), "begun by an older version"),
    "one that found no way on": (
        lambda: Story(working(LOOK, rows="a - done if context.never")).succeed("look"),
        "nothing of run r1 can be tried again (no_transition)",
    ),
    "one over its limit": (
        lambda: Story(working(LOOK, limits=Limits(max_tokens=1))).succeed("look", usage={"tokens": 2.0}),
        "(budget_exceeded)",
    ),
    "one that was led to its end": (
        lambda: Story(working(LOOK, rows="a - failed if result.look.n > 1")).succeed("look", {"n": 2}),
        "(error_state)",
    ),
    "one whose item said no": (
        lambda: Story(working(Action("all", "branches", each="{{ [1] }}", branches=(Branch("one", (LOOK,)),)))).succeed(
            "look", {"success": False}
        ),
        "can be tried again",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tried_again_says_why(name: str) -> None:
    make, says = REFUSED[name]
    story = make()
    with pytest.raises(Refused) as caught:
        again(story)
    assert says in str(caught.value)
