"""Stories of runs: signals, work, failures and their ways on, limits, pausing, cancelling and ending."""

from typing import Any, cast

import msgspec
import pytest

from detent import (
    Action,
    ContractMoved,
    Declared,
    Failure,
    Finish,
    Limits,
    Machine,
    Perform,
    Retry,
    Run,
    Signalled,
    Started,
    Status,
    Transition,
    Wake,
    advance,
    table,
)
from detent.core.engine import INBOX_MAX
from detent.core.transition_choice import CHAIN_MAX
from detent.errors import EventRefused, NotWaiting, Refused
from tests.core.story import Story

LOOK = Action("look", "look")
PAY = Action("pay", "pay", input={"amount": "{{ context.amount }}"})
ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
DOOR = Machine("door", "closed", table("closed OPEN open\nopen CLOSE closed"))


def working(*actions: Action, rows: str = "a - done", **fields: Any) -> Machine:
    return Machine("m", "a", table(rows), work={"a": actions}, **{"ends": ENDS, **fields})


def setting(name: str, value: Any) -> Action:
    return Action("s", "set", input={"name": name, "value": value})


# signals


def test_a_signal_takes_the_row_of_the_table() -> None:
    story = Story(DOOR).signal("OPEN")
    assert (story.state, story.status, story.run.transitions) == ("open", Status.WAITING, 1)
    assert story.commands == ()
    assert story.path == ["open"]


def test_a_signal_that_means_nothing_here_is_refused_with_what_would() -> None:
    with pytest.raises(EventRefused) as refused:
        Story(DOOR).signal("CLOSE")
    assert refused.value.accepts == ("OPEN",)
    assert str(refused.value) == "`CLOSE` is not accepted in state `closed`; accepted now: OPEN"


def test_a_run_must_be_started_once_and_with_its_own_machine() -> None:
    with pytest.raises(Refused, match="has not started"):
        advance(DOOR, Run(id="r1"), Signalled("OPEN"))
    with pytest.raises(Refused, match="pinned to machine"):
        advance(DOOR, Run(id="r1"), Started("abc"))
    with pytest.raises(EventRefused, match="`started` is not accepted in state `closed`"):
        Story(DOOR).tell(Started(DOOR.digest))


def test_a_run_is_not_moved_by_another_machine_than_its_own() -> None:
    run = Story(DOOR).run
    other = Machine("door", "closed", table("closed OPEN gone\ngone CLOSE closed"))
    with pytest.raises(Refused, match=f"run r1 is pinned to machine {DOOR.digest[:12]}, not {other.digest[:12]}"):
        advance(other, run, Signalled("OPEN"))


def test_something_that_is_no_event_is_refused() -> None:
    with pytest.raises(Refused, match="Finish is not an event"):
        advance(DOOR, Story(DOOR).run, cast(Any, msgspec.defstruct("Finish", [("id", str, "")])()))


def test_an_event_that_comes_twice_counts_once() -> None:
    story = Story(DOOR).signal("OPEN", id="1")
    before = story.run
    assert story.signal("OPEN", id="1").run is before
    assert (story.commands, story.taken) == ((), ())
    assert story.signal("CLOSE", id="2").signal("OPEN", id="3").run.recent == ("1", "2", "3")


def test_only_the_latest_event_ids_are_remembered() -> None:
    story = Story(DOOR)
    for number in range(100):
        story.signal("CLOSE" if number % 2 else "OPEN", id=str(number))
    assert story.run.recent == tuple(str(number) for number in range(68, 100))


def test_the_first_row_whose_condition_holds_is_taken_and_priority_comes_first() -> None:
    rows = (
        Transition("a", "b", on="GO", when="event.data.n > 1"),
        Transition("a", "c", on="GO"),
        Transition("a", "d", on="GO", when="event.data.n > 9", priority=1),
    )
    machine = Machine("m", "a", (*rows, *table("b X a\nc X a\nd X a")))
    assert [Story(machine).signal("GO", {"n": n}).state for n in (5, 0, 10)] == ["b", "c", "d"]


def test_a_row_from_everywhere_comes_after_the_states_own_and_does_not_leave_an_end() -> None:
    machine = Machine("m", "a", table("a STOP b\nb STAY b\n* STOP done"), ends=ENDS)
    story = Story(machine).signal("STOP")
    assert story.state == "b"
    assert story.signal("STOP").status is Status.COMPLETED
    with pytest.raises(EventRefused):
        story.signal("STOP")


def test_a_signal_whose_conditions_all_fail_is_refused() -> None:
    machine = Machine("m", "a", table("a GO b if context.ready\nb GO a"))
    with pytest.raises(EventRefused):
        Story(machine).signal("GO")
    assert Story(machine, {"ready": True}).signal("GO").state == "b"


def test_a_signal_leaves_a_state_at_work_and_stops_the_work() -> None:
    story = Story(working(LOOK, rows="a - done\na STOP b\nb X b")).signal("STOP")
    assert (story.state, story.opened, story.aborted) == ("b", [], ["a/look/1"])
    with pytest.raises(NotWaiting):
        story.tell(ContractMoved("a/look/1", "succeed"))


def test_an_early_signal_is_kept_until_a_row_takes_it() -> None:
    machine = working(LOOK, rows="a - b\nb PAID done", keeps=("PAID",))
    story = Story(machine).signal("PAID", {"n": 1})
    assert [s.name for s in story.run.inbox] == ["PAID"]
    story.succeed("look")
    assert (story.state, story.run.inbox) == ("done", ())
    assert story.path == ["b", "done"]


