"""What is signed: every part of it matters, and nothing but its one form is read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from detent.core import Action, Contract, Machine, Question, Run, Status, advance, table
from detent.core.answer import answer_of
from detent.core.events import RULES, ContractMoved, Started
from detent.core.identity import Identity
from detent.core.policy import stricter
from detent.core.signed_answer import (
    SignedAnswer,
    expect_signed,
    find_difference,
    question_hash,
    read_signed,
    sign_command,
    sign_text,
    signed_part,
)
from detent.errors import Refused

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SAID = st.builds(
    SignedAnswer,
    answer=st.dictionaries(st.text(max_size=5), PLAIN, max_size=3),
    by=st.text(),
    call_hash=st.text(),
    contract=st.text(),
    epoch=st.integers(1, 99),
    format=st.just("detent-answer-1"),
    journal=st.text(),
    question=st.text(),
    run=st.text(),
    signer=st.text(),
    time=st.integers(0, 2**40),
)
ASKED = Contract(
    "s/a/1", "a", "do", Status.WAITING, input={"n": 1}, call_hash="c", question=Question("May I?"), moved_at=5.0
)


@given(said=SAID, other=SAID, field=st.sampled_from(sorted(set(SignedAnswer.__struct_fields__) - {"format"})))
def test_a_change_of_any_part_is_another_text_and_is_told(said: SignedAnswer, other: SignedAnswer, field: str) -> None:
    changed = replace(said, **{field: getattr(other, field)})
    is_same = getattr(said, field) == getattr(other, field)
    assert (find_difference(changed, said) == "") == is_same
    assert is_same or sign_text(changed) != sign_text(said)


@given(said=SAID)
def test_a_signed_text_is_read_back_and_only_in_its_one_form(said: SignedAnswer) -> None:
    text = sign_text(said)
    assert sign_text(read_signed(text)) == text
    for other in (f" {text}", f"{text}\n", text.replace(":", ": ", 1), text[:-1] + ',"time":1}', text[:-1], "", "[]"):
        with pytest.raises(Refused):
            read_signed(other)


def test_the_whole_answer_is_signed_without_who_says_it_and_how_it_came() -> None:
    said: dict[str, Any] = {
        "approved": True, "comment": "c", "args": {"n": 2}, "patch": {"x": 1}, "data": {"d": 1}, "outcome": "use",
        "result": 7,
    }  # fmt: skip
    about = {"by": "ann", "known_by": "token", "spoken_by": "kim", "channel": "cli", "call_hash": "c"}
    assert signed_part(answer_of({**said, **about})) == said


def test_another_question_of_the_same_contract_is_another_one() -> None:
    asked = ASKED.question or Question()
    assert question_hash(replace(ASKED, question=replace(asked, approvers=("ann",), expires_s=5.0))) == question_hash(
        ASKED
    )
    for other in (
        replace(ASKED, moved_at=6.0), replace(ASKED, answered=1), replace(ASKED, attempt=2), replace(ASKED, id="s/a/2"),
        replace(ASKED, question=replace(asked, text="Really?")),
        replace(ASKED, question=replace(asked, earlier={"run_id": "r"})),
        replace(ASKED, question=replace(asked, reason="outcome_unknown")),
    ):  # fmt: skip
        assert question_hash(other) != question_hash(ASKED)


def test_who_speaks_for_another_signs_and_both_are_named() -> None:
    said = expect_signed("j", 1, "r", ASKED, answer_of({"approved": True}), Identity("kim", "token", "ann"), 9)
    assert (said.by, said.signer) == ("kim", "ann")


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ({"approved": True}, "detent approve r s/a/1 --sign"),
        ({"approved": False}, "detent reject r s/a/1 --sign"),
        ({"data": {}}, "detent answer r s/a/1 --data JSON --sign"),
        ({"outcome": "not_happened"}, "detent answer r s/a/1 --outcome not-happened --sign"),
    ],
)
def test_the_command_that_signs_is_told(said: dict[str, Any], command: str) -> None:
    assert sign_command("r", "s/a/1", answer_of(said)) == command


def test_either_side_can_want_a_signature() -> None:
    plain, signed = Question("?"), Question("?", require_signature=True)
    assert stricter(plain, signed).require_signature
    assert stricter(signed, plain).require_signature
    assert not stricter(plain, plain).require_signature


@given(
    said=st.fixed_dictionaries(
        {},
        optional={
            "approved": st.booleans(), "by": st.text(max_size=5), "known_by": st.sampled_from(("", "ssh", "token")),
            "args": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), "signature": st.none(),
            "outcome": st.sampled_from(("", "use", "happened", "not_happened", "give_up")), "data": st.integers(),
        },
    ),
    actor=st.sampled_from(("human", "policy", "agent", "host")),
)  # fmt: skip
def test_no_unsigned_answer_moves_a_question_that_wants_a_signature(said: dict[str, Any], actor: str) -> None:
    action = Action("deed", "pay", ask=Question("Pay?", require_signature=True))
    machine = Machine("pay", "work", table("work - done"), work={"work": (action,)}, ends={"done": Status.COMPLETED})
    run = advance(machine, Run(id="r"), Started(machine.digest, rules=RULES, at=1.0))[0]
    event = ContractMoved("work/deed/1", "resume", result=said, actor=actor, at=2.0)
    with pytest.raises(Refused):
        advance(machine, run, event)


def test_what_is_asked_later_about_a_signed_call_wants_a_signature_too() -> None:
    action = Action("deed", "pay", ask=Question("Pay?", require_signature=True))
    machine = Machine("pay", "work", table("work - done"), work={"work": (action,)}, ends={"done": Status.COMPLETED})
    run = advance(machine, Run(id="r"), Started(machine.digest, rules=RULES, at=1.0))[0]
    said = {"approved": True, "by": "ann", "signature": {"payload": "p", "signature": "s"}}
    run = advance(machine, run, ContractMoved("work/deed/1", "resume", result=said, actor="human", at=2.0))[0]
    doubt = Question("Did it?", "outcome_unknown")
    run = advance(machine, run, ContractMoved("work/deed/1", "suspend", question=doubt, actor="host", at=3.0))[0]
    assert run.waiting[0].question == replace(doubt, require_signature=True)
    with pytest.raises(Refused, match="--sign"):
        advance(
            machine, run, ContractMoved("work/deed/1", "resume", result={"outcome": "happened"}, actor="human", at=4.0)
        )
