"""Backups, restores and moves: whole or not at all, and nothing that was done is repeated silently after them."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, Effect, Machine, Outcome, Question, Run, Status, effect
from detent.errors import JournalError, Refused, Unknown
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.backup import back_up, check_copy
from detent.host.embedded.journal_marker import read_markers
from detent.host.embedded.journal_reader import JournalReader
from detent.host.embedded.restore import MOVED, find_twins, move, restore
from detent.testing import World
from detent.testing.conformance import DOOR, Outside, one
from tests.effort import TIMES
from tests.host.company import deeds, peer

DISKS = ("/dev/shm", "/var/tmp")  # noqa: S108  # one of them is another than that of the tests
PAY = one(Action("pay", "pay", {"to": "{{ context.to }}"}), name="pay")


async def pay_for(home: Path, *names: str) -> list[Run]:
    outside = Outside()
    async with EmbeddedHost(home, [outside.effect("pay")], sync="off") as host:
        return [await host.settled((await host.start(PAY, {"to": name})).id) for name in names]


def runs_of(home: Path) -> list[str]:
    reader = JournalReader(home)
    try:
        return [summary.run_id for summary in reader.list().runs]
    finally:
        reader.close()


async def test_after_a_clean_exit_the_file_alone_is_complete(tmp_path: Path) -> None:
    home, alone = tmp_path / "home", tmp_path / "alone"
    reader = JournalReader(home)
    (first,) = await pay_for(home, "bob")
    assert reader.list().runs, "somebody who only reads keeps the log from going away"
    (second,) = await pay_for(home, "eve")
    alone.mkdir()
    shutil.copy(home / "journal.db", alone)
    reader.close()
    assert runs_of(alone) == [second.id, first.id]


async def test_a_live_journal_that_was_copied_without_its_log_says_so(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    await pay_for(home, "bob")
    async with EmbeddedHost(home, sync="off") as host:
        await host.start(DOOR)
        copy.mkdir()
        shutil.copy(home / "journal.db", copy)
    with pytest.raises(JournalError, match="its log"):
        runs_of(copy)
    with pytest.raises(JournalError, match="detent backup"):
        await pay_for(copy, "eve")
    done = await restore(copy / "journal.db", tmp_path / "restored")
    assert (done.epoch, done.runs) == (2, 1), "it is taken for what it is: an older journal"


async def test_a_backup_is_one_private_file_that_replaces_nothing(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    with pytest.raises(Unknown, match="nothing to back up"):
        back_up(home, file)
    await pay_for(home, "bob")
    (home / "assistant.json").write_text("{}")
    with contextlib.closing(sqlite3.connect(home / "memory.db")) as db:
        db.execute("create table facts (text)")
    async with EmbeddedHost(home, sync="off") as host:
        await host.start(DOOR)
        done = back_up(home, file)
    assert (done.runs, done.events, done.left_out) == (2, 3, ())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    with pytest.raises(Refused, match="--force"):
        back_up(home, file)
    assert file.read_bytes() == before
    back_up(home, file, is_forced=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]
    await restore(file, tmp_path / "other")
    assert (tmp_path / "other" / "assistant.json").read_text() == "{}"
    with contextlib.closing(sqlite3.connect(tmp_path / "other" / "memory.db")) as db:
        assert db.execute("select * from facts").fetchall() == []


async def test_a_folder_keeps_the_newest_backups(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "backups"
    await pay_for(home, "bob")
    folder.mkdir()
    for name in ("20200101-000000.detent", "20200102-000000.detent", "mine.detent"):
        (folder / name).touch()
    done = back_up(home, folder, keep=2)
    assert [Path(name).name for name in done.dropped] == ["20200101-000000.detent"]
    assert len(list(folder.iterdir())) == 3


async def test_a_journal_that_is_not_whole_gives_no_backup(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await pay_for(home, "bob")
    for damage in ("delete from claims", "update events set body = replace(body, 'bob', 'eve')"):
        broken = tmp_path / f"broken-{len(damage)}"
        shutil.copytree(home, broken)
        with contextlib.closing(sqlite3.connect(broken / "journal.db", isolation_level=None)) as db:
            db.execute(damage)
        with pytest.raises(JournalError, match="not whole"):
            back_up(broken, tmp_path / "backup")
        assert not (tmp_path / "backup").exists()


async def test_what_is_no_backup_takes_no_place(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    other = tmp_path / "other"
    with contextlib.closing(sqlite3.connect(other)) as db:
        db.execute("create table facts (text)")
    for file in (text, other, tmp_path / "nothing"):
        with pytest.raises(Refused):
            await restore(file, tmp_path / "home")
    assert not (tmp_path / "home" / "journal.db").exists()


async def test_a_backup_cannot_write_outside_the_home(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    await pay_for(home, "bob")
    back_up(home, file)
    for name in ("../escaped", "lock"):
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("insert or replace into home_files values (?, 420, 'x')", (name,))
        with pytest.raises(Refused, match="not a backup that detent made"):
            await restore(file, tmp_path / "other")
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("delete from home_files")
    assert not (tmp_path / "escaped").exists()


async def test_a_restore_over_a_journal_keeps_that_one_aside(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    (bob,) = await pay_for(home, "bob")
    back_up(home, file)
    (eve,) = await pay_for(home, "eve")
    with pytest.raises(Refused, match="--over"):
        await restore(file, home)
    async with EmbeddedHost(home, sync="off"):
        with pytest.raises(Refused, match=str(os.getpid())):
            await restore(file, home, is_over=True)
    first = await restore(file, home, is_over=True, by="kim")
    assert (first.epoch, runs_of(home)[1:]) == (2, [bob.id])
    assert runs_of(Path(first.aside)) == [eve.id, bob.id]
    assert read_markers(home)[0].epoch == 2
    shutil.rmtree(first.aside)
    assert (await restore(file, home, is_over=True)).epoch == 3, "every restore is an epoch of its own"


async def test_the_same_journal_in_two_places_is_told(tmp_path: Path) -> None:
    home, copy, file = tmp_path / "home", tmp_path / "copy", tmp_path / "backup"
    await pay_for(home, "bob")
    back_up(home, file)
    assert (await restore(file, copy)).twins == (str(home),)
    assert find_twins(home) == (str(copy),)
    shutil.rmtree(home)
    assert find_twins(copy) == ()


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the homes of these tests."""
    here = tmp_path.stat().st_dev
    others = [place for place in DISKS if os.access(place, os.W_OK) and os.stat(place).st_dev != here]
    if not others:
        pytest.skip("there is no second disk to move to")
    with tempfile.TemporaryDirectory(prefix="detent-disk-", dir=others[0]) as folder:
        yield Path(folder)


