"""Whatever comes from outside, a host says no or fails one contract; its journal stays readable and it lives on.

What effects may do to it, decided: `SystemExit` and other exceptions outside the usual tree are failures like any
other. A `CancelledError` of their own is one too, and for an irreversible deed a doubt. `KeyboardInterrupt` is the
user's and ends the process; the contract is recovered. An effect that never returns is cut off at its timeout; one that
blocks the loop blocks everybody, which is why such work belongs into a thread or a process; one that swallows its
cancellation keeps its contract, and the closing of its host, until it returns.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, EffectFailed, Outcome, OutcomeUnknown, Question, Status, effect
from detent.errors import DetentError, Refused
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import open_journal
from detent.host.parts.loaded_run import load
from detent.host.parts.replay import verify
from detent.testing import World, simulate
from detent.testing.conformance import ASKING, DOOR, Outside, one


def host_at(home: Path, *effects: Any) -> EmbeddedHost:
    return EmbeddedHost(home, effects, sync="off", grace_s=0.0)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def assert_whole(home: Path, *run_ids: str) -> None:
    journal = open_journal(home)
    try:
        for run_id in run_ids:
            assert verify(journal, run_id).problem == ""
    finally:
        journal.close()


NONSENSE: dict[str, Any] = {
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "deep": deep(500),
    "very deep": deep(100_000),
    "a set": {1, 2},
    "an object": object(),
    "bytes": b"x",
    "a key that is no text": {1: 2},
    "40 MB of text": "x" * 40_000_000,
    "40 MB in parts": ["x" * 10_000_000] * 4,
    "a number of 5,000 digits": 10**5000,
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_in_a_verb_is_refused(what: str, tmp_path: Path) -> None:
    value = NONSENSE[what]
    async with host_at(tmp_path, Outside().effect()) as host:
        door = await host.start(DOOR)
        asking = await host.start(ASKING, {"amount": 1})
        for verb in (
            host.start(DOOR, {"x": value}),
            host.signal(door.id, "OPEN", {"x": value}),
            host.answer(asking.id, asking.waiting[0].id, {"approved": True, "data": value}),
            host.answer(asking.id, asking.waiting[0].id, {"approved": True, "args": {"amount": value}}),
        ):
            with pytest.raises(Refused):
                await verb
        assert (await host.show(door.id), await host.show(asking.id)) == (door, asking)
        assert (await host.signal(door.id, "OPEN")).seq == 2
    assert_whole(tmp_path, door.id, asking.id)


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("kind", ["pure", "irreversible"])
@pytest.mark.parametrize("where", ["result", "patch", "bare"])
async def test_nonsense_from_an_effect_fails_its_contract(what: str, kind: Any, where: str, tmp_path: Path) -> None:
    async def perform(contract: Contract) -> Any:
        value = NONSENSE[what]
        return {"result": Outcome({"x": value}), "patch": Outcome({}, patch={"x": value}), "bare": value}[where]

    async with host_at(tmp_path, effect("do", kind=kind)(perform)) as host:
        run = await host.settled((await host.start(one(Action("a", "do")))).id)
        if kind == "pure":
            assert run.error is not None
            assert (run.status, run.error.type) == (Status.FAILED, "validation_error")
        else:
            # It has happened, whatever it said: only what it said is lost.
            assert run.status is Status.COMPLETED
            assert "not_kept" in run.results["a"]
        again = await host.settled((await host.start(one(Action("a", "do")))).id)
        assert again.status is (Status.FAILED if kind == "pure" else Status.WAITING)
        assert not host.problems
    assert_whole(tmp_path, run.id, again.id)


@pytest.mark.parametrize(
    "given",
    [
        Outcome({}, usage={"tokens": float("nan")}),
        Outcome({}, usage={"tokens": "many"}),  # type: ignore[dict-item]
        Outcome({}, usage="free"),  # type: ignore[arg-type]
        Outcome({}, raises=5),  # type: ignore[arg-type]
        Outcome({}, patch="x"),  # type: ignore[arg-type]
        Outcome({}, patch={"not a name": 1}),
        Outcome(question="Really?"),  # type: ignore[arg-type]
        Outcome(question=Question(text=5, quorum="all")),  # type: ignore[arg-type]
        EffectFailed("bad type", type=7),  # type: ignore[arg-type]
        EffectFailed("bad", result=object()),
        EffectFailed("lone \ud800 surrogate"),
    ],
    ids=repr,
)
async def test_an_outcome_that_is_none_does_not_break_the_journal(given: Any, tmp_path: Path) -> None:
    async def perform(contract: Contract) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    async with host_at(tmp_path, effect("do", kind="pure")(perform)) as host:
        run = await host.settled((await host.start(one(Action("a", "do")))).id)
        assert run.ended is not None
        assert run.status is Status.FAILED or given == Outcome({}, patch={"not a name": 1})
        assert not host.problems
    async with host_at(tmp_path) as host:
        assert await host.show(run.id) == run
    assert_whole(tmp_path, run.id)


@pytest.mark.parametrize("field", ["by", "session", "source"])
async def test_an_argument_of_the_wrong_type_does_not_break_the_journal(field: str, tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        for value in (5, None, "lone \ud800"):
            with pytest.raises((Refused, TypeError)):
                await host.start(DOOR, **{field: value})  # type: ignore[arg-type]
        run = await host.start(DOOR)
        for value in (5, "lone \ud800"):
            with pytest.raises((Refused, TypeError, AttributeError)):
                await host.signal(run.id, "OPEN", by=value)  # type: ignore[arg-type]
        assert (await host.signal(run.id, "OPEN")).seq == 2
        assert len(await host.list()) == 1
    assert_whole(tmp_path, run.id)


async def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    async def perform(contract: Contract) -> dict[str, str]:
        return {"text": "half \udc80"}

    async with host_at(tmp_path, effect("do", kind="pure")(perform)) as host:
        run = await host.settled((await host.start(one(Action("a", "do")), {"x": "half \ud83d"})).id)
        assert run.status is Status.COMPLETED
        assert run.context["x"].startswith("half ")
        run.context["x"].encode()
    assert_whole(tmp_path, run.id)


class Own(BaseException):
    """An exception outside the usual tree."""


class Mute(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Gone(Exception):
    """An exception that would take the host with it when asked what it is."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("problem", [SystemExit(3), asyncio.CancelledError(), Mute(), Gone(), StopIteration(),
                                     GeneratorExit(), Own()],
                         ids=lambda problem: type(problem).__name__)  # fmt: skip
