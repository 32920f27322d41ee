"""A failed run that is tried again: it goes on from what failed, and what is done stays done."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def loop(count: int, at_once: int, tolerate: int = 0, **fields: Any) -> Machine:
    each = Action("all", "branches", each="{{ context.items }}", at_once=at_once, tolerate=tolerate, **fields,
                  branches=(Branch("one", (Action("x", "look", {"n": "{{ item }}"}),)),))  # fmt: skip
    return working(each)


@given(st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=9), st.booleans(), st.randoms())
def test_what_is_tried_again_keeps_to_how_many_may_go_on_at_once(
    at_once: int, fails: list[bool], is_fast: bool, order: Random
) -> None:
    """However many have failed, and however often: never more at once than at first, each once, in its place."""
    story = Story(loop(len(fails), at_once, fail_fast=is_fast), {"items": list(range(len(fails)))})
    left, begun = {n for n, is_bad in enumerate(fails) if is_bad}, list[int]()
    for _ in range(3 * len(fails) + 3):
        while story.run.contracts:
            assert len(story.run.contracts) <= at_once
            assert len({c.input["n"] for c in story.run.contracts}) == len(story.run.contracts)
            one = order.choice(story.run.contracts)
            if one.input["n"] in left:
                left.discard(one.input["n"])
                story.fail(one.id)
            else:
                begun.append(one.input["n"])
                story.succeed(one.id, {"n": one.input["n"]})
        if story.status is Status.COMPLETED:
            break
        again(story)
    assert sorted(begun) == list(range(len(fails))), "what is done stays done"
    assert [item["n"] for item in story.run.results["all"]["items"]] == list(range(len(fails)))


def test_those_that_wait_to_be_tried_again_fail_with_the_others_and_are_tried_once_more() -> None:
    story = Story(loop(4, 2), {"items": [1, 2, 3, 4]})
    for _ in range(4):
        story.fail(story.opened[0])
    assert again(story).opened == ["a/all.0.x/2", "a/all.1.x/2"]
    story.fail("a/all.0.x/2").succeed("a/all.1.x/2", {"n": 2})
    assert story.opened == ["a/all.2.x/2", "a/all.3.x/2"]
    story.succeed("a/all.2.x/2").succeed("a/all.3.x/2")
    assert story.status is Status.FAILED
    assert again(story).opened == ["a/all.0.x/3"]
    assert story.succeed("a/all.0.x/3").status is Status.COMPLETED


def test_by_older_rules_all_that_failed_are_tried_again_at_once() -> None:
    story = Story(loop(3, 1), {"items": [1, 2, 3]}, rules=3)
    for _ in range(3):
        story.fail(story.opened[0])
    assert len(again(story).opened) == 3


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
