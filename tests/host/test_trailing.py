"""What trails: a harmless call under a guard does not wait for the disk, and nothing else is lost by that."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import detent
from detent.errors import Waiting
from detent.host.embedded.journal import Journal
from detent.host.embedded.wal_preallocation import FRAME, HEADER
from detent.host.parts.journal_query import Batch, Nobody
from tests.effort import TIMES

READS = 6


def _behind(host: Any) -> bool:
    journal: Journal = host._host._written
    return journal.is_behind


async def _live(home: Path, copy: Path) -> tuple[str, int]:
    """A deed and then reads, copied as they are in the kernel; the deed's run, and how long the log was after it."""
    async with detent.guard(home).open_in_loop() as guard:

        @guard.tool("bank.pay", ask=False)
        async def pay(to: str) -> str:
            return to

        @guard.tool("bank.look", effect="pure")
        async def look(number: int) -> int:
            return number

        await look(-1)
        await pay("ann")
        host = guard.background.host
        assert not _behind(host), "a deed is on disk, and what came before it"
        log = home / "journal.db-wal"
        used = _frames(log)
        for number in range(READS):
            assert await look(number) == number
            assert _behind(host)
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("callers", "*.sock", "door*"))
        (deed,) = [one.run_id for one in await host.list(name="bank_pay")]
        return deed, used


def _frames(log: Path) -> int:
    """How many frames of the log are written: what is laid ahead of it is zeros."""
    body = log.read_bytes()
    return sum(any(body[at : at + 24]) for at in range(HEADER, len(body), FRAME))


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int, int]:
    folder = tmp_path_factory.mktemp("trailing")
    deed, used = asyncio.run(_live(folder / ".detent", folder / "copy"))
    return folder / "copy", deed, used, _frames(folder / "copy" / "journal.db-wal")


@settings(max_examples=8 * TIMES, deadline=None)
@given(st.data())
def test_a_power_cut_takes_reads_and_never_a_deed(lived: tuple[Path, str, int, int], data: st.DataObject) -> None:
    copy, deed, used, all_frames = lived
    left = data.draw(st.integers(used, all_frames))
    torn = data.draw(st.integers(0, FRAME - 1)) if left < all_frames else 0
    home = copy.with_name(f"cut-{left}-{torn}")
    shutil.copytree(copy, home)
    try:
        with (home / "journal.db-wal").open("r+b") as log:
            log.truncate(HEADER + left * FRAME + torn)
        reads = asyncio.run(_reopen(home, deed))
        assert reads == list(range(-1, len(reads) - 1)), "from the beginning, without a hole"
        assert left < all_frames or len(reads) == READS + 1
    finally:
        shutil.rmtree(home)


async def _reopen(home: Path, deed: str) -> list[int]:
    async with detent.open(home) as host:
        assert (await host.show(deed)).output["returned"] == "ann"
        found = sorted(await host.list(name="bank_look"), key=lambda one: one.no)
        for one in found:
            assert not host.reader.verify(one.run_id).problem
        return [(await host.show(one.run_id)).context["args"]["number"] for one in found]


async def test_what_people_are_asked_about_does_not_trail(tmp_path: Path) -> None:
    guard = detent.guard(tmp_path / ".detent", waiting="raise")
    async with guard.open_in_loop():

        @guard.tool("bank.look", effect="pure", ask="Look?")
        async def look() -> int:
            return 1

        host: Any = guard.background.host
        with pytest.raises(Waiting) as asked:
            await look()
        assert not _behind(host)
        await guard.answer_async(asked.value, {"approved": True}, by="ann")
        assert not _behind(host)
        assert await guard.ticket(look, asked.value.run_id) == 1
        assert not _behind(host)


def test_the_next_commit_that_waits_waits_for_what_trails(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", is_writer=True)
    behind = []
    for is_trailing in (True, False, True):
        batch = Batch(Nobody())
        batch.meta, batch.is_trailing = (("note", str(is_trailing)),), is_trailing
        journal.commit([batch])
        behind.append(journal.is_behind)
    journal.sync()
    assert [*behind, journal.is_behind] == [True, False, True, False]
    both = [Batch(Nobody()), Batch(Nobody())]
    both[0].is_trailing = True
    journal.commit(both)
    assert not journal.is_behind
    journal.close()
