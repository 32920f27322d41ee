"""The trace: what each event of a run led to, told in the order it happened."""

from detent import Action, Consequence, Entry, Machine, Question, Retry, Run, Status, Transition, table, trace
from tests.core.story import Story

ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
MACHINE = Machine(
    "m",
    "a",
    (
        Transition("a", "done", when="result.pay.success and context.amount > 3", even_failed=True),
        Transition("a", "tidy", error="tool_failure"),
        Transition("tidy", "failed", then=(Action("n", "set", input={"name": "tidied", "value": True}),)),
    ),
    {
        "a": (
            Action("say", "log", input={"message": "paying {{ context.amount }}", "level": "warn"}),
            Action("pay", "pay", ask=Question("Pay?")),
        ),
    },
    ENDS,
)


def told(story: Story) -> list[Entry]:
    return list(trace(story.machine, Run(id="r1"), story.events))


def contract_moves(entry: Entry) -> list[str]:
    return [f"{t.subject} {t.source} {t.event} {t.target} by {t.actor}" for t in entry.taken if t.kind == "contract"]


def test_a_trace_tells_every_move_of_every_contract_and_who_made_it() -> None:
    story = Story(MACHINE, {"amount": 5}).answer("pay", approved=True, by="ann").succeed("pay", {"id": 1}, actor="shop")
    entries = told(story)
    assert [e.seq for e in entries] == [1, 2, 3]
    assert [move for e in entries for move in contract_moves(e)] == [
        "a/pay/1 pending start running by engine",
        "a/pay/1 running suspend waiting by engine",
        "a/pay/1 waiting resume running by ann",
        "a/pay/1 running succeed completed by shop",
    ]
    assert entries[-1].run == story.run
    assert entries[-1].event is story.events[-1]


def test_a_trace_tells_conditions_with_the_values_they_read() -> None:
    story = Story(MACHINE, {"amount": 5}).answer("pay", approved=True).succeed("pay", {"id": 1})
    condition = next(t for t in told(story)[-1].taken if t.kind == "condition")
    assert condition == Consequence(
        "condition",
        subject="result.pay.success and context.amount > 3",
        value=True,
        values={"context.amount": 5, "result.pay.success": True},
    )


def test_a_trace_tells_why_a_condition_could_not_be_computed() -> None:
    story = Story(MACHINE, {"amount": "much"}).answer("pay", approved=True).succeed("pay")
    condition = next(t for t in told(story)[-1].taken if t.kind == "condition")
    assert (condition.value, condition.values["context.amount"]) == (None, "much")
    assert "context.amount > 3" in condition.event


def test_a_trace_does_not_repeat_big_values() -> None:
    machine = Machine("m", "a", table("a GO a if context.big and context.list"))
    story = Story(machine, {"big": "x" * 1000, "list": [1]}).signal("GO")
    condition = next(t for t in told(story)[-1].taken if t.kind == "condition")
    assert condition.values == {"context.big": "…", "context.list": "…"}


def test_a_trace_tells_transitions_caught_errors_logs_and_changes() -> None:
    story = Story(MACHINE, {"amount": 5}).answer("pay", approved=True).fail("pay", "tool_failure.exit", "code 1")
    first, _, last = told(story)
    assert Consequence("log", event="warn", subject="say", value="paying 5") in first.taken
    kinds = [t.kind for t in last.taken]
    assert kinds == ["contract", "caught", "transition", "transition", "set"]
    assert last.taken[1] == Consequence("caught", "a", "tool_failure.exit", "tidy", "code 1")
    assert [t.target for t in last.taken if t.kind == "transition"] == ["tidy", "failed"]
    assert last.taken[-1] == Consequence("set", subject="tidied", value=True)


def test_a_trace_tells_when_the_next_attempt_will_be() -> None:
    machine = Machine("m", "a", table("a - done"), {"a": (Action("look", "look", retry=Retry(1)),)}, ENDS)
    note = next(t for t in told(Story(machine).fail("look"))[-1].taken if t.kind == "note")
    assert note.subject == "a/look/1"
    assert str(note.value).startswith("attempt 2 in ")


def test_a_trace_goes_on_from_any_run() -> None:
    story = Story(MACHINE, {"amount": 5})
    middle = story.run
    story.answer("pay", approved=True).succeed("pay")
    (_, last) = trace(MACHINE, middle, story.events[1:])
    assert last.run == story.run
