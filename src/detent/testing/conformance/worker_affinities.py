"""Places: files, kernels and processes live on one machine, so a run's local calls are made where it belongs.

`PLACE_CHECKS` is for hosts whose workers may be on several machines. A check gets `open_at(home, place, effects)`: a
worker at a place, on the journal of `home`, where a place counts as away as soon as its last worker is gone.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from detent.core import Action, Contract, Effect, Machine, Outcome, Question, Run, Status, effect, table
from detent.host.port import Host
from detent.testing.conformance.fixtures import HostOpener, Outside, as_data, one, until


class PlaceOpener(Protocol):
    def __call__(self, home: Path, place: str, effects: Sequence[Effect] = ()) -> AbstractAsyncContextManager[Host]: ...


PlaceCheck = Callable[[PlaceOpener, Path], Awaitable[None]]

TWO = Machine(
    "two",
    "first",
    transitions=table("first - second\nsecond - done"),
    work={
        "first": (Action("one", "note", {"n": 1}),),
        "second": (Action("two", "note", {"n": 2}, ask=Question("Go on?")),),
    },
    ends={"done": Status.COMPLETED},
)


class Files:
    """What was done at which place."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def at(self, place: str, **declared: Any) -> Effect:
        """An effect on the files of a place."""

        async def perform(contract: Contract) -> Outcome:  # noqa: ARG001
            self.seen.append(place)
            return Outcome({"at": place})

        return effect("note", is_local=True, scope="run", **declared)(perform)


async def _ask(host: Host) -> Run:
    """A run of `host` that has done its first local call there, and asks before the second."""
    run = await host.start(TWO)
    return await until(host, run.id, lambda run: run.state == "second" and bool(run.waiting))


async def _go_on(host: Host, run: Run) -> None:
    await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})


def _is_missing(place: str) -> Callable[[Run], bool]:
    """Whether a run asks about a place that is away."""

    def is_missing(run: Run) -> bool:
        asked = [one.question for one in run.waiting if one.question is not None]
        return any(one.reason == "outcome_unknown" and one.data.get("machine") == place for one in asked)

    return is_missing


def _is_over(run: Run) -> bool:
    return run.ended is not None


async def check_local_calls_go_on_after_a_restart(open_host: HostOpener, home: Path) -> None:
    """For every host: whoever comes back to the same place goes on there, and nobody is asked."""
    outside = Outside()
    machine = one(Action("deed", "do", {"n": 1}))
    async with open_host(home, [outside.hanging("do", "idempotent", is_local=True)]) as host:
        run = await host.start(machine)
        await outside.begun.acquire()
    async with open_host(home, [outside.effect("do", "idempotent", is_local=True)]) as host:
        await host.recover()
        assert (await until(host, run.id, _is_over)).status is Status.COMPLETED
        assert len(outside.deeds) == 2


async def check_place_local_calls_are_made_where_the_run_began(open_at: PlaceOpener, home: Path) -> None:
    files = Files()
    async with open_at(home, "a", [files.at("a")]) as first, open_at(home, "b", [files.at("b")]) as second:
        await second.recover()
        for host in (first, second):
            run = await _ask(host)
            await _go_on(first, run)  # whoever says so
            await until(second, run.id, _is_over)
    assert files.seen == ["a", "a", "b", "b"]


async def check_place_children_belong_where_their_parent_does(open_at: PlaceOpener, home: Path) -> None:
    files = Files()
    child = one(Action("deed", "note", {"n": 1}))
    async with open_at(home, "a", [files.at("a")]) as first, open_at(home, "b", [files.at("b")]) as second:
        await second.recover()
        parent = one(
            Action("own", "note", {"n": 0}), Action("sub", "child", {"machine": as_data(child)}), name="parent"
        )
        for _ in range(4):
            await until(first, (await first.start(parent)).id, _is_over)
    assert files.seen == ["a"] * 8


async def check_place_that_is_away_is_asked_about_and_elsewhere_is_for_good(open_at: PlaceOpener, home: Path) -> None:
    files = Files()
    async with open_at(home, "a", [files.at("a")]) as first:
        run = await _ask(first)
    async with open_at(home, "b", [files.at("b")]) as second:
        await second.recover()
        await _go_on(second, run)
        run = await until(second, run.id, _is_missing("a"))
        assert run.waiting[0].effect_state == "none", "it has not been begun: nothing is in doubt"
        assert files.seen == ["a"], "nobody works on files that are elsewhere without being told to"
        await second.answer(run.id, run.waiting[0].id, {"outcome": "not_happened", "by": "ann"})
        run = await until(second, run.id, _is_over)
        assert run.status is Status.COMPLETED
        async with open_at(home, "a", [files.at("a")]) as back:
            await back.recover()
            assert back.reader.verify(run.id).problem == ""
    assert files.seen == ["a", "b"], "made once, where somebody wanted it"


async def check_place_that_is_away_may_be_given_up(open_at: PlaceOpener, home: Path) -> None:
    files = Files()
    async with open_at(home, "a", [files.at("a")]) as first:
        run = await _ask(first)
    async with open_at(home, "b", [files.at("b")]) as second:
        await second.recover()
        await _go_on(second, run)
        run = await until(second, run.id, _is_missing("a"))
        await second.answer(run.id, run.waiting[0].id, {"outcome": "give_up", "by": "ann"})
        assert (await until(second, run.id, _is_over)).status is Status.FAILED
    assert files.seen == ["a"]


async def check_place_that_comes_back_goes_on_by_itself(open_at: PlaceOpener, home: Path) -> None:
    files = Files()
    async with open_at(home, "a", [files.at("a")]) as first:
        run = await _ask(first)
    async with open_at(home, "b", [files.at("b")]) as second:
        await second.recover()
        await _go_on(second, run)
        await until(second, run.id, _is_missing("a"))
        async with open_at(home, "a", [files.at("a")]) as back:
            await back.recover()
            assert (await until(back, run.id, _is_over)).status is Status.COMPLETED
    assert files.seen == ["a", "a"]


async def check_place_that_is_away_leaves_what_was_begun_there_in_doubt(open_at: PlaceOpener, home: Path) -> None:
    outside, files = Outside(), Files()

    async def look_at_the_wrong_files(contract: Contract) -> Outcome:
        raise AssertionError(f"another place knows nothing of {contract.id}")

    machine = one(Action("deed", "note", {"n": 1}))
    hanging = outside.hanging("note", is_local=True, scope="run", settle_s=0.0)
    async with open_at(home, "a", [hanging]) as first:
        run = await first.start(machine)
        await outside.begun.acquire()
    other = files.at("b", settle_s=0.0, reconcile=look_at_the_wrong_files)
    async with open_at(home, "b", [other]) as second:
        await second.recover()
        run = await until(second, run.id, _is_missing("a"))
        assert run.waiting[0].effect_state == "possible"
        await second.answer(run.id, run.waiting[0].id, {"outcome": "happened", "result": {}, "by": "ann"})
        assert (await until(second, run.id, _is_over)).status is Status.COMPLETED
    assert files.seen == [], "nothing is done a second time"


PLACE_CHECKS: dict[str, PlaceCheck] = {
    name.removeprefix("check_place_"): check
    for name, check in sorted(vars().items())
    if name.startswith("check_place_")
}
