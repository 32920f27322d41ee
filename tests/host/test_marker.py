"""A journal that is gone, emptied, replaced or older than it was is an error that names what is known of it."""

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from detent.core.machine import Machine
from detent.errors import JournalError
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal_marker import find_problem, forget, marker_paths, read_identity, read_markers
from detent.host.embedded.journal_reader import JournalReader
from detent.host.opening import find_mismatch
from detent.host.reading import Query
from detent.testing.conformance import DOOR, Outside
from tests.surfaces.command import Detent

HELLO = """
name: hello
version: 1
states:
  a: {type: initial}
  b: {type: final}
transitions:
  - {from: a, to: b}
"""


async def live(home: Path, *names: str) -> None:
    async with EmbeddedHost(home, [Outside().effect()], sync="off", grace_s=0.0) as host:
        for name in names:
            await host.start(DOOR, {}, run_id=name)
            await host.signal(name, "OPEN")


async def test_what_is_known_follows_the_journal(tmp_path: Path) -> None:
    home = tmp_path / ".detent"
    await live(home, "one")
    first = read_markers(home)
    await live(home, "two", "three")
    second = read_markers(home)
    assert [len(first), len(second)] == [2, 2]
    assert {marker.journal_id for marker in first + second} == {first[0].journal_id}
    assert [(marker.runs, marker.events, marker.epoch) for marker in second] == [(3, 6, 1)] * 2
    assert second[0].head != first[0].head
    assert second[0].home == str(home)


def remove(home: Path) -> None:
    (home / "journal.db").unlink()


def remove_all(home: Path) -> None:
    shutil.rmtree(home)


def empty(home: Path) -> None:
    (home / "journal.db").write_bytes(b"")


@pytest.mark.parametrize("damage", [remove, remove_all, empty])
async def test_a_journal_that_was_here_is_missed_by_whoever_opens_it_or_reads_it(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    home = tmp_path / ".detent"
    await live(home, "one", "two")
    known = read_markers(home)[0]
    damage(home)
    with pytest.raises(JournalError, match=rf"{known.journal_id[:8]}, epoch 1, with 2 runs and 4 events.*--forget"):
        await live(home, "three")
    assert not (home / "journal.db").exists() or not (home / "journal.db").stat().st_size, "nothing was begun"
    with pytest.raises(JournalError, match=rf"is (gone|empty).*{known.journal_id[:8]}.*--forget"):
        JournalReader(home).list(Query())
    if damage is not empty:
        with pytest.raises(JournalError, match="is gone"):
            JournalReader(home).has_runs()
        assert forget(home) == known
        await live(home, "three")


async def test_another_journal_in_its_place_is_found(tmp_path: Path) -> None:
    here, there = tmp_path / "a" / ".detent", tmp_path / "b" / ".detent"
    await live(here, "one")
    await live(there, "one")
    for name in ("journal.db", "journal.db-wal", "journal.db-shm", "marker.json"):
        (here / name).unlink(missing_ok=True)
        if (there / name).exists():
            shutil.copy(there / name, here / name)
    with pytest.raises(JournalError, match="another journal"):
        await live(here, "two")
    assert "another journal" in str(JournalReader(here).check().problems)
    assert "another journal" in find_mismatch(here)
    assert not find_mismatch(there)


async def test_an_older_copy_put_back_by_hand_is_found(tmp_path: Path) -> None:
    home, copy = tmp_path / ".detent", tmp_path / "copy"
    await live(home, "one")
    shutil.copytree(home, copy)
    await live(home, "two")
    shutil.rmtree(home)
    shutil.copytree(copy, home)
    with pytest.raises(JournalError, match="older or another copy of the journal, up to event 2"):
        await live(home, "three")
    forget(home)
    await live(home, "three")
    assert read_markers(home)[0].runs == 2


async def test_a_home_that_is_moved_or_whose_folder_is_linked_is_the_same_home(tmp_path: Path) -> None:
    home, moved = tmp_path / "a" / ".detent", tmp_path / "b" / ".detent"
    await live(home, "one")
    moved.parent.mkdir()
    home.rename(moved)
    await live(moved, "two")
    (tmp_path / "link").symlink_to(moved.parent)
    assert marker_paths(tmp_path / "link" / ".detent")[1] == marker_paths(moved)[1]
    await live(tmp_path / "link" / ".detent", "three")
    with pytest.raises(JournalError, match="is gone"):
        await live(home, "one")


@pytest.mark.parametrize("is_link", [True, False])
async def test_a_home_that_is_a_link_is_missed_when_the_link_is_turned(tmp_path: Path, is_link: bool) -> None:
    real, home, other = tmp_path / "data", tmp_path / "project" / ".detent", tmp_path / "other"
    for folder in (real, home.parent, other):
        folder.mkdir()
    home.symlink_to(real)
    await live(home, "one")
    await live(home, "two")
    home.unlink()
    if is_link:
        home.symlink_to(other)
    else:
        home.mkdir()
    with pytest.raises(JournalError, match=r"is gone\. What was here: journal .* with 2 runs"):
        await live(home, "three")
    forget(home)
    await live(home, "three")
    await live(real, "three")  # the journal itself is well, by its own name


async def test_events_that_were_pruned_or_moved_by_a_vacuum_are_not_missed(tmp_path: Path) -> None:
    home = tmp_path / ".detent"
    await live(home, "one", "two")
    with sqlite3.connect(home / "journal.db") as db:
        db.execute("delete from events where run = 1")
        db.execute("create table sorted as select * from events order by seq")
        db.execute("delete from events")
        db.execute("insert into events select * from sorted")
        db.execute("drop table sorted")
    await live(home, "three")
    (home / "marker.json").write_bytes(b"")
    await live(home, "four")
    assert len(read_markers(home)) == 2


def test_the_command_line_says_what_is_missing_and_a_person_may_go_on_without_it(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "hello.yaml").write_text(HELLO)
    detent("run", "hello.yaml")
    shutil.rmtree(tmp_path / ".detent")
    for command in (("list",), ("run", "hello.yaml"), ("show", "last")):
        said = detent(*command, code=None)
        assert said.code
        assert "with 1 runs and" in said.err
        assert "detent doctor --forget" in said.err
    assert "is gone" in detent("doctor", code=1).out
    assert not (tmp_path / ".detent" / "journal.db").exists()
    assert "forgotten: journal" in detent("doctor", "--forget").out
    detent("run", "hello.yaml")


async def test_a_known_event_that_was_pruned_since_makes_no_older_copy(tmp_path: Path) -> None:
    home = tmp_path / ".detent"
    ended = Machine(name="ended", initial="done", ends={"done": "completed"})
    async with EmbeddedHost(home, [], sync="off", grace_s=0.0) as host:
        await host.start(ended)
    known, *_ = read_markers(home)
    await live(home, "later")
    async with EmbeddedHost(home, [], sync="off", grace_s=0.0) as host:
        assert len((await host.prune(time.time() + 60))["pruned"]) == 1
    with contextlib.closing(sqlite3.connect(home / "journal.db")) as db:
        found = read_identity(db)
        assert found is not None
        assert find_problem(db, found, known) == ""
        assert "older" in find_problem(db, found, msgspec.structs.replace(known, events=found.events + 5, head="00"))