@pytest.mark.parametrize("kind", ["pure", "irreversible"])
async def test_an_effect_may_raise_anything(problem: BaseException, kind: Any, tmp_path: Path) -> None:
    outside = Outside()

    async def perform(contract: Contract) -> Outcome:
        raise problem

    bad = effect("bad", kind=kind, settle_s=0.0)(perform)
    async with host_at(tmp_path, bad, outside.effect()) as host:
        run = await host.settled((await host.start(one(Action("a", "bad")))).id)
        if kind == "irreversible":  # no exception is evidence
            assert run.waiting[0].effect_state == "possible"
        else:
            assert run.error is not None
            assert (run.status, run.error.type) == (Status.FAILED, "tool_failure.exception")
        other = await host.settled((await host.start(one(Action("a", "do")))).id)
        assert other.status is Status.COMPLETED


def test_a_keyboard_interrupt_is_the_users_and_ends_the_process(tmp_path: Path) -> None:
    script = """
import asyncio, pathlib, sys
from detent.core import Action, effect
from detent.host.embedded import EmbeddedHost
from detent.testing.conformance import one
@effect("do", settle_s=0.0)
async def do(contract):
    raise KeyboardInterrupt
async def main():
    async with EmbeddedHost(pathlib.Path(sys.argv[1]), [do]) as host:
        await host.start(one(Action("a", "do")), run_id="r")
        await host.settled("r")
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, timeout=30, check=False)
    assert ended.returncode != 0
    assert b"KeyboardInterrupt" in ended.stderr

    async def later() -> None:
        async with host_at(tmp_path, effect("do", settle_s=0.0)(_nothing)) as host:
            assert await host.recover() == ("r",)
            assert (await host.settled("r")).waiting

    asyncio.run(later())


async def _nothing(contract: Contract) -> None:
    return None


def test_an_effect_that_never_returns_is_cut_off_at_its_timeout() -> None:
    async def perform(contract: Contract) -> Outcome:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def story() -> None:
        world.effects["do"] = effect("do", kind="pure", timeout_s=200_000.0)(perform)
        async with world.host() as host:
            run = await host.settled((await host.start(one(Action("a", "do")))).id)
            assert run.error is not None
            assert run.error.type == "timeout.action"
            assert asyncio.get_running_loop().time() == pytest.approx(200_000.0)

    with World() as world:
        simulate(story())


async def test_a_defect_of_our_own_ends_one_contract_and_not_the_host(tmp_path: Path) -> None:
    outside = Outside()

    def find(source: str) -> dict[str, Any]:
        if found:
            raise RuntimeError("the file is gone")
        return {"own": outside.effect("own", kind="pure")}

    found: list[bool] = []
    machine = one(Action("a", "do", ask=Question("go?")), Action("b", "own"))
    async with EmbeddedHost(tmp_path, [outside.effect()], find_effects=find, sync="off") as host:
        run = await host.start(machine, source="story.yaml")
    async with EmbeddedHost(tmp_path, [outside.effect()], find_effects=find, sync="off") as host:
        found.append(True)
        await host.answer(run.id, run.waiting[0].id, {"approved": True})
        run = await host.settled(run.id)
        assert run.ended is not None or run.waiting
        assert "the file is gone" in host.problems[run.id]
        assert (await host.start(DOOR)).seq == 1


async def test_closing_does_not_wait_for_an_effect_that_does_not_end(tmp_path: Path) -> None:
    outside = Outside()
    async with EmbeddedHost(tmp_path, [outside.hanging()], sync="off", grace_s=0.05) as host:
        run = await host.start(one(Action("a", "hang")))
        await outside.begun.acquire()
    journal = open_journal(tmp_path)
    assert [contract.status for contract in load(journal, run.id).run.contracts] == [Status.RUNNING]
    journal.close()


async def test_an_effect_that_speaks_when_it_is_stopped_does_not_disturb_the_closing(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def perform(contract: Contract) -> Outcome:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if contract.input["n"] == 1:
                return Outcome({"receipt": 1})
            raise ValueError("do not disturb") from None
        raise AssertionError

    do = effect("do", settle_s=0.0)(perform)
    for number in (1, 2):
        begun.clear()
        async with host_at(tmp_path, do) as host:
            await host.start(one(Action("a", "do", {"n": number})), run_id=f"r{number}")
            await begun.wait()
    async with host_at(tmp_path, do) as host:
        await host.recover()
        assert (await host.settled("r1")).status is Status.COMPLETED
        (doubt,) = (await host.settled("r2")).waiting
        assert doubt.question is not None
        assert "do not disturb" in doubt.question.data["cause"]["message"]


async def test_a_closed_host_refuses_and_does_not_hang(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        run = await host.start(DOOR)
    with pytest.raises(DetentError):
        await asyncio.wait_for(host.signal(run.id, "OPEN"), 5)


async def test_a_doubt_that_cannot_be_kept_whole_is_still_a_doubt(tmp_path: Path) -> None:
    """What came back from a lost call may be anything; it must not turn the doubt into a failure that frees the key."""

    async def perform(contract: Contract) -> Outcome:
        problem = OutcomeUnknown("no answer", {"body": object()})
        problem.args = ("lone \ud800 surrogate",)
        raise problem

    async with host_at(tmp_path, effect("do", settle_s=0.0)(perform)) as host:
        run = await host.settled((await host.start(one(Action("a", "do")))).id)
        assert run.waiting[0].effect_state == "possible"
        again = await host.settled((await host.start(one(Action("a", "do")))).id)
        assert again.error is not None
        assert again.error.type == "key_held"