def test_kept_signals_are_taken_in_the_order_they_came() -> None:
    rows = "a - b\nb X c if event.data.n == 2\nb Y d\nc Y e\nd X e\ne END done"
    machine = working(LOOK, rows=rows, keeps=("X", "Y"))
    story = Story(machine).signal("X", {"n": 1}).signal("X", {"n": 2}).signal("Y").succeed("look")
    assert (story.path, story.state) == (["b", "c", "e"], "e")
    assert [s.data for s in story.run.inbox] == [{"n": 1}]


def test_an_early_signal_on_the_plain_road_is_not_forgotten() -> None:
    machine = Machine("m", "a", table("a NEXT b\nb PAID c\nc X c"), keeps=("PAID",))
    assert Story(machine).signal("PAID").signal("NEXT").state == "c"


def test_a_kept_signal_leaves_a_state_before_its_work_has_begun() -> None:
    machine = Machine("m", "a", table("a GO b\nb STOP c\nc X c"), work={"b": (PAY,)}, keeps=("STOP",))
    story = Story(machine, {"amount": 1}).signal("STOP").signal("GO")
    assert (story.state, story.opened, story.performed, story.aborted) == ("c", [], [], [])


def test_the_inbox_is_not_bottomless() -> None:
    story = Story(working(LOOK, keeps=("PAID",)))
    for _ in range(INBOX_MAX):
        story.signal("PAID")
    with pytest.raises(Refused, match="the inbox of run r1 is full"):
        story.signal("PAID")


# work


def test_work_is_done_in_order_and_each_step_is_one_event() -> None:
    story = Story(working(LOOK, Action("more", "sync"), setting("n", "{{ result.look.found }}")))
    assert story.commands == (Perform("a/look/1"),)
    assert (story.status, story.open("look").effect_state) == (Status.RUNNING, "possible")
    story.succeed("look", {"found": 7})
    assert story.commands == (Perform("a/more/1"),)
    story.succeed("more")
    assert (story.state, story.status, story.run.seq) == ("done", Status.COMPLETED, 3)
    assert story.run.context == {"n": 7}
    assert story.finish == Finish(Status.COMPLETED, {"n": 7}, None)


def test_a_contract_holds_the_exact_call() -> None:
    contract = Story(working(PAY, timeouts_s={"a": 9}), {"amount": 5}).open("pay")
    assert contract.input == {"amount": 5}
    assert (contract.kind, contract.scope) == ("irreversible", "global")
    assert (contract.timeout_s, contract.settle_s) == (5.0, 5.0)
    assert contract.key.startswith("pay:")
    assert contract.call_hash


def test_the_same_deed_has_the_same_key_everywhere_and_another_deed_another() -> None:
    machine = working(PAY)
    one, two, three = (Story(machine, {"amount": n}).open("pay").key for n in (1, 1, 2))
    assert one == two != three


def test_what_can_be_repeated_has_a_key_of_its_place() -> None:
    assert Story(working(LOOK)).open("look").key == "r1/a/look/1"


def test_the_author_may_name_the_key_but_not_leave_it_empty() -> None:
    keyed = Action("pay", "pay", key="{{ context.order }}")
    assert Story(working(keyed), {"order": "o7"}).open("pay").key == "pay:o7"
    assert Story(working(keyed)).error == "expression_error"


def test_an_effect_may_be_chosen_by_an_expression_but_not_be_the_engines_own() -> None:
    machine = working(Action("x", "{{ context.tool }}"))
    assert Story(machine, {"tool": "pay"}).open("x").kind == "irreversible"
    for tool in ("wait", "set", "no such name", None):
        assert Story(machine, {"tool": tool}).error == "expression_error"


def test_an_effect_nobody_declared_counts_as_irreversible() -> None:
    assert Story(working(Action("x", "unheard.of"))).open("x").kind == "irreversible"
    assert Story(working(Action("x", "unheard.of", kind="pure"))).open("x").kind == "pure"


def test_a_child_run_is_idempotent_because_it_is_named_after_its_contract() -> None:
    assert Story(working(Action("x", "child"))).open("x").kind == "idempotent"


def test_an_action_is_skipped_when_its_condition_does_not_hold() -> None:
    story = Story(working(Action("x", "look", when="context.wanted"), Action("y", "look")))
    assert story.opened == ["a/y/1"]


def test_a_result_that_is_no_mapping_becomes_a_value() -> None:
    story = Story(working(LOOK, Action("y", "look"), Action("z", "look")))
    story.succeed("look", 5).succeed("y")
    assert story.run.results == {"look": {"value": 5, "success": True}, "y": {"success": True}}


def test_set_writes_context_variables_and_the_states_own_deep_inside() -> None:
    actions = [
        Action("s1", "set", input={"name": "order.total", "value": 3}),
        Action("s2", "set", input={"name": "variables.max", "value": "{{ variables.max + 1 }}"}),
        Action("s3", "set", input={"name": "state.tries", "value": "{{ state.tries + 1 }}"}),
        Action("s4", "set", input={"name": "context.x", "value": "{{ state.tries }}"}),
        LOOK,
    ]
    machine = working(*actions, variables={"max": 1}, local={"a": {"tries": 0}})
    story = Story(machine, {"order": {"id": 1}})
    assert story.run.context == {"order": {"id": 1, "total": 3}, "x": 1}
    assert (story.run.variables, story.run.local) == ({"max": 2}, {"tries": 1})
    assert (machine.variables, machine.local) == ({"max": 1}, {"a": {"tries": 0}})


