"""A verb on its way to the process that holds the journal: done once, withdrawn, or said to be uncertain."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.core.events import ContractMoved
from detent.core.run import Run
from detent.errors import MaybeDone, NoAnswer, NotWaiting, Refused
from detent.host.embedded import handover_client as knock
from detent.host.embedded.handover_client import is_answering
from detent.host.embedded.journal import Journal, open_journal
from detent.host.embedded.lock import Lock
from detent.host.embedded.shared_host import open_host
from detent.host.parts.replay import entries
from detent.testing.conformance import DOOR
from tests.host.company import Peer, deeds, kept, peer
from tests.host.peer import MACHINES, effects

MOMENTS = ("offer", "ready", "go", "answer")
RUN, CONTRACT = "asking", "work/deed/1"


def given_by(name: str) -> dict[str, Any]:
    """What `answer` is told for a yes of somebody."""
    return {"run_id": RUN, "contract_id": CONTRACT, "answer": {"approved": True, "by": name}}


def answered_by(home: Path, run_id: str = RUN) -> list[str]:
    """Whose answers the journal has."""
    journal = open_journal(home)
    try:
        moved = [one.event for one in entries(journal, run_id) if isinstance(one.event, ContractMoved)]
        return [event.result["by"] for event in moved if event.trigger == "resume" and event.actor == "human"]
    finally:
        journal.close()


@asynccontextmanager
async def holding(home: Path) -> AsyncIterator[Peer]:
    """A process that holds the journal, with a run that asks."""
    async with peer(home) as holder:
        assert holder.is_holder
        await holder.do("start", machine="asking", input={"n": 1}, run_id=RUN)
        yield holder


# a holder that is stopped


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is stopped stays silent however long one waits, so a test need not wait for long."""
    monkeypatch.setattr(knock, "ANSWER_S", 0.3)


async def test_what_a_stopped_holder_was_offered_is_withdrawn_by_giving_up(tmp_path: Path, hasty: None) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path) as host:
        holder.process.send_signal(signal.SIGSTOP)
        with pytest.raises(NoAnswer) as caught:
            await host.answer(**given_by("impatient"))
        assert not isinstance(caught.value, MaybeDone)
        assert (caught.value.pid, caught.value.run_id, caught.value.is_change) == (holder.process.pid, RUN, True)
        assert caught.value.since > 0
        assert "nothing was done" in str(caught.value)
        assert not await is_answering(tmp_path, 0.3)
        holder.process.send_signal(signal.SIGCONT)
        assert await is_answering(tmp_path, 60)
        assert (await holder.do("show", run_id=RUN))["status"] == "waiting"
        assert answered_by(tmp_path) == []
        await holder.do("answer", **given_by("patient"))
    assert answered_by(tmp_path) == ["patient"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_holder_stopped_at_any_moment_does_nothing_for_who_has_gone(
    tmp_path: Path, moment: str, hasty: None
) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path) as host:

        async def stop(now: str, _: object) -> bool:
            if now == moment:
                holder.process.send_signal(signal.SIGSTOP)
            return True

        async with kept(tmp_path, stop) as keeper:
            if moment == "answer":  # it had answered before it was stopped
                assert isinstance(await host.answer(**given_by("kim")), Run)
            else:
                with pytest.raises(NoAnswer) as caught:
                    await host.answer(**given_by("kim"))
                assert isinstance(caught.value, MaybeDone) == (moment != "offer")
                assert ("may have been done: `detent show asking`" in str(caught.value)) == (moment != "offer")
            await keeper.quiet()
        holder.process.send_signal(signal.SIGCONT)
        assert (await holder.do("show", run_id=RUN))["id"] == RUN
    assert answered_by(tmp_path) == (["kim"] if moment == "answer" else [])


async def test_a_wait_that_was_taken_goes_on_through_a_silence_and_tells_of_it(tmp_path: Path, hasty: None) -> None:
    async with peer(tmp_path) as holder, open_host(tmp_path) as host:
        await host.start(MACHINES["gate"], {"n": 1}, run_id="g")
        await holder.hear(begun="work/wait_for/1")
        silent = asyncio.Event()
        host.on_silence = silent.set
        taken = asyncio.Event()

        async def notice(now: str, _: object) -> bool:
            if now == "go":
                taken.set()
            return True

        async with kept(tmp_path, notice):
            waiting = asyncio.create_task(host.settled("g"))
            await taken.wait()
            holder.process.send_signal(signal.SIGSTOP)
            await silent.wait()
            holder.process.send_signal(signal.SIGCONT)
            (tmp_path / "gate.1").touch()
            assert (await waiting).ended is not None


