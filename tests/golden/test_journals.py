"""Journals of every schema, each made by the code of its day: read as they are, migrated, and driven on.

`journals/schema-N.db.gz` is such a journal, `schema-N.json` what its own version said of it (see `make_journal.py`).
They are never written again.
"""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from detent.core import Run, Status
from detent.host.embedded.journal import Journal
from detent.host.embedded.shared_host import open_host
from detent.host.parts.loaded_run import load
from detent.host.parts.replay import verify
from tests.golden import make_journal
from tests.surfaces.command import Detent

JOURNALS = sorted((Path(__file__).parent / "journals").glob("*.db.gz"))
EFFECTS = (make_journal.note, make_journal.send, make_journal.breaks, make_journal.vanish)
ANSWERED = ("count", "doubt", "family", "family.working.child.1", "form", "held", "mail", "nap", "two")

of_every_schema = pytest.mark.parametrize("packed", JOURNALS, ids=lambda path: path.name.removesuffix(".db.gz"))


def unpack(packed: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of the journal's file, and what was said of it."""
    file = folder / ".detent" / "journal.db"
    file.parent.mkdir(mode=0o700)
    file.write_bytes(gzip.decompress(packed.read_bytes()))
    return file, json.loads(packed.with_suffix("").with_suffix(".json").read_text(encoding="utf-8"))


def check_runs(journal: Journal, said: dict[str, Any]) -> None:
    """Every chain holds, and every run folds to the bytes it folded to on its day."""
    for run_id, body in said["runs"].items():
        proof = verify(journal, run_id)
        assert proof.problem == "", proof
        run = load(journal, run_id).run
        if '"wreck":' not in body:
            run = replace(run, wreck=None)  # what a failure left is remembered since `retry`
        assert msgspec.json.encode(run).decode() == body
        assert msgspec.json.decode(body, type=Run) == run
    listed = [msgspec.json.decode(msgspec.json.encode(record.summary)) for record in journal.runs()]
    assert [shown | before for shown, before in zip(listed, said["list"], strict=True)] == listed


def claims(file: Path) -> list[list[str]]:
    """The keys that are held."""
    with sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True) as db:
        return [
            list(row)
            for row in db.execute("select scope, key, run_id, contract_id, call_hash from claims order by 1, 2")
        ]


def test_there_is_a_journal_of_every_schema() -> None:
    assert [path.name for path in JOURNALS] == [f"schema-{number}.db.gz" for number in range(1, len(JOURNALS) + 1)]
    assert len(JOURNALS) >= 6


@of_every_schema
def test_a_journal_is_read_as_it_is(packed: Path, tmp_path: Path) -> None:
    file, said = unpack(packed, tmp_path)
    before = file.read_bytes()
    journal = Journal(file)
    try:
        check_runs(journal, said)
    finally:
        journal.close()
    detent = Detent(tmp_path)
    shown = {run["run_id"]: run["status"] for run in detent("list", "--json").json["runs"]}
    assert shown == {run["run_id"]: run["status"] for run in said["list"]}
    checkpoints = {run["run_id"]: run["checkpoint"] for run in said["list"]}
    assert detent("show", "mail", "--json").json["checkpoint"] == checkpoints["mail"]
    assert file.read_bytes() == before, "reading writes nothing"


@of_every_schema
async def test_a_journal_is_migrated_and_its_runs_go_on(packed: Path, tmp_path: Path) -> None:
    file, said = unpack(packed, tmp_path)
    async with open_host(file.parent, EFFECTS) as host:
        journal = Journal(file)
        check_runs(journal, said)
        assert claims(file) == said["claims"]
        notes = [[note.key, note.run_id] for note in journal.notes()]
        assert notes == [row[:2] for row in said.get("outbox", [])]
        journal.close()
        await host.recover()
        statuses = {run["run_id"]: (await host.show(run["run_id"])).status.value for run in said["list"]}
        assert statuses == {run["run_id"]: run["status"] for run in said["list"]}
        await host.release("held", by="kim")
        yes, form = {"approved": True, "by": "lee"}, {"data": {"count": 3}, "by": "lee"}
        for run_id, contract_id, answer in (
            ("mail", "working/send/1", yes),
            ("form", "working/ask/1", form),
            ("held", "working/ask/1", form),
            ("two", "working/both.0.send/1", yes),
            ("two", "working/both.1.left/1", yes),
            ("family.working.child.1", "working/send/1", yes),
            ("doubt", "working/send/1", {"outcome": "happened", "by": "lee"}),
        ):
            await host.answer(run_id, contract_id, answer)
        await host.signal("nap", "WAKE", {})
        await host.signal("count", "TICK", {}, id="tick-0")  # told long ago
        assert (await host.signal("count", "STOP", {})).seq == json.loads(said["runs"]["count"])["seq"] + 1
        for run_id in ANSWERED:
            assert (await host.settled(run_id)).status is Status.COMPLETED, run_id
        again = await host.start(make_journal.MAIL, {"to": "ann"}, by="kim", session="s1")
        assert (await host.settled(again.id)).status is not Status.COMPLETED, "the key is held for ever"
    assert {tuple(row) for row in said["claims"]} <= {tuple(row) for row in claims(file)}
