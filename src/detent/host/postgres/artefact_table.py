"""Artefacts of a journal in PostgreSQL: contents in parts, by their SHA-256, and which run has which.

Every machine can read what any worker has kept. Who lets go of contents holds a lock that keepers share, so that none
goes while a run is about to have it.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator

from detent.errors import JournalError, Unknown
from detent.host.postgres.connection import Database

PIECE = 1024 * 1024
SPOOL_BYTES = 8 * PIECE  # up to here a content that is being kept is in memory
LOCK = 0x64657466
LET_GO = (
    "delete from artefacts where not exists (select 1 from runs where runs.run_id = artefacts.run_id)",
    "delete from contents where not exists (select 1 from artefacts where artefacts.digest = contents.digest)",
)


class ArtefactTable:
    """Contents in the database, each once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, run_id: str, pieces: Iterable[bytes]) -> tuple[str, int]:
        """Keep a content for a run, in one transaction."""
        hashed, size = hashlib.sha256(), 0
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as draft:
            for piece in pieces:
                draft.write(piece)
                hashed.update(piece)
                size += len(piece)
            digest = hashed.hexdigest()
            draft.seek(0)
            with self._database.connection() as connection, connection.transaction():
                connection.execute("select pg_advisory_xact_lock_shared(%s)", (LOCK,))
                put = "insert into artefacts values (%s, %s) on conflict do nothing"
                connection.execute(put, (run_id, digest))
                put = "insert into contents values (%s, %s) on conflict do nothing returning digest"
                if connection.execute(put, (digest, size)).fetchone() is not None:
                    part = 0
                    while piece := draft.read(PIECE):
                        connection.execute("insert into content_parts values (%s, %s, %s)", (digest, part, piece))
                        part += 1
        return digest, size

    def read(self, run_id: str, digest: str) -> Iterator[bytes]:
        """A content that the run has, part by part."""
        with self._database.connection() as connection:
            query = "select 1 from artefacts where run_id = %s and digest = %s"
            if connection.execute(query, (run_id, digest)).fetchone() is None:
                raise Unknown(f"run {run_id} has no artefact {digest[:64]}")
        return self._read(digest)

    def _read(self, digest: str) -> Iterator[bytes]:
        hashed, part = hashlib.sha256(), 0
        query = "select body from content_parts where digest = %s and part = %s"
        while True:
            with self._database.connection() as connection:
                row = connection.execute(query, (digest, part)).fetchone()
            if row is None:
                break
            hashed.update(row[0])
            yield bytes(row[0])
            part += 1
        if hashed.hexdigest() != digest:
            raise JournalError(f"the artefact {digest} is damaged: its content is another")

    def measure(self, run_id: str) -> int:
        """How many bytes are kept for a run."""
        query = "select coalesce(sum(size), 0)::bigint from contents join artefacts using (digest) where run_id = %s"
        with self._database.connection() as connection:
            row = connection.execute(query, (run_id,)).fetchone()
        return int(row[0]) if row is not None else 0

    def let_go(self) -> None:
        """Remove what no run has any more."""
        with self._database.connection() as connection, connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
            for statement in LET_GO:
                connection.execute(statement)