async def test_a_home_moves_to_another_disk(tmp_path: Path, other_disk: Path) -> None:
    home, target = tmp_path / "home", other_disk / "deep" / "target"
    (bob,) = await pay_for(home, "bob")
    (home / "sessions").mkdir()
    (home / "sessions" / "one").write_text("kept")
    (home / "sessions" / "link").symlink_to("one")
    move(home, target)
    assert not home.exists()
    assert (target / "sessions" / "link").read_text() == "kept"
    assert target.stat().st_mode & 0o777 == 0o700
    assert runs_of(target) == [bob.id]
    assert find_twins(target) == ()
    assert [one.name for one in target.parent.iterdir()] == ["target"], "nothing half made is left"
    await pay_for(target, "eve")
    move(target, home)
    assert len(runs_of(home)) == 2


async def test_a_home_that_does_not_fit_on_the_other_disk_stays(tmp_path: Path, other_disk: Path) -> None:
    home, target = tmp_path / "home", other_disk / "target"
    (bob,) = await pay_for(home, "bob")
    os.mkfifo(home / "pipe")  # cannot be copied
    with pytest.raises(Refused, match="cannot move"):
        move(home, target)
    assert not list(other_disk.iterdir())
    assert runs_of(home) == [bob.id]
    await pay_for(home, "eve")


