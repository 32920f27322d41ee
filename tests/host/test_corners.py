"""Corners that mutation tests have found untested: whom a failed write is told, locks, hashes of retries."""

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, EffectFailed, Outcome, Question, Retry, Status, effect
from detent.core.events import ContractMoved
from detent.core.progress import note
from detent.errors import JournalError, Refused
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.embedded.lock import Lock, holder, is_held
from detent.host.embedded.writer import InlineWriter
from detent.host.parts.journal_query import Batch
from detent.host.parts.replay import entries
from detent.redaction import HIDDEN, Redactor
from detent.testing.conformance import one


class Refusing(InlineWriter):
    """A writer whose disk is full from some moment on."""

    is_full = False

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._here = asyncio.get_running_loop()

    def submit(self, batch: Batch, done: Any, is_alone: bool = False) -> None:
        if not self.is_full:
            super().submit(batch, done, is_alone)
            return
        batch.owner.is_broken = True
        self._here.call_soon(done, JournalError("no space left"))


class Filling(EmbeddedHost):
    """A host on such a disk."""

    async def __aenter__(self) -> "Filling":
        await super().__aenter__()
        self._writer = Refusing(self._written)
        return self


async def test_whoever_waits_for_a_run_is_told_that_its_event_could_not_be_written(tmp_path: Path) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @effect("slow", kind="idempotent")
    async def slow(contract: Contract) -> dict[str, bool]:
        began.set()
        await may_end.wait()
        return {"ok": True}

    async with Filling(tmp_path, [slow], sync="off", grace_s=0.0) as host:
        run = await host.start(one(Action("a", "slow")))
        await began.wait()
        waiting = [asyncio.ensure_future(host.settled(run.id)) for _ in range(2)]
        await asyncio.sleep(0)
        assert isinstance(host._writer, Refusing)
        host._writer.is_full = True
        may_end.set()
        for waiter in waiting:
            with pytest.raises(JournalError, match="no space"):
                await waiter
        assert host.stopped == {run.id: "no space left"}
        with pytest.raises(JournalError, match="no space"):
            await host.start(one(Action("a", "slow")))
        host._writer.is_full = False
        await host.recover()
        assert (await host.settled(run.id)).status is Status.COMPLETED, "what is on disk goes on from there"


@pytest.mark.parametrize("hears_no", [True, False])
async def test_a_question_says_whether_anything_may_have_happened(hears_no: bool, tmp_path: Path) -> None:
    @effect("ask.first", settle_s=0.0)
    async def ask_first(contract: Contract) -> Outcome:
        return Outcome(question=Question("May I?", hears_no=hears_no))

    async with EmbeddedHost(tmp_path, [ask_first], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(one(Action("a", "ask.first")))).id)
        (contract,) = run.waiting
        assert contract.effect_state == ("possible" if hears_no else "none")
        (moved,) = (entry.event for entry in entries(host.journal, run.id) if isinstance(entry.event, ContractMoved))
        assert moved.deed == contract.effect_state


async def test_a_retry_is_bound_to_its_call_only_where_somebody_was_asked(tmp_path: Path) -> None:
    seen: list[Contract] = []

    @effect("try", kind="idempotent")
    async def attempt(contract: Contract) -> dict[str, bool]:
        seen.append(contract)
        if len(seen) % 2:
            raise EffectFailed("busy")
        return {"ok": True}

    def machine(ask: Question | None) -> Any:
        return one(Action("a", "try", {"n": 1}, retry=Retry(limit=2, delay_s=0.0), ask=ask))

    async with EmbeddedHost(tmp_path, [attempt], sync="off") as host:
        await host.settled((await host.start(machine(None))).id)
        assert [contract.call_hash for contract in seen] == ["", ""]
        run = await host.settled((await host.start(machine(Question("Go?")))).id)
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        assert (await host.settled(run.id)).status is Status.COMPLETED
        assert seen[2].call_hash == seen[3].call_hash != ""
        assert seen[3].approved == seen[3].call_hash


