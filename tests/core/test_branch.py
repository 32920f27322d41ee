"""Stories of branches: side by side, one per item, joined by all, any or some of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import Action, Await, Branch, Machine, Question, Retry, Status, Wait, table
from tests.core.story import Story

ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
LOOK = Action("look", "look")
PAY = Action("pay", "pay", input={"item": "{{ item }}"})


def branching(
    *lines: tuple[Action, ...], rows: str = "a - done", after: tuple[Action, ...] = (), **fields: Any
) -> Machine:
    branches = tuple(Branch("lmr"[i], line) for i, line in enumerate(lines))
    action = Action("both", "branches", branches=branches, **fields)
    return Machine("m", "a", table(rows), {"a": (action, *after)}, ENDS)


def each(*line: Action, rows: str = "a - done", **fields: Any) -> Machine:
    action = Action("all", "branches", branches=(Branch("one", line),), each="{{ context.items }}", **fields)
    return Machine("m", "a", table(rows), {"a": (action,)}, ENDS)


def setting(name: str, value: Any) -> Action:
    return Action("s", "set", input={"name": name, "value": value})


def test_branches_go_on_side_by_side_and_join_when_all_are_done() -> None:
    after = (Action("sum", "look", input={"l": "{{ result.both.branches.l.n }}", "look": "{{ result.look.n }}"}),)
    story = Story(branching((LOOK, Action("more", "look")), (Action("other", "look"),), after=after))
    assert story.performed == ["a/both.0.look/1", "a/both.1.other/1"]
    story.succeed("look", {"n": 1}).succeed("other", {"n": 2}).succeed("more", {"n": 3})
    assert story.open("sum").input == {"l": 3, "look": 1}
    both = {"l": {"n": 3, "success": True}, "m": {"n": 2, "success": True}}
    assert story.run.results["both"] == {"branches": both, "success": True}
    assert story.succeed("sum").status is Status.COMPLETED


def test_a_branch_sees_its_own_results_and_values_and_not_its_neighbours() -> None:
    peek = Action("peek", "look", input={"mine": "{{ context.x }}", "result": "{{ result.look.n }}"})
    story = Story(branching((setting("x", 1), LOOK, peek), (setting("y", 2), LOOK, peek)), {"x": 0})
    story.succeed("a/both.0.look/1", {"n": "left"}).succeed("a/both.1.look/1", {"n": "right"})
    inputs = [c.input for c in story.run.contracts]
    assert inputs == [{"mine": 1, "result": "left"}, {"mine": 0, "result": "right"}]
    assert story.run.context == {"x": 0}
    story.succeed("a/both.0.peek/1").succeed("a/both.1.peek/1")
    assert story.run.context == {"x": 1, "y": 2}


def test_two_different_values_for_one_name_are_an_error_and_equal_ones_are_not() -> None:
    story = Story(branching((setting("x", 1), LOOK), (setting("x", 2),))).succeed("look")
    assert (story.error, story.run.context) == ("validation_error", {})
    assert Story(branching((setting("x", 1),), (setting("x", 1),))).status is Status.COMPLETED


def test_a_patch_of_a_branch_is_its_own_until_the_join() -> None:
    story = Story(branching((LOOK,), (Action("other", "look"),))).succeed("look", patch={"x": 1})
    assert story.run.context == {}
    assert story.succeed("other").run.context == {"x": 1}


def test_all_waits_for_every_branch_and_reports_the_first_failure_in_the_order_of_the_definition() -> None:
    story = Story(branching((LOOK,), (Action("other", "look"),), (Action("third", "look"),)))
    story.fail("third", "timeout.action").fail("other", "tool_failure.exit", "code 1")
    assert story.opened == ["a/both.0.look/1"]
    story.succeed("look")
    assert (story.status, story.error) == (Status.FAILED, "branch_failed")
    assert story.run.error is not None
    assert story.run.error.message == "branch `m` of `both`: code 1"
    passed_over = ["a → done"]
    assert story.run.error.data == {"branch": "m", "causes": ["tool_failure.exit"], "passed_over": passed_over}


def test_a_row_may_name_the_cause_inside_a_branch() -> None:
    machine = branching((LOOK,), (Action("other", "look"),), rows="a - done\na !timeout failed", fail_fast=True)
    assert Story(machine).fail("look", "timeout.action").state == "failed"


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_a_group_that_failed_keeps_what_its_finished_branches_gave(rules: int) -> None:
    machine = branching((LOOK,), (Action("other", "look"),), rows="a - done\na !* failed")
    story = Story(machine, rules=rules).succeed("look", {"n": 1}).fail("other")
    assert (story.state, "look" in story.run.results) == ("failed", rules >= 2)
    if rules >= 2:
        good = {"n": 1, "success": True}
        assert story.run.results["both"]["success"] is False
        assert (story.run.results["look"], story.run.results["both"]["branches"]["l"]) == (good, good)


def test_fail_fast_does_not_wait_for_the_others() -> None:
    story = Story(branching((LOOK,), (Action("other", "look"),), fail_fast=True)).fail("other")
    assert (story.status, story.aborted) == (Status.FAILED, ["a/both.0.look/1"])


def test_any_takes_the_first_that_succeeds_and_stops_the_others() -> None:
    story = Story(branching((LOOK,), (Action("other", "look"),), (Action("third", "look"),), join="any"))
    story.fail("look").succeed("third", {"n": 3})
    assert (story.status, story.aborted) == (Status.COMPLETED, ["a/both.1.other/1"])
    assert story.run.results["both"]["branches"]["r"] == {"n": 3, "success": True}
    assert story.run.results["both"]["branches"]["m"] is None


def test_any_fails_only_when_all_have_failed() -> None:
    story = Story(branching((LOOK,), (Action("other", "look"),), join="any")).fail("other")
    assert story.status is Status.RUNNING
    assert story.fail("look").error == "branch_failed"


def test_some_are_enough_and_it_is_over_as_soon_as_they_cannot_be_reached() -> None:
    lines = (LOOK,), (Action("other", "look"),), (Action("third", "look"),)
    assert Story(branching(*lines, join=2)).succeed("third").succeed("look").status is Status.COMPLETED
    story = Story(branching(*lines, join=2)).fail("third").fail("look")
    assert (story.status, story.aborted) == (Status.FAILED, ["a/both.1.other/1"])


def test_some_failures_may_be_tolerated() -> None:
    lines = (LOOK, setting("x", 1)), (Action("other", "look"),)
    story = Story(branching(*lines, tolerate=1)).fail("look").succeed("other")
    assert (story.status, story.run.context) == (Status.COMPLETED, {})
    assert Story(branching(*lines, tolerate=1)).fail("look").fail("other").error == "branch_failed"
    assert Story(branching(*lines, tolerate=1, fail_fast=True)).fail("look").status is Status.RUNNING


def test_a_branch_without_work_is_done() -> None:
    assert Story(branching((), (Action("l", "log", input={"message": "x"}),))).status is Status.COMPLETED


def test_branches_may_be_nested() -> None:
    inner = Action("inner", "branches", branches=(Branch("x", (LOOK,)), Branch("y", (Action("other", "look"),))))
    story = Story(branching((inner, Action("after", "look")), (Action("beside", "look"),)))
    assert story.opened == ["a/both.1.beside/1", "a/both.0.inner.0.look/1", "a/both.0.inner.1.other/1"]
    story.succeed("look", {"n": 1}, patch={"x": 1}).succeed("other")
    assert story.opened[-1] == "a/both.0.after/1"
    assert story.run.context == {}
    story.succeed("beside").succeed("after")
    assert (story.status, story.run.context) == (Status.COMPLETED, {"x": 1})


def test_a_failure_comes_up_through_nested_branches_with_its_cause() -> None:
    inner = Action("inner", "branches", branches=(Branch("x", (LOOK,)),))
    story = Story(branching((inner,), (Action("beside", "look"),), fail_fast=True)).fail("look", "timeout.action")
    assert story.run.error is not None
    assert story.run.error.data["causes"] == ["branch_failed", "timeout.action"]
    assert (story.aborted, story.opened) == (["a/both.1.beside/1"], [])


def test_each_does_the_same_for_every_item() -> None:
    line = Action("look", "look", input={"n": "{{ item.n * 2 }}", "i": "{{ branch.index }}"})
    story = Story(each(line), {"items": [{"n": 1}, {"n": 5}]})
    assert [c.input for c in story.run.contracts] == [{"n": 2, "i": 0}, {"n": 10, "i": 1}]
    story.succeed("a/all.1.look/1", {"x": "b"}).succeed("a/all.0.look/1", {"x": "a"})
    assert [item["x"] for item in story.run.results["all"]["items"]] == ["a", "b"]
    assert story.run.results["all"]["failed"] == []


def test_each_of_nothing_is_done_and_any_of_nothing_fails() -> None:
    assert Story(each(LOOK), {"items": []}).run.results["all"] == {"items": [], "failed": [], "success": True}
    story = Story(each(LOOK, join="any"), {"items": []})
    assert (story.error, str(story.run.error and story.run.error.message)) == (
        "validation_error",
        "`all` needs 1 branches to succeed and has 0",
    )
    assert Story(each(LOOK, join=3), {"items": [1, 2]}).error == "validation_error"


@pytest.mark.parametrize("items", [None, 5, "text", {"a": 1}, list(range(10_001))])
def test_each_needs_a_list_that_is_not_too_long(items: Any) -> None:
    assert Story(each(LOOK), {"items": items}).error == "expression_error"


def test_only_so_many_are_at_work_at_once() -> None:
    story = Story(each(LOOK, at_once=2), {"items": [1, 2, 3, 4]})
    assert len(story.opened) == 2
    story.succeed("a/all.1.look/1")
    assert story.opened == ["a/all.0.look/1", "a/all.2.look/1"]
    story.fail("a/all.0.look/1")
    assert story.opened == ["a/all.2.look/1", "a/all.3.look/1"]


def test_tolerated_failures_are_listed() -> None:
    story = Story(each(LOOK, tolerate=1), {"items": [1, 2]}).fail("a/all.0.look/1", "timeout.action")
    story.succeed("a/all.1.look/1", {"x": 1})
    assert story.run.results["all"]["failed"] == [{"index": 0, "error": "timeout.action"}]
    assert story.status is Status.COMPLETED


def test_every_item_may_be_approved_by_itself() -> None:
    pay = Action("pay", "pay", input={"item": "{{ item }}"}, ask=Question("Pay {{ item }}?"))
    story = Story(each(pay, tolerate=1), {"items": ["a", "b", "c"]})
    assert story.asked == ["a/all.0.pay/1", "a/all.1.pay/1", "a/all.2.pay/1"]
    assert [c.question.text for c in story.run.waiting if c.question] == ["Pay a?", "Pay b?", "Pay c?"]
    story.answer("a/all.1.pay/1", approved=True).answer("a/all.0.pay/1", approved=False)
    story.answer("a/all.2.pay/1", approved=True, args={"item": "d"})
    assert story.performed == ["a/all.1.pay/1", "a/all.2.pay/2"]
    assert story.succeed("a/all.1.pay/1").succeed("a/all.2.pay/2").status is Status.COMPLETED
    assert story.run.results["all"]["failed"] == [{"index": 0, "error": "approval_rejected"}]


def test_a_rejection_inside_a_branch_rejects_the_run() -> None:
    pay = Action("pay", "pay", ask=Question("?"))
    assert Story(branching((pay,))).answer("pay", approved=False).status is Status.REJECTED


def test_retries_waits_and_conditions_work_inside_branches() -> None:
    line = (
        Action("look", "look", retry=Retry(1, delay_s=0.0), when="item > 1"),
        Action("w", "wait", wait=Wait(events=(Await("PAID", "event.data.n == item"),))),
    )
    story = Story(each(*line), {"items": [1, 2]})
    assert story.opened == ["a/all.0.w/1", "a/all.1.look/1"]
    story.fail("look").succeed("look").signal("PAID", {"n": 2})
    assert story.opened == ["a/all.0.w/1"]
    assert story.signal("PAID", {"n": 1}).status is Status.COMPLETED


def test_a_deed_in_doubt_of_a_branch_that_lost_stays_open() -> None:
    story = Story(branching((PAY,), (LOOK,), join="any", rows="a - b\nb END done")).succeed("look")
    assert (story.state, story.opened, story.aborted) == ("b", ["a/both.0.pay/1"], ["a/both.0.pay/1"])
    story.signal("END").fail("pay")
    assert story.status is Status.COMPLETED


def test_the_same_irreversible_deed_twice_at_once_is_refused() -> None:
    story = Story(branching((Action("pay", "pay"),), (Action("pay", "pay"),)))
    assert story.performed == ["a/both.0.pay/1"]
    story.succeed("pay")
    assert (story.status, story.error) == (Status.REJECTED, "branch_failed")


def test_a_deed_of_this_very_event_is_taken_back_without_a_doubt_when_a_neighbour_fails_at_once() -> None:
    story = Story(branching((PAY,), (setting("{{ context.bad }}", 1),), fail_fast=True))
    assert (story.error, story.performed, story.aborted, story.opened) == ("branch_failed", [], [], [])


def test_ten_thousand_branches_that_take_no_time_are_done_in_one_event() -> None:
    story = Story(each(setting("n", 1)), {"items": list(range(10_000))})
    assert story.status is Status.COMPLETED
    assert Story(each(setting("n", 1), at_once=1), {"items": list(range(10_000))}).status is Status.COMPLETED


def test_ten_thousand_branches_at_work_can_be_left_at_once() -> None:
    story = Story(each(LOOK, at_once=10_000), {"items": list(range(10_000))})
    assert len(story.performed) == 10_000
    story.signal("@cancel")
    assert (story.status, len(story.aborted)) == (Status.CANCELLED, 10_000)


def test_of_a_loop_that_says_nothing_fifty_items_are_under_way_and_the_results_keep_their_order() -> None:
    story = Story(each(LOOK), {"items": list(range(200))})
    for done, index in enumerate([*range(49, -1, -1), *range(50, 200)]):
        assert len(story.run.contracts) == min(50, 200 - done)
        story.succeed(f"a/all.{index}.look/1", {"n": index})
    assert [one["n"] for one in story.run.results["all"]["items"]] == list(range(200))


INNER = Action("two", "branches", branches=(Branch("l", (LOOK,)), Branch("r", (Action("other", "look"),))))
LINES = ((LOOK, Action("more", "look")), (INNER,), (Action("look", "look", retry=Retry(1, delay_s=0.0)), INNER))


@given(
    st.sampled_from(LINES),
    st.integers(1, 140),
    st.integers(1, 90),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=300),
)
def test_branches_that_stand_apart_when_they_have_ended_come_to_what_they_came_to_before(
    line: tuple[Action, ...], count: int, at_once: int, tolerate: int, script: list[tuple[int, int]]
) -> None:
    machine = each(*line, at_once=at_once, tolerate=tolerate, rows="a - done\na ROUND a")
    old, new = (Story(machine, {"items": list(range(count))}, rules=rules) for rules in (2, 3))
    for pick, outcome in script:
        if new.run.ended is not None:
            if new.status is not Status.FAILED:
                break
            for story in (old, new):
                story.signal("@retry")
        elif outcome == 9:
            for story in (old, new):
                story.signal("ROUND")
        else:
            at = pick % len(new.run.contracts)
            for story in (old, new):
                one = story.run.contracts[at].id
                story.fail(one) if outcome == 8 else story.succeed(one, {"n": pick})
        assert _tell_apart(old) == _tell_apart(new)
        assert len(set(new.performed)) == len(new.performed)
        assert len(new.run.lanes) <= 1 + 3 * at_once


def _tell_apart(story: Story) -> tuple[Any, ...]:
    run = story.run
    return run.results, run.context, run.status, run.error, [(c.lane, c.action, c.attempt) for c in run.contracts]


@given(st.integers(1, 5), st.integers(1, 20), st.lists(st.floats(0, 40), max_size=20), st.booleans())
def test_a_rate_holds_in_any_stretch_of_time_and_keeps_the_order(
    rate: int, count: int, pauses: list[float], has_failures: bool
) -> None:
    call = Action("call", "look", rate=rate, per_s=10.0, retry=Retry(2, delay_s=3.0))
    story = Story(each(call, at_once=count), {"items": list(range(count))})
    begun: dict[str, float] = {}
    for pause in [*pauses, *[60.0] * count * 3]:
        for one in story.performed:
            begun.setdefault(one, story.at)
        for number, one in enumerate([c.id for c in story.run.contracts if c.status is Status.RUNNING]):
            failed = has_failures and number % 2 and one.endswith("/1")
            story.fail(one) if failed else story.succeed(one)
        while story.run.ended is None and 0 < story.run.wake_at <= story.at + pause:
            story.wake()
            for one in story.performed:
                begun.setdefault(one, story.at)
        story.at += pause
    assert story.status is Status.COMPLETED
    times = sorted(begun.values())
    assert all(later - earlier > 10.0 - 1e-6 for earlier, later in zip(times, times[rate:], strict=False))
    first = [at for name, at in begun.items() if name.endswith("/1")]
    assert first == sorted(first)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 5), st.floats(0, 30)), max_size=40), st.booleans())
def test_a_rate_holds_whoever_was_absent_or_asked_first(
    rate: int, steps: list[tuple[int, float]], is_asking: bool
) -> None:
    call = Action("call", "look", rate=rate, per_s=10.0, ask=Question("May I?") if is_asking else None)
    story = Story(each(call, at_once=6), {"items": list(range(8))})
    begun, held = [story.at] * len(story.performed), False
    for step, pause in [*steps, *[(0, 11.0), (1, 0.0), (2, 0.0)] * 60]:
        had = len(story.performed)
        waiting, running = story.run.waiting, [c for c in story.run.contracts if c.status is Status.RUNNING]
        if step == 0:  # time passes, and nobody is there to see it
            story.at += pause
            if 0 < story.run.wake_at <= story.at:
                story.wake(story.at)
        elif step == 1 and waiting and not held:
            story.answer(waiting[int(pause) % len(waiting)].id, approved=True, by="ann")
        elif step == 2 and running:
            story.succeed(running[0].id)
        elif step == 3 and running and not held:  # a crash: it is begun again
            story.doubt(running[0].id).answer(running[0].id, outcome="not_happened")
        elif step >= 4 and story.run.ended is None:
            story.signal("@release" if held else "@hold")
            held = not held
        begun += [story.at] * (len(story.performed) - had)
        if held and (step, pause) == (0, 11.0):
            story.signal("@release")
            held, begun = False, [*begun, *[story.at] * (len(story.performed) - len(begun))]
    assert story.status is Status.COMPLETED
    assert len(begun) == len(story.performed) >= 8
    assert all(later - earlier > 10.0 - 1e-6 for earlier, later in zip(begun, begun[rate:], strict=False))