async def test_a_move_that_was_killed_after_its_copy_is_done_by_the_next(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    (bob,) = await pay_for(home, "bob")
    (home / "journal.db").rename(home / MOVED)  # out of use, and the copy was lost with the other disk
    move(home, target)
    assert runs_of(target) == [bob.id]
    await pay_for(target, "eve")


async def test_a_home_moves(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "deep" / "target"
    (bob,) = await pay_for(home, "bob")
    async with EmbeddedHost(home, sync="off"):
        with pytest.raises(Refused, match="end it first"):
            move(home, target)
    with pytest.raises(Refused, match="inside"):
        move(home, home / "inner")
    move(home, target)
    assert runs_of(target) == [bob.id]
    assert not home.exists()
    assert find_twins(target) == ()
    with pytest.raises(JournalError, match="is gone"):
        await pay_for(home, "eve")
    await pay_for(tmp_path / "other", "eve")
    with pytest.raises(Refused, match="there already"):
        move(target, tmp_path / "other")


# No deed is repeated: the world of these tests is the only one, whatever journal is used in it.


class Bank:
    """What was paid, by anybody who ever had the journal."""

    def __init__(self, seed: int) -> None:
        self.paid: Counter[str] = Counter()
        self.random = random.Random(seed)

    def effect(self) -> Effect:
        async def pay(contract: Contract) -> Outcome:
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
            self.paid[contract.key] += 1
            return Outcome({"paid": contract.input["to"]})

        return effect("pay", settle_s=0.0, timeout_s=1.0)(pay)


STORIES: tuple[Machine, ...] = (
    PAY,
    one(Action("pay", "pay", {"to": "{{ context.to }}"}, ask=Question("Pay?")), name="asked"),
    one(
        Action("first", "pay", {"to": "{{ context.to }}"}),
        Action("second", "pay", {"to": "second {{ context.to }}"}),
        name="two",
    ),
)


async def _go_on(host: EmbeddedHost, bank: Bank, count: int) -> None:
    """Begin some runs and say yes to plain questions, as people do; what is in doubt is left alone."""
    for _ in range(count):
        machine = bank.random.choice(STORIES)
        run = await host.start(machine, {"to": str(bank.random.randrange(12))})
        if bank.random.random() < 0.8:
            run = await host.settled(run.id)
        for contract in run.waiting:
            question = contract.question
            if question is not None and question.reason == "approval" and not question.earlier:
                await host.answer(run.id, contract.id, {"approved": True, "by": "ann"})


@pytest.mark.parametrize("seed", range(20))
async def test_no_deed_is_repeated_after_a_restore(seed: int) -> None:
    """Ten tries each: a backup at some moment, more deeds, and the backup is what is left."""
    for attempt in range(10 * TIMES):
        with World() as world:
            await _lose_and_restore(Bank(1000 * seed + attempt), world.home / "home", world.home / "backup")


async def _lose_and_restore(bank: Bank, home: Path, file: Path) -> None:
    async with EmbeddedHost(home, [bank.effect()], sync="off", grace_s=0.0) as host:
        await _go_on(host, bank, 3)
        back_up(home, file)
        await _go_on(host, bank, 4)
    await restore(file, home, is_over=True)
    async with EmbeddedHost(home, [bank.effect()], sync="off", grace_s=0.0) as host:
        await host.recover()
        await _go_on(host, bank, 6)
        for summary in await host.list():
            if summary.name != "restored":
                await host.settled(summary.run_id)
    assert max(bank.paid.values(), default=0) <= 1, bank.paid


async def test_a_backup_taken_under_load_by_another_process_repeats_nothing(tmp_path: Path) -> None:
    home, other, file = tmp_path / "home", tmp_path / "other", tmp_path / "backup"
    async with peer(home) as worker:
        for number in range(30):
            asking = await worker.do("start", machine="asking", input={"n": number})
            given = {"run_id": asking["id"], "contract_id": asking["waiting"][0], "answer": {"approved": True}}
            worker.order("answer", **given)
            if number == 10:
                copying = asyncio.create_task(asyncio.to_thread(back_up, home, file))
        done = await copying
        await worker.do("start", machine="asking", input={"n": 99})  # what was said before has been done by then
        worker.process.send_signal(signal.SIGKILL)
        await worker.process.wait()
    assert 0 < done.runs <= 31
    before = deeds(home)
    assert max(Counter(before).values()) == 1
    await restore(file, other)
    (other / "deeds").unlink(missing_ok=True)  # it lies in the home, but it is the world
    async with peer(other) as worker:
        await worker.do("recover")
        for number in range(30):
            asking = await worker.do("start", machine="asking", input={"n": number})
            assert asking["waiting"] or asking["status"] == "rejected", "asked about, or held by one that is"
    assert not (other / "deeds").exists()


# Killed in the middle

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import detent.host.embedded.backup as backup
import detent.host.embedded.restore as restore
left = int(sys.argv[2])
def dying(module, name):
    real = getattr(module, name)
    def call(*args, **given):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **given)
    setattr(module, name, call)
for module in (os, ):
    for name in ("replace", "rename", "link", "unlink", "fsync", "mkdir", "open"):
        dying(module, name)
home, file, target = Path(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5])
match sys.argv[1]:
    case "backup": backup.back_up(home, file, is_forced=True)
    case "restore": asyncio.run(restore.restore(file, home, is_over=True))
    case "move": restore.move(home, target)