async def test_with_more_callers_than_its_queue_holds_a_stopped_holder_is_told_of_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path) as host:
        holder.process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(knock, "ANSWER_S", 0.5)
        monkeypatch.setattr("detent.host.embedded.shared_host.ANSWER_S", 0.5)
        said = await asyncio.gather(
            *(host.answer(**given_by(f"caller {number}")) for number in range(300)), return_exceptions=True
        )
        assert {type(one) for one in said} == {NoAnswer}
        holder.process.send_signal(signal.SIGCONT)
        assert (await holder.do("show", run_id=RUN))["status"] == "waiting"
    assert answered_by(tmp_path) == []


# death at every point


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_caller_killed_at_any_moment_has_withdrawn_what_was_not_begun(tmp_path: Path, moment: str) -> None:
    async with holding(tmp_path) as holder, peer(tmp_path) as caller:

        async def kill(now: str, _: object) -> bool:
            if now == moment:
                caller.process.kill()
                await caller.process.wait()
            return now != moment

        async with kept(tmp_path, kill) as keeper:
            caller.order("answer", **given_by("late"))
            await caller.process.wait()
            await keeper.quiet()
        assert (await holder.do("show", run_id=RUN))["id"] == RUN
        assert answered_by(tmp_path) == (["late"] if moment == "answer" else [])
        if moment != "answer":
            await holder.do("answer", **given_by("another"))
            assert answered_by(tmp_path) == ["another"]
        await holder.do("settled", run_id=RUN)
    assert len(deeds(tmp_path)) == 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_when_the_holder_is_killed_at_any_moment_the_caller_takes_over_and_it_is_done_once(
    tmp_path: Path, moment: str
) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path, effects(tmp_path)) as host:

        async def kill(now: str, _: object) -> bool:
            if now == moment:
                holder.process.kill()
                await holder.process.wait()
            return now != moment

        async with kept(tmp_path, kill):
            run = await host.answer(**given_by("kim"))
        assert (run.id, host.is_holder) == (RUN, True)
        assert answered_by(tmp_path) == ["kim"]
        if moment != "answer":  # else the deed was under way, too, and is a doubt now
            assert (await host.settled(RUN)).ended is not None
    assert len(deeds(tmp_path)) <= 1


async def test_a_pause_whose_holder_died_over_it_counts_once(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path, effects(tmp_path)) as host:

        async def kill(now: str, _: object) -> bool:
            if now == "answer":
                holder.process.kill()
            return now != "answer"

        async with kept(tmp_path, kill):
            assert (await host.hold(RUN)).is_held
        assert (await host.show(RUN)).seq == 2


async def test_when_nobody_can_be_asked_after_the_go_it_may_have_been_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(tmp_path) as holder, open_host(tmp_path, effects(tmp_path)) as host:
        squatter = Lock(tmp_path)

        async def replace(now: str, _: object) -> bool:
            if now == "answer":
                holder.process.kill()
                await holder.process.wait()
                assert squatter.take()
                monkeypatch.setattr(knock, "ANSWER_S", 0.1)
            return now != "answer"

        async with kept(tmp_path, replace) as keeper:
            answering = asyncio.create_task(host.answer(**given_by("kim")))
            await asyncio.wait([answering])
            await keeper.quiet()
        with pytest.raises(MaybeDone, match="may have been done"):
            await answering
        squatter.free()
    assert answered_by(tmp_path) == ["kim"]


# giving up

GIVEN_UP = {"offer": "withdrawn", "ready": "withdrawn", "go": "perhaps", "answer": "perhaps"}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_who_gives_up_knows_whether_it_was_withdrawn(tmp_path: Path, moment: str) -> None:
    async with open_host(tmp_path, effects(tmp_path)) as holder, open_host(tmp_path) as host:
        await holder.start(MACHINES["asking"], {"n": 1}, run_id=RUN)
        met, gone = asyncio.Event(), asyncio.Event()

        async def give_up(now: str, _: object) -> bool:
            if now == moment:
                met.set()
                await gone.wait()
            return now != moment

        async with kept(tmp_path, give_up):
            answering = asyncio.create_task(host.answer(**given_by("kim")))
            await met.wait()
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
            gone.set()
            assert host.given_up == GIVEN_UP[moment]
        await holder.show(RUN)
        assert answered_by(tmp_path) == (["kim"] if moment == "answer" else [])


# other versions


