"""Journals of earlier releases mean for ever what they meant: each run in them folds to the same bytes as on its day.

`journals/0.1.jsonl.gz` holds machines, events and the folded runs of 0.1: 150 random histories with deaths, doubts and
collisions, and workflow files with shell steps that fail. It was written by 0.1 itself, and is never written again.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detent.core import Machine, Run, advance
from detent.core.events import digest_after
from detent.host.parts.journal_query import chain, decode_event, encode, genesis

RELEASES = sorted((Path(__file__).parent / "journals").glob("*.jsonl.gz"))


def read(release: Path) -> tuple[dict[str, Machine], list[dict[str, Any]]]:
    """The machines by digest, and the runs."""
    with gzip.open(release, "rt", encoding="utf-8") as text:
        rows = [json.loads(line) for line in text]
    machines = {row["machine"]: Machine.from_json(row["body"]) for row in rows if "machine" in row}
    return machines, [row for row in rows if "events" in row]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_run_of_a_release_folds_to_the_same_bytes(release: Path) -> None:
    machines, rows = read(release)
    assert len(rows) > 300
    assert all(machine.digest == digest for digest, machine in machines.items())
    for row in rows:
        run, head = Run(id=row["run_id"]), genesis(row["run_id"])
        machine: Machine | None = None
        for body in row["events"]:
            event = decode_event(body)
            assert encode(event) == body.encode(), "an event is written as it was read"
            digest = digest_after(event) or (getattr(event, "machine", "") if machine is None else "")
            machine = machines[digest] if digest else machine
            assert machine is not None
            run, _, _ = advance(machine, run, event)
            head = chain(head, body.encode())
        assert (msgspec.json.encode(run).decode(), head.hex()) == (row["run"], row["head"]), row["run_id"]