def test_a_lock_has_one_holder_whose_name_is_whole(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    first, second = Lock(home, "a command with a very long name indeed"), Lock(home, "short")
    assert not is_held(home)
    assert holder(home).pid == 0
    assert first.is_free()
    assert first.take()
    assert not second.take()
    assert is_held(home)
    assert not first.is_free()
    assert not second.is_free()
    assert (holder(home).pid, holder(home).command) == (os.getpid(), "a command with a very long name indeed")
    assert holder(home).since > 0
    second.free()
    assert is_held(home), "only its holder can let go"
    first.free()
    first.free()
    assert not is_held(home)
    assert second.is_free()
    assert second.take()
    assert holder(home).command == "short", "nothing is left of the longer name"
    second.free()
    assert (home / "lock").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_lock_is_not_inherited_and_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from detent.host.embedded.lock import Lock; " \
        "lock = Lock(Path(sys.argv[1])); print(lock.take(), flush=True); sys.stdin.read()"  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdin=-1, stdout=-1) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        assert not Lock(tmp_path).take()
        assert holder(tmp_path).pid == other.pid
        other.kill()
    mine = Lock(tmp_path)
    assert mine.take()
    assert mine._file is not None
    assert not os.get_inheritable(mine._file)
    mine.free()


def test_a_lock_that_cannot_write_its_name_is_a_lock_all_the_same(tmp_path: Path) -> None:
    """On a full disk nobody learns who holds the journal; that somebody does is the kernel's word."""
    resource = pytest.importorskip("resource")
    program = "import resource, sys; from pathlib import Path; from detent.host.embedded.lock import Lock, is_held; " \
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); " \
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); home = Path(sys.argv[1]); " \
        "lock = Lock(home); print(lock.take(), Lock(home).take(), is_held(home))"  # fmt: skip
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "True False True\n"


@pytest.mark.parametrize(("value", "is_hidden"), [("abc", False), ("abcd", True), ("wxyz12", True), ("wxyz123", True)])
def test_the_shortest_secrets_are_left_in_ordinary_text(value: str, is_hidden: bool) -> None:
    text = f"x{value}y {value}"
    assert Redactor([value]).hide_whole(text) == (f"x{HIDDEN}y {HIDDEN}" if is_hidden else text)


async def test_what_an_effect_asks_later_is_for_those_who_could_approve_its_call(tmp_path: Path) -> None:
    @effect("ask.more", kind="idempotent")
    async def ask_more(contract: Contract) -> Outcome:
        if len(contract.answers) > 1:
            return Outcome({"count": contract.answers[-1].data})
        return Outcome(question=Question("How many?", "form", {"type": "object"}))

    asked = Question("May I?", approvers=("ann", "bob"), separate=True)
    async with EmbeddedHost(tmp_path, [ask_more], sync="off", grace_s=0.0) as host:
        run = await host.start(one(Action("a", "ask.more", ask=asked)), by="kim")
        await host.answer(run.id, "work/a/1", {"approved": True, "by": "ann"})
        (contract,) = (await host.settled(run.id)).waiting
        assert contract.question is not None
        assert (contract.question.reason, contract.question.approvers) == ("form", ("ann", "bob"))
        assert contract.question.separate
        with pytest.raises(Refused, match="kim"):
            await host.answer(run.id, "work/a/1", {"data": {"n": 1}, "by": "kim"})
        await host.answer(run.id, "work/a/1", {"data": {"n": 2}, "by": "bob"})
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def test_what_an_effect_notes_of_its_call_is_kept_with_the_outcome(tmp_path: Path) -> None:
    @effect("guarded", kind="pure")
    async def guarded(contract: Contract) -> dict[str, bool]:
        note("sandbox", "strict")
        return {"ok": True}

    note("sandbox", "nowhere")  # outside of a call nobody keeps it
    async with EmbeddedHost(tmp_path, [guarded], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(one(Action("a", "guarded")))).id)
        moves = [entry.event for entry in entries(host.journal, run.id) if isinstance(entry.event, ContractMoved)]
        assert [move.sandbox for move in moves if move.trigger == "succeed"] == ["strict"]


async def test_a_damaged_row_is_told_by_its_run_and_hides_no_other(tmp_path: Path) -> None:
    @effect("do", kind="pure")
    async def do(contract: Contract) -> dict[str, bool]:
        return {"ok": True}

    async with EmbeddedHost(tmp_path, [do], sync="off", grace_s=0.0) as host:
        bad, good = [(await host.settled((await host.start(one(Action("a", "do")))).id)).id for _ in range(2)]
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as db:
        db.execute("update runs set waiting = '{' where run_id = ?", (bad,))
    async with EmbeddedHost(tmp_path, [do], sync="off", grace_s=0.0) as host:
        assert [line.run_id for line in await host.list()] == [good]
        assert list(host.problems) == [bad]


async def test_an_export_has_the_machine_of_a_run_before_its_events(tmp_path: Path) -> None:
    @effect("do", kind="pure")
    async def do(contract: Contract) -> dict[str, bool]:
        return {"ok": True}

    machine = one(Action("a", "do"))
    async with EmbeddedHost(tmp_path, [do], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(machine)).id)
        lines = [json.loads(line) for line in host.reader.transcript([run.id])]
    told = [line for line in lines if line.get("line") == "machine"]
    assert [line["digest"] for line in told] == [machine.digest]
    kinds = [line.get("line") for line in lines]
    assert kinds.index("machine") < kinds.index("event")
