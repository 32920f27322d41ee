"""Stories of questions: who may answer, what an answer is bound to, and what follows from it."""

from typing import Any

import msgspec
import pytest

from detent import Action, Ask, Contract, Failure, Limits, Machine, Perform, Question, Retry, Status, Wake, table
from detent.core.events import ContractMoved
from detent.core.value import digest
from detent.errors import NotWaiting, Refused
from tests.core.story import Story

ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
FORM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}},
    "additionalProperties": False,
}


def paying(rows: str = "a - done", *, ask: Question | None = None, **fields: Any) -> Machine:
    question = ask or Question("Pay {{ context.amount }} to {{ context.to }}?")
    pay = Action("pay", "pay", input={"amount": "{{ context.amount }}"}, ask=question, **fields)
    return Machine("m", "a", table(rows), {"a": (pay,)}, ENDS)


def asked(rows: str = "a - done", **fields: Any) -> Story:
    return Story(paying(rows, **fields), {"amount": 5, "to": "bob"}, by="ann")


def asked_by(question: Question) -> Story:
    return asked(ask=question)


def moves(story: Story) -> list[str]:
    return [t.event for t in story.taken if t.kind == "contract"]


def test_who_may_answer_can_be_computed_and_what_cannot_lets_nobody() -> None:
    story = asked_by(Question("Pay?", terms="{{ {'approvers': [context.to], 'separate': true} }}"))
    question = story.open("pay").question
    assert question is not None
    assert (question.approvers, question.separate, question.terms) == (("bob",), True, "")
    for terms in ("{{ context.to }}", "{{ {'approvers': context.to} }}", "{{ {'approvers': [7]} }}", "{{ 1 / 0 }}"):
        failed = asked_by(Question("Pay?", terms=terms))
        assert (failed.status, failed.run.error and failed.run.error.type) == (Status.FAILED, "expression_error")


def test_a_question_is_asked_before_the_deed_and_shows_the_exact_call() -> None:
    story = asked()
    contract = story.open("pay")
    assert moves(story) == ["start", "suspend"]
    assert story.commands == (Ask("a/pay/1"),)
    assert (story.status, contract.status, contract.effect_state) == (Status.WAITING, Status.WAITING, "none")
    assert contract.question == Question("Pay 5 to bob?")
    assert (contract.input, contract.call_hash) == ({"amount": 5}, digest(["pay", {"amount": 5}]))
    assert story.run.waiting == (contract,)


def test_a_question_without_text_has_one_anyway() -> None:
    contract = asked(ask=Question()).open("pay")
    assert contract.question is not None
    assert contract.question.text == "May `pay` do this?"


def test_a_yes_lets_the_deed_be_done_and_is_kept_with_who_and_why() -> None:
    story = asked().answer("pay", approved=True, by="bob", comment="fine", channel="cli", patch={"ok_by": "bob"})
    assert (moves(story), story.commands) == (["resume"], (Perform("a/pay/1"),))
    assert (story.open("pay").effect_state, story.open("pay").question) == ("possible", None)
    assert story.run.answers["pay"]["comment"] == "fine"
    assert story.run.context["ok_by"] == "bob"
    assert story.open("pay").answers[0].channel == "cli"
    assert [t.actor for t in story.taken if t.kind == "contract"] == ["bob"]
    assert story.succeed("pay").status is Status.COMPLETED


def test_a_no_is_a_rejection_and_nothing_is_done() -> None:
    story = asked().answer("pay", approved=False, by="bob", comment="too much")
    assert moves(story) == ["resume", "reject"]
    assert (story.status, story.performed) == (Status.REJECTED, [])
    assert story.run.error == Failure("approval_rejected", "bob said no: too much")


def test_a_no_can_lead_elsewhere() -> None:
    story = asked("a - done\na !approval_rejected b\nb X b").answer("pay", approved=False)
    assert (story.state, story.status) == ("b", Status.WAITING)


