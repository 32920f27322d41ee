"""Opening a home whose journal is in PostgreSQL, as `host.opening` wants it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detent.core.effect_type import Effect
from detent.core.policy import Policy
from detent.errors import Refused
from detent.host.address import find_address
from detent.host.port import FindEffects
from detent.host.postgres.connection import Database, told_plainly
from detent.host.postgres.host import SLOTS, PostgresHost
from detent.host.postgres.journal import PostgresJournal
from detent.host.postgres.postgres_reader import PostgresReader
from detent.host.postgres.schema import VERSION, init, read_version
from detent.host.reading import DatabaseReport

SLOTS_VARIABLE = "DETENT_SLOTS"  # how many effects at once; 0: leave them to workers


def open_postgres(
    home: Path,
    effects: Mapping[str, Effect] | Sequence[Effect] = (),
    find_effects: FindEffects | None = None,
    policy: Policy | None = None,
    notify: str = "notify",
    command: str = "",  # noqa: ARG001  # nobody holds this journal alone
    reader: PostgresReader | None = None,
    grace_s: float | None = None,
    **settings: Any,
) -> PostgresHost:
    """A host on the database at which a home points."""
    slots = int(settings.pop("slots", -1))
    slots = _read_slots() if slots < 0 else slots
    known = {"find_effects": find_effects, "policy": policy, "notify": notify, **settings}
    return PostgresHost(
        reader.database if reader is not None else Database(find_address(home)),
        home,
        effects,
        grace_s=float("inf") if grace_s is None else grace_s,
        slots=max(1, slots),
        is_working=slots > 0,
        reader=reader,
        **known,
    )


def open_postgres_reader(home: Path) -> PostgresReader:
    """A reader of the database at which a home points; close it when done."""
    return PostgresReader(Database(find_address(home)), home, is_owner=True)


def prepare_database(home: Path, *, is_checked_only: bool = False) -> DatabaseReport:
    """Make the tables of a home's database, or bring them up to date; or only look at them."""
    database = Database(find_address(home))
    try:
        if not is_checked_only:
            init(database)
        with told_plainly(database.name), database.connection() as connection:
            version = read_version(connection)
            row = connection.execute("select current_setting('server_version')").fetchone()
        server = str(row[0]) if row is not None else ""
        if not version:
            return DatabaseReport(database.name, server, 0, VERSION)
        journal = PostgresJournal(database.name, database.connection)
        counts = journal.rows(
            "select (select count(*) from runs), (select count(*) from work), (select count(*) from"
            " procrastinate_workers where last_heartbeat > now() - interval '10 seconds'), (select count(*) from"
            " procrastinate_jobs where status = 'todo' and (scheduled_at is null or scheduled_at <= now())),"
            " (select value::bigint from meta where name = 'swept')",
            (),
        )[0]
        return DatabaseReport(database.name, server, version, VERSION, *counts)
    finally:
        database.close()


def _read_slots() -> int:
    given = os.environ.get(SLOTS_VARIABLE, "")
    if not given:
        return SLOTS
    if not given.isdecimal():
        raise Refused(f"{SLOTS_VARIABLE} is `{given}`; it must be a number, and 0 leaves all effects to workers")
    return int(given)
