"""The rules of workflow files (docs/reference/rules.md, R1 to R14), each as stories on the real engine and host."""

# ruff: noqa: E501 - a file of a few words reads best on one line

from typing import Any

import pytest

from detent import EffectFailed, Run, Status
from detent.define.workflow import load_workflow, read_workflow
from detent.errors import DefinitionError, Refused
from detent.testing import Story, World, crash_anywhere
from tests.define.stage import FILES, approve, event, later, play, reject

NO = {"success": False}
BROKEN = EffectFailed("it broke")


def test_r1_the_first_block_of_the_seed_runs_as_it_is_written() -> None:
    told = play(FILES / "seed_1_basic.yaml", {}, [approve("main_execution")], {"input": "x"})
    assert (told.status, told.path) == ("completed", ("start", "validate", "execute", "complete"))
    assert told.inputs == ({"data": "x"}, {})


def test_r1_the_first_block_waits_before_its_side_effect() -> None:
    told = play(FILES / "seed_1_basic.yaml")
    assert (told.status, told.run.state, told.pending, told.calls) == (
        "waiting",
        "execute",
        ("main_execution",),
        ("validator",),
    )


def test_r1_an_undeclared_error_is_a_failed_end() -> None:
    told = play(FILES / "seed_1_basic.yaml", {"validator": [NO]})
    assert (told.status, told.run.state, told.calls) == ("failed", "error", ("validator",))


@pytest.mark.parametrize(("category", "end"), [("typeA", "path_a"), ("typeC", "path_c"), ("other", "unknown")])
def test_r1_the_second_block_runs_as_a_fragment(category: str, end: str) -> None:
    told = play(FILES / "seed_2_branches.yaml", {"classifier": [{"category": category}]}, fragment=True)
    assert (told.status, told.run.state) == ("completed", end)


def test_r1_the_third_block_runs_as_a_fragment() -> None:
    text = "variables: {max_retries: 3}\n" + (FILES / "seed_3_retry.yaml").read_text()
    told = play(text, {"operation": [NO]}, fragment=True)
    assert told.path == ("retry_loop",) * 4 + ("handle_error",)
    assert told.calls == ("operation",) * 4
    assert play(text, {"operation": [NO, {}]}, fragment=True).path == ("retry_loop", "retry_loop", "process_result")


def test_r1_the_third_block_needs_nothing_else_while_it_succeeds() -> None:
    assert play(FILES / "seed_3_retry.yaml", fragment=True).run.state == "process_result"


def test_r1_a_document_has_exactly_one_initial_state() -> None:
    for states in ("{a: {type: normal}}", "{a: {type: initial}, b: {type: initial}}"):
        with pytest.raises(DefinitionError, match="initial"):
            read_workflow(f"states: {states}\ntransitions: [{{from: a, to: error}}]")


def test_r1_any_other_unknown_target_is_refused_with_a_hint() -> None:
    with pytest.raises(DefinitionError, match=r"2:29: unknown state `retyr`; did you mean `retry`\?"):
        read_workflow("states: {a: {type: initial}}\ntransitions: [{from: a, to: retyr}]")


def test_r1_a_version_is_the_authors_label() -> None:
    made = read_workflow("version: 1.10\nname: 7\nstates: {a: {type: initial}}\ntransitions: [{from: a, to: error}]")
    assert (made.machine.version, made.machine.title) == ("1.10", "7")


TWO_ACTIONS = """
states:
  a:
    type: initial
    actions:
      - {id: first, tool: one}
      - {id: second, tool: two}
  b: {type: final, actions: [{type: set_variable, name: seen, value: "{{ result.second.n }}"}, {type: log, message: bye}]}
  c: {type: final}
transitions:
  - {from: a, to: b, condition: "{{ result.second.n == 2 }}"}
  - {from: a, to: c, condition: "{{ true }}"}
"""


def test_r2_transitions_are_looked_at_after_the_last_action() -> None:
    told = play(TWO_ACTIONS, {"two": [{"n": 2}]})
    assert (told.run.state, told.calls, told.run.context) == ("b", ("one", "two"), {"seen": 2})
    assert told.logs == (("info", "bye"),)