def test_a_name_that_is_no_variable_fails_the_action() -> None:
    assert Story(working(setting("{{ context.name }}", 1)), {"name": "no way"}).error == "validation_error"


def test_a_context_put_into_itself_is_a_copy_and_has_an_end() -> None:
    machine = Machine("m", "a", table("a GO a"), work={"a": (setting("all", "{{ context }}"),)})
    story = Story(machine, {"n": 1})
    assert story.run.context == {"n": 1, "all": {"n": 1}}
    for _ in range(100):
        if story.run.ended is None:
            story.signal("GO")
    assert story.error == "validation_error"


def test_choose_records_what_it_found_with_or_without_braces() -> None:
    for condition in ("context.n > 1", "{{ context.n > 1 }}", True):
        story = Story(working(Action("c", "choose", input={"condition": condition}), LOOK), {"n": 2})
        assert story.run.results["c"]["value"] is True


def test_an_outcome_may_change_the_context_and_name_the_way_on() -> None:
    story = Story(working(LOOK, rows="a NEXT done\na LAST failed"))
    story.succeed("look", {"x": 1}, raises="LAST", patch={"note": "n", "odd-name": 1})
    assert (story.state, story.run.context) == ("failed", {"note": "n", "odd-name": 1})


def test_an_event_raised_by_an_earlier_action_counts_when_the_work_is_done() -> None:
    story = Story(working(LOOK, Action("more", "look"), rows="a NEXT done\na LAST failed"))
    story.succeed("look", raises="LAST")
    assert story.state == "a"
    assert story.succeed("more").state == "failed"


def test_an_event_raised_in_a_state_that_was_left_is_forgotten() -> None:
    rows = "a LAST failed\na NEXT b\nb LAST failed\nb - done"
    machine = Machine("m", "a", table(rows), {"a": (LOOK, Action("more", "look")), "b": (LOOK,)}, ENDS)
    story = Story(machine).succeed("look", raises="LAST").signal("NEXT").succeed("look")
    assert story.state == "done"


def test_an_event_raised_for_which_there_is_no_row_is_an_error() -> None:
    story = Story(working(LOOK, rows="a NEXT done")).succeed("look", raises="LAST")
    assert (story.status, story.error) == (Status.FAILED, "no_transition")
    assert "`a` raised `LAST`; it has ways for: NEXT" in str(story.run.error)


def test_a_state_whose_work_is_done_waits_for_a_signal_if_it_has_one() -> None:
    story = Story(working(LOOK, rows="a GO done")).succeed("look")
    assert (story.status, story.opened) == (Status.WAITING, [])
    assert story.signal("GO").status is Status.COMPLETED


def test_a_circle_inside_one_event_comes_to_an_end() -> None:
    turn = (setting("n", "{{ context.n + 1 }}"),)
    story = Story(Machine("m", "a", (Transition("a", "b", then=turn), Transition("b", "a"))), {"n": 0})
    assert (story.status, story.error) == (Status.FAILED, "loop_limit")
    assert story.run.transitions == CHAIN_MAX


# failures and the ways on


def test_a_failure_nothing_takes_fails_the_run() -> None:
    story = Story(working(LOOK)).fail("look", "tool_failure.exit", "code 1")
    assert (story.state, story.status) == ("a", Status.FAILED)
    failure = Failure("tool_failure.exit", "code 1", {"passed_over": ["a → done"]})  # its own, and the row it passed by
    assert story.finish == Finish(Status.FAILED, {}, failure)
    assert story.run.results["look"] == {
        "success": False,
        "error": {"type": "tool_failure.exit", "message": "code 1"},
    }


def test_the_first_failing_action_ends_the_work() -> None:
    story = Story(working(LOOK, Action("more", "look"), rows="a - done\na !* failed")).fail("look")
    assert (story.state, story.performed) == ("failed", ["a/look/1"])


def test_errors_are_taken_by_type_then_by_open_rows_then_by_the_last_resort() -> None:
    rows = [
        Transition("a", "net", error="*"),
        Transition("a", "open", even_failed=True, when="context.is_open"),
        Transition("*", "late", error="timeout"),
        Transition("a", "typed", error="timeout.action"),
        *table("net X net\nopen X open\nlate X late\ntyped X typed"),
    ]
    machine = Machine("m", "a", tuple(rows), work={"a": (LOOK,)})
    assert Story(machine).fail("look", "timeout.action").state == "typed"
    assert Story(machine).fail("look", "timeout.state").state == "late"
    assert Story(machine, {"is_open": True}).fail("look", "timeout.action").state == "typed"
    assert Story(machine, {"is_open": True}).fail("look").state == "open"
    assert Story(machine).fail("look").state == "net"


def test_an_ordinary_row_is_not_for_failures() -> None:
    assert Story(working(LOOK, rows="a - done")).fail("look").status is Status.FAILED


