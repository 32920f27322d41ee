"""Zeros ahead of the log, cut at any byte: every committed event is there, and the journal goes on.

The states a crash can leave are made on disk as files and opened with the real SQLite, as a reader and as a writer.
"""

import asyncio
import os
import random
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from detent.core import Machine, table
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.wal_preallocation import FRAME, HEADER, LAID
from detent.host.parts.replay import entries
from tests.effort import TIMES, examples

DOOR = Machine(
    name="door",
    initial="closed",
    transitions=table("""
        closed  OPEN   open
        open    CLOSE  closed
    """),
)
EVENTS = 6
SECTOR = 512


class Disk(NamedTuple):
    """A journal's two files as they stood at one moment, the frames of its last commit apart."""

    data: bytes
    log: bytes  # every frame but those of the last commit
    last: bytes

    def lay(self, folder: Path, log: bytes) -> Path:
        """These files in a folder, with that log."""
        path = folder / "journal.db"
        path.write_bytes(self.data)
        path.with_name("journal.db-wal").write_bytes(log)
        path.with_name("journal.db-shm").unlink(missing_ok=True)
        return path


def used(log: bytes) -> bytes:
    """A log without the zeros laid ahead."""
    frames = -(-(len(log.rstrip(b"\0")) - HEADER) // FRAME)
    return log[: HEADER + frames * FRAME]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    home = tmp_path_factory.mktemp("home")
    data, log = home / "journal.db", home / "journal.db-wal"

    async def work() -> Disk:
        async with EmbeddedHost(home) as host:
            run = await host.start(DOOR, run_id="r")
            for name in ("OPEN", "CLOSE") * (EVENTS // 2 - 1):
                await host.signal(run.id, name)
            before = used(log.read_bytes())
            await host.signal(run.id, "OPEN")
            assert len(log.read_bytes()) >= len(before) + len(LAID) - 32 * FRAME, "zeros are laid"
            after = used(log.read_bytes())
            assert after.startswith(before)
            return Disk(data.read_bytes(), before, after[len(before) :])

    return asyncio.run(work())


def seen(path: Path) -> int:
    """How many events a reader finds."""
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        return int(db.execute("select count(*) from events").fetchone()[0])
    finally:
        db.close()


async def gone_on(home: Path) -> int:
    """How many events there are when a host has opened the journal, checked all of it, and added one."""
    async with EmbeddedHost(home, sync="full") as host:
        run = host.load("r").run
        await host.signal("r", "CLOSE" if run.state == "open" else "OPEN")
        kept = [*entries(host.journal, "r")]
        return len(kept)


def near(points: Iterable[int], most: int) -> list[int]:
    """Each of these places, and those right before and after."""
    return sorted({place for point in points for place in (point - 1, point, point + 1) if 0 <= place <= most})


def test_a_write_of_zeros_cut_at_any_byte_leaves_every_event(disk: Disk, tmp_path: Path) -> None:
    log = disk.log + disk.last
    path = disk.lay(tmp_path, log)
    tail, shm = path.with_name("journal.db-wal"), path.with_name("journal.db-shm")
    # Every byte of the first two frames; of the others, which are the same again, the bytes around their edges. Trying
    # harder, every byte of all: that takes some minutes.
    edges = near(range(2 * FRAME, len(LAID) + 1, FRAME), len(LAID))
    cuts = range(len(LAID) + 1) if TIMES > 1 else [*range(2 * FRAME), *edges]
    for cut in cuts:
        os.truncate(tail, len(log) + cut)  # a file that is made longer is longer by zeros
        shm.unlink(missing_ok=True)
        assert seen(path) == EVENTS, f"{cut} bytes of zeros"


def test_a_commit_into_the_zeros_cut_at_any_byte_is_whole_or_not_there(disk: Disk, tmp_path: Path) -> None:
    path = disk.lay(tmp_path, disk.log + LAID)
    tail, shm = path.with_name("journal.db-wal"), path.with_name("journal.db-shm")
    with tail.open("r+b", buffering=0) as file:
        for cut in range(len(disk.last) + 1):
            os.pwrite(file.fileno(), disk.last[:cut][-1:], len(disk.log) + max(0, cut - 1))
            shm.unlink(missing_ok=True)
            whole = seen(path)
            assert whole in (EVENTS - 1, EVENTS), f"{cut} bytes of the commit"
            assert whole == EVENTS or cut < len(disk.last)


def test_sectors_of_a_commit_that_land_in_any_order_are_believed_only_when_all_have(disk: Disk, tmp_path: Path) -> None:
    chance, sectors = random.Random(13), range(0, len(disk.last), SECTOR)
    for _ in range(examples(300)):
        landed = {at for at in sectors if chance.random() < 0.8}
        commit = b"".join(
            disk.last[at : at + SECTOR] if at in landed else bytes(len(disk.last[at : at + SECTOR])) for at in sectors
        )
        path = disk.lay(tmp_path, disk.log + commit + LAID[FRAME:])
        assert seen(path) == (EVENTS if commit == disk.last else EVENTS - 1)


@pytest.mark.parametrize("cut", [0, 1, HEADER, FRAME - 1, FRAME, FRAME + 24, 64 * FRAME + 7, len(LAID) - 1, len(LAID)])
async def test_whoever_opens_it_next_goes_on_behind_the_zeros(disk: Disk, tmp_path: Path, cut: int) -> None:
    disk.lay(tmp_path, disk.log + disk.last + LAID[:cut])
    assert await gone_on(tmp_path) == EVENTS + 1
    assert await gone_on(tmp_path) == EVENTS + 2


@pytest.mark.parametrize("what", ["noise", "the log once more", "its last commit once more", "a later log", "ones"])
async def test_what_else_a_disk_may_show_there_is_not_believed(disk: Disk, tmp_path: Path, what: str) -> None:
    """A crash may leave a file longer than what was written to it; what stands there then is the disk's choice."""
    log = disk.log + disk.last
    later = bytearray(log[HEADER:])
    later[8:16] = bytes(reversed(later[8:16]))  # the salts of another log
    tail = {
        "noise": random.Random(13).randbytes(3 * FRAME),
        "the log once more": log[HEADER:],
        "its last commit once more": disk.last,
        "a later log": bytes(later),
        "ones": b"\xff" * FRAME,
    }[what]
    path = disk.lay(tmp_path, log + tail)
    assert seen(path) == EVENTS
    disk.lay(tmp_path, log + tail)
    assert await gone_on(tmp_path) == EVENTS + 1