"""


def _killed(what: str, at: int, home: Path, file: Path, target: Path) -> bool:
    command = [sys.executable, "-c", KILLED, what, str(at), str(home), str(file), str(target)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


async def test_death_on_the_way_to_another_disk_leaves_one_home_that_can_be_moved_again(
    tmp_path: Path, other_disk: Path
) -> None:
    origin = tmp_path / "origin"
    (bob,) = await pay_for(origin, "bob")
    for at in sorted({1, 2, 3, *random.Random("across").sample(range(4, 90), 8 * TIMES)}):
        home, target, again = tmp_path / f"home{at}", other_disk / f"target{at}", other_disk / f"again{at}"
        shutil.copytree(origin, home)
        was_killed = _killed("move", at, home, tmp_path / "none", target)
        usable = [place for place in (home, target) if (place / "journal.db").exists()]
        assert len(usable) < 2, "two homes with one journal would each not know what the other does"
        left = usable[0] if usable else home
        assert (left / ("journal.db" if usable else MOVED)).exists()
        move(left, again)
        assert runs_of(again) == [bob.id]
        await pay_for(again, f"after {at}")
        if not was_killed:
            break


@pytest.mark.parametrize("what", ["backup", "restore", "move"])
async def test_death_in_the_middle_leaves_the_old_or_the_new(what: str, tmp_path: Path) -> None:
    origin, kept = tmp_path / "origin", tmp_path / "kept"
    (bob,) = await pay_for(origin, "bob")
    back_up(origin, kept)
    (eve,) = await pay_for(origin, "eve")
    random_points = random.Random(what)
    for at in sorted({1, 2, 3, *random_points.sample(range(4, 60), 5 * TIMES)}):
        home, file, target = (tmp_path / f"{name}{at}" for name in ("home", "file", "target"))
        shutil.copytree(origin, home)
        shutil.copy(kept, file)
        was_killed = _killed(what, at, home, file, target)
        place = target if (target / "journal.db").exists() else home
        assert (target / "journal.db").exists() + (home / "journal.db").exists() == 1
        found = runs_of(place)
        if what == "restore":
            assert found == [eve.id, bob.id] or found[1:] == [bob.id]
            again = await restore(file, place, is_over=True)
            assert runs_of(place)[1:] == [bob.id]
            assert not list(place.glob(".restoring-*"))
            shutil.rmtree(again.aside)
        else:
            assert found == [eve.id, bob.id]
            check_copy(file)
        await pay_for(place, f"after {at}")
        if not was_killed:
            break


async def test_a_restored_run_waits_with_everything_said_about_the_gap(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    outside = Outside()
    async with EmbeddedHost(home, [outside.effect("pay")], sync="off") as host:
        run = await host.start(STORIES[1], {"to": "bob"})
        back_up(home, file)
        await host.answer(run.id, "work/pay/1", {"approved": True, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
    done = await restore(file, home, is_over=True)
    assert done.live == 1
    async with EmbeddedHost(home, [outside.effect("pay")], sync="off") as host:
        await host.recover()
        run = await host.show(run.id)
        question: Any = run.waiting[0].question
        assert (question.earlier["at"], question.earlier["until"]) == (done.since, done.until)
        assert any("restored" in alarm for alarm in run.alarms)
        await host.answer(run.id, "work/pay/1", {"outcome": "use", "result": {"id": 7}, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
    assert len(outside.deeds) == 1
    check_copy(home / "journal.db")
