"""Corners of a host's parts that mutation tests have found untested: what is said, and to whom, when it is odd."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import detent
from detent.core import Action, Contract, Outcome, Question, Status, effect
from detent.errors import BadSignature, JournalError
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.backup import back_up
from detent.host.embedded.handover_client import is_answering
from detent.host.embedded.journal_reader import JournalReader
from detent.host.embedded.restore import restore
from detent.host.embedded.schema import find_disk_fault
from detent.host.parts.answer_signature import _read as read_payload
from detent.host.parts.outbox import DELAY_S
from detent.testing import World, simulate
from detent.testing.conformance import DOOR, one
from tests.host.test_outbox import MACHINE as BILLING
from tests.host.test_progress import talk, talker


async def test_an_onlooker_that_fails_is_reported(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [talk], sync="off") as host:
        host.overhear("r", lambda _contract, _data: 1 / 0)  # type: ignore[arg-type]
        await host.start(talker(), run_id="r")
        assert (await host.settled("r")).status is Status.COMPLETED
        assert "division" in host.problems["r"]


async def test_who_listens_to_all_runs_hears_them_from_the_holder(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []

    def listen(run_id: str, _contract_id: str, data: Mapping[str, Any]) -> None:
        heard.append((run_id, data["text"]))

    async with detent.open(tmp_path / "home", [talk]) as host:
        await host.start(talker(), run_id="before")
        await host.settled("before")
        host.hear_all(listen)
        await host.start(talker(), run_id="after")
        await host.settled("after")
    assert heard == [("after", word) for word in ("one", "two", "three")]


async def test_a_holder_answers_who_asks_whether_it_is_there(tmp_path: Path) -> None:
    assert not await is_answering(tmp_path / "home", 0.1)
    async with detent.open(tmp_path / "home") as host:
        await host.start(DOOR)
        assert await is_answering(tmp_path / "home", 30.0)


def test_a_delivery_that_failed_waits_longer_every_time() -> None:
    async def story() -> list[int]:
        with World() as world:
            world.effect("break", kind="pure", answers=[RuntimeError("no money")])
            world.effect("notify", kind="idempotent", answers=[ConnectionError("gone")] * 3 + [{}])
            async with world.host() as host:
                await host.settled((await host.start(BILLING)).id)
                tries = []
                for pause in (0.5, 1, 1, 1):
                    await asyncio.sleep(pause * DELAY_S)
                    tries.append(sum(call.effect == "notify" for call in world.calls))
                return tries

    assert simulate(story()) == [1, 2, 2, 3]


async def test_a_journal_that_cannot_be_read_gives_no_backup_but_a_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with EmbeddedHost(home, sync="off") as host:
        await host.start(DOOR)
    (home / "journal.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    with pytest.raises(JournalError, match="cannot back up"):
        back_up(home, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


async def test_a_backup_names_what_it_leaves_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with EmbeddedHost(home, sync="off") as host:
        await host.start(DOOR)
    (home / ".restoring-1").mkdir()
    (home / ".restoring-1" / "half").write_text("x")
    (home / "kept").write_text("y")
    done = back_up(home, tmp_path / "backup")
    assert done.left_out == (".restoring-1/half",)
    await restore(tmp_path / "backup", tmp_path / "other")
    assert (tmp_path / "other" / "kept").read_text() == "y"


async def test_a_damaged_run_keeps_no_restore_from_telling_the_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with EmbeddedHost(home, sync="off") as host:
        bad, good = [(await host.start(DOOR)).id for _ in range(2)]
    with contextlib.closing(sqlite3.connect(home / "journal.db", isolation_level=None)) as db:
        db.execute("update events set body = '{' where run = (select no from runs where run_id = ?)", (bad,))
    async with EmbeddedHost(home, sync="off") as host:
        assert host.reader.gap() is None
        epoch = await host.mark_restored(1.0)
        assert [bool(run.alarms) for run in [await host.show(good)]] == [True]
        gap = host.reader.gap()
        assert gap is not None
        assert gap.epoch == epoch
        with pytest.raises(JournalError, match="damaged"):
            list(host.reader.transcript([bad]))


async def test_claims_that_came_while_nobody_wrote_are_found(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, sync="off") as host:
        run = await host.start(DOOR)
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as db:
        columns = [row[1] for row in db.execute("pragma table_info(claims)")]
        given = {"run_id": run.id, "contract_id": "x", "key": "made up", "at": 1.0}
        row = [given.get(name, "") for name in columns]
        db.execute(f"insert into claims values ({','.join('?' * len(columns))})", row)  # noqa: S608
    with pytest.raises(JournalError, match="1 claims"):
        async with EmbeddedHost(tmp_path, sync="off"):
            pass


async def test_an_effect_whose_question_is_over_is_told(tmp_path: Path) -> None:
    withdrawn: list[str] = []

    @effect("elicit", settle_s=0.0)
    async def elicit(_contract: Contract) -> Outcome:
        return Outcome(question=Question("Which one?", hears_no=True))

    asking = replace(elicit, withdraw=lambda contract: withdrawn.append(contract.id))
    async with EmbeddedHost(tmp_path, [asking], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(one(Action("a", "elicit")))).id)
        await host.cancel(run.id)
    assert withdrawn == [run.contracts[0].id]


async def test_a_secret_inside_a_list_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIST_KEY", "very-secret-value")
    seen: list[Any] = []

    @effect("take", kind="idempotent")
    async def take(contract: Contract) -> dict[str, Any]:
        seen.append(contract.input)
        return {"told": "very-secret-value"}

    action = Action("a", "take", {"all": [{"one": {"secret": "LIST_KEY"}}]})
    async with EmbeddedHost(tmp_path, [take], sync="off") as host:
        run = await host.settled((await host.start(one(action))).id)
    assert seen == [{"all": [{"one": "very-secret-value"}]}]
    assert "very-secret" not in str(run.results)


def test_a_disk_that_failed_is_told_apart_from_a_full_one(tmp_path: Path) -> None:
    failed, full = sqlite3.OperationalError("disk I/O error"), sqlite3.OperationalError("database or disk is full")
    failed.sqlite_errorcode, full.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_FULL
    assert "nothing more is written" in find_disk_fault(failed, tmp_path)
    assert find_disk_fault(full, tmp_path) == ""


@pytest.mark.parametrize("payload", ["", "{", "[]", '{"journal": 1}'])
def test_a_signature_over_something_else_is_a_bad_one(payload: str) -> None:
    with pytest.raises(BadSignature):
        read_payload(payload)


async def test_the_messages_of_a_file_from_before_there_were_any_are_none(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with EmbeddedHost(home, sync="off") as host:
        await host.start(DOOR, run_id="r")
    old = tmp_path / "old"
    shutil.copytree(home, old)
    with contextlib.closing(sqlite3.connect(old / "journal.db", isolation_level=None)) as db:
        db.execute("drop table outbox")
    with contextlib.closing(JournalReader(old)) as reader:
        assert [*reader.notes("r")] == []