def test_an_ordinary_row_is_not_for_a_no_either() -> None:
    story = Story(working(LOOK, rows="a - done")).succeed("look", {"success": False})
    assert (story.state, story.status, story.run.failures) == ("a", Status.FAILED, {"a": 1})
    said = Failure("tool_failure", "`look` answered `success: false`", {"passed_over": ["a → done"]})
    assert story.run.error == said
    own = {"success": False, "error": {"type": "validation_error", "message": "no such colour"}}
    story = Story(working(LOOK, rows="a - done")).succeed("look", own)
    assert story.run.error == Failure("validation_error", "no such colour", {"passed_over": ["a → done"]})
    story = Story(working(LOOK, rows="a - done")).succeed("look", {"success": False, "error": "no such colour"})
    assert str(story.run.error and story.run.error.message) == "`look` answered `success: false`: no such colour"


def test_runs_of_the_first_rules_take_a_no_by_an_ordinary_row() -> None:
    story = Story(working(LOOK, rows="a - done"), rules=1).succeed("look", {"success": False})
    assert (story.state, story.status, story.run.error) == ("done", Status.COMPLETED, None)
    story = Story(working(LOOK, rows="a - failed if result.look.success == false"), rules=1)
    assert story.succeed("look", {"success": False}).run.error is None


def test_an_earlier_no_of_the_same_work_keeps_ordinary_rows_shut() -> None:
    story = Story(working(LOOK, Action("more", "look"), rows="a - done")).succeed("look", {"success": False})
    assert story.succeed("more").error == "tool_failure"
    again = working(LOOK, rows="a - a if attempt < 1 and not result.look.success\na - done")
    assert Story(again).succeed("look", {"success": False}).succeed("look").state == "done"


def test_a_no_is_taken_by_a_condition_by_a_row_for_failures_and_by_a_handler() -> None:
    no = {"success": False}
    assert Story(working(LOOK, rows="a - done\na - failed if true")).succeed("look", no).state == "failed"
    assert Story(working(LOOK, rows="a - done\na !tool_failure failed")).succeed("look", no).state == "failed"
    assert Story(working(LOOK, rows="a - done\na !* failed")).succeed("look", no).state == "failed"
    always = Machine("m", "a", (Transition("a", "failed", even_failed=True),), {"a": (LOOK,)}, ENDS)
    assert Story(always).succeed("look", no).state == "failed"


def test_a_row_for_failures_takes_them_all_and_no_success() -> None:
    rows = (Transition("a", "tidy", even_failed=True, only_failed=True), *table("a - done\ntidy - failed"))
    mend = Action("mend", "sync", {"why": "{{ error.message }}"})
    machine = Machine("m", "a", rows, {"a": (LOOK,), "tidy": (mend,)}, ENDS)
    assert Story(machine).succeed("look").state == "done"
    assert Story(machine).fail("look", "tool_failure", "it broke").open("mend").input == {"why": "it broke"}
    story = Story(machine).succeed("look", {"success": False})
    assert story.open("mend").input == {"why": "`look` answered `success: false`"}
    assert story.succeed("mend").error == "tool_failure"


def test_where_a_no_finds_no_row_at_all_nothing_was_passed_over() -> None:
    story = Story(working(LOOK, rows="a - done if result.look.success")).succeed("look", {"success": False})
    assert (story.error, story.run.error and story.run.error.data) == ("no_transition", {})
    waiting = Story(working(LOOK, rows="a GO done")).succeed("look", {"success": False})
    assert waiting.status is Status.WAITING
    assert waiting.signal("GO").state == "done"


def test_a_failed_end_says_why_whatever_led_there() -> None:
    no = Story(working(LOOK, rows="a - failed if not result.look.success\na - done")).succeed(
        "look", {"success": False}
    )
    assert no.run.error == Failure("tool_failure", "`look` answered `success: false`")
    chosen = Story(working(LOOK, rows="a - failed if result.look.n > 3\na - done")).succeed("look", {"n": 4})
    said = Failure("error_state", "`a` led to the failed end `failed`, because result.look.n > 3")
    assert (chosen.status, chosen.run.error) == (Status.FAILED, said)
    told = Story(working(LOOK, rows="a GO failed")).signal("GO")
    assert told.run.error == Failure("error_state", "`a` led to the failed end `failed` on `GO`")


def test_what_a_failed_call_gave_is_kept_beside_its_error() -> None:
    rows = "a - done\na !* failed"
    given = {"exit": 2, "stdout": "", "stderr": "no rule"}
    error = {"type": "tool_failure.exit", "message": "code 2"}
    story = Story(working(LOOK, rows=rows))
    story.move("look", "fail", result=given, error=Failure("tool_failure.exit", "code 2"))
    assert story.run.results["look"] == {**given, "success": False, "error": error}
    old = Story(working(LOOK, rows=rows), rules=1)
    old.move("look", "fail", result=given, error=Failure("tool_failure.exit", "code 2"))
    assert old.run.results["look"] == {"success": False, "error": error, "result": given}


def test_a_retry_row_does_not_take_what_must_never_be_retried() -> None:
    again = Transition("a", "a", even_failed=True, is_retry=True, when="attempt < 3")
    machine = Machine("m", "a", (Transition("a", "done", when="result.look.success"), again), {"a": (LOOK,)}, ENDS)
    assert Story(machine).fail("look").opened == ["a/look/2"]
    for kind in ("validation_error", "approval_rejected", "tool_failure.unknown_outcome", "expression_error"):
        assert Story(machine).fail("look", kind).run.ended


