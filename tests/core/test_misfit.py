"""Whether an answer fits a question: said once, before it becomes an event."""

from typing import Any

import pytest

from detent.core.answer import misfit
from detent.core.contract import Contract
from detent.core.question import Answer, Question
from detent.core.status import Status

YES = Question("Send it?")
AGAIN = Question("Again?", earlier={"run_id": "r", "contract_id": "c"})
FORM = Question("Who?", "form", {"type": "object", "required": ["name"]})
DOUBT = Question("Did it happen?", "outcome_unknown")


def asking(question: Question | None, status: Status = Status.WAITING) -> Contract:
    return Contract("s/send/1", "send", "mail", status=status, input={"to": "kim", "count": 2}, question=question)


@pytest.mark.parametrize(
    ("question", "said", "problem"),
    [
        (YES, {"approved": True}, ""),
        (YES, {"approved": False}, ""),
        (YES, {"approved": True, "args": {"to": "lee", "count": 3}}, ""),
        (YES, {"approved": True, "args": {"to": 5}}, "args.to must be string"),
        (YES, {"data": {}}, "asks for yes or no"),
        (YES, {"outcome": "happened"}, "there is no doubt"),
        (YES, {"outcome": "use"}, "was not done before"),
        (AGAIN, {"outcome": "use"}, ""),
        (AGAIN, {"outcome": "happened"}, "or `outcome: use`"),
        (FORM, {"data": {"name": "kim"}}, ""),
        (FORM, {"approved": False}, ""),
        (FORM, {"approved": True}, "asks for a form"),
        (DOUBT, {"outcome": "happened"}, ""),
        (DOUBT, {"approved": True}, "nobody knows whether"),
        (DOUBT, {"outcome": "use"}, "nobody knows whether"),
    ],
)
def test_what_fits_a_question(question: Question, said: dict[str, Any], problem: str) -> None:
    found = misfit(asking(question), Answer(**said))
    assert problem in found if problem else not found


@pytest.mark.parametrize("contract", [asking(None), asking(YES, Status.RUNNING), asking(Question("", "timer"))])
def test_what_asks_nobody_is_left_to_the_fold(contract: Contract) -> None:
    assert misfit(contract, Answer(approved=True)) == ""