def test_r2_the_first_failing_action_ends_the_state() -> None:
    told = play(TWO_ACTIONS, {"one": [BROKEN]})
    assert (told.run.state, told.calls) == ("c", ("one",))


def test_r2_an_end_may_only_set_and_log() -> None:
    with pytest.raises(DefinitionError, match="an end may only set_variable and log"):
        read_workflow(
            "states: {a: {type: initial}, b: {type: final, actions: [{id: x, tool: y}]}}\ntransitions: [{from: a, to: b}]"
        )


CHOICE = """
states: {a: {type: initial, actions: [{id: look, tool: look}]}, b: {type: final}, c: {type: final}, d: {type: final}}
transitions:
  - {from: a, to: b, condition: "{{ result.look.n > 1 }}"}
  - {from: a, to: c, condition: "{{ result.look.n > 2 }}", priority: %d}
  - {from: a, to: d, condition: "{{ result.look.n == 0 }}"}
"""


@pytest.mark.parametrize(("priority", "end"), [(0, "b"), (5, "c"), (-1, "b")])
def test_r3_the_first_that_holds_is_taken_unless_another_has_priority(priority: int, end: str) -> None:
    assert play(CHOICE % priority, {"look": [{"n": 3}]}).run.state == end


def test_r3_nothing_enabled_is_an_error_and_never_silence() -> None:
    told = play(CHOICE % 0, {"look": [{"n": 1}]})
    assert (told.status, told.error, told.run.state) == ("failed", "no_transition", "a")


def test_r3_without_a_condition_only_success_goes_on() -> None:
    text = """
states:
  build: {type: initial, actions: [{id: make, tool: make}]}
  deploy: {actions: [{id: ship, tool: ship}]}
  done: {type: final}
transitions: [{from: build, to: deploy}, {from: deploy, to: done}]
"""
    assert play(text).path == ("build", "deploy", "done")
    for answer, kind in (
        (BROKEN, "tool_failure"),
        (NO, "tool_failure"),
        (EffectFailed("2", "tool_failure.exit"), "tool_failure.exit"),
    ):
        told = play(text, {"make": [answer]})
        assert (told.status, told.run.state, told.error, told.calls) == ("failed", "build", kind, ("make",))
        assert told.run.error is not None
        assert told.run.error.data == {"passed_over": ["build → deploy"]}


ON_ERROR = """
states:
  a: {type: initial, actions: [{id: t, tool: t}]}
  tidy: {actions: [{type: set_variable, name: why, value: "{{ error.message }}"}]}
  z: {type: final}
  y: {type: final}
transitions:
  - {from: a, to: y, on: error, condition: "{{ result.t.code == 7 }}"}
  - {from: a, to: tidy, on: error}
  - {from: a, to: z}
  - {from: tidy, to: error}
"""


def test_r3_on_error_takes_failures_and_nothing_else() -> None:
    assert play(ON_ERROR).run.state == "z"
    told = play(ON_ERROR, {"t": [BROKEN]})
    assert (told.path, told.run.context, told.error) == (("a", "tidy", "error"), {"why": "it broke"}, "tool_failure")
    told = play(ON_ERROR, {"t": [NO]})
    assert (told.path, told.run.context) == (("a", "tidy", "error"), {"why": "`t` answered `success: false`"})
    assert play(ON_ERROR, {"t": [{"success": False, "code": 7}]}).path == ("a", "y")
    assert not read_workflow(ON_ERROR).warnings


def test_r3_on_error_is_not_the_event_of_that_name() -> None:
    text = """
states:
  a: {type: initial}
  w: {type: wait, for: [error, ok], timeout: 5s}
  z: {type: final}
  late: {type: final}
transitions:
  - {from: a, to: w}
  - {from: w, to: late, on: error}
  - {from: w, to: z, on: ok}
  - {from: w, to: error, condition: "{{ result.w.event == 'error' }}"}
"""
    assert play(text, script=[later(6)]).run.state == "late"
    assert play(text, script=[event("ok")]).run.state == "z"
    assert play(text, script=[event("error")]).run.state == "error"
    assert ["takes failures, not the event" in str(one) for one in read_workflow(text).warnings] == [True]


