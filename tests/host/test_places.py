"""Workers take what they have the means for: effects, a place with the files of a run, and rules new enough."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from detent.core import Action, Contract, Effect, Machine, Outcome, Run, Status, Transition, effect
from detent.core.events import RULES
from detent.errors import JournalError
from detent.host.postgres import PostgresHost, contract_executor, schema
from detent.host.postgres.job_queue import LOCAL, OWN, SHARED
from detent.testing.conformance import DOING, Outside
from tests.host.test_postgres import Databases, databases, server  # noqa: F401  # fixtures
from tests.host.test_postgres_crash import first_end, opened, stop_heartbeat
from tests.postgres import why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())
WORKER = (SHARED, OWN, LOCAL)

TWO = Machine(
    name="two",
    initial="a",
    transitions=(Transition("a", "b"), Transition("b", "done")),
    work={"a": (Action("first", "note", {"n": 1}),), "b": (Action("second", "note", {"n": 2}),)},
    ends={"done": Status.COMPLETED},
)


async def until(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What is asked for, as soon as there is something."""
    async with asyncio.timeout(30):
        while not (found := await ask()):  # noqa: ASYNC110  # another process has no event for us
            await asyncio.sleep(0.02)
    return found


def note(seen: list[str], name: str, **declared: Any) -> Effect:
    @effect("note", is_local=True, scope="run", **declared)
    async def perform(contract: Contract) -> Outcome:
        seen.append(name)
        return Outcome({"at": name})

    return perform


async def asked(host: PostgresHost, run_id: str) -> Run | None:
    run = (await host.look(run_id)).run
    return run if run.waiting else None


async def test_a_call_waits_for_a_worker_that_has_its_effect(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, outside = databases.address(tmp_path), Outside()
    async with opened(address, tmp_path / "a", outside.effect(), is_working=False) as front:
        run = await front.start(DOING, {"amount": 1})
        async with opened(address, tmp_path / "b", Outside().effect("other")) as lacking:
            await lacking.recover()
            found = await until(lambda: asyncio.to_thread(front.reader.list_unserved, run.id))
            assert [(one.run_id, one.contract_id) for one in found] == [(run.id, run.contracts[0].id)]
            assert "no worker here has the effect `do`" in found[0].problem
            assert (await lacking.look(run.id)).run.status is Status.RUNNING
            async with opened(address, tmp_path / "c", outside.effect()) as having:
                await having.recover()
                run = await asyncio.wait_for(first_end(having, run.id), 30)
            assert run.status is Status.COMPLETED
            assert front.reader.list_unserved(run.id) == ()
    assert len(outside.deeds) == 1
    assert swept(address) == 0, "nothing was lost and found again"


async def test_a_worker_that_lacks_an_effect_does_not_spin(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, outside = databases.address(tmp_path), Outside()
    async with opened(address, tmp_path / "a", outside.effect(), is_working=False) as front:
        async with opened(address, tmp_path / "b", Outside().effect("other")) as lacking:
            lacking.work()
            run = await front.start(DOING, {"amount": 1})
            await until(lambda: asyncio.to_thread(parked, address))
            first = parked(address)
            await lacking.places.tend()
            await lacking.places.tend()
            assert parked(address) == first, "the same job lies there, untouched"
        assert (await front.look(run.id)).run.status is Status.RUNNING


async def test_newer_runs_wait_for_newer_workers_without_being_swept(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, outside = databases.address(tmp_path), Outside()
    monkeypatch.setattr(contract_executor, "RULES", RULES - 1)
    async with opened(address, tmp_path / "a", outside.effect()) as older:
        run = await older.start(DOING, {"amount": 1})
        ((queue, *_),) = await until(lambda: asyncio.to_thread(parked, address))
        assert queue == f"needs:rules {RULES}"
        monkeypatch.undo()
        async with opened(address, tmp_path / "b", outside.effect()) as newer:
            newer.work()
            assert (await asyncio.wait_for(first_end(newer, run.id), 30)).status is Status.COMPLETED
    assert (len(outside.deeds), swept(address)) == (1, 0)


async def test_a_run_begun_where_no_calls_are_made_belongs_to_who_takes_its_first(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
) -> None:
    address, seen = databases.address(tmp_path), list[str]()
    async with (
        opened(address, tmp_path / "a", note(seen, "a"), place="a", queues=WORKER) as first,
        opened(address, tmp_path / "b", note(seen, "b"), place="b", queues=WORKER) as second,
        opened(address, tmp_path / "c", note(seen, "c"), place="c", is_working=False) as front,
    ):
        first.work()
        second.work()
        await asyncio.wait_for(first_end(front, (await front.start(TWO)).id), 30)
        assert seen in (["a", "a"], ["b", "b"])


async def test_a_place_that_was_only_slow_answers_the_doubt_about_its_call(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
) -> None:
    address, seen, go = databases.address(tmp_path), list[str](), asyncio.Event()

    @effect("note", is_local=True, scope="run", settle_s=0.0)
    async def slow(contract: Contract) -> Outcome:
        seen.append("a")
        await go.wait()
        return Outcome({"at": "a"})

    async def look_on_the_wrong_machine(contract: Contract) -> Outcome:
        raise AssertionError("another place knows nothing of these files")

    other = note(seen, "b", settle_s=0.0, reconcile=look_on_the_wrong_machine)
    async with opened(address, tmp_path / "a", slow, place="a", lease_s=0.1) as first:
        run = await first.start(TWO)
        await until(lambda: _is_there(seen))
        async with opened(address, tmp_path / "b", other, place="b", queues=WORKER) as second:
            second.work()
            first.queue.names.clear()

            async def ask_without_heartbeat() -> Run | None:
                stop_heartbeat(address, first.queue.worker_id)
                return await asked(second, run.id)

            run = await until(ask_without_heartbeat)
            assert run.waiting[0].effect_state == "possible"
            first.queue.names.add("at:a")
            go.set()  # it was only slow: what came of the call answers the question
            run = await asyncio.wait_for(first_end(second, run.id), 30)
    assert run.status is Status.COMPLETED
    assert seen == ["a", "a"]


async def _is_there(seen: list[str]) -> bool:
    return bool(seen)


def parked(address: str) -> list[Any]:
    with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
        return connection.execute(
            "select queue_name, id, attempts from procrastinate_jobs where queue_name like 'needs:%'"
        ).fetchall()


def swept(address: str) -> int:
    with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
        row = connection.execute("select value::bigint from meta where name = 'swept'").fetchone()
        return int(row[0]) if row else -1


async def test_tables_are_migrated_under_running_workers(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, outside = databases.address(tmp_path), Outside()
    async with opened(address, tmp_path / "a", outside.effect()) as older:
        older.work()
        with monkeypatch.context() as newer:
            newer.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, schema.VERSION: "create table extra (a int)"})
            newer.setattr(schema, "VERSION", schema.VERSION + 1)
            assert schema.init(older.database) == schema.VERSION
        run = await older.start(DOING, {"amount": 1})
        assert (await older.settled(run.id)).status is Status.COMPLETED
    async with opened(address, tmp_path / "b"):
        pass  # one of the version before may still be started
    with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
        connection.execute("update meta set value = %s where name = 'oldest'", (str(schema.VERSION + 1),))
        with pytest.raises(JournalError, match="newer detent"):
            async with opened(address, tmp_path / "b"):
                pass
        connection.execute("drop table extra")
        connection.execute("update meta set value = %s where name in ('version', 'oldest')", (str(schema.VERSION),))
