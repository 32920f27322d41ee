"""Moving a journal into a database: whole, under the same names, and never on both sides at once."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, Effect, Machine, Outcome, Question, Status, Transition, effect
from detent.errors import JournalError, Refused
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal_departure import Departure
from detent.host.opening import open_host, open_reader
from detent.host.postgres import journal_arrival as arriving
from detent.host.relocation import cancel_move, move_to_database
from detent.testing.conformance import DOING, Outside
from tests.host.test_postgres import Databases, databases, server  # noqa: F401  # fixtures
from tests.host.test_postgres_crash import Slow
from tests.postgres import why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

PAID = Machine(
    name="paid",
    initial="work",
    transitions=(Transition("work", "done"),),
    work={"work": (Action("pay", "pay", {"to": "{{ context.to }}"}),)},
    ends={"done": Status.COMPLETED},
)
ASKED = Machine(
    name="asked",
    initial="work",
    transitions=(Transition("work", "done"),),
    work={"work": (Action("pay", "pay", {"to": "eve"}, ask=Question("May I?")),)},
    ends={"done": Status.COMPLETED},
)


class Payments:
    """What was paid, in whichever host."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def effect(self) -> Effect:
        @effect("pay", settle_s=0.0)
        async def pay(contract: Contract) -> Outcome:
            self.paid.append(contract.input["to"])
            return Outcome({"id": len(self.paid)})

        return pay


class Killed(BaseException):
    """The process dies here."""


@pytest.fixture
def world(tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".detent", databases.address(tmp_path)


async def fill(home: Path, payments: Payments) -> tuple[str, str]:
    """A home with a run that has paid, and one that asks."""
    async with EmbeddedHost(home, [payments.effect()]) as host:
        done = await host.settled((await host.start(PAID, {"to": "ann"})).id)
        asked = await host.start(ASKED)
    (home / "detent.note").write_text("kept")
    return done.id, asked.id


async def is_usable(home: Path) -> bool:
    """Whether the runs of a journal can be moved; an empty one has none."""
    try:
        async with open_host(home, []) as host:
            return bool(await host.list())
    except JournalError:
        return False


def read_all(home: Path) -> dict[str, Any]:
    reader = open_reader(home)
    try:
        runs = reader.list().runs
        return {one.run_id: (reader.verify(one.run_id), one.status, one.waiting) for one in runs}
    finally:
        reader.close()


STEPS: list[tuple[Any, str]] = [
    (Departure, "mark"),
    (arriving.Arrival, "take"),
    (Departure, "copy_files"),
    (Departure, "seal"),
    (arriving.Arrival, "open"),
]


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", range(len(STEPS)))
async def test_a_move_that_was_killed_is_finished_by_the_next(
    step: int, is_after: bool, world: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, address = world
    payments = Payments()
    done, asked = await fill(home, payments)
    before = read_all(home)
    kind, name = STEPS[step]
    real: Callable[..., Any] = getattr(kind, name)

    def die(self: Any, *args: Any) -> None:
        if is_after:
            real(self, *args)
        raise Killed

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(kind, name, die)
        move_to_database(home, address)
    target = Path(next(home.parent.glob(".detent-*")))
    assert [await is_usable(home), await is_usable(target)].count(True) <= 1
    report = move_to_database(home, address)
    assert report.runs == 2
    assert (await is_usable(home), await is_usable(target)) == (False, True)
    assert read_all(target) == before == read_all(home)
    assert (target / "detent.note").read_text() == "kept"
    async with open_host(target, [payments.effect()]) as host:
        question = (await host.show(asked)).waiting[0]
        run = await host.answer(asked, question.id, {"approved": True, "by": "ann"})
        assert (await host.settled(asked)).status is Status.COMPLETED
        again = await host.start(PAID, {"to": "ann"})
        again = await host.settled(again.id)
        asking = again.waiting[0].question
        assert asking is not None
        assert asking.earlier["run_id"] == done, "claims came along"
    assert payments.paid == ["ann", "eve"], run


async def test_a_copy_that_breaks_off_leaves_nothing(world: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home, address = world
    await fill(home, Payments())
    real = Departure._rows
    left = 4

    def break_off(self: Departure, query: str) -> Any:
        nonlocal left
        for row in real(self, query):
            left -= 1
            if not left:
                raise Killed
            yield row

    with monkeypatch.context() as patched:
        patched.setattr(Departure, "_rows", break_off)
        with pytest.raises(Killed):
            move_to_database(home, address)
    assert cancel_move(home) == address
    assert await is_usable(home)
    async with EmbeddedHost(home, [Payments().effect()]) as host:
        await host.start(ASKED)
    assert move_to_database(home, address).runs == 3, "what was given up can be begun again"
    with pytest.raises(Refused, match="no move"):
        cancel_move(home)


async def test_what_was_under_way_is_in_doubt_on_the_other_side(world: tuple[Path, str]) -> None:
    home, address = world
    slow, quick = Slow(), Outside()
    async with EmbeddedHost(home, [slow.waiting()], grace_s=0.0) as host:
        run = await host.start(DOING, {"amount": 1})
        await slow.begun.acquire()
    move_to_database(home, address)
    target = Path(next(home.parent.glob(".detent-*")))
    async with open_host(target, [quick.effect(settle_s=0.0)]) as there:
        await there.recover()
        found = await there.settled(run.id)
    assert found.waiting[0].question is not None
    assert found.waiting[0].question.reason == "outcome_unknown"
    assert (len(slow.deeds), len(quick.deeds)) == (1, 0)


async def test_a_database_with_another_journal_is_refused(world: tuple[Path, str]) -> None:
    home, address = world
    await fill(home, Payments())
    move_to_database(home, address)
    other = home.parent / "other"
    await fill(other, Payments())
    with pytest.raises(Refused, match="holds another journal"):
        move_to_database(other, address)
    assert await is_usable(other)
