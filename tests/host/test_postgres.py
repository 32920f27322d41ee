"""The Postgres host does what every host must do."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from detent.core import Effect
from detent.host import Host
from detent.host.postgres import PostgresHost
from detent.host.postgres.connection import Database
from detent.host.postgres.job_queue import LOCAL, OWN, SHARED
from detent.host.postgres.schema import init
from detent.kit.people_file import PeopleFile
from detent.testing.conformance import CHECKS, PLACE_CHECKS, HandClock
from tests.postgres import Server, running, why_not

EMPTY = """
truncate runs, events, snapshots, projections, claims, outbox, work, machines, stations, places, pins,
    procrastinate_jobs, procrastinate_events, procrastinate_workers, procrastinate_periodic_defers;
update meta set value = replace(gen_random_uuid()::text, '-', '') where name = 'journal_id';
update meta set value = '1' where name = 'epoch';
delete from meta where name in ('people', 'arriving')
"""

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


class Databases:
    """A database for every home of a test; emptied afterwards, for the next."""

    def __init__(self, server: Server) -> None:
        self._server, self._template = server, server.create()
        with _connect(server.address(self._template)) as database:
            init(database)
        self._free: list[str] = []
        self._of_home: dict[Path, str] = {}

    def address(self, home: Path) -> str:
        if home not in self._of_home:
            self._of_home[home] = self._free.pop() if self._free else self._server.create(self._template)
        return self._server.address(self._of_home[home])

    def empty(self) -> None:
        for name in self._of_home.values():
            with _connect(self._server.address(name)) as database, database.connection() as connection:
                with suppress(psycopg.errors.DeadlockDetected):  # the last round of a worker that is closed just ends
                    connection.execute(EMPTY, prepare=False)
                connection.execute(EMPTY, prepare=False)
            self._free.append(name)
        self._of_home.clear()


@contextmanager
def _connect(address: str) -> Iterator[Database]:
    database = Database(address)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Databases]:
    with running() as server:
        yield Databases(server)


@pytest.fixture
def databases(server: Databases) -> Iterator[Databases]:
    yield server
    server.empty()


def opener(databases: Databases) -> Any:
    @asynccontextmanager
    async def open_host(
        home: Path, effects: Sequence[Effect] = (), clock: HandClock | None = None
    ) -> AsyncIterator[Host]:
        home.mkdir(exist_ok=True)
        database = Database(databases.address(home))
        async with PostgresHost(database, home, effects, clock=clock, grace_s=0.0, people=PeopleFile(home)) as host:
            yield host

    return open_host


@pytest.mark.parametrize("check", CHECKS)
async def test_the_postgres_host_conforms(check: str, databases: Databases, tmp_path: Path) -> None:
    async with asyncio.timeout(60):  # a run that is stuck shall say which
        await CHECKS[check](opener(databases), tmp_path / "home")


@pytest.mark.parametrize("check", PLACE_CHECKS)
async def test_the_postgres_host_keeps_places(check: str, databases: Databases, tmp_path: Path) -> None:
    @asynccontextmanager
    async def open_at(home: Path, place: str, effects: Sequence[Effect] = ()) -> AsyncIterator[Host]:
        home.mkdir(exist_ok=True)
        given: dict[str, Any] = {"place": place, "queues": (SHARED, OWN, LOCAL), "lease_s": 0.1, "grace_s": 0.0}
        async with PostgresHost(Database(databases.address(home)), home, effects, **given) as host:
            yield host

    async with asyncio.timeout(60):
        await PLACE_CHECKS[check](open_at, tmp_path / "home")
