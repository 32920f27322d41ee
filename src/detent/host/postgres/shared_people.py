"""One truth about people for all machines of a database: kept in it, and written into each machine's file.

The journal has the digest that the people have now. A file that has it is right, and is put into the database. A file
that is missing or was right once is replaced. One that was changed by hand is left for `difference_of` to tell.
"""

import msgspec
import psycopg

from detent.core.people import People
from detent.errors import DefinitionError, Unknown
from detent.host.parts.loaded_run import load
from detent.host.people import RECORD_ID, PeopleSource
from detent.host.postgres.journal import KEEP_META, PostgresJournal

SHARE_S = 5.0  # so often a process looks for people that another machine has changed
SHARED = "select value from meta where name = 'people'"
WAS_RIGHT = (
    "select 1 from events where run = (select no from runs where run_id = ?) and instr(body, cast(? as blob)) > 0"
    " limit 1"
)


def share_people(connection: psycopg.Connection, journal: PostgresJournal, source: PeopleSource | None) -> None:
    """Bring this machine's people and those of the database together."""
    if source is None:
        return
    try:
        known = str(load(journal, RECORD_ID).run.context.get("digest") or "")
        here = source.current()
    except (Unknown, DefinitionError):
        return  # nobody has made people yet, or what is here must be looked at by a person
    row = connection.execute(SHARED).fetchone()
    shared = msgspec.json.decode(row[0], type=People) if row is not None else None
    digest = here.digest if here is not None else ""
    if not known:
        return
    if here is not None and digest == known:
        if shared is None or shared.digest != known:
            connection.execute(KEEP_META, ("people", msgspec.json.encode(here).decode()))
    elif shared is not None and shared.digest == known:
        is_old = here is None or journal.rows(WAS_RIGHT, (RECORD_ID, digest.encode()))
        if is_old:
            source.write(shared)