def test_r4_a_condition_that_raises_counts_as_false_and_is_recorded() -> None:
    told = play(CHOICE % 0, {"look": [{"n": "text"}]})
    assert (told.status, told.error) == ("failed", "expression_error")
    assert any(one.kind == "condition" and one.value is None for one in told.taken)


def test_r4_a_whole_expression_keeps_its_type_and_a_missing_path_is_null() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: t, tool: t, params: {n: "{{ context.n }}", s: "n={{ context.n }}", x: "{{ context.x.y }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
    assert play(text, input={"n": 7}).inputs == ({"n": 7, "s": "n=7", "x": None},)


def test_r4_words_of_yaml_1_1_stay_text() -> None:
    text = "states: {no: {type: initial}, on: {type: wait, for: yes}, off: {type: final}}\n"
    text += "transitions: [{from: no, to: on}, {from: on, to: off, on: yes}]"
    assert play(text, script=[event("yes")]).path == ("no", "on", "off")


def test_r4_a_private_name_is_refused_at_load() -> None:
    with pytest.raises(DefinitionError, match="private"):
        read_workflow(
            'states: {a: {type: initial}}\ntransitions: [{from: a, to: error, condition: "{{ context._x }}"}]'
        )


SCOPES = """
variables: {step: 2}
states:
  a:
    type: initial
    variables: {count: 0}
    actions:
      - {type: set_variable, name: variables.total, value: "{{ (variables.total or 0) + variables.step }}"}
      - {type: set_variable, params: {name: last, value: "{{ state.count }}"}}
  z: {type: final}
transitions:
  - from: a
    to: a
    condition: "{{ state.count < 3 }}"
    on_transition:
      - {action: increment_variable, variable: state.count}
      - {action: set_variable, variable: deep.er, value: "{{ state.count }}"}
      - {action: log, message: "round {{ state.count }}"}
  - {from: a, to: z, on_transition: [{action: increment_variable, variable: rounds, by: "{{ state.count }}"}]}
output: {total: "{{ variables.total }}", gone: "{{ state.count }}"}
"""


def test_r5_state_variables_survive_self_transitions_and_are_dropped_on_leaving() -> None:
    told = play(SCOPES)
    assert told.run.context == {"last": 3, "deep": {"er": 3}, "rounds": 3}
    assert told.run.output == {"total": 8, "gone": None}
    assert told.logs == (("info", "round 1"), ("info", "round 2"), ("info", "round 3"))


def test_r6_a_tools_no_is_its_answer_and_an_exception_is_an_error() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, n: {type: final}, e: {type: final}, z: {type: final}}
transitions:
  - {from: a, to: e, condition: "{{ error.type == 'tool_failure' and result.t.error.message == 'it broke' }}"}
  - {from: a, to: n, condition: "{{ not result.t.success }}"}
  - {from: a, to: z, condition: "{{ result.t.success }}"}
"""
    assert [play(text, {"t": [one]}).run.state for one in (BROKEN, NO, {}, {"success": True})] == ["e", "n", "z", "z"]


@pytest.mark.parametrize("answer", [BROKEN, NO])
def test_r7_three_retries_are_four_executions(answer: object) -> None:
    told = play(FILES / "seed_1_basic.yaml", {"executor": [answer]}, [approve("main_execution")] * 4)
    assert told.calls == ("validator",) + ("executor",) * 4
    assert (told.status, told.run.state) == ("failed", "error_state")
    assert told.path == ("start", "validate") + ("execute",) * 4 + ("error_state",)


def test_r7_a_success_resets_attempt_and_a_detour_does_not() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: t, tool: t, params: {attempt: "{{ attempt }}"}}]}
  retry: {type: normal, actions: [{type: log, message: once more}]}
  z: {type: final}
transitions:
  - {from: a, to: z, condition: "{{ result.t.done }}"}
  - {from: a, to: a, condition: "{{ result.t.success }}"}
  - {from: a, to: retry, on: error}
  - {from: retry, to: a}
"""
    told = play(text, {"t": [NO, NO, {}, NO, {"done": True}]})
    assert [one["attempt"] for one in told.inputs] == [0, 1, 2, 0, 1]
    assert told.path == ("a", "retry", "a", "retry", "a", "a", "retry", "a", "z")


