"""What failed in a run that went on without it: counted at its good end, and nowhere else."""

from typing import Any

from detent import Action, Branch, Machine, Status, table
from detent.core.tolerance import list_tolerated
from tests.core.story import Story


def working(*actions: Action) -> Machine:
    return Machine("m", "a", table("a - done"), work={"a": actions}, ends={"done": Status.COMPLETED})


def told(story: Story) -> list[tuple[Any, ...]]:
    return [tuple(one) for one in list_tolerated(story.machine, story.run)]


def test_items_of_a_loop() -> None:
    look = Branch("one", (Action("x", "look"),))
    story = Story(working(Action("all", "branches", each="{{ [1, 2, 3] }}", tolerate=2, branches=(look,))))
    story.fail("a/all.0.x/1").succeed("a/all.1.x/1")
    assert told(story) == [], "it has not ended"
    assert told(story.fail("a/all.2.x/1")) == [("all", 2, True)]


def test_branches_side_by_side() -> None:
    sides = (Branch("l", (Action("x", "look"),)), Branch("r", (Action("y", "look"),)))
    story = Story(working(Action("both", "branches", branches=sides, tolerate=1))).fail("x").succeed("y")
    assert told(story) == [("both", 1, True)]
    story = Story(working(Action("both", "branches", branches=sides, join="any"))).fail("x").succeed("y")
    assert told(story) == [], "one of them was wanted, and one was had"


def test_a_single_call() -> None:
    first, then = Action("x", "look", tolerate=1), Action("y", "look")
    assert told(Story(working(first, then)).fail("x").succeed("y")) == [("x", 1, False)]
    assert told(Story(working(first, then)).succeed("x").succeed("y")) == []
    assert told(Story(working(first, then)).fail("x").fail("y")) == [], "the error says more"