def test_a_no_from_the_journal_gives_its_own_reason() -> None:
    story = asked(ask=Question(approvers=("cyd",)))
    error = Failure("already_done", "by another run")
    story.move("pay", "resume", result={"approved": False, "by": "journal", "result": {"id": 7}}, error=error)
    assert (story.status, story.run.error) == (Status.REJECTED, error)
    assert story.run.results["pay"]["result"] == {"id": 7}


def test_an_error_beside_a_yes_opens_no_back_door() -> None:
    story = asked(ask=Question(approvers=("cyd",)))
    with pytest.raises(Refused, match="`bob` may not answer; approvers: cyd"):
        story.move("pay", "resume", result={"approved": True, "by": "bob"}, error=Failure("already_done"))


def test_whoever_answers_first_wins() -> None:
    story = asked().answer("pay", approved=True)
    with pytest.raises(NotWaiting, match="it waits for no answer"):
        story.answer("pay", approved=False)


@pytest.mark.parametrize(
    ("question", "said", "problem"),
    [
        (Question(), {}, "say `approved: true` or `approved: false`"),
        (Question(), {"approved": "yes"}, "the answer does not fit"),
        (Question(), {"approved": True, "call_hash": "0" * 64}, "the answer was given to another call"),
        (Question(), {"approved": True, "shown": "0" * 64}, "the answer was given to another question"),
        (Question(approvers=("cyd", "dan")), {"approved": True, "by": "bob"}, "may not answer; approvers: cyd, dan"),
        (Question(approvers=("cyd",)), {"approved": True}, "`nobody` may not answer"),
        (Question(approvers=("cyd",)), {"approved": False, "by": "bob"}, "`bob` may not answer"),
        (Question(separate=True), {"approved": True, "by": "ann"}, "`ann` started this run and may not also answer it"),
        (Question(separate=True), {"approved": True}, "say who you are"),
        (Question(quorum=2), {"approved": True}, "say who you are"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    question: Question, said: dict[str, Any], problem: str
) -> None:
    story = asked_by(question)
    before = msgspec.json.encode(story.run)
    with pytest.raises(Refused, match=problem):
        story.answer("pay", **said)
    assert msgspec.json.encode(story.run) == before


def test_an_answer_may_say_which_call_it_is_for() -> None:
    story = asked()
    assert story.answer("pay", approved=True, call_hash=story.open("pay").call_hash).performed == ["a/pay/1"]


def test_a_quorum_needs_different_people_and_their_values_are_all_kept() -> None:
    story = asked(ask=Question(quorum=2)).answer("pay", approved=True, by="bob", patch={"x": 1})
    assert (story.status, story.commands, story.performed) == (Status.WAITING, (), [])
    assert [a.by for a in story.open("pay").answers] == ["bob"]
    with pytest.raises(Refused, match="`bob` has already approved; 2 different people are needed"):
        story.answer("pay", approved=True, by="bob")
    story.answer("pay", approved=True, by="cyd", patch={"y": 2})
    assert story.performed == ["a/pay/1"]
    assert (story.run.context["x"], story.run.context["y"]) == (1, 2)


def test_one_no_ends_a_quorum() -> None:
    story = asked(ask=Question(quorum=3)).answer("pay", approved=True, by="bob").answer("pay", approved=False, by="cyd")
    assert story.status is Status.REJECTED


def test_edited_arguments_make_a_new_contract_and_reject_the_old_one() -> None:
    story = asked().answer("pay", approved=True, by="bob", args={"amount": 3})
    assert moves(story) == ["resume", "reject", "start"]
    contract = story.open("pay")
    assert (contract.id, contract.supersedes, contract.input) == ("a/pay/2", "a/pay/1", {"amount": 3})
    assert contract.key == f"pay:{digest({'amount': 3})}"
    assert contract.approved == contract.call_hash == digest(["pay", {"amount": 3}])
    assert story.commands == (Perform("a/pay/2"),)
    assert story.succeed("pay").status is Status.COMPLETED


def test_edited_arguments_need_the_others_consent_again() -> None:
    story = asked(ask=Question(quorum=2)).answer("pay", approved=True, by="bob")
    story.answer("pay", approved=True, by="cyd", args={"amount": 3})
    assert (story.performed, story.asked) == ([], ["a/pay/2"])
    assert [a.by for a in story.open("pay").answers] == ["cyd"]
    with pytest.raises(Refused, match="`cyd` has already approved"):
        story.answer("pay", approved=True, by="cyd")
    assert story.answer("pay", approved=True, by="bob").performed == ["a/pay/2"]


def test_arguments_that_are_not_edited_change_nothing() -> None:
    story = asked(ask=Question(quorum=2)).answer("pay", approved=True, by="bob", args={"amount": 5})
    assert (story.opened, story.performed) == (["a/pay/1"], [])


def test_an_authors_key_stays_when_arguments_are_edited() -> None:
    story = asked(key="order-{{ context.to }}").answer("pay", approved=True, args={"amount": 3})
    assert story.open("pay").key == "pay:order-bob"


def test_a_retry_keeps_the_consent_while_the_call_is_the_same() -> None:
    story = asked(retry=Retry(2, delay_s=0.0)).answer("pay", approved=True).fail("pay")
    assert story.commands == (Perform("a/pay/2"),)


def test_a_retry_of_edited_arguments_keeps_the_edit_and_the_consent() -> None:
    story = asked(retry=Retry(2, delay_s=0.0)).answer("pay", approved=True, args={"amount": 3}).fail("pay").fail("pay")
    contract = story.open("pay")
    assert (contract.id, contract.input, contract.key) == ("a/pay/4", {"amount": 3}, f"pay:{digest({'amount': 3})}")
    assert story.commands == (Perform("a/pay/4"),)


def test_a_retry_with_another_call_asks_again() -> None:
    changing = {"n": "{{ result.pay.error.type }}"}
    pay = Action("pay", "pay", input=changing, ask=Question("?"), retry=Retry(1, delay_s=0.0))
    story = Story(Machine("m", "a", table("a - done"), {"a": (pay,)}, ENDS)).answer("pay", approved=True)
    key = story.open("pay").key
    story.fail("pay")
    assert story.asked == ["a/pay/2"]
    assert story.open("pay").key != key


def test_a_question_nobody_answers_in_time_expires() -> None:
    story = asked("a - done\na !timeout.approval b\nb X b", ask=Question(expires_s=60))
    assert story.commands == (Ask("a/pay/1"), Wake(160.0))
    story.wake()
    assert (moves(story), story.state) == (["timeout"], "b")


def test_an_answer_in_time_takes_the_timer_back() -> None:
    story = asked(ask=Question(expires_s=60)).answer("pay", approved=True)
    assert (story.run.wake_at, story.commands) == (0.0, (Perform("a/pay/1"), Wake(0.0)))


def test_a_form_is_checked_and_all_its_problems_are_told_at_once() -> None:
    fill = Action("fill", "ask", ask=Question("Who?", "form", schema=FORM))
    story = Story(Machine("m", "a", table("a - done"), {"a": (fill,)}, ENDS))
    assert story.asked == ["a/fill/1"]
    with pytest.raises(Refused, match=r"data.name must be at least 2 characters; data.age must be integer, not string"):
        story.answer("fill", data={"name": "x", "age": "old"})
    story.answer("fill", data={"name": "bob", "age": 7}, by="bob")
    assert (story.status, story.performed) == (Status.COMPLETED, [])
    assert story.run.results["fill"]["data"] == {"name": "bob", "age": 7}


def test_a_form_can_be_turned_down() -> None:
    fill = Action("fill", "ask", ask=Question("Who?", "form", schema=FORM))
    story = Story(Machine("m", "a", table("a - done"), {"a": (fill,)}, ENDS)).answer("fill", approved=False)
    assert story.status is Status.REJECTED


def test_a_form_before_a_deed_lets_it_be_done_and_the_effect_can_read_it() -> None:
    story = asked(ask=Question("Who?", "form", schema=FORM)).answer("pay", data={"name": "bob"})
    assert story.commands == (Perform("a/pay/1"),)
    assert story.open("pay").answers[0].data == {"name": "bob"}


def test_a_question_alone_is_answered_and_never_performed() -> None:
    ask = Action("sure", "ask", input={"what": 1}, ask=Question("Sure?"))
    machine = Machine("m", "a", table("a - done if approval.sure.by == 'bob'\na - failed"), {"a": (ask,)}, ENDS)
    story = Story(machine).answer("sure", approved=True, by="bob", comment="ok", args={"what": 2})
    assert (story.state, story.performed) == ("done", [])
    assert story.run.results["sure"] == {"approved": True, "by": "bob", "comment": "ok", "data": None, "success": True}


def test_a_held_run_takes_a_no_but_no_yes_that_would_begin_something() -> None:
    story = asked("a - done\na !* b\nb X b").signal("@hold")
    with pytest.raises(Refused, match="the run is held and begins nothing new; release it first"):
        story.answer("pay", approved=True)
    assert story.answer("pay", approved=False).state == "b"


# what an effect asks while it is at work


def test_an_effect_may_ask_on_its_way_and_is_performed_again_with_the_answer() -> None:
    story = Story(Machine("m", "a", table("a - done"), {"a": (Action("look", "look"),)}, ENDS))
    story.move("look", "suspend", question=Question("Which one?", "form"), deed="none", usage={"tokens": 3.0})
    assert (story.asked, story.status, story.run.usage) == (["a/look/1"], Status.WAITING, {"tokens": 3.0})
    assert story.open("look").call_hash
    story.answer("look", data=2)
    assert story.commands == (Perform("a/look/1"),)
    assert story.open("look").answers[-1].data == 2


def test_a_callback_is_waited_for_without_asking_anybody() -> None:
    story = Story(Machine("m", "a", table("a DONE done"), {"a": (Action("sub", "child"),)}, ENDS))
    story.move("sub", "suspend", question=Question("waits for run r2", "callback", expires_s=60), deed="none")
    assert (story.asked, story.status, story.run.waiting) == ([], Status.WAITING, ())
    story.move("sub", "resume", result={"x": 1}, patch={"y": 2}, raises="DONE")
    assert (story.status, story.run.context, story.run.results["sub"]["x"]) == (Status.COMPLETED, {"y": 2}, 1)


def test_a_callback_may_bring_a_failure() -> None:
    story = Story(Machine("m", "a", table("a - done"), {"a": (Action("sub", "child"),)}, ENDS))
    story.move("sub", "suspend", question=Question(reason="callback"))
    story.move("sub", "resume", error=Failure("tool_failure", "the child failed"))
    assert (story.status, story.error, moves(story)) == (Status.FAILED, "tool_failure", ["resume", "fail"])


def test_leaving_a_state_stops_the_child_it_waits_for() -> None:
    machine = Machine("m", "a", table("a - done\na STOP b\nb X b"), {"a": (Action("sub", "child"),)}, ENDS)
    story = Story(machine).move("sub", "suspend", question=Question(reason="callback"), deed="none").signal("STOP")
    assert (story.aborted, story.opened) == (["a/sub/1"], [])


def test_a_callback_that_never_comes_is_a_timeout_unless_something_irreversible_may_have_happened() -> None:
    waits = {"question": Question(reason="callback", expires_s=60)}
    look = Story(Machine("m", "a", table("a - done"), {"a": (Action("look", "look"),)}, ENDS))
    assert look.move("look", "suspend", **waits).wake().error == "timeout.action"
    pay = Story(Machine("m", "a", table("a - done"), {"a": (Action("pay", "pay"),)}, ENDS))
    pay.move("pay", "suspend", **waits).wake()
    assert (pay.status, pay.asked, moves(pay)) == (Status.WAITING, ["a/pay/1"], ["resume", "suspend"])
    assert reason_of(pay.open("pay")) == "outcome_unknown"


def at_work(effect: str, **more: Any) -> Story:
    """A call that has left and asks something on its open line."""
    story = Story(Machine("m", "a", table("a - done\na STOP b\nb X b"), {"a": (Action("call", effect),)}, ENDS))
    question = Question("Who?", "form", data={"line": 7}, hears_no=True, **more)
    return story.move("call", "suspend", question=question, deed="possible")


def test_a_call_that_asks_on_its_open_line_is_told_of_a_no() -> None:
    story = at_work("pay").answer("call", approved=False, by="kim")
    assert story.commands == (Perform("a/call/1"),)
    contract = story.open("call")
    assert (contract.answers[-1].approved, contract.asked, contract.effect_state) == (False, {"line": 7}, "possible")
    story.move("call", "reject", error=Failure("approval_rejected", "kim said no"))
    assert (story.status, story.error) == (Status.REJECTED, "approval_rejected")


@pytest.mark.parametrize("effect", ["look", "pay"])
def test_a_call_that_asks_on_its_open_line_is_told_when_nobody_will_answer(effect: str) -> None:
    for story in (at_work(effect, expires_s=60).wake(), at_work(effect).signal("STOP")):
        assert story.aborted == ["a/call/1"]
        doubts = [reason_of(contract) for contract in story.run.contracts]
        assert doubts == (["outcome_unknown"] if effect == "pay" else [])


def reason_of(contract: Contract) -> str:
    assert contract.question is not None
    return contract.question.reason


# what nobody knows


def doubtful(rows: str = "a - done\na !tool_failure.unknown_outcome b\nb X b") -> Story:
    pay = Action("pay", "pay", retry=Retry(5))
    return Story(Machine("m", "a", table(rows), {"a": (pay,)}, ENDS)).doubt("pay")


def test_a_deed_whose_outcome_nobody_knows_is_a_question() -> None:
    story = doubtful()
    assert (story.asked, story.open("pay").effect_state, story.status) == (["a/pay/1"], "possible", Status.WAITING)
    with pytest.raises(Refused, match="say `outcome`: happened"):
        story.answer("pay", approved=True)


def test_it_happened_goes_on_with_the_result() -> None:
    story = doubtful().answer("pay", outcome="happened", result={"id": 7}, by="bob", patch={"seen_by": "bob"})
    assert (moves(story), story.status) == (["resume", "succeed"], Status.COMPLETED)
    assert story.run.results["pay"] == {"id": 7, "success": True}
    assert story.run.context == {"seen_by": "bob"}
    assert story.run.answers["pay"]["outcome"] == "happened"


def test_it_did_not_happen_does_it_now_in_the_same_contract() -> None:
    story = doubtful().answer("pay", outcome="not_happened", by="bob")
    assert (moves(story), story.commands) == (["resume"], (Perform("a/pay/1"),))


def test_giving_up_is_a_failure_that_is_never_tried_again() -> None:
    story = doubtful().answer("pay", outcome="give_up", by="bob")
    assert (moves(story), story.state, story.opened) == (["cancel"], "b", [])
    assert story.error == "tool_failure.unknown_outcome"


def test_a_doubt_does_not_expire() -> None:
    story = doubtful().answer("pay", outcome="not_happened")
    story.move("pay", "suspend", question=Question("Did it?", "outcome_unknown", expires_s=5), deed="possible")
    assert story.run.wake_at == 0.0


def test_a_doubt_cancelled_from_outside_is_not_tried_again() -> None:
    pay = Action("pay", "pay", retry=Retry(5))
    story = Story(Machine("m", "a", table("a - done"), {"a": (pay,)}, ENDS))
    story.move("pay", "cancel", error=Failure("timeout.action"))
    assert (story.opened, story.run.ended) == ([], Status.FAILED)


@pytest.mark.parametrize("outcome", ["happened", "not_happened", "give_up"])
def test_a_doubt_left_behind_is_settled_without_driving_anything(outcome: str) -> None:
    story = doubtful("a - done\na STOP b\nb END done").signal("STOP")
    assert (story.state, story.opened, story.open("pay").is_adrift) == ("b", ["a/pay/1"], True)
    story.signal("END")
    assert (story.run.ending, story.status) == (Status.COMPLETED, Status.WAITING)
    story.answer("pay", outcome=outcome, patch={"x": 1})
    assert (story.status, story.performed, story.run.context) == (Status.COMPLETED, ["a/pay/1"], {})


def test_a_question_left_behind_by_a_deed_that_may_have_begun_can_only_be_turned_down() -> None:
    machine = Machine("m", "a", table("a - done\na STOP b\nb X b"), {"a": (Action("pay", "pay"),)}, ENDS)
    story = Story(machine).move("pay", "suspend", question=Question("Go on?")).signal("STOP")
    with pytest.raises(Refused, match="only `approved: false` is left to say"):
        story.answer("pay", approved=True)
    assert story.answer("pay", approved=False).opened == []


def test_a_run_over_its_budget_still_asks_nothing_more() -> None:
    machine = msgspec.structs.replace(paying(), limits=Limits(max_tokens=1))
    story = Story(machine, {"amount": 1}).answer("pay", approved=True).succeed("pay", usage={"tokens": 5.0})
    assert story.error == "budget_exceeded"


# what people said stays said


def crash(story: Story, what: str) -> Story:
    """What a host does with a call it knows not to have been made, or that can be made again."""
    story.move(what, "suspend", question=Question("interrupted", "outcome_unknown"), deed="none", actor="recovery")
    return story.answer(what, outcome="not_happened", by="recovery")


def test_a_crash_does_not_overwrite_what_a_person_said() -> None:
    rows = "a - done if approval.pay.by == 'bob'\na - failed"
    story = asked(rows, ask=Question("Who?", "form")).answer("pay", data={"name": "bob"}, by="bob")
    crash(story, "pay")
    assert story.commands == (Perform("a/pay/1"),)
    assert [a.data for a in story.open("pay").answers] == [{"name": "bob"}]
    assert story.succeed("pay").state == "done"


def test_a_retry_has_the_answers_of_the_attempt_before() -> None:
    story = asked(ask=Question("Who?", "form"), retry=Retry(1, delay_s=0.0)).answer("pay", data=7).fail("pay")
    assert story.commands == (Perform("a/pay/2"),)
    assert [a.data for a in story.open("pay").answers] == [7]


def test_an_effect_that_asks_several_times_has_all_the_answers_and_each_question_its_own_quorum() -> None:
    story = Story(Machine("m", "a", table("a - done"), {"a": (Action("look", "look"),)}, ENDS))
    story.move("look", "suspend", question=Question("First?", "form"), deed="none").answer("look", data=1, by="bob")
    story.move("look", "suspend", question=Question("Second?", quorum=2), deed="none")
    story.answer("look", approved=True, by="bob")
    assert story.status is Status.WAITING
    story.answer("look", approved=True, by="ann")
    assert [(a.by, a.data) for a in story.open("look").answers] == [("bob", 1), ("bob", None), ("ann", None)]
    assert story.performed == ["a/look/1"] * 3


def test_a_question_an_irreversible_deed_asks_on_its_way_becomes_a_doubt_when_it_expires() -> None:
    story = Story(Machine("m", "a", table("a - done"), {"a": (Action("pay", "pay"),)}, ENDS))
    story.move("pay", "suspend", question=Question("Go on?", expires_s=5)).wake()
    assert (reason_of(story.open("pay")), story.status) == ("outcome_unknown", Status.WAITING)


@pytest.mark.parametrize(
    "asks", [Question("How many?", "form", {"type": "object"}), Question("Sure?", require_signature=True)]
)
def test_a_rule_answers_only_where_a_plain_yes_is_wanted(asks: Question) -> None:
    story = asked_by(asks)
    said = {"approved": True, "data": {"policy": {"rule": "r"}}}
    with pytest.raises(Refused, match="no rule can answer"):
        story.tell(ContractMoved("a/pay/1", "resume", result=said, actor="policy", at=story.at))
    assert story.run.waiting