HANDLED = (FILES / "seed_1_and_4.yaml").read_text()


def test_r8_a_typed_handler_comes_before_transitions() -> None:
    told = play(HANDLED, {"validator": [EffectFailed("bad data", "validation_error")]}, by="eva")
    assert (told.status, told.run.state) == ("completed", "rejected")
    assert told.logs == (("notify", "validate: validation_error: bad data"),)


def test_r8_a_handler_without_a_type_comes_after_transitions() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, one: {type: final}, two: {type: final}, z: {type: final}}
transitions: [{from: a, to: z, condition: "{{ result.t.success }}"}, {from: a, to: one, condition: "{{ context.open }}"}]
error_handlers: [{action: log_error, fallback_state: two, message: "{{ error.message }}!"}]
"""
    assert play(text, {"t": [BROKEN]}, input={"open": True}).run.state == "one"
    told = play(text, {"t": [BROKEN]})
    assert (told.run.state, told.logs) == ("two", (("error", "it broke!"),))
    assert play(text, {"t": [NO]}).run.state == "two", "no_transition is an error too"


def test_r8_the_states_own_handler_comes_before_that_for_all() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, own: {type: final}, all: {type: final}, z: {type: final}}
transitions: [{from: a, to: z, condition: "{{ result.t.success }}"}]
error_handlers:
  - {on_state: "*", error_type: tool_failure, action: log_error, fallback_state: all}
  - {on_state: a, error_type: tool_failure.exit, action: log_error, fallback_state: own}
"""
    assert play(text, {"t": [EffectFailed("1", "tool_failure.exit")]}).run.state == "own"
    assert play(text, {"t": [BROKEN]}).run.state == "all"


def test_r8_a_transition_whose_condition_always_holds_is_taken_after_a_failure_too() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, z: {type: final}, net: {type: final}}
transitions: [{from: a, to: z%s}]
error_handlers: [{error_type: "*", action: log_error, fallback_state: net}]
"""
    for always in (', condition: "{{ true }}"', ", condition: true"):
        assert play(text % always, {"t": [BROKEN]}).run.state == "z"
        assert play(text % always, {"t": [NO]}).run.state == "z"
    for unsaid in ("", ", priority: 3"):
        assert play(text % unsaid, {"t": [BROKEN]}).run.state == "net"
        assert play(text % unsaid, {"t": [NO]}).run.state == "net"
        assert play(text % unsaid).run.state == "z"


def test_r8_what_nothing_takes_fails_the_run() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, z: {type: final}}
transitions: [{from: a, to: z, condition: "{{ result.t.success }}"}]
"""
    told = play(text, {"t": [BROKEN]})
    assert (told.status, told.error, told.run.state) == ("failed", "tool_failure", "a")


def test_r9_retry_with_backoff_tries_only_the_failed_action_again_and_then_falls_back() -> None:
    told = play(HANDLED, {"executor": [BROKEN]}, [approve("main_execution")])
    assert told.calls == ("validator",) + ("executor",) * 4
    assert told.path == ("start", "validate", "execute", "manual_intervention")
    assert len(set(told.keys[1:])) == 1, "one approval and one key for all attempts"
    assert 0 < told.run.at - told.run.started_at <= 7
    assert play(HANDLED, {"executor": [BROKEN, {}]}, [approve("main_execution")]).run.state == "complete"


def test_r9_a_killed_run_ends_in_the_fallback_without_running_it() -> None:
    told = play(HANDLED, {"validator": ["hang"]})
    assert (told.status, told.run.state) == ("failed", "error_state")
    assert told.error.startswith("timeout")