async def test_a_holder_of_an_older_version_is_not_asked(tmp_path: Path) -> None:
    heard: list[bytes] = []
    talks: set[Any] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.current_task())
        while line := await reader.readline():  # as version 1 did: `verb` is acted upon, all else is not understood
            heard.append(line)
            assert "verb" not in json.loads(line)
            writer.write(b'{"error": "Refused", "message": "not understood: \'verb\'"}\n')
        writer.close()

    lock = Lock(tmp_path, "detent serve")
    assert lock.take()
    server = await asyncio.start_unix_server(serve, tmp_path / "door")
    async with open_host(tmp_path) as host:
        with pytest.raises(Refused, match=rf"process {os.getpid()} \(detent serve, .+older detent.+nothing was done"):
            await host.answer(**given_by("kim"))
        assert await is_answering(tmp_path, 60)
    await asyncio.wait(talks)
    server.close()
    lock.free()
    assert len(heard) == 2


async def test_a_caller_of_an_older_version_is_refused_politely(tmp_path: Path) -> None:
    async with open_host(tmp_path, effects(tmp_path)) as holder:
        await holder.start(MACHINES["asking"], {"n": 1}, run_id=RUN)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "door")
        writer.write(json.dumps({"verb": "answer", "args": given_by("kim")}).encode() + b"\n")
        said = json.loads(await reader.readline())
        assert said["error"] == "Refused"
        assert "protocol 2, not 1; nothing was done" in said["message"]
        writer.close()
        await writer.wait_closed()
        assert (await holder.show(RUN)).waiting


# many at once


async def test_many_callers_at_once_are_all_heard_and_each_once(tmp_path: Path) -> None:
    async with open_host(tmp_path) as holder, open_host(tmp_path) as first, open_host(tmp_path) as second:
        assert [one.is_holder for one in (holder, first, second)] == [True, False, False]
        begun = await asyncio.gather(*(first.start(DOOR, run_id=f"d{number}") for number in range(300)))
        assert [run.seq for run in begun] == [1] * 300
        told = [host.signal(f"d{number}", "OPEN") for number in range(300) for host in (first, second)]
        said = await asyncio.gather(*told, return_exceptions=True)
        assert sum(isinstance(one, Run) for one in said) == 300
        assert [one for one in said if not isinstance(one, (Run, Refused))] == []
    journal = Journal(tmp_path / "journal.db")
    assert {record.summary.seq for record in journal.runs(limit=1000)} == {2}
    journal.close()


async def answer_with(home: Path, wants: list[tuple[str, int]]) -> dict[str, str]:
    """Several answer one question at once, each slowed down and giving up as it wants; what each came to know."""
    plans = {f"caller {number}": want for number, want in enumerate(wants)}
    met, gone = ({name: asyncio.Event() for name in plans} for _ in range(2))

    async def meet(now: str, given: dict[str, Any]) -> bool:
        name = given["answer"]["by"]
        moment, slowness = plans[name]
        for _ in range(slowness):
            await asyncio.sleep(0)
        if now == moment:
            met[name].set()
            await gone[name].wait()
        return now != moment

    async def answer(name: str) -> str:
        async with open_host(home) as host:
            answering = asyncio.create_task(host.answer(**given_by(name)))
            giving_up = asyncio.create_task(met[name].wait())
            await asyncio.wait([answering, giving_up], return_when=asyncio.FIRST_COMPLETED)
            giving_up.cancel()
            answering.cancel()
            try:
                await answering
                return "done"
            except NotWaiting:
                return "too late"
            except asyncio.CancelledError:
                return host.given_up
            finally:
                gone[name].set()

    async with kept(home, meet):
        return dict(zip(plans, await asyncio.gather(*map(answer, plans)), strict=True))


@settings(max_examples=60)
@given(wants=st.lists(st.tuples(st.sampled_from((*MOMENTS, "never")), st.integers(0, 8)), min_size=1, max_size=5))
async def test_whatever_callers_do_an_answer_counts_once_and_everybody_is_told_the_truth(
    wants: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        async with open_host(home, effects(home)) as holder:
            await holder.start(MACHINES["asking"], {"n": 1}, run_id=RUN)
            told = await answer_with(home, wants)
            await holder.show(RUN)
            counted = answered_by(home)
        assert len(counted) <= 1
        assert [name for name, said in told.items() if said == "done"] in ([], counted)
        assert not [name for name in counted if told[name] not in ("done", "perhaps")]
        assert counted or not [want for want, _ in wants if want == "never"]
        assert len(deeds(home)) == len(counted)
