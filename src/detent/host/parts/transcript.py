"""A transcript: runs as lines of JSON that anybody can verify without detent.

The algorithm is in docs/reference/journal-export.md, with a verifier of thirty lines. Every event is exported as the
very bytes that were hashed; what is damaged is not exported but raises, and the closing line is then missing.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from detent.core.events import Event, Started, digest_after
from detent.errors import JournalError
from detent.host.parts.journal_query import AnyJournal, Record, chain, genesis

FORMAT = 1


def transcript(journal: AnyJournal, records: Iterable[Record]) -> Iterator[str]:
    """The lines of these runs as they stand now, each ending in a newline."""
    seal = hashlib.sha256()
    counts = {"runs": 0, "events": 0}
    told: set[str] = set()
    for values in _all(journal, records, counts, told):
        line = json.dumps(values, ensure_ascii=True, separators=(",", ":")) + "\n"
        seal.update(line.encode())
        yield line
    yield json.dumps({"line": "end", **counts, "sha256": seal.hexdigest()}, separators=(",", ":")) + "\n"


def _all(
    journal: AnyJournal, records: Iterable[Record], counts: dict[str, int], told: set[str]
) -> Iterator[dict[str, Any]]:
    yield {"line": "transcript", "format": FORMAT, "hash": "sha256"}
    for record in records:
        counts["runs"] += 1
        for values in _run(journal, record, told):
            counts["events"] += values["line"] == "event"
            yield values


def _run(journal: AnyJournal, record: Record, told: set[str]) -> Iterator[dict[str, Any]]:
    """One run up to the event its record names: what comes meanwhile is for the next transcript."""
    said = record.summary
    head, seq = genesis(said.run_id), 0
    yield {"line": "run", "run_id": said.run_id, "name": said.name, "genesis": head.hex()}
    for number, event, body, hashed in journal.events(record.no, upto=said.seq):
        if number != seq + 1:
            raise JournalError(f"run {said.run_id} is damaged: event {seq + 1} is missing")
        head, seq = chain(head, body), number
        if head != hashed:
            raise JournalError(
                f"run {said.run_id} is damaged at event {seq}: its hash does not follow from the one before"
            )
        digest = _machine(event)
        if digest and digest not in told:
            told.add(digest)
            yield {"line": "machine", "digest": digest, "body": journal.machine(digest).identity().decode()}
        yield {"line": "event", "run_id": said.run_id, "seq": seq, "body": body.decode(), "hash": head.hex()}
    if (seq, head) != (said.seq, record.head):
        raise JournalError(
            f"run {said.run_id} is damaged: its list entry says event {said.seq}, the chain ends at {seq}"
        )
    standing = {"state": said.state, "status": said.status.value}
    yield {"line": "head", "run_id": said.run_id, "events": seq, "head": head.hex(), **standing}


def _machine(event: Event) -> str:
    return event.machine if isinstance(event, Started) else digest_after(event)