def test_r9_without_a_fallback_or_with_itself_the_run_fails() -> None:
    text = """
states: {{a: {{type: initial, actions: [{{id: t, tool: t}}]}}, z: {{type: final}}}}
transitions: [{{from: a, to: z}}]
error_handlers: [{{on_state: "{0}", error_type: tool_failure, action: log_error{1}}}]
"""
    for state, fallback in (("a", ""), ("*", ""), ("a", ", fallback_state: a"), ("*", ", fallback_state: a")):
        told = play(text.format(state, fallback), {"t": [BROKEN]})
        assert (told.status, told.run.state, told.error) == ("failed", "a", "tool_failure")
        assert told.logs == (("error", "a: tool_failure: it broke"),)


def test_r9_a_fallback_that_fails_in_the_same_way_does_not_go_round() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, b: {type: normal, actions: [{id: u, tool: t}]}, z: {type: final}}
transitions: [{from: a, to: z}, {from: b, to: z}]
error_handlers: [{error_type: tool_failure, action: log_error, fallback_state: b}]
"""
    told = play(text, {"t": [BROKEN]})
    assert (told.status, told.path) == ("failed", ("a", "b", "b"))


def test_r10_retry_is_not_enabled_by_errors_that_are_never_retried() -> None:
    told = play(FILES / "seed_1_basic.yaml", {}, [reject("main_execution", comment="no")])
    assert (told.status, told.run.state, told.calls) == ("failed", "error_state", ("validator",))
    assert told.error == "approval_rejected"


ASKING = """
states:
  a:
    type: initial
    actions:
      - id: pay
        tool: pay
        side_effect: true
        params: {to: "{{ context.to }}"}
        approval: {approvers: [ann, bob, eva], quorum: 2, different_from_initiator: true, expires: 2h, question: "Pay {{ context.to }}?"}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.pay.success }}"}]
"""


def test_r11_a_question_shows_the_resolved_call_and_takes_a_quorum() -> None:
    told = play(ASKING, script=[approve("pay", by="ann")], input={"to": "bob"}, by="eva")
    assert (told.status, told.calls) == ("waiting", ())
    (asked,) = told.run.waiting
    assert asked.question is not None
    assert (asked.question.text, asked.input) == ("Pay bob?", {"to": "bob"})
    told = play(ASKING, script=[approve("pay", by="ann"), approve("pay", by="bob")], input={"to": "bob"}, by="eva")
    assert (told.status, told.calls) == ("completed", ("pay",))


@pytest.mark.parametrize("by", ["eva", "stranger", ""])
def test_r11_the_wrong_approver_is_refused(by: str) -> None:
    with pytest.raises(Refused):
        play(ASKING, script=[approve("pay", by=by)], by="eva")


def test_r11_a_no_that_nothing_handles_rejects_the_run() -> None:
    told = play(ASKING, script=[reject("pay", by="ann")], by="eva")
    assert (told.status, told.error, told.calls) == ("rejected", "approval_rejected", ())


def test_r11_a_question_that_expires_is_a_timeout() -> None:
    told = play(ASKING, script=[later(7201)], by="eva")
    assert (told.status, told.error) == ("failed", "timeout.approval")


def test_r11_an_approval_says_what_follows() -> None:
    text = ASKING.replace("expires: 2h", "expires: 2h, on_expire: late, on_reject: no, quorum: 1").replace(
        "quorum: 2, ", ""
    )
    text = text.replace("  z: {type: final}", "  z: {type: final}\n  late: {type: final}\n  no: {type: final}")
    assert play(text, script=[later(7201)], by="x").run.state == "late"
    assert play(text, script=[reject("pay", by="ann")], by="x").run.state == "no"
    assert play(text, script=[approve("pay", by="ann")], by="x").run.state == "z"


def test_r11_edited_arguments_and_a_patch_of_the_context() -> None:
    text = ASKING.replace("quorum: 2, ", "")
    said = approve("pay", by="ann", args={"to": "zoe"}, patch={"note": "changed"})
    told = play(text, script=[said], input={"to": "bob"}, by="eva")
    assert (told.status, told.inputs, told.run.context["note"]) == ("completed", ({"to": "zoe"},), "changed")


def test_r11_a_question_alone_can_be_a_form() -> None:
    text = """
