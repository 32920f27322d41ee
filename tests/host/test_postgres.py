"""The Postgres host does what every host must do."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.core import Effect
from detent.host import Host
from detent.kit.people import PeopleFile
from detent.testing.conformance import CHECKS, HandClock
from tests.postgres import Server, running, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


class Databases:
    """A database for every home, made from one that has the tables already."""

    def __init__(self, server: Server) -> None:
        from detent.host.postgres.connection import Database
        from detent.host.postgres.schema import init

        self._server, self._template = server, server.create()
        database = Database(server.address(self._template))
        init(database)
        database.close()
        self._of_home: dict[Path, str] = {}

    def address(self, home: Path) -> str:
        if home not in self._of_home:
            self._of_home[home] = self._server.create(self._template)
        return self._server.address(self._of_home[home])


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    with running() as server:
        yield Databases(server)


def opener(databases: Databases) -> Any:
    from detent.host.postgres import PostgresHost
    from detent.host.postgres.connection import Database

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
    async with asyncio.timeout(12):  # a run that is stuck shall say which
        await CHECKS[check](opener(databases), tmp_path / "home")
