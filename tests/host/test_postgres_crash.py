"""Workers that die, stop for a while or lose the database: nothing is done twice, and nothing is lost."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from detent.core import Action, Contract, Effect, Outcome, Question, Status, effect
from detent.core.events import Event, Signalled
from detent.core.machine import Group
from detent.errors import JournalError, NotWaiting, Refused
from detent.host.concurrency_group import enter, group_id
from detent.host.postgres import PostgresHost, postgres_reader
from detent.host.postgres import connection as connections
from detent.host.postgres.connection import Database, is_gone
from detent.host.postgres.fold_transaction import Moment
from detent.host.postgres.job_queue import QUEUE, STALLED_S
from detent.host.postgres.schema import init
from detent.testing.conformance import DOING, DOOR, Outside, one, races, until
from tests.host.dying_worker import make_effects
from tests.host.test_postgres import Databases, databases, server  # noqa: F401  # fixtures
from tests.postgres import running, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())
OLD = "update procrastinate_workers set last_heartbeat = now() - make_interval(secs => %s)"


@asynccontextmanager
async def opened(address: str, home: Path, *effects: Effect, **given: Any) -> AsyncIterator[PostgresHost]:
    home.mkdir(exist_ok=True)
    async with PostgresHost(Database(address), home, effects, grace_s=0.0, **given) as host:
        yield host


class Slow(Outside):
    """An effect that goes on when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    def waiting(self, **declared: Any) -> Effect:
        async def perform(contract: Contract) -> Outcome:
            self.deeds.append(contract)
            self.begun.release()
            await self.go.wait()
            return Outcome({"count": len(self.deeds)})

        return effect("do", kind="irreversible", settle_s=0.0, **declared)(perform)


def stop_heartbeat(address: str, worker: int = 0) -> None:
    """What a worker looks like to the others when its machine has stopped; 0: all of them."""
    with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
        connection.execute(f"{OLD} where %s in (0, id)", (2 * STALLED_S, worker))