states:
  a: {type: initial, actions: [{id: ask_name, tool: ask, approval: {question: Who?, form: {name: string}}}]}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.ask_name.data.name == 'ann' }}"}]
"""
    assert play(text, script=[approve("ask_name", data={"name": "ann"})]).status == "completed"
    with pytest.raises(Refused, match="name"):
        play(text, script=[approve("ask_name", data={"name": 7})])


WAITING = """
states: {{a: {{type: initial}}, w: {{type: wait, {}}}, z: {{type: final}}, late: {{type: final}}}}
transitions: [{{from: a, to: w}}, {}]
error_handlers: [{{on_state: w, error_type: timeout, action: log_error, fallback_state: late}}]
"""


def test_r12_the_order_that_is_not_ours_does_not_pay() -> None:
    match = 'for: [{event: paid, match: "{{ event.data.order == context.order }}"}]'
    text = WAITING.format(match, '{from: w, to: z, condition: "{{ result.w.data.amount > 10 }}"}')
    paid = [event("paid", order=8, amount=99), event("paid", order=7, amount=11)]
    assert play(text, script=paid[:1], input={"order": 7}).status == "waiting"
    told = play(text, script=paid, input={"order": 7})
    assert (told.status, told.run.state) == ("completed", "z")


def test_r12_a_transition_with_on_does_not_widen_what_is_waited_for() -> None:
    match = 'for: [{event: paid, match: "{{ event.data.order == 7 }}"}, failed]'
    text = WAITING.format(match, "{from: w, to: z, on: paid}, {from: w, to: late, on: failed}")
    assert play(text, script=[event("paid", order=8)]).status == "waiting"
    assert play(text, script=[event("paid", order=8), event("paid", order=7)]).run.state == "z"
    assert play(text, script=[event("failed")]).run.state == "late"


def test_r12_a_transition_with_on_waits_and_keeps_what_came() -> None:
    way = '{from: w, to: z, on: paid, condition: "{{ event.data.ok }}", on_transition: [{action: set_variable, variable: n, value: "{{ result.w.data.n }}"}]}'
    text = WAITING.format("timeout: 1h", way)
    told = play(text, script=[event("paid", ok=False, n=1), event("paid", ok=True, n=2)])
    assert (told.run.state, told.run.context) == ("z", {"n": 2})
    assert play(text, script=[later(3601)]).run.state == "late"


def test_r12_an_early_signal_is_kept_and_a_duplicate_is_dropped() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t, side_effect: true}]}, w: {type: wait, for: go}, v: {type: wait, for: [go, stop]}, z: {type: final}}
transitions: [{from: a, to: w}, {from: w, to: v}, {from: v, to: z}]
"""
    told = play(text, script=[event("go", "1"), event("go", "1"), approve("t")])
    assert (told.run.state, told.status) == ("v", "waiting")
    assert play(text, script=[event("go", "1"), approve("t"), event("stop", "2")]).run.state == "z"


def test_r12_a_sleep_lasts_as_long_as_it_says() -> None:
    told = play(
        WAITING.format('duration: "{{ context.days * 86400 }}"', "{from: w, to: z}"),
        input={"days": 7},
        script=[later(7 * 86400 - 1)],
    )
    assert told.status == "waiting"
    told = play(WAITING.format("duration: 7d", "{from: w, to: z}"), script=[later(7 * 86400 + 1)])
    assert told.status == "completed"


def test_r12_an_event_can_end_a_sleep() -> None:
    text = WAITING.format("duration: 7d", "{from: w, to: z}, {from: w, to: late, on: hurry}")
    assert play(text, script=[event("hurry")]).run.state == "late"


