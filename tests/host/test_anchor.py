"""Anchors: what was deleted, cut or taken away since is found, also after honest growth; what was forgotten is not."""

import contextlib
import shutil
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest

from detent.core import Action
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal_reader import JournalReader
from detent.host.parts import anchor as anchoring
from detent.host.reading import AnchorLine, AnchorProof, JournalHead
from detent.testing.conformance import DOOR, Outside, one

PAY = one(Action("pay", "pay", {"to": "{{ context.to }}"}), name="pay")
LOOK = one(Action("look", "look", {}), name="look")


def host_at(home: Path) -> EmbeddedHost:
    outside = Outside()
    return EmbeddedHost(home, [outside.effect("pay"), outside.effect("look", "pure")], sync="off", grace_s=0.0)


async def lived(home: Path) -> tuple[AnchorLine, dict[str, str]]:
    """A journal with an anchor, and what has come since."""
    async with host_at(home) as host:
        door = await host.start(DOOR)
        await host.signal(door.id, "OPEN")
        paid = await host.settled((await host.start(PAY, {"to": "bob"})).id)
        await host.anchor(by="kim")
        looked = await host.settled((await host.start(LOOK)).id)
        line = msgspec.convert(await host.anchor(by="kim"), AnchorLine)
        await host.signal(door.id, "CLOSE")
        await host.settled((await host.start(PAY, {"to": "eve"})).id)
        await host.anchor()
    return line, {"door": door.id, "paid": paid.id, "looked": looked.id}


def proof(home: Path, line: AnchorLine) -> AnchorProof:
    reader = JournalReader(home)
    try:
        return reader.check_anchor(line)
    finally:
        reader.close()


def head(home: Path) -> JournalHead:
    reader = JournalReader(home)
    try:
        return reader.head()
    finally:
        reader.close()


def tamper(home: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(home / "journal.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


async def test_a_journal_that_has_only_grown_is_what_was_anchored(tmp_path: Path) -> None:
    line, _ = await lived(tmp_path)
    assert proof(tmp_path, line) == AnchorProof(3, (), ())


DELETE = (
    "delete from events where run = (select no from runs where run_id = '{0}')",
    "delete from runs where run_id = '{0}'",
)
CUT = (
    "delete from events where run = (select no from runs where run_id = '{0}') and seq > 1",
    "update runs set seq = 1, state = 'closed', head = (select hash from events where run = no) where run_id = '{0}'",
)


@pytest.mark.parametrize(
    ("whose", "statements", "said"),
    [
        ("looked", DELETE, "is gone"),
        ("paid", (*DELETE, "delete from claims where run_id = '{0}'"), "is gone"),
        ("door", CUT, "was cut off"),
        ("paid", ("delete from claims where run_id = '{0}'",), "claim is gone"),
        ("paid", ("update events set body = replace(body, 'bob', 'eve')",), "damaged"),
        ("door", ("delete from runs where name = 'anchored'",), "is gone, with what was done before it"),
        ("door", ("update events set body = replace(body, '{0}', 'nobody')",), "damaged"),
    ],
)
async def test_what_is_missing_is_found(whose: str, statements: tuple[str, ...], said: str, tmp_path: Path) -> None:
    line, ids = await lived(tmp_path)
    tamper(tmp_path, *(statement.format(ids[whose]) for statement in statements))
    assert any(said in problem for problem in proof(tmp_path, line).problems), proof(tmp_path, line).problems


async def test_a_list_that_was_rewritten_with_its_hash_is_found(tmp_path: Path) -> None:
    line, _ = await lived(tmp_path)
    other = msgspec.structs.replace(line, checkpoint="0" * 64)
    assert "is not what it was" in proof(tmp_path, other).problems[0]
    foreign = msgspec.structs.replace(line, journal="0" * 32)
    assert "another journal" in proof(tmp_path, foreign).problems[0]


async def test_what_was_forgotten_on_record_is_no_tampering(tmp_path: Path) -> None:
    line, ids = await lived(tmp_path)
    async with host_at(tmp_path) as host:
        done = await host.prune(time.time() + 1, by="kim")
        assert [one["run_id"] for one in done["pruned"]] == [ids["looked"]]
    assert proof(tmp_path, line) == AnchorProof(3, (ids["looked"],), ())


async def test_the_head_is_over_runs_claims_and_people(tmp_path: Path) -> None:
    line, ids = await lived(tmp_path)
    heads = {head(tmp_path).head}
    changes = ("delete from claims", f"delete from runs where run_id = '{ids['door']}'")  # noqa: S608
    for number, change in enumerate(changes):
        copy = tmp_path.with_name(f"copy{number}")
        shutil.copytree(tmp_path, copy)
        tamper(copy, change)
        heads.add(head(copy).head)
    (tmp_path / "detent.people.yaml").write_text("people: {}\n")
    heads.add(head(tmp_path).head)
    assert len(heads) == 4
    assert (head(tmp_path).epoch, head(tmp_path).journal) == (1, line.journal)


async def test_many_runs_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchoring, "AT_ONCE", 3)
    async with host_at(tmp_path) as host:
        for _ in range(10):
            await host.start(DOOR)
        line = msgspec.convert(await host.anchor(), AnchorLine)
        assert len(await host.list(name="anchored")) == 4
    assert proof(tmp_path, line) == AnchorProof(10, (), ())
    tamper(tmp_path, "delete from runs where no = 1", "delete from events where run = 1")
    assert proof(tmp_path, line).problems
