"""An approved deed of the assistant happens once: killed after or before it, approved twice, asked for again."""

from typing import Any

import pytest

from tests.simulation.payment import harm, played

ROUNDS = 50
NOTHING: dict[str, list[str]] = {"more_than_once": [], "never": [], "open": [], "broken": []}


@pytest.fixture(scope="module")
def found() -> Any:
    """What fifty rounds of every scenario left behind."""
    return played(ROUNDS)


@pytest.mark.parametrize(
    "name", ["after", "before", "after_probe", "before_probe", "twice", "again", "at_once", "rivals"]
)
def test_the_deed_happens_exactly_once(found: Any, name: str) -> None:
    told = found[name]
    assert {key: told[key] for key in NOTHING} == NOTHING
    assert told["calls"]["completed"] == ROUNDS


@pytest.mark.parametrize("name", ["after", "before"])
def test_a_death_leaves_a_question_and_never_asks_for_the_approval_again(found: Any, name: str) -> None:
    assert found[name]["killed"] == ROUNDS
    assert found[name]["asked"] == {"outcome_unknown": ROUNDS}


@pytest.mark.parametrize("name", ["after_probe", "before_probe"])
def test_with_a_probe_nobody_is_asked(found: Any, name: str) -> None:
    assert found[name]["killed"] == ROUNDS
    assert found[name]["asked"] == {}


def test_of_two_approvals_one_counts(found: Any) -> None:
    assert found["twice"]["said"] == {"yes NotWaiting NotWaiting": ROUNDS}
    assert found["twice"]["codes"] == [0, 0]
    assert found["at_once"]["said"] == {"NotWaiting yes": ROUNDS}
    assert found["at_once"]["codes"] == [0, 0]


def test_a_second_run_is_refused_with_the_first_one_s_name(found: Any) -> None:
    assert found["again"]["codes"] == [0, 0]
    assert found["again"]["refused"] == ROUNDS
    assert found["again"]["calls"] == {"completed": ROUNDS, "rejected": ROUNDS}


def test_nothing_is_harmed_and_harm_is_seen(found: Any) -> None:
    assert harm(found) == []
    assert harm(found | {"twice": found["twice"] | {"more_than_once": ["r1@example.com"]}}) == [
        "twice: more_than_once ['r1@example.com']"
    ]


def test_of_two_processes_that_want_the_same_one_does_it_and_one_is_told_who(found: Any) -> None:
    assert found["rivals"]["ends"] == {"one deed, one refusal": ROUNDS}
    assert found["rivals"]["codes"] == [0, 0]
    assert found["rivals"]["calls"] == {"completed": ROUNDS, "rejected": ROUNDS}


def test_death_at_every_write_leaves_at_most_one_deed_and_an_explained_end(found: Any) -> None:
    moments = found["writes"]["found"]
    assert len(moments) > 15
    for one in moments:
        assert (one["more_than_once"], one["open"], one["broken"]) == ([], [], []), one
        assert sum(one["asked"].values()) <= 1, one
        is_begun = one["moment"] > 1
        assert one["never"] == ([] if is_begun else ["r0@example.com"]), one
        assert one["calls"] == ({"completed": 1} if is_begun else {}), one
    reasons = [next(iter(one["asked"]), "") for one in moments[1:]]
    assert reasons == sorted(reasons, key=["approval", "outcome_unknown", ""].index), "nothing is asked again"