def test_a_kill_row_ends_the_run_in_its_target_without_its_work() -> None:
    kill = Transition("*", "cleanup", error="timeout", is_kill=True)
    machine = Machine("m", "a", (kill, *table("a - done\ncleanup - done")), {"a": (LOOK,), "cleanup": (LOOK,)}, ENDS)
    story = Story(machine).fail("look", "timeout.action")
    assert (story.state, story.status, story.error) == ("cleanup", Status.FAILED, "timeout.action")


def test_no_way_on_is_an_error_which_a_row_may_take() -> None:
    story = Story(working(LOOK, rows="a - done if context.never")).succeed("look")
    assert (story.status, story.error) == (Status.FAILED, "no_transition")
    story = Story(working(LOOK, rows="a - done if context.never\na !no_transition failed")).succeed("look")
    assert (story.state, story.error) == ("failed", "no_transition")


def test_a_condition_that_breaks_counts_as_false_and_is_the_error_when_nothing_else_is_open() -> None:
    broken = "a - done if context.n > 'x'"
    assert Story(working(LOOK, rows=broken), {"n": 1}).succeed("look").error == "expression_error"
    assert Story(working(LOOK, rows=f"{broken}\na - failed"), {"n": 1}).succeed("look").state == "failed"


def test_an_input_that_breaks_fails_the_action_before_anything_is_called() -> None:
    story = Story(working(Action("pay", "pay", input={"n": "{{ context.n + 'x' }}"})), {"n": 1})
    assert (story.error, story.performed) == ("expression_error", [])


def test_the_error_can_be_read_where_it_led_and_is_forgotten_after_work_well_done() -> None:
    note = Action("note", "look", input={"why": "{{ error.message }}", "type": "{{ error.type }}"})
    rows = table("a - done\na !* b\nb - c\nc GO c")
    story = Story(Machine("m", "a", rows, {"a": (LOOK,), "b": (note,)}, ENDS))
    story.fail("look", "timeout.action", "too slow")
    assert story.open("note").input == {"why": "too slow", "type": "timeout.action"}
    assert story.succeed("note").run.error is None


def test_an_unhappy_end_reports_the_failure_that_led_there_even_after_cleaning_up() -> None:
    rows = "a - done\na !* tidy\ntidy - failed"
    machine = Machine("m", "a", table(rows), {"a": (LOOK,), "tidy": (Action("sweep", "look"),)}, ENDS)
    story = Story(machine).fail("look", "tool_failure.exit").succeed("sweep")
    assert (story.status, story.error) == (Status.FAILED, "tool_failure.exit")


def test_a_stale_error_does_not_mislead_the_next_execution() -> None:
    rows = (
        Transition("a", "failed", even_failed=True, when="error.type == 'timeout'"),
        Transition("a", "done", when="result.look.success"),
        Transition("a", "a", even_failed=True, is_retry=True, when="attempt < 1"),
    )
    machine = Machine("m", "a", rows, {"a": (LOOK,)}, ENDS)
    assert Story(machine).fail("look", "tool_failure").succeed("look").state == "done"
    assert Story(machine).fail("look", "timeout").state == "failed"


def test_a_state_may_be_entered_again_with_its_variables_and_a_new_one_starts_afresh() -> None:
    count = (Action("c", "set", input={"name": "state.n", "value": "{{ state.n + 1 }}"}),)
    rows = (Transition("a", "a", on="AGAIN", then=count), *table("a NEXT b\nb BACK a"))
    machine = Machine("m", "a", rows, local={"a": {"n": 0}})
    story = Story(machine).signal("AGAIN").signal("AGAIN")
    assert story.run.local == {"n": 2}
    assert story.signal("NEXT").run.local == {}
    assert story.signal("BACK").run.local == {"n": 0}


def test_on_the_way_the_states_variables_are_those_of_the_source() -> None:
    keep = (Action("c", "set", input={"name": "last", "value": "{{ state.n }}"}),)
    rows = (Transition("a", "b", on="NEXT", then=keep), Transition("b", "b", on="X"))
    assert Story(Machine("m", "a", rows, local={"a": {"n": 5}})).signal("NEXT").run.context == {"last": 5}


def test_a_change_on_the_way_that_breaks_fails_the_run() -> None:
    broken = (setting("n", "{{ context.n + 'x' }}"),)
    story = Story(Machine("m", "a", (Transition("a", "a", on="GO", then=broken),)), {"n": 1}).signal("GO")
    assert (story.status, story.error) == (Status.FAILED, "expression_error")


# attempts


def test_block_one_of_the_seed_executes_four_times() -> None:
    rows = (
        Transition("start", "validate"),
        Transition("validate", "execute", when="{{ result.validation_check.success }}", even_failed=True),
        Transition("validate", "error", when="{{ not result.validation_check.success }}", even_failed=True),
        Transition("execute", "complete", when="{{ result.main_execution.success }}", even_failed=True),
        Transition("execute", "execute", when="{{ attempt < variables.max_retries }}", even_failed=True, is_retry=True),
        Transition("*", "error_state", error="*"),
    )
    machine = Machine(
        "block_1",
        "start",
        rows,
        work={"validate": (Action("validation_check", "look"),), "execute": (Action("main_execution", "sync"),)},
        ends={"complete": Status.COMPLETED, "error": Status.FAILED, "error_state": Status.FAILED},
        variables={"max_retries": 3},
    )
    story = Story(machine).succeed("validation_check")
    for _ in range(4):
        story.fail("main_execution")
    assert story.performed == ["validate/validation_check/1", *(f"execute/main_execution/{n}" for n in (1, 2, 3, 4))]
    assert (story.state, story.status) == ("error_state", Status.FAILED)
    story = Story(machine).succeed("validation_check", {"success": False})
    assert (story.state, story.run.ended) == ("error", Status.FAILED)


