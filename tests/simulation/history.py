"""Random histories: machines, worlds, deaths and clumsy operators drawn from a seed.

Every choice comes from the seed, so a failing history is told again by its number.
"""

import random
from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from detent import Action, Branch, Machine, Question, Retry, Status, Transition, Wait
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, OutcomeUnknown
from detent.core.run import Run
from detent.testing import WAYS_TO_FAIL, Story, World, assert_laws, honest, simulate, tell_all

EFFECTS = ("look", "put", "pay", "flaky", "shaky", "lost")


def machine(draw: random.Random) -> Machine:
    """A machine of a few states that always leads to an end."""
    count = draw.randint(1, 4)
    rows: list[Transition] = []
    work: dict[str, tuple[Action, ...]] = {}
    for number in range(count):
        state, following = f"s{number}", f"s{number + 1}"
        work[state] = tuple(_action(draw, f"a{i}", state, depth=0) for i in range(draw.randint(0, 3)))
        rows.append(Transition(state, following))
        if draw.random() < 0.6:
            rows.append(Transition(state, draw.choice([following, "bad"]), error=draw.choice(["*", "tool_failure"])))
        if draw.random() < 0.2:
            rows.append(Transition(state, "bad", on="STOP"))
    ends = {f"s{count}": Status.COMPLETED, "bad": Status.FAILED}
    return Machine(name="random", initial="s0", transitions=tuple(rows), work=work, ends=ends)


def _action(draw: random.Random, name: str, where: str, depth: int) -> Action:
    kind = draw.random()
    if kind < 0.15 and depth < 2:
        branches = tuple(
            Branch(f"b{i}", tuple(_action(draw, f"{name}{i}{j}", where, depth + 1) for j in range(draw.randint(1, 2))))
            for i in range(draw.randint(1, 3))
        )
        joins: tuple[Literal["all", "any"] | int, ...] = ("all", "any", 1)
        join = draw.choice(joins)
        return Action(name, "branches", branches=branches, join=join, fail_fast=draw.random() < 0.5)
    if kind < 0.25:
        return Action(name, "wait", wait=Wait(duration_s=draw.choice([1, 100_000])))
    effect = draw.choice(EFFECTS)
    return Action(
        name,
        effect,
        input={"deed": f"{where}.{name}" if draw.random() < 0.8 else "shared"},
        ask=Question(f"{name}?", expires_s=draw.choice([0, 0, 50])) if draw.random() < 0.3 else None,
        retry=Retry(limit=draw.randint(1, 3)) if draw.random() < 0.4 else None,
        timeout_s=draw.choice([0, 5]),
    )


def world(draw: random.Random) -> World:
    """A world whose effects answer, fail, dawdle and lose the line."""
    made = World(seed=draw.randrange(2**32), is_clumsy=draw.random() < 0.5)
    probe = draw.random() < 0.5
    made.effect("look", kind="pure", delay_s=2)
    made.effect("put", kind="idempotent", delay_s=2)
    made.effect("pay", answers=[{"paid": True}], probe=probe, delay_s=2)
    made.effect("flaky", kind="idempotent", answers=[EffectFailed("not yet"), {"ok": True}])
    made.effect("shaky", answers=[EffectFailed("refused"), {"ok": True}], probe=probe)
    made.effect("lost", answers=[OutcomeUnknown("no answer"), "hang", {"ok": True}], probe=probe, timeout_s=9)
    made.die_at = frozenset(draw.sample(range(1, 120), k=draw.randint(0, 5)))
    made.fail_after = {draw.randint(1, 12): draw.choice(WAYS_TO_FAIL) for _ in range(draw.randint(0, 2))}
    return made


def moody(draw: random.Random) -> object:
    """An operator who sometimes says no, gives up, or lets a question expire."""

    def answer(world: World, run: Run, contract: Contract) -> dict[str, object] | None:
        looked = honest(world, run, contract)
        if looked is None:
            return None
        said = dict(looked)
        if contract.question is not None and contract.question.reason == "approval":
            if contract.question.expires_s and draw.random() < 0.3:
                return None
            if draw.random() < 0.2:
                return {"approved": False, "by": "moody"}
            if draw.random() < 0.1:
                return {"approved": True, "by": "moody", "args": {"deed": f"edited {run.id} {contract.id}"}}
        elif draw.random() < 0.1:
            return {"outcome": "give_up", "by": "moody"}
        return said

    return answer


def check(seed: int, also: Callable[[World], None] = lambda _: None) -> None:
    """Live one history and assert the laws of every run in it, and whatever else the caller wants of its world."""
    draw = random.Random(seed)
    with world(draw) as made:
        operator = moody(random.Random(seed + 1))
        stories = [
            Story(machine(draw), {}, operator, run_id=f"run-{i}")  # type: ignore[arg-type]
            for i in range(draw.choice([1, 1, 2, 3]))
        ]
        if draw.random() < 0.3:  # the same machine twice: its deeds collide
            stories.append(replace_run(stories[0], "twin"))
        for run in simulate(tell_all(made, stories)):
            assert_laws(made, run)
        also(made)


def replace_run(story: Story, run_id: str) -> Story:
    """The same story under another id."""
    return story._replace(run_id=run_id, machine=replace(story.machine, name="twin"))
