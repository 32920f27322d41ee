"""Corners of the core that mutation tests have found untested."""

import pytest

from detent import Action, Branch, Contract, Limits, Machine, Status, table
from detent.core.attribute import LETTERS_MAX, read_attributes
from detent.core.expression import compile_template
from detent.core.expression.value_operation import TEXT_MAX
from detent.core.people import People, Person
from detent.core.people_change import PeopleChange, apply_change
from detent.core.policy import Call, Policy, Rule
from detent.core.progress import voice
from detent.errors import ExpressionError, Refused
from tests.core.story import Story
from tests.core.test_budget import DEAR, LLM

ENDS = {"done": Status.COMPLETED, "failed": Status.FAILED}
LOOK = Action("look", "look")


def test_an_attribute_is_a_single_value_and_a_long_one_is_cut() -> None:
    wanted = {name: f"{{{{ context.{name} }}}}" for name in ("who", "size", "items", "nothing")}
    machine = Machine("m", "a", table("a - done"), {"a": (LOOK,)}, ENDS, attributes=wanted)
    run = Story(machine, {"who": "x" * (LETTERS_MAX + 1), "size": 3, "items": [1]}).run
    assert read_attributes(machine, run) == {"who": "x" * LETTERS_MAX, "size": 3}


def test_a_budget_that_is_spent_stops_what_the_other_branches_do() -> None:
    branches = (Branch("l", (LLM, Action("more", "llm"))), Branch("r", (Action("slow", "look"),)))
    machine = Machine(
        "m", "a", table("a - done"), {"a": (Action("both", "branches", branches=branches),)}, ENDS, limits=DEAR
    )
    story = Story(machine).succeed("ask_model", usage={"cost_usd": 0.02})
    assert (story.status, story.error, story.opened) == (Status.FAILED, "budget_exceeded", [])
    assert story.aborted == ["a/both.1.slow/1"]


def test_a_failure_that_is_tolerated_goes_on_once_and_leaves_no_error() -> None:
    work = {"a": (Action("look", "look", tolerate=1), Action("next", "look"))}
    story = Story(Machine("m", "a", table("a - done"), work, ENDS)).fail("look")
    assert (story.status, story.error, story.opened) == (Status.RUNNING, "", ["a/next/1"])
    assert story.succeed("next").status is Status.COMPLETED


def test_a_run_that_no_failure_led_to_its_failed_end_says_which_row_did() -> None:
    machine = Machine("m", "a", table("a - failed if context.n > 1\na - done"), {"a": (LOOK,)}, ENDS)
    error = Story(machine, {"n": 2}).succeed("look").run.error
    assert error is not None
    assert error.type == "error_state"
    assert error.message == "`a` led to the failed end `failed`, because context.n > 1"


def test_who_waits_for_a_place_in_a_group_has_its_whole_time_from_then_on() -> None:
    machine = Machine("m", "a", table("a - done"), {"a": (LOOK,)}, ENDS, limits=Limits(max_duration_s=10.0))
    story = Story(machine, group="g", held_by="group:g")
    assert (story.run.deadline, story.performed) == (0.0, [])
    story.at = 500.0
    assert story.signal("@release").run.deadline == 510.0
    assert story.performed == ["a/look/1"]
    held = Story(machine, group="g").signal("@hold", by="kim")
    held.at = 105.0
    assert held.signal("@release", by="kim").run.deadline == 110.0, "a pause later on gives no new time"


def test_a_text_may_be_as_long_as_the_limit_and_no_longer() -> None:
    half = "x" * (TEXT_MAX // 2)
    assert len(compile_template("{{ parts | join('') }}")({"parts": [half, half]})) == TEXT_MAX
    assert len(compile_template("{{ parts | join('-') }}")({"parts": [half, half[1:]]})) == TEXT_MAX
    with pytest.raises(ExpressionError, match="characters"):
        compile_template("{{ parts | join('-') }}")({"parts": [half, half]})


def test_what_is_told_of_a_person_has_no_hash() -> None:
    assert Person("ann", token="a hash").about == {"name": "ann", "token": True}  # noqa: S106
    assert Person("kim").about == {"name": "kim"}


@pytest.mark.parametrize(
    "change", [{"do": "remove"}, {"do": "change", "drop_roles": ("admin",)}], ids=lambda c: c["do"]
)
def test_the_last_admin_stays(change: dict[str, object]) -> None:
    people = People((Person("ann", roles=("admin",)), Person("kim", roles=("viewer",))))
    with pytest.raises(Refused, match="admin"):
        apply_change(people, PeopleChange(name="ann", **change))  # type: ignore[arg-type]
    two = People((*people.persons, Person("eve", roles=("admin",))))
    assert "ann" in two.by_name
    apply_change(two, PeopleChange(name="ann", **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (Rule("r", "deny", programs=("rm",)), True),
        (Rule("r", "deny", programs=("/usr/bin/*",)), True),
        (Rule("r", "deny", programs=("mv",)), False),
        (Rule("r", "deny", paths=("/data/*",)), True),
        (Rule("r", "deny", paths=("/home/*",)), False),
        (Rule("r", "deny", hosts=("*.example.org",)), True),
        (Rule("r", "deny", hosts=("example.com",)), False),
        (Rule("r", "deny", programs=("rm",), paths=("/home/*",)), False),
    ],
)
def test_a_rule_about_facts_is_for_the_calls_that_have_them(rule: Rule, fits: bool) -> None:
    call = Call("shell", {}, program="/usr/bin/rm", paths=("/data/a",), host="api.example.org")
    assert (Policy(rules=(rule,)).decide(call) is not None) is fits
    assert Policy(rules=(rule,)).decide(Call("shell", {})) is None, "nothing is known of it"


def test_a_voice_outside_of_a_call_is_heard_by_nobody() -> None:
    voice(Contract("a/look/1", "look", "look"))({"text": "is anybody there?"})


def test_a_run_that_begins_in_a_failed_end_says_so() -> None:
    error = Story(Machine("m", "failed", (), {}, ENDS)).run.error
    assert error is not None
    assert error.message == "the run began in `failed`, which is a failed end"