def test_a_business_failure_counts_as_an_attempt_but_is_no_error() -> None:
    rows = "a - done if result.look.success\na - a if attempt < 2\na - failed if true"
    story = Story(working(LOOK, rows=rows)).succeed("look", {"success": False}).succeed("look", {"success": False})
    assert (story.state, story.run.failures, story.run.error) == ("a", {"a": 2}, None)
    assert story.succeed("look", {"success": False}).state == "failed"
    assert story.performed == ["a/look/1", "a/look/2", "a/look/3"]


def test_attempts_survive_a_detour_and_a_success_resets_them() -> None:
    rows = "a - b if result.look.success\na - fix if true\nfix - a\nb BACK a"
    machine = Machine("m", "a", table(rows), {"a": (LOOK,), "fix": (Action("mend", "look"),)})
    story = Story(machine)
    for _ in range(2):
        story.succeed("look", {"success": False}).succeed("mend")
    assert story.run.failures == {"a": 2}
    assert story.succeed("look").run.failures == {}


def test_a_failed_attempt_that_was_tried_again_with_success_is_no_failed_execution() -> None:
    story = Story(working(Action("look", "look", retry=Retry(1, delay_s=0.0)), rows="a GO done")).fail("look")
    assert story.performed == ["a/look/1", "a/look/2"]
    assert story.succeed("look").run.failures == {}


# retries


def test_a_retry_is_a_new_contract_with_the_same_key_after_a_pause_anybody_can_compute() -> None:
    machine = working(Action("look", "sync", retry=Retry(3, delay_s=8.0, factor=10.0, delay_s_max=100.0)))
    story = Story(machine)
    key, pauses = story.open("look").key, []
    for attempt in (1, 2, 3):
        story.fail("look")
        contract = story.open("look")
        assert (contract.status, contract.attempt, contract.key) == (Status.PENDING, attempt + 1, key)
        assert contract.due_at == story.run.wake_at
        pauses.append(contract.due_at - story.at)
        story.wake()
    assert story.performed == [f"a/look/{n}" for n in (1, 2, 3, 4)]
    assert all(0 < pause < longest for pause, longest in zip(pauses, (8.0, 80.0, 100.0), strict=True))
    assert story.fail("look").status is Status.FAILED
    again = Story(machine).fail("look")
    assert again.open("look").due_at - again.at == pauses[0]


def test_an_early_wake_starts_nothing() -> None:
    story = Story(working(Action("look", "look", retry=Retry(1, delay_s=1000.0)))).fail("look")
    due = story.run.wake_at
    assert story.wake(due - 0.001).performed == ["a/look/1"]
    assert story.run.wake_at == due


def test_only_the_errors_a_retry_names_are_tried_again_and_some_never_are() -> None:
    only = working(Action("look", "look", retry=Retry(5, on=("timeout",))))
    assert Story(only).fail("look", "timeout.action").opened == ["a/look/2"]
    assert Story(only).fail("look", "tool_failure").run.ended
    every = working(Action("look", "look", retry=Retry(5)))
    for kind in ("validation_error", "approval_rejected", "cancelled", "already_done", "budget_exceeded"):
        assert Story(every).fail("look", kind).run.ended


def test_a_huge_pause_is_cut_to_the_longest() -> None:
    story = Story(working(Action("look", "look", retry=Retry(9, factor=1e300, delay_s_max=7.0))))
    for _ in range(5):
        story.fail("look")
        assert story.run.wake_at - story.at < 7.0
        story.wake()


def test_a_retry_whose_input_breaks_fails() -> None:
    action = Action("look", "look", input={"n": "{{ 1 / 0 if result.look else 1 }}"}, retry=Retry(1))
    story = Story(working(action)).fail("look")
    assert (story.error, story.performed) == ("expression_error", ["a/look/1"])


# irreversible deeds


def test_an_irreversible_deed_is_not_begun_while_the_same_one_may_be_under_way() -> None:
    rows = "a NEXT b\nb - done\nb !key_held c\nc GO c"
    machine = Machine("m", "a", table(rows), {"a": (PAY,), "b": (PAY,)}, ENDS)
    story = Story(machine, {"amount": 1}).signal("NEXT")
    assert (story.state, story.performed, story.opened) == ("c", ["a/pay/1"], ["a/pay/1"])
    assert story.open("pay").is_adrift


def test_a_deed_left_behind_in_doubt_stays_open_until_it_is_settled() -> None:
    machine = Machine("m", "a", table("a NEXT b\nb END done"), {"a": (PAY,)}, ENDS)
    story = Story(machine, {"amount": 1}).signal("NEXT")
    assert story.aborted == ["a/pay/1"]
    story.signal("END")
    assert (story.run.ended, story.run.ending, story.status) == (None, Status.COMPLETED, Status.RUNNING)
    with pytest.raises(EventRefused):
        story.signal("NEXT")
    story.succeed("pay", {"id": 1}, patch={"x": 1}, raises="NEXT")
    assert (story.run.ended, story.run.context) == (Status.COMPLETED, {"amount": 1})
    assert "pay" not in story.run.results