SPREAD = """
states:
  a: {{type: initial}}
  p:
    type: parallel
    {}
    branches:
      left: [{{id: l, tool: left}}, {{type: set_variable, name: {}, value: "{{{{ result.l.n }}}}"}}]
      right: [{{id: r, tool: right}}, {{type: set_variable, name: y, value: "{{{{ result.r.n }}}}"}}]
  z: {{type: final}}
transitions: [{{from: a, to: p}}, {{from: p, to: z, condition: "{{{{ result.p.success }}}}"}}]
"""


def test_r13_all_branches_join_and_their_values_meet() -> None:
    told = play(SPREAD.format("join: all", "x"), {"left": [{"n": 1}], "right": [{"n": 2}]})
    assert (told.status, told.run.context) == ("completed", {"x": 1, "y": 2})
    assert told.run.results["l"]["n"] == 1


def test_r13_two_values_for_one_name_are_an_error() -> None:
    told = play(SPREAD.format("join: all", "y"), {"left": [{"n": 1}], "right": [{"n": 2}]})
    assert (told.status, told.error) == ("failed", "validation_error")
    assert play(SPREAD.format("join: all", "y"), {"left": [{"n": 1}], "right": [{"n": 1}]}).status == "completed"


def test_r13_any_takes_the_first_success_and_cancels_the_rest() -> None:
    told = play(SPREAD.format("join: any", "x"), {"left": ["hang"], "right": [{"n": 2}]})
    assert (told.status, told.run.context) == ("completed", {"y": 2})
    told = play(SPREAD.format("join: any", "x"), {"left": [BROKEN], "right": [{"n": 2}]})
    assert told.status == "completed"


def test_r13_the_first_failed_branch_in_the_order_of_the_file_is_the_error() -> None:
    told = play(SPREAD.format("join: all", "x"), {"left": [BROKEN], "right": [EffectFailed("later", "timeout")]})
    assert (told.status, told.error) == ("failed", "branch_failed")
    assert told.run.error is not None
    assert told.run.error.data["branch"] == "left"


def test_r13_a_branch_can_have_states_of_its_own() -> None:
    told = play(FILES / "parallel.yaml", {"search": [{"hits": 3}], "read": [NO, {"pages": 2}]}, input={"topic": "x"})
    assert (told.status, told.run.state) == ("completed", "done")
    assert told.calls.count("read") == 2
    assert told.run.context["pages"] == 2


def test_r13_a_parallel_action_is_the_same_inside_a_state() -> None:
    text = """
states:
  a:
    type: initial
    actions:
      - {id: both, type: parallel, actions: [{id: l, tool: left, side_effect: true}, {id: r, tool: right, side_effect: true}]}
      - {id: then, tool: after, params: {l: "{{ result.l.n }}"}}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.then.success }}"}]
"""
    assert play(text).pending == ("l", "r")
    told = play(text, {"left": [{"n": 5}]}, [approve("r"), approve("l")])
    assert (told.status, told.inputs[-1]) == ("completed", {"l": 5})


LOOP = """
states:
  a:
    type: initial
    actions:
      - id: every
        {}
        concurrency: 2
        tolerate: 1
        actions:
          - {{id: send, tool: send, params: {{to: "{{{{ item }}}}", no: "{{{{ branch.index }}}}"}}{}}}
  z: {{type: final}}
transitions: [{{from: a, to: z, condition: "{{{{ result.every.success }}}}"}}]
output: "{{{{ result.every.failed }}}}"
"""


@pytest.mark.parametrize(
    "items", ['for_each: "{{ context.names }}"', 'type: for_each\n        items: [ann, "o\'bob", "3"]']
)
def test_for_each_goes_through_a_list_and_tolerates_some_failures(items: str) -> None:
    names = ["ann", "o'bob", "3"]
    told = play(LOOP.format(items, ""), {"send": [{}, BROKEN, {}]}, input={"names": names})
    assert told.status == "completed"
    assert [one["to"] for one in told.inputs] == names
    assert told.run.output == [{"index": 1, "error": "tool_failure"}]
    assert play(LOOP.format(items, ""), {"send": [BROKEN]}, input={"names": names}).error == "branch_failed"


