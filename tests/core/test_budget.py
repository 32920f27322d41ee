"""What a run may cost: past the limit nothing that costs begins, and only a row that names it takes that."""

from detent import Action, Branch, ContractMoved, Declared, Limits, Machine, Question, Status, Transition, table
from tests.core.story import EFFECTS, Story

LOOK = Action("look", "look")
ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
LLM = Action("ask_model", "llm")
DEAR = Limits(max_cost_usd=0.01)
PRICED = {**EFFECTS, "llm": Declared(kind="idempotent", is_priced=True)}


def test_no_call_that_costs_begins_once_the_limit_is_reached() -> None:
    rows = "a - b\nb - a if attempt < 9"
    machine = Machine("m", "a", table(rows), {"a": (LLM,), "b": (LLM,)}, limits=DEAR)
    story = Story(machine).succeed("ask_model", usage={"cost_usd": 0.0085})
    assert story.state == "b"
    story.succeed("ask_model", usage={"cost_usd": 0.0085})
    assert (story.status, story.error, len(story.performed)) == (Status.FAILED, "budget_exceeded", 2)
    exact = Story(machine).succeed("ask_model", usage={"cost_usd": 0.01})
    assert (exact.status, exact.error, len(exact.performed)) == (Status.FAILED, "budget_exceeded", 1)
    assert (
        str(exact.run.error and exact.run.error.message)
        == "the 0.01 USD of this run are spent: `ask_model` is not begun"
    )


def test_a_spent_budget_is_taken_only_by_a_row_that_names_it() -> None:
    spent = {"cost_usd": 0.02}
    for rows in ("a - done\na !* b", "a - done"):
        machine = Machine("m", "a", table(f"{rows}\nb X b"), {"a": (LLM,)}, ENDS, limits=DEAR)
        assert Story(machine).succeed("ask_model", usage=spent).run.ended is Status.FAILED
    for row in (
        Transition("a", "b", when="true", even_failed=True),
        Transition("a", "b", even_failed=True, only_failed=True),
    ):
        machine = Machine("m", "a", (row, *table("b X b")), {"a": (LLM,)}, limits=DEAR)
        assert Story(machine).succeed("ask_model", usage=spent).error == "budget_exceeded"
        assert Story(machine, rules=1).succeed("ask_model", usage=spent).state == "b"
    named = Transition("a", "b", when="error.type == 'budget_exceeded'", even_failed=True)
    for good in ((named,), table("a !budget_exceeded b")):
        machine = Machine("m", "a", (*good, *table("b X b")), {"a": (LLM,)}, limits=DEAR)
        assert Story(machine).succeed("ask_model", usage=spent).state == "b"


def test_what_costs_nothing_goes_on_when_the_budget_is_spent() -> None:
    rows = "a - done\na !budget_exceeded b\nb - c\nc - done"
    work = {"a": (LLM,), "b": (LOOK,), "c": (Action("more", "sync"), LLM)}
    story = Story(Machine("m", "a", table(rows), work, ENDS, limits=DEAR), effects=PRICED)
    story.succeed("ask_model", usage={"cost_usd": 0.02}).succeed("look").succeed("more")
    assert (story.status, story.error) == (Status.FAILED, "budget_exceeded")
    assert story.performed == ["a/ask_model/1", "b/look/1", "c/more/1"]


def test_an_effect_that_declares_that_it_costs_is_stopped_before_its_first_call() -> None:
    machine = Machine(
        "m", "a", table("a - b\nb - done"), {"a": (LOOK,), "b": (LLM,)}, ENDS, limits=Limits(max_tokens=10)
    )
    story = Story(machine, effects=PRICED).succeed("look", usage={"tokens": 10.0})
    assert (story.state, story.error, story.performed) == ("b", "budget_exceeded", ["a/look/1"])
    assert Story(machine).succeed("look", usage={"tokens": 10.0}).opened == ["b/ask_model/1"], "nobody knew"


def test_a_question_does_not_let_a_call_begin_that_the_budget_forbids() -> None:
    asked = Action("ask_model", "llm", ask=Question("May it?"))
    both = Action("both", "branches", branches=(Branch("l", (asked,)), Branch("r", (LOOK, LLM))))
    story = Story(Machine("m", "a", table("a - done"), {"a": (both,)}, ENDS, limits=DEAR), effects=PRICED).succeed(
        "look", usage={"cost_usd": 0.01}
    )
    assert (story.status, story.error, story.performed) == (Status.FAILED, "budget_exceeded", ["a/both.1.look/1"])
    story = Story(Machine("m", "a", table("a - done"), {"a": (asked,)}, ENDS, limits=DEAR), effects=PRICED)
    story.tell(ContractMoved(story.open("ask_model").id, "resume", {"approved": True, "by": "ann"}, at=100.0))
    story.move("ask_model", "suspend", question=Question("More?"), usage={"cost_usd": 0.01})
    story.answer("ask_model", approved=True, by="ann")
    assert (story.status, story.error, len(story.performed)) == (Status.FAILED, "budget_exceeded", 1)