def test_a_deed_that_was_repeated_on_purpose_always_asks() -> None:
    story = Story(working(Action("pay", "pay", repeat="{{ context.why }}")), {"why": "the first got lost"})
    contract = story.open("pay")
    assert story.asked == [contract.id]
    assert contract.question is not None
    assert "the first got lost" in contract.question.text
    assert contract.key.endswith(":r1/a/pay/1")


# limits


def test_too_many_transitions_end_the_run() -> None:
    machine = msgspec.structs.replace(DOOR, limits=Limits(max_transitions=2))
    story = Story(machine).signal("OPEN").signal("CLOSE").signal("OPEN")
    assert (story.status, story.error) == (Status.FAILED, "loop_limit")


def test_a_loop_limit_is_caught_once_by_a_row_that_names_it() -> None:
    rows = "a GO a\nb GO a\n* !* failed\n* !loop_limit b"
    story = Story(Machine("m", "a", table(rows), ends=ENDS, limits=Limits(max_visits=2))).signal("GO").signal("GO")
    assert (story.state, story.run.limits_hit) == ("b", 1)
    story.signal("GO")
    assert (story.status, story.error, story.state) == (Status.FAILED, "loop_limit", "a")


def test_a_run_that_takes_too_long_is_ended_and_a_named_row_may_say_where() -> None:
    story = Story(working(LOOK, rows="a - done\na !* failed", limits=Limits(max_duration_s=60)))
    assert story.run.wake_at == 160.0
    story.wake()
    assert (story.state, story.status, story.error) == ("a", Status.FAILED, "timeout.workflow")
    caught = working(LOOK, rows="a - done\na !timeout failed", limits=Limits(max_duration_s=60))
    assert Story(caught).wake().state == "failed"


def test_a_limit_in_dollars_does_not_pretend_to_hold_where_costs_are_unknown() -> None:
    spent = {"tokens": 5.0, "unpriced_calls": 1.0}
    bounded = Story(working(LOOK, limits=Limits(max_cost_usd=1.0))).succeed("look", usage=spent)
    assert (bounded.status, bounded.error) == (Status.FAILED, "budget_exceeded")
    counted = Story(working(LOOK, limits=Limits(max_tokens=100))).succeed("look", usage=spent)
    assert counted.status is Status.COMPLETED


@pytest.mark.parametrize("limits", [Limits(max_cost_usd=1.0), Limits(max_tokens=100)])
def test_a_budget_stops_the_work_when_it_is_spent(limits: Limits) -> None:
    spent = {"cost_usd": 0.6, "tokens": 60.0}
    story = Story(working(LOOK, Action("b", "look"), Action("c", "look"), limits=limits)).succeed("look", usage=spent)
    assert story.opened == ["a/b/1"]
    story.succeed("b", {"x": 1}, usage=spent)
    assert (story.status, story.error) == (Status.FAILED, "budget_exceeded")
    assert story.run.results["b"] == {"x": 1, "success": True}
    assert story.run.usage == {"cost_usd": 1.2, "tokens": 120.0}


def test_failed_attempts_cost_too_and_are_not_tried_again_over_the_budget() -> None:
    story = Story(working(Action("look", "look", retry=Retry(9)), limits=Limits(max_tokens=10)))
    story.fail("look", usage={"tokens": 11.0})
    assert (story.status, story.error, story.opened) == (Status.FAILED, "budget_exceeded", [])


def test_by_the_first_rules_the_state_a_spent_budget_leads_to_may_finish_but_not_the_one_after() -> None:
    rows = "a - done\na !budget_exceeded b\nb - c\nc - done\n* !* failed"
    both: tuple[Action, ...] = (Action("x", "look"), Action("y", "look"))
    work = dict.fromkeys("abc", both)
    story = Story(Machine("m", "a", table(rows), work, ENDS, limits=Limits(max_tokens=10)), rules=1)
    usage = {"tokens": 11.0}
    story.succeed("x", usage=usage).succeed("x", usage=usage).succeed("y", usage=usage)
    assert story.state == "c"
    story.succeed("x", usage=usage)
    assert (story.status, story.error) == (Status.FAILED, "budget_exceeded")


# timers of states


def test_a_state_that_takes_too_long_fails_with_its_work_stopped() -> None:
    story = Story(working(LOOK, rows="a - done\na !timeout.state b\nb X b", timeouts_s={"a": 30}))
    assert story.commands[-1] == Wake(130.0)
    story.wake()
    assert (story.state, story.aborted, story.run.wake_at) == ("b", ["a/look/1"], 0.0)


def test_leaving_a_state_in_time_takes_its_timer_back() -> None:
    story = Story(working(LOOK, rows="a - b\nb X b", timeouts_s={"a": 30})).succeed("look")
    assert (story.run.wake_at, story.commands) == (0.0, (Wake(0.0),))


def test_a_state_may_be_nothing_but_a_pause_with_a_way_out() -> None:
    machine = Machine("m", "a", table("a !timeout.state b\nb X b"), timeouts_s={"a": 30})
    story = Story(machine)
    assert story.status is Status.WAITING
    assert story.wake().state == "b"


# holding


