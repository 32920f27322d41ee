"""The journal: its chain can be checked by anybody, and damage is named, contained and never made worse."""

import asyncio
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from detent.core import Action, Run, Status, effect
from detent.errors import JournalError, ReplayError, Unknown
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal, open_journal
from detent.host.embedded.journal_marker import forget
from detent.host.embedded.schema import MIGRATIONS, SCHEMA, VERSION
from detent.host.parts.loaded_run import load
from detent.host.parts.replay import entries, verify
from detent.testing.conformance import ASKING, DOOR, Outside, one


def host_at(home: Path, *, sync: str = "off", live_max: int = 2000) -> EmbeddedHost:
    return EmbeddedHost(home, [Outside().effect()], sync=sync, grace_s=0.0, live_max=live_max)


async def make_runs(home: Path, count: int = 3, signals: int = 20) -> list[Run]:
    async with host_at(home) as host:
        runs = []
        for number in range(count):
            run = await host.start(DOOR, {"n": number}, run_id=f"r{number}")
            for _ in range(signals // 2):
                await host.signal(run.id, "OPEN", {"note": "something to flip a byte in"})
                run = await host.signal(run.id, "CLOSE")
            runs.append(run)
        return runs


@contextmanager
def raw(home: Path) -> Iterator[sqlite3.Connection]:
    """The file as anybody can open it."""
    db = sqlite3.connect(home / "journal.db", isolation_level=None)
    try:
        yield db
    finally:
        db.close()


def proof(home: Path, run_id: str) -> tuple[int, str]:
    journal = open_journal(home)
    try:
        found = verify(journal, run_id)
        return found.events, found.problem
    finally:
        journal.close()


def independent_verifier(db: sqlite3.Connection, run_id: str) -> int:
    """The documented algorithm and nothing else: returns how many events are whole."""
    no, head = db.execute("select no, head from runs where run_id = ?", (run_id,)).fetchone()
    last, count = hashlib.sha256(run_id.encode()).digest(), 0
    for seq, body, kept in db.execute("select seq, body, hash from events where run = ? order by seq", (no,)):
        last = hashlib.sha256(last + body).digest()
        assert (seq, kept) == (count + 1, last), f"event {seq} of {run_id}"
        count = seq
    assert last == head
    return count


async def test_the_chain_is_what_the_documents_say(tmp_path: Path) -> None:
    runs = await make_runs(tmp_path)
    with raw(tmp_path) as db:
        for run in runs:
            assert independent_verifier(db, run.id) == run.seq
    assert proof(tmp_path, "r1") == (21, "")


DAMAGE: dict[str, tuple[str, str]] = {
    "a byte of a body": ("update events set body = replace(cast(body as text), 'flip', 'flop')"
                         " where run = 2 and seq = 6", "6"),
    "a body that is no JSON": ("update events set body = x'ff00' where run = 2 and seq = 7", "7"),
    "a body that is another event": ("update events set body = (select body from events where run = 2 and seq = 3)"
                                     " where run = 2 and seq = 9", "9"),
    "a byte of a hash": ("update events set hash = x'00' || substr(hash, 2) where run = 2 and seq = 5", "5"),
    "a hash that is text": ("update events set hash = 'abc' where run = 2 and seq = 5", "5"),
    "a row that is gone": ("delete from events where run = 2 and seq = 8", "8"),
    "the last row": ("delete from events where run = 2 and seq = 21", "21"),
    "every row": ("delete from events where run = 2", ""),
    "the head in the list": ("update runs set head = x'00' where no = 2", "21"),
    "the seq in the list": ("update runs set seq = 5 where no = 2", "5"),
    "the status in the list": ("update runs set status = 'confused' where no = 2", ""),
    "the questions in the list": ("update runs set waiting = '{{{' where no = 2", ""),
    "an event too many": ("insert into events select run, seq + 1, null, body, hash from events"
                          " where run = 2 and seq = 21", "22"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_reported_by_run_and_event_and_other_runs_go_on(damage: str, tmp_path: Path) -> None:
    await make_runs(tmp_path)
    statement, where = DAMAGE[damage]
    with raw(tmp_path) as db:
        db.execute(statement)
    async with host_at(tmp_path) as host:
        with pytest.raises((JournalError, ReplayError)) as caught:
            await host.show("r1")
        assert "r1" in str(caught.value)
        assert where in str(caught.value)
        with pytest.raises((JournalError, ReplayError)):
            await host.signal("r1", "OPEN")
        await host.recover()
        assert (await host.signal("r0", "OPEN")).state == "open"
        assert (await host.signal("r2", "BURN")).ended is Status.COMPLETED
        assert {"r0", "r2"} <= {summary.run_id for summary in await host.list()}
        assert (await host.start(DOOR)).seq == 1
    with raw(tmp_path) as db:
        assert independent_verifier(db, "r0") == 22


async def test_verify_finds_what_a_snapshot_jumps_over(tmp_path: Path) -> None:
    await make_runs(tmp_path, signals=300)
    with raw(tmp_path) as db:
        db.execute("update events set body = replace(cast(body as text), 'flip', 'flop') where run = 2 and seq = 6")
    events, problem = proof(tmp_path, "r1")
    assert events == 5
    assert "event 6" in problem
    assert proof(tmp_path, "r0") == (301, "")


async def test_a_machine_that_was_tampered_with_is_not_run(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1)
    with raw(tmp_path) as db:
        db.execute("update machines set body = replace(cast(body as text), 'BURN', 'KISS')")
    async with host_at(tmp_path) as host:
        with pytest.raises(JournalError, match="machine"):
            await host.show("r0")
        assert await host.recover() == ()


SNAPSHOTS: dict[str, str] = {
    "no JSON": "update snapshots set body = x'ff'",
    "another value": "update snapshots set body = replace(cast(body as text), '\"n\":0', '\"n\":7')",
    "of another engine": "update snapshots set engine = 'older' || engine",
    "of another event": "update snapshots set seq = seq - 10",
    "of the future": "update snapshots set seq = seq + 1000",
    "text": "update snapshots set body = cast(body as text)",
    "gone": "delete from snapshots",
}


@pytest.mark.parametrize("damage", SNAPSHOTS)
async def test_a_snapshot_that_does_not_fit_is_ignored(damage: str, tmp_path: Path) -> None:
    (run,) = await make_runs(tmp_path, 1, signals=250)
    with raw(tmp_path) as db:
        assert db.execute(SNAPSHOTS[damage]).rowcount == 1
    async with host_at(tmp_path) as host:
        assert await host.show("r0") == run
        assert (await host.signal("r0", "OPEN")).seq == run.seq + 1
    assert proof(tmp_path, "r0") == (252, "")


async def test_a_long_run_opens_by_its_snapshot(tmp_path: Path) -> None:
    (run,) = await make_runs(tmp_path, 1, signals=5000)
    journal = open_journal(tmp_path)
    try:
        assert load(journal, "r0").run == run
        assert journal.events_read <= 200
        journal.events_read = 0
        assert [entry.seq for entry in entries(journal, "r0", after=4990)] == list(range(4991, 5002))
        assert journal.events_read <= 400
    finally:
        journal.close()


async def test_watching_a_long_run_reads_each_event_once(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1, signals=1000)
    async with host_at(tmp_path) as host:
        watching = host.watch("r0", after=1001)
        host.journal.events_read = 0
        for number in range(150):
            await host.signal("r0", "OPEN" if number % 2 == 0 else "CLOSE")
            assert (await anext(watching)).seq == 1002 + number
        assert host.journal.events_read < 400
        await watching.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("keep", [0.3, 0.7])
async def test_a_file_cut_off_is_reported_and_does_not_kill_the_host(keep: float, tmp_path: Path) -> None:
    await make_runs(tmp_path, 10, signals=200)
    path = tmp_path / "journal.db"
    with raw(tmp_path) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    os.truncate(path, int(path.stat().st_size * keep) // 4096 * 4096)
    problems = []
    try:
        async with host_at(tmp_path) as host:
            said = await asyncio.gather(*(host.show(f"r{number}") for number in range(10)), return_exceptions=True)
            problems += [str(error) for error in said if isinstance(error, JournalError)]
    except JournalError as error:
        problems.append(str(error))
    assert problems
    assert all("journal.db" in problem or "damaged" in problem for problem in problems)


async def test_a_page_of_garbage_spoils_only_what_stands_on_it(tmp_path: Path) -> None:
    await make_runs(tmp_path, 10, signals=200)
    path = tmp_path / "journal.db"
    with raw(tmp_path) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        journal = Journal(path)
        assert journal.check() == []
        journal.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4096 // 2 * 4096)
        file.write(os.urandom(4096))
    journal = open_journal(tmp_path)
    assert journal.check() != []
    problems = [verify(journal, f"r{number}").problem for number in range(10)]
    journal.close()
    assert any(problems)
    assert not all(problems)
    damaged = problems.index(next(filter(None, problems)))
    whole = problems.index("")
    async with host_at(tmp_path) as host:
        assert (await host.show(f"r{whole}")).seq == 201
        assert f"r{damaged}" in problems[damaged] or "journal.db" in problems[damaged]


async def test_an_empty_file_is_damage_and_not_a_new_journal(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1)
    os.truncate(tmp_path / "journal.db", 0)
    for name in ("-wal", "-shm"):
        (tmp_path / f"journal.db{name}").unlink(missing_ok=True)
    with pytest.raises(JournalError, match="is empty"):
        await host_at(tmp_path).__aenter__()
    with pytest.raises(JournalError, match="is empty"):
        open_journal(tmp_path)
    assert (tmp_path / "journal.db").stat().st_size == 0
    (tmp_path / "journal.db").unlink()
    forget(tmp_path)  # a person's word: without it the missing journal is an error (test_marker)
    assert len(await make_runs(tmp_path, 1)) == 1


async def test_something_else_in_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(JournalError, match="not a database"):
        await host_at(tmp_path).__aenter__()
    assert path.read_bytes().startswith(b"Dear diary")
    path.unlink()
    path.mkdir()
    with pytest.raises(JournalError):
        await host_at(tmp_path).__aenter__()


async def test_a_failed_opening_leaves_no_lock_behind(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(JournalError):
        await host_at(tmp_path).__aenter__()
    path.unlink()
    async with host_at(tmp_path) as host:
        assert (await host.start(DOOR)).seq == 1


async def test_one_journal_has_one_writer(tmp_path: Path) -> None:
    async with host_at(tmp_path):
        with pytest.raises(JournalError, match=str(os.getpid())):
            await host_at(tmp_path).__aenter__()
    async with host_at(tmp_path) as host:
        assert (await host.start(DOOR)).seq == 1


async def test_a_journal_of_a_newer_detent_is_not_touched(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1)
    with raw(tmp_path) as db:
        db.execute(f"pragma user_version = {VERSION + 1}")
    before = (tmp_path / "journal.db").read_bytes()
    for is_writer in (False, True):
        with pytest.raises(JournalError, match=f"newer detent \\(schema {VERSION + 1}, this one knows {VERSION}"):
            Journal(tmp_path / "journal.db", is_writer=is_writer)
    assert (tmp_path / "journal.db").read_bytes() == before


async def test_a_list_that_an_older_version_wrote_can_be_read_without_its_errors_and_alarms(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1)
    with raw(tmp_path) as db:
        db.execute("alter table runs drop column error")
        db.execute("alter table runs drop column alarms")
        db.execute("drop table projections")
        db.execute("drop table meta")
        db.execute("drop index runs_restored")
        db.execute("pragma user_version = 4")
    reader = Journal(tmp_path / "journal.db")
    assert [(record.summary.error, record.summary.alarms) for record in reader.runs()] == [(None, ())]
    reader.close()
    Journal(tmp_path / "journal.db", is_writer=True).close()
    with raw(tmp_path) as db:
        assert db.execute("select error, alarms from runs").fetchall() == [("", "")]


NEXT = {
    **MIGRATIONS,
    VERSION: "alter table runs add column colour text not null default 'grey'; create table paint (name text)",
}


async def test_a_journal_of_version_1_migrates_forward(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.executescript(SCHEMA)
        db.executescript("pragma user_version = 1; insert into machines values ('d', 'n', x'00')")
    db.close()
    journal = Journal(path, is_writer=True, migrations=NEXT)
    journal.close()
    with raw(tmp_path) as db:
        assert db.execute("pragma user_version").fetchone() == (VERSION + 1,)
        assert db.execute("select count(*) from machines").fetchone() == (1,)
        assert db.execute("select count(*) from paint").fetchone() == (0,)
    again = Journal(path, is_writer=True, migrations=NEXT)
    again.close()
    with pytest.raises(JournalError, match="newer"):
        Journal(path, is_writer=True)


async def test_a_new_journal_takes_the_same_road(tmp_path: Path) -> None:
    Journal(
        tmp_path / "journal.db", is_writer=True, migrations={**NEXT, VERSION + 1: "create table brush (name text)"}
    ).close()
    with raw(tmp_path) as db:
        assert db.execute("pragma user_version").fetchone() == (VERSION + 2,)
        assert db.execute("select count(*) from brush").fetchone() == (0,)


async def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    await make_runs(tmp_path, 1)
    broken = {**MIGRATIONS, VERSION: "create table paint (name text); nonsense"}
    with pytest.raises(JournalError, match="nonsense"):
        Journal(tmp_path / "journal.db", is_writer=True, migrations=broken)
    async with host_at(tmp_path) as host:
        assert (await host.show("r0")).seq == 21
    with raw(tmp_path) as db:
        assert db.execute("select count(*) from sqlite_master where name = 'paint'").fetchone() == (0,)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own, where we may make one."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("is_inline", [True, False])
async def test_a_full_disk_loses_nothing_that_was_acknowledged(is_inline: bool, tmp_path: Path) -> None:
    outside = Outside()
    with mounted(tmp_path, "size=1m"):
        ballast = tmp_path / "ballast"
        ballast.write_bytes(b"x" * 300_000)
        async with EmbeddedHost(tmp_path / "home", [outside.effect()], is_inline=is_inline, grace_s=0.0) as host:
            door = await host.start(DOOR)
            asking = await host.start(ASKING, {"amount": 1})
            acknowledged = door.seq
            problem = None
            for _ in range(500):
                try:
                    name = "OPEN" if acknowledged % 2 else "CLOSE"
                    acknowledged = (await host.signal(door.id, name, {"note": "y" * 3000})).seq
                except JournalError as error:
                    problem = error
                    break
            assert problem is not None
            assert "space" in str(problem)
            # Everything else still answers, and says what is on disk.
            assert (await host.show(door.id)).seq == acknowledged
            assert (await host.show(asking.id)) == asking
            assert len(await host.list()) == 2
            with pytest.raises(JournalError):
                await host.answer(asking.id, asking.waiting[0].id, {"approved": True, "comment": "z" * 200_000})
            assert not outside.deeds, "nothing is done that is not on disk first"
            with pytest.raises(JournalError):
                await host.start(DOOR, {"note": "z" * 300_000})
            ballast.unlink()
            await host.recover()
            assert (await host.signal(door.id, "OPEN" if acknowledged % 2 else "CLOSE")).seq == acknowledged + 1
            await host.answer(asking.id, asking.waiting[0].id, {"approved": True})
            assert (await host.settled(asking.id)).status is Status.COMPLETED
            many = [await host.start(DOOR) for _ in range(3)]
            assert all(run.seq == 1 for run in many)
        with raw(tmp_path / "home") as db:
            assert independent_verifier(db, door.id) == acknowledged + 1


async def test_a_full_disk_in_the_middle_of_an_effect_leaves_a_doubt_and_no_second_deed(tmp_path: Path) -> None:
    outside = Outside()
    machine = one(Action("deed", "do", {"n": 1}), Action("more", "do", {"n": 2}))
    with mounted(tmp_path, "size=1m"):
        ballast = tmp_path / "ballast"

        async def fill(contract: object) -> dict[str, str]:
            outside.deeds.append(contract)  # type: ignore[arg-type]
            if len(outside.deeds) > 1:
                return {}
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    return {"large": "y" * 900_000}  # more than the log has ready

        do = effect("do", settle_s=0.0)(fill)
        async with EmbeddedHost(tmp_path / "home", [do], grace_s=0.0) as host:
            run = await host.start(machine)
            with pytest.raises(JournalError):
                await host.settled(run.id)
            ballast.unlink()
            assert await host.recover(run.id) == (run.id,)
            run = await host.settled(run.id)
            (doubt,) = run.waiting
            await host.answer(run.id, doubt.id, {"outcome": "happened", "result": {}, "by": "ann"})
            run = await host.settled(run.id)
            assert (run.status, len(outside.deeds)) == (Status.COMPLETED, 2)


async def test_a_home_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    with mounted(tmp_path, "size=8m"):
        (run,) = await make_runs(tmp_path / "home", 1)
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)  # noqa: ASYNC221  # takes no time
        with pytest.raises(JournalError, match="home"):
            await host_at(tmp_path / "home").__aenter__()
        journal = open_journal(tmp_path / "home")
        assert load(journal, "r0").run == run
        assert verify(journal, "r0").problem == ""
        journal.close()
        with pytest.raises(Unknown):
            open_journal(tmp_path / "nowhere")
        with pytest.raises(JournalError):
            await host_at(tmp_path / "nowhere").__aenter__()


async def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    before = os.umask(0)
    try:
        async with host_at(home) as host:
            await host.start(DOOR)
            modes = {file.name: file.stat().st_mode & 0o777 for file in home.iterdir()}
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o777 == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_a_commit_survives_the_death_of_its_process(tmp_path: Path) -> None:
    """The acknowledged part is whole after SIGKILL, and the rest is not half there."""
    script = """
import asyncio, pathlib, sys
from detent.host.embedded import EmbeddedHost
from detent.testing.conformance import DOOR
async def main():
    async with EmbeddedHost(pathlib.Path(sys.argv[1])) as host:
        await host.start(DOOR, run_id="r")
        n = 0
        while True:
            run = await host.signal("r", "OPEN" if n % 2 == 0 else "CLOSE")
            n += 1
            print(run.seq, flush=True)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = 0
    while acknowledged < 200:
        acknowledged = int(process.stdout.readline())
    process.kill()
    rest = process.stdout.read().split("\n")
    process.stdout.close()
    process.wait()
    acknowledged = max([acknowledged, *(int(line) for line in rest[:-1] if line)])
    events, problem = proof(tmp_path, "r")
    assert problem == ""
    assert events >= acknowledged
    with raw(tmp_path) as db:
        assert independent_verifier(db, "r") == events


async def test_the_log_grows_ahead_of_the_commits_and_is_whole_at_every_one_of_them(tmp_path: Path) -> None:
    """Zeros past the last frame spare each commit the growing of its file; a copy taken at any time has every event."""
    log = tmp_path / "home" / "journal.db-wal"
    sizes, grown_at = [0], []
    async with host_at(tmp_path / "home", sync="full") as host:
        run = await host.start(DOOR)
        for number in range(120):
            run = await host.signal(run.id, "CLOSE" if number % 2 else "OPEN")
            if log.stat().st_size == sizes[-1]:
                continue
            sizes.append(log.stat().st_size)
            grown_at.append(run.seq)
            copy = tmp_path / f"copy-{number}"
            copy.mkdir()
            for name in ("journal.db", "journal.db-wal"):
                shutil.copy(tmp_path / "home" / name, copy / name)
            with raw(copy) as db:
                assert independent_verifier(db, run.id) == run.seq
    assert len(grown_at) <= 20, "the log grows now and then, not with every commit"
    assert max(grown_at) > 10, "and goes on doing so"