async def test_a_worker_that_comes_back_answers_the_doubt_about_its_call(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, slow = databases.address(tmp_path), Slow()
    async with opened(address, tmp_path / "a", slow.waiting(), slots=1) as first:  # so it takes nothing else
        run = await first.start(DOING, {"amount": 1})
        await slow.begun.acquire()
        stop_heartbeat(address)
        async with opened(address, tmp_path / "b", slow.waiting()) as second:
            assert await second.recover() == (run.id,)
            run = await second.settled(run.id)
            assert run.waiting[0].question is not None
            assert run.waiting[0].question.reason == "outcome_unknown"
            slow.go.set()  # the first one goes on, and hands in what came of its call
            run = await asyncio.wait_for(first_end(second, run.id), 30)
            assert run.status is Status.COMPLETED
    assert len(slow.deeds) == 1


async def test_a_second_deed_is_told(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, slow, quick = databases.address(tmp_path), Slow(), Outside()
    async with opened(address, tmp_path / "a", slow.waiting(), slots=1) as first:  # so it takes nothing else
        run = await first.start(DOING, {"amount": 1})
        await slow.begun.acquire()
        stop_heartbeat(address)
        async with opened(address, tmp_path / "b", quick.effect(settle_s=0.0)) as second:
            await second.recover()
            run = await second.settled(run.id)
            await second.answer(run.id, run.waiting[0].id, {"outcome": "not_happened", "by": "ann"})
            slow.go.set()
            run = await asyncio.wait_for(first_end(second, run.id), 30)
            while not run.alarms:
                run = (await second.look(run.id)).run
                await asyncio.sleep(0.01)
            assert len(slow.deeds) + len(quick.deeds) == 2
            assert run.alarms


async def first_end(host: PostgresHost, run_id: str) -> Any:
    async for entry in host.watch(run_id):
        if entry.run.ended is not None:
            return entry.run
    raise AssertionError


class DyingConnection(psycopg.Connection[Any]):
    """A connection that is cut at its n-th statement of a transaction."""

    left = -1
    is_commit_cut = False  # the next commit is made, and nobody hears of it

    def execute(self, query: Any, *args: Any, **given: Any) -> Any:
        kind = DyingConnection
        if kind.left == 0:
            kind.left = -1
            self.pgconn.finish()
            raise psycopg.OperationalError("the connection was cut")
        if kind.left > 0:
            kind.left -= 1
        if kind.is_commit_cut and query == "commit":
            kind.is_commit_cut = False
            super().execute(query)
            if self._pipeline is not None:
                self._pipeline.sync()
            self.pgconn.finish()
            raise psycopg.OperationalError("the answer to the commit was lost")
        return super().execute(query, *args, **given)


async def test_a_connection_may_be_cut_at_any_statement(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    outside = Outside()
    database = Database(databases.address(tmp_path))
    database._pool.connection_class = DyingConnection
    async with PostgresHost(database, tmp_path, [outside.effect()], grace_s=0.0) as host:
        door = await host.start(DOOR)
        await host.settled((await host.start(DOING, {"amount": 0})).id)
        for number in range(14):
            DyingConnection.left = number
            seq = (await host.signal(door.id, "OPEN" if door.state == "closed" else "CLOSE", id=f"s{number}")).seq
            DyingConnection.left = -1
            door = await host.show(door.id)
            assert door.seq == seq == number + 2, "said once, kept once"
        DyingConnection.is_commit_cut = True
        assert (await host.signal(door.id, "OPEN", by="ann")).seq == door.seq + 1, "looked up, not said again"
        DyingConnection.is_commit_cut = True
        run = await host.start(DOING, {"amount": 100})
        assert (await asyncio.wait_for(first_end(host, run.id), 30)).status is Status.COMPLETED
        for number in range(1, 30, 2):
            DyingConnection.left = number
            run = await host.start(DOING, {"amount": number}, run_id=f"r{number}")
            run = await asyncio.wait_for(first_end(host, run.id), 30)
            DyingConnection.left = -1
            assert run.status is Status.COMPLETED
            assert not host.reader.verify(run.id).problem
        assert sorted(deed.input["amount"] for deed in outside.deeds) == [0, *range(1, 30, 2), 100]
        assert not list(host.reader.claim_differences())


async def test_two_processes_move_one_run(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address = databases.address(tmp_path)
    async with opened(address, tmp_path / "a") as first, opened(address, tmp_path / "b") as second:
        run = await first.start(DOOR)
        said = [host.signal(run.id, "OPEN", id="same") for host in (first, second) for _ in range(5)]
        assert {(await one).seq for one in said} == {2}
        for number in range(10):
            await (first, second)[number % 2].signal(run.id, ("CLOSE", "OPEN")[number % 2])
        assert first.reader.verify(run.id).events == 12


async def test_a_connection_may_be_wrong_about_a_run_again_and_again(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    for right in range(3):  # so often it is right before
        database = Database(databases.address(tmp_path / f"{right}"), connections_max=1)
        async with PostgresHost(database, tmp_path, is_working=False, grace_s=0.0) as host:
            run = await host.start(DOOR)
            said = [("OPEN", "CLOSE")[number % 2] for number in range(10)]
            for name in said[:right]:
                await host.signal(run.id, name)
            await host.mark_restored(host.clock.now() - 1.0)  # from now on nothing is presumed of any run
            for name in said[right:]:
                await host.signal(run.id, name)
                await host.fold(await host.look(run.id), lambda _: ())  # nothing is to be said after all
            assert host.reader.verify(run.id).events == 12, "with the word that it was restored"


async def test_a_job_that_nobody_understands_stops_no_worker(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    strange = (
        "select procrastinate_defer_jobs_v1(array[(%s, 'perform', 0, null, null, '{\"a\": 1}', null)"
        "::procrastinate_job_to_defer_v1])"
    )
    address, outside = databases.address(tmp_path), Outside()
    async with opened(address, tmp_path, outside.effect()) as host:
        with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
            connection.execute(strange, (QUEUE,))
        run = await host.start(one(Action("deed", "do", {}, kind="pure")))
        assert (await asyncio.wait_for(first_end(host, run.id), 30)).status is Status.COMPLETED


async def test_a_worker_takes_up_what_it_has_begun_and_lost(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, outside = databases.address(tmp_path), Outside()
    async with opened(address, tmp_path, outside.effect()) as host:
        await host.queue.ready()
        host.queue.names.clear()
        run = await host.start(one(Action("deed", "do", {}, kind="pure")))
        with psycopg.connect(address, options="-c search_path=detent", autocommit=True) as connection:
            connection.execute("delete from procrastinate_jobs")
            connection.execute("update work set worker = %s, begun_at = 1", (host.queue.worker_id,))
        await (
            host.crew.take_up_left()
        )  # there is no job for it, and nobody has it in hand; its own round may be quicker
        host.queue.names.add(QUEUE)
        assert (await asyncio.wait_for(first_end(host, run.id), 30)).status is Status.COMPLETED


async def test_an_answer_is_never_written_on_the_ground_of_a_memory(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, outside = databases.address(tmp_path), Outside()
    asking = one(*(Action(name, "do", {"name": name}, ask=Question("Go on?")) for name in ("one", "two")))
    async with (
        opened(address, tmp_path / "a", outside.effect()) as first,
        opened(address, tmp_path / "b", outside.effect()) as second,
    ):
        run = await first.start(asking)
        assert first.recall(run.id) is not None, "it remembers the first question"
        await second.answer(run.id, "work/one/1", {"approved": True})
        await second.settled(run.id)
        with pytest.raises(NotWaiting):
            await first.answer(run.id, "work/one/1", {"approved": False})
        await second.show(run.id)
        assert second.recall(run.id) is not None, "it remembers the second question"
        await first.answer(run.id, "work/two/1", {"approved": True})
        with pytest.raises(NotWaiting):
            await second.answer(run.id, "work/two/1", {"approved": False})
        assert (await asyncio.wait_for(first_end(first, run.id), 30)).status is Status.COMPLETED
    assert len(outside.deeds) == 2


async def test_a_key_is_taken_once_however_many_want_it(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, outside = databases.address(tmp_path), Outside()
    refusing = one(Action("deed", "do", {"amount": 1}, on_repeat="refuse"))
    async with (
        opened(address, tmp_path / "a", outside.effect()) as first,
        opened(address, tmp_path / "b", outside.effect()) as second,
    ):
        runs = await asyncio.gather(*(host.start(refusing) for host in (first, second) for _ in range(10)))
        ended = [await asyncio.wait_for(first_end(first, run.id), 30) for run in runs]
        assert [run.status for run in ended].count(Status.COMPLETED) == 1
        assert len(outside.deeds) == 1


async def test_the_database_goes_away_and_comes_back(tmp_path: Path) -> None:
    slow = Slow()
    with running() as apart:  # a server of its own, for it is killed
        apart.stop()
        apart.start(is_durable=True)
        database = Database(apart.address(apart.create()))
        init(database)
        async with PostgresHost(database, tmp_path, [slow.waiting()], grace_s=0.0) as host:
            steps = one(*(Action(f"s{n}", "do", {"n": n}) for n in range(3)))
            run = await host.start(steps)
            await slow.begun.acquire()
            await asyncio.to_thread(apart.stop, "immediate")
            slow.go.set()  # it is done while nobody can write that down
            await asyncio.to_thread(apart.start, is_durable=True)
            run = await asyncio.wait_for(first_end(host, run.id), 50)
            assert (run.status, len(slow.deeds)) == (Status.COMPLETED, 3)
            assert not host.reader.verify(run.id).problem


async def test_a_worker_may_be_killed_at_any_statement(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, ledger = databases.address(tmp_path), tmp_path / "ledger"
    ledger.touch()
    every = "1" if "DETENT_EXAMPLES" in os.environ else "2"
    words = [sys.executable, "-m", "tests.host.dying_worker", address, str(tmp_path), str(ledger), every]
    lives = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await lives.communicate()
    assert lives.returncode == 0
    assert int(said) > 15, "there are so many places to die at"
    stop_heartbeat(address)
    async with opened(address, tmp_path, *make_effects(ledger)) as host:
        await host.recover()
        for summary in await host.list(limit=1000):
            run = await asyncio.wait_for(end_truthfully(host, summary.run_id, ledger), 60)
            assert run.status is Status.COMPLETED
            assert not host.reader.verify(run.id).problem
        assert not list(host.reader.claim_differences())
        begun = {summary.run_id for summary in await host.list(limit=1000)}
    assert sorted(ledger.read_text().split()) == sorted(begun), "each once"


async def end_truthfully(host: PostgresHost, run_id: str, ledger: Path) -> Any:
    """Answer what is asked about a deed in doubt by what the ledger says, until the run has ended."""
    while (run := await host.settled(run_id)).ended is None:
        is_done = run_id in ledger.read_text().split()
        said = {"outcome": "happened", "result": {}} if is_done else {"outcome": "not_happened"}
        await host.answer(run_id, run.waiting[0].id, {**said, "by": "ann"})
    return run


async def test_a_call_is_stopped_that_another_process_cancels_while_it_begins(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
) -> None:
    address, outside = databases.address(tmp_path), Outside()
    effects = [outside.hanging(settle_s=0.0)]
    async with (
        opened(address, tmp_path / "a", *effects) as worker,
        opened(address, tmp_path / "b", *effects, is_working=False) as front,
    ):
        worker.work()
        await worker.queue.ready()
        for number in range(races.TRIES):
            run = await front.start(races.HANGING, {"number": number})
            await races.sleep_a_moment()
            await front.cancel(run.id)
            await asyncio.wait_for(until(front, run.id, races.is_stopped), 10)


async def test_a_call_is_stopped_that_was_cancelled_while_its_worker_heard_nothing(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
) -> None:
    address, outside = databases.address(tmp_path), Outside()
    effects = [outside.hanging(settle_s=0.0)]
    deaf = "select pg_terminate_backend(pid) from pg_stat_activity where query = 'listen detent_abort'"
    async with (
        opened(address, tmp_path / "a", *effects) as worker,
        opened(address, tmp_path / "b", *effects, is_working=False) as front,
    ):
        worker.work()
        run = await front.start(races.HANGING, {"number": 0})
        await outside.begun.acquire()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(deaf)
        await front.cancel(run.id)
        await asyncio.wait_for(until(front, run.id, races.is_stopped), 30)


async def test_a_place_is_passed_on_whose_run_died_before_it_began(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, group = databases.address(tmp_path), Group("{{ context.repo }}", 1, "queue")
    machine = one(Action("deed", "do", {}), name="grouped", group=group)
    async with opened(address, tmp_path / "a", Outside().effect(kind="pure")) as host:
        await enter(host, group, group_id("a"), "a", "dead")  # and then the power goes
        run = await host.start(machine, {"repo": "a"})
        assert run.is_held
        await host.tidy()
        assert (await host.show(run.id)).is_held, "it may still begin"
        await host.tidy(patience_s=0.0)
        assert (await asyncio.wait_for(first_end(host, run.id), 30)).status is Status.COMPLETED


async def test_a_lost_hint_is_made_up_for_though_others_come_all_the_time(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address = databases.address(tmp_path)
    async with (
        opened(address, tmp_path / "a", is_working=False) as front,
        opened(address, tmp_path / "b", is_working=False) as other,
    ):
        door = await front.start(DOOR)
        others = asyncio.create_task(tell_of_others(address))
        entries = front.watch(door.id)
        assert (await anext(entries)).seq == 1
        await other.signal(door.id, "OPEN")
        assert (await asyncio.wait_for(anext(entries), 20)).seq == 2, "it listens"
        other.hints.send_now = lambda *_: True  # type: ignore[method-assign]  # its words are lost
        waiting = asyncio.create_task(next_seq(entries))
        await asyncio.sleep(0.3)  # it waits by then; where it does not, only less is proved
        await other.signal(door.id, "CLOSE")
        assert await asyncio.wait_for(waiting, 20) == 3
        with psycopg.connect(address, autocommit=True) as db:
            found = db.execute("select count(*) from pg_stat_activity where query ilike 'listen%%'").fetchone()
        assert found == (2,), "one connection of a host hears everything"
        others.cancel()


async def next_seq(entries: AsyncIterator[Any]) -> int:
    return int((await anext(entries)).seq)


async def tell_of_others(address: str) -> None:
    """Say all the time that some run has moved."""
    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as db:
        while True:
            await db.execute("select pg_notify('detent_moved', '@somebody another')")
            await asyncio.sleep(0.02)


async def test_a_call_is_stopped_though_the_word_was_lost(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address, slow = databases.address(tmp_path), Slow()
    async with (
        opened(address, tmp_path / "a", slow.waiting()) as worker,
        opened(address, tmp_path / "b", is_working=False) as other,
    ):
        run = await worker.start(DOING, {"amount": 1})
        await slow.begun.acquire()
        other.hints.send_now = lambda *_: True  # type: ignore[method-assign]  # its words are lost
        await other.cancel(run.id)
        worker._tidy_at = 0.0  # a minute has passed
        async with asyncio.timeout(30):
            while worker.at_work(run.id):  # noqa: ASYNC110  # nobody rings for it
                await asyncio.sleep(0.01)


async def test_a_process_that_stands_still_in_the_middle_of_a_message_holds_no_run(
    databases: Databases,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the server it is not idle, so that its own alarm for idle transactions never rings."""
    monkeypatch.setattr(postgres_reader, "IDLE_S", 0.5)
    monkeypatch.setattr(postgres_reader, "TEND_S", 0.1)
    address = databases.address(tmp_path)
    is_locked, go_on = threading.Event(), threading.Event()

    def stand_still(moment: Moment) -> Sequence[Event]:
        is_locked.set()
        go_on.wait(30)
        return (Signalled("OPEN" if moment.live.run.state == "closed" else "CLOSE", at=1.0),)

    async with opened(address, tmp_path / "still") as still, opened(address, tmp_path / "other") as other:
        run = await other.start(DOOR)
        standing = asyncio.create_task(still.fold(await still.look(run.id), stand_still))
        await asyncio.to_thread(is_locked.wait, 10)
        try:
            moved = await asyncio.wait_for(other.signal(run.id, "OPEN", {}), 10)
        finally:
            go_on.set()
        after = await asyncio.wait_for(standing, 10)
        assert (after.seq, after.state) == (moved.seq + 1, "closed"), (
            "folded anew, on what the other has made of the run"
        )
        assert not other.reader.verify(run.id).problem


async def test_a_database_that_takes_no_writes_for_a_while_is_waited_for(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    """As a server that became a standby, or that its owner keeps from writing because the disk is full."""
    address, slow = databases.address(tmp_path), Slow()
    name = address.rpartition("/")[2]
    async with opened(address, tmp_path, slow.waiting()) as host:
        run = await host.start(one(*(Action(f"s{n}", "do", {"n": n}) for n in range(2))))
        other = await host.start(DOOR)
        await slow.begun.acquire()
        with psycopg.connect(address, autocommit=True) as connection:
            try:
                connection.execute(f"alter database {name} set default_transaction_read_only = on")
                end_others(connection)
                slow.go.set()  # it is done while nobody can write that down
                with pytest.raises(JournalError, match="does not answer"):  # behind the word of what came of the call
                    await host.fold(await host.look(run.id), lambda _: (Signalled("OPEN", at=1.0),), patience_s=0.5)
                with pytest.raises(JournalError, match="takes no writes now"):
                    await host.fold(await host.look(other.id), lambda _: (Signalled("OPEN", at=1.0),), patience_s=0.5)
            finally:
                connection.execute("set default_transaction_read_only = off")
                connection.execute(f"alter database {name} set default_transaction_read_only = off")
            end_others(connection)
        run = await asyncio.wait_for(first_end(host, run.id), 50)
        assert (run.status, len(slow.deeds)) == (Status.COMPLETED, 2)
        assert not host.reader.verify(run.id).problem


def end_others(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Cut every other connection to the same database."""
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid()"
    )


async def test_who_lacks_a_right_is_told_so_and_no_call_is_lost(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    address = databases.address(tmp_path)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create role stranger login")
        try:
            as_stranger = address.replace("postgres@", "stranger@")
            with pytest.raises(JournalError, match="lacks a right"):
                async with opened(as_stranger, tmp_path / "none"):
                    pass
            connection.execute("grant usage on schema detent to stranger")
            connection.execute("grant select on all tables in schema detent to stranger")
            connection.execute("grant update on detent.meta to stranger")
            async with opened(as_stranger, tmp_path / "some", is_working=False) as host:
                with pytest.raises(JournalError, match="lacks a right"):
                    await host.start(DOOR)
        finally:
            connection.execute("drop owned by stranger; drop role stranger")


async def test_what_the_database_cannot_keep_is_refused(databases: Databases, tmp_path: Path) -> None:  # noqa: F811
    async with opened(databases.address(tmp_path), tmp_path, is_working=False) as host:
        with pytest.raises(Refused, match="cannot be kept"):
            await host.start(DOOR, session="a\0b")


async def test_a_run_is_not_called_damaged_because_the_database_is_away(tmp_path: Path) -> None:
    with running() as apart:
        database = Database(apart.address(apart.create()))
        init(database)
        async with PostgresHost(database, tmp_path, grace_s=0.0, is_working=False) as host:
            run = await host.start(DOOR)
            live = await host.look(run.id)
            await asyncio.to_thread(apart.stop, "immediate")
            with pytest.raises(JournalError) as told:
                list(host.journal.events(live.no))
            assert "damaged" not in str(told.value)
            assert is_gone(told.value), "so that a worker waits for it"


async def test_who_waits_for_the_database_has_it_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ACQUIRE_S", 60.0)
    with running(is_durable=True) as apart:
        database = Database(apart.address(apart.create()))
        init(database)
        async with PostgresHost(database, tmp_path, grace_s=0.0, is_working=False) as host:
            run = await host.start(DOOR)
            await asyncio.to_thread(apart.stop, "immediate")
            waiting = asyncio.create_task(host.look(run.id))
            await asyncio.sleep(2 * connections.ATTEMPT_S)  # the pool has tried in vain, and given up
            await asyncio.to_thread(apart.start, is_durable=True)
            assert (await asyncio.wait_for(waiting, 30)).run.seq == run.seq