def test_a_held_run_finishes_what_is_at_work_and_begins_nothing_new() -> None:
    story = Story(working(LOOK, Action("more", "look"))).signal("@hold", by="ann")
    assert (story.status, story.run.held_by) == (Status.RUNNING, "ann")
    story.succeed("look")
    assert (story.status, story.commands, story.open("more").status) == (Status.WAITING, (), Status.PENDING)
    story.signal("@release")
    assert (story.commands, story.status, story.run.held_by) == ((Perform("a/more/1"),), Status.RUNNING, "")


def test_a_retry_that_comes_due_while_the_run_is_held_waits_for_the_release() -> None:
    story = Story(working(Action("look", "look", retry=Retry(1)))).fail("look").signal("@hold").wake()
    assert (story.performed, story.run.wake_at) == (["a/look/1"], 0.0)
    assert story.signal("@release").performed == ["a/look/1", "a/look/2"]


def test_a_held_run_can_be_cancelled() -> None:
    story = Story(working(LOOK, Action("more", "look"))).signal("@hold").succeed("look").signal("@cancel")
    assert (story.status, story.aborted) == (Status.CANCELLED, [])


# cancelling and ending


def test_cancelling_stops_what_can_be_stopped() -> None:
    story = Story(working(LOOK)).signal("@cancel", {"reason": "no longer wanted"}, by="ann")
    assert (story.status, story.aborted) == (Status.CANCELLED, ["a/look/1"])
    assert story.run.error == Failure("cancelled", "no longer wanted")
    assert [t.actor for t in story.taken if t.kind == "contract"] == ["ann"]


@pytest.mark.parametrize("trigger", ["succeed", "fail", "cancel"])
def test_a_run_with_a_deed_in_doubt_is_cancelled_only_when_that_is_settled(trigger: str) -> None:
    story = Story(working(PAY), {"amount": 1}).signal("@cancel")
    assert (story.run.ended, story.run.ending, story.aborted) == (None, Status.CANCELLED, ["a/pay/1"])
    with pytest.raises(EventRefused):
        story.signal("@cancel")
    story.move("pay", trigger)
    assert (story.status, story.opened) == (Status.CANCELLED, [])


def test_a_deadline_does_not_overrule_a_cancel_that_waits_for_a_deed() -> None:
    story = Story(working(PAY, limits=Limits(max_duration_s=5), timeouts_s={"a": 3}), {"amount": 1}).signal("@cancel")
    assert story.run.wake_at == 0.0
    assert story.signal("@wake").run.ending is Status.CANCELLED


def test_an_ended_run_refuses_everything() -> None:
    story = Story(working(LOOK)).succeed("look")
    for name in ("GO", "@wake", "@cancel", "@hold", "@release", "@migrate", "@what"):
        with pytest.raises(EventRefused):
            story.signal(name)


def test_an_end_with_a_way_out_can_be_left() -> None:
    machine = working(LOOK, rows="a - done\ndone RESET a", limits=Limits(max_duration_s=60))
    story = Story(machine).succeed("look")
    assert (story.status, story.run.output, machine.accepts("done")) == (Status.COMPLETED, {}, ("RESET",))
    story.at = 500.0
    story.signal("RESET")
    assert (story.state, story.status, story.opened) == ("a", Status.RUNNING, ["a/look/2"])
    assert (story.run.output, story.run.ended, story.run.wake_at) == (None, None, 560.0)


def test_an_end_may_set_and_log_and_the_output_is_what_the_machine_says() -> None:
    end = (setting("n", "{{ context.n + 1 }}"), Action("l", "log", input={"message": "n = {{ context.n }}"}))
    machine = Machine("m", "a", table("a GO done"), {"done": end}, ENDS, output={"sum": "{{ context.n * 10 }}"})
    story = Story(machine, {"n": 1}).signal("GO")
    assert story.finish == Finish(Status.COMPLETED, {"sum": 20}, None)
    assert [t.value for t in story.taken if t.kind == "log"] == ["n = 2"]


def test_what_breaks_at_the_end_does_not_keep_the_run_from_ending() -> None:
    broken = (setting("n", "{{ context.n + 'x' }}"),)
    machine = Machine("m", "a", table("a GO done"), {"done": broken}, ENDS, output="{{ context.n + 'x' }}")
    story = Story(machine, {"n": 1}).signal("GO")
    assert (story.status, story.run.output) == (Status.COMPLETED, None)
    assert len([t for t in story.taken if t.kind == "note"]) == 2


def test_a_run_may_begin_at_its_end() -> None:
    assert Story(Machine("m", "done", (), ends=ENDS), {"x": 1}).finish == Finish(Status.COMPLETED, {"x": 1}, None)


# what a run costs


def test_a_run_does_not_grow_with_its_age() -> None:
    machine = Machine("m", "a", table("a - b\nb - a"), {"a": (LOOK,), "b": (Action("pay", "pay"),)})
    run, sizes = advance(machine, Run(id="r1"), Started(machine.digest, effects={"look": Declared("pure")}))[0], []
    for number in range(3000):
        moved = ContractMoved(run.contracts[0].id, "succeed", {"n": 1}, id=f"{number:09}", usage={"tokens": 1.0})
        run, _, _ = advance(machine, run, moved)
        if number % 1000 == 999:
            sizes.append(len(msgspec.json.encode(run)))
    assert max(sizes) - min(sizes) < 20  # a digit more here and there