def test_for_each_can_ask_for_every_item() -> None:
    text = LOOP.format('for_each: "{{ context.names }}"', ", side_effect: true")
    assert play(text, input={"names": ["x", "y", "z"]}).pending == ("send", "send")
    told = play(text, script=[approve("send")] * 3, input={"names": ["x", "y", "z"]})
    assert (told.status, len(told.calls)) == ("completed", 3)


def test_r14_a_loop_ends_at_the_limit_and_may_be_caught_once() -> None:
    text = """
states: {a: {type: initial, actions: [{id: t, tool: t}]}, z: {type: final}}
transitions: [{from: a, to: a, condition: "{{ true }}"}]
limits: {max_transitions: 20}
"""
    told = play(text)
    assert (told.status, told.error, len(told.calls)) == ("failed", "loop_limit", 21)
    told = play(text + "error_handlers: [{error_type: loop_limit, action: log_error, fallback_state: z}]\n")
    assert (told.status, told.run.state) == ("completed", "z")
    assert play(text.replace("limits: {max_transitions: 20}", "")).run.transitions == 1001


def test_r14_time_is_limited_over_the_whole_run() -> None:
    text = WAITING.format("for: paid", "{from: w, to: z}") + "limits: {max_duration: 1d}\n"
    told = play(text, script=[later(86401)])
    assert (told.status, told.run.state) == ("completed", "late"), "timeout.workflow is a timeout"


def test_a_child_workflow_is_a_run_of_its_own() -> None:
    told = play(FILES / "parent.yaml", {"double": [{"n": 42}]}, input={"n": 21})
    assert (told.status, told.run.output) == ("completed", {"answer": 42})
    assert play(FILES / "parent.yaml", {"double": [BROKEN]}, input={"n": 1}).run.state == "failed"


def test_a_timeout_of_a_state_can_be_a_variable() -> None:
    text = """
variables: {patience: 90s}
states: {a: {type: initial, timeout: "{{ variables.patience }}", actions: [{id: t, tool: t, side_effect: true}]}, z: {type: final}}
transitions: [{from: a, to: z, condition: "{{ error.type == 'timeout.state' }}"}]
"""
    assert play(text, script=[later(89)]).status == "waiting"
    assert play(text, script=[later(91)]).status == "completed"


def test_r17_a_file_has_one_identity_and_the_machine_comes_back_from_its_json() -> None:
    for file in sorted(FILES.glob("*.yaml")):
        if file.name == "seed_4_handlers.yaml":
            continue
        one, two = (load_workflow(file, fragment=True).machine for _ in range(2))
        assert one.digest == two.digest == type(one).from_json(one.to_json()).digest


def a_world() -> World:
    world = World()
    answers: dict[str, list[Any]] = {"executor": [BROKEN, {}], "validator": [{}], "send": [{}]}
    for name, given in answers.items():
        world.effect(name, kind="idempotent", answers=given)
    return world


@pytest.mark.parametrize("name", ["handled", "loop"])
def test_r18_a_workflow_comes_to_the_same_end_wherever_the_process_dies(name: str) -> None:
    text = HANDLED if name == "handled" else LOOP.format('for_each: "{{ context.names }}"', ", side_effect: true")

    def check(_world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED

    story = Story(read_workflow(text).machine, {"input": 1, "names": ["x", "y", "z"]})
    assert crash_anywhere(story, a_world, check).points > 10


def test_r15_the_same_file_input_and_answers_give_the_same_story() -> None:
    stories = [play(HANDLED, {"executor": [BROKEN, {}]}, [approve("main_execution")]) for _ in range(10)]
    assert len({repr(story.taken) for story in stories}) == 1


def test_a_kept_question_says_who_started_and_is_separate() -> None:
    told = play(ASKING, by="eva")
    assert told.run.status is Status.WAITING
    assert told.run.by == "eva"
