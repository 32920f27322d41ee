"""Several processes on one journal: the first holds it, the others hand it their verbs, the next takes over."""

import asyncio
import json
import os
import signal
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from detent.errors import JournalError, NoAnswer, Refused, Unknown
from detent.host.embedded import shared_host
from detent.host.embedded.journal import open_journal
from detent.host.embedded.lock import Lock
from detent.host.embedded.shared_host import open_host
from detent.host.parts.replay import verify
from detent.testing.conformance import DOOR
from tests.host.company import deeds, peer
from tests.host.peer import MACHINES, effects


async def test_the_verbs_of_a_second_process_reach_the_first(tmp_path: Path) -> None:
    async with peer(tmp_path) as first, peer(tmp_path) as second:
        assert (first.is_holder, second.is_holder) == (True, False)
        door = await second.do("start", machine="door", run_id="d")
        assert (await second.do("signal", run_id="d", name="OPEN"))["state"] == "open"
        assert (await first.do("signal", run_id="d", name="CLOSE"))["seq"] == 3
        refused = await second.do("signal", run_id="d", name="CLOSE")
        assert refused["error"] == "EventRefused"
        assert "OPEN" in refused["message"]
        assert (await second.do("signal", run_id="nobody", name="OPEN"))["error"] == "Unknown"
        assert (await second.do("cancel", run_id="d"))["status"] == "cancelled"
        assert door["id"] == "d"
        asking = await second.do("start", machine="asking", input={"n": 1})
        await second.do("answer", run_id=asking["id"], contract_id=asking["waiting"][0], answer={"approved": True})
        done = await second.do("settled", run_id=asking["id"])
        assert (done["status"], done["results"]["deed"]["pid"]) == ("completed", first.process.pid)
        assert (await second.do("hold", run_id="d"))["error"] == "EventRefused"


async def test_a_verb_may_be_given_while_another_is_waiting(tmp_path: Path) -> None:
    async with peer(tmp_path), peer(tmp_path) as second:
        await second.do("start", machine="gate", input={"n": 1}, run_id="g")
        waiting = [second.order("settled", run_id="g") for _ in range(3)]
        for number in range(20):
            assert (await second.do("start", machine="door", run_id=f"d{number}"))["state"] == "closed"
        (tmp_path / "gate.1").touch()
        for tag in waiting:
            assert (await second.hear(tag=tag))["ok"]["status"] == "completed"


async def test_of_two_processes_that_approve_one_wins(tmp_path: Path) -> None:
    async with peer(tmp_path) as first, peer(tmp_path) as second, peer(tmp_path) as third:
        for number in range(10):
            asking = await first.do("start", machine="asking", input={"n": number})
            given = {"run_id": asking["id"], "contract_id": asking["waiting"][0], "answer": {"approved": True}}
            tags = [(one, one.order("answer", **given)) for one in (second, third)]
            said = [await one.hear(tag=tag) for one, tag in tags]
            assert sorted("error" in reply for reply in said) == [False, True]
            assert {reply.get("error") for reply in said} == {None, "NotWaiting"}
            assert (await first.do("settled", run_id=asking["id"]))["status"] == "completed"
        assert len(deeds(tmp_path)) == 10


async def test_when_the_holder_is_killed_whoever_waits_takes_over_and_finishes(tmp_path: Path) -> None:
    async with peer(tmp_path) as first, peer(tmp_path) as second:
        await first.do("start", machine="gate", input={"n": 1}, run_id="g")
        await first.hear(begun="work/wait_for/1")
        waiting = second.order("settled", run_id="g")
        assert (await second.do("start", machine="door"))["state"] == "closed"
        first.process.send_signal(signal.SIGKILL)
        await second.hear(begun="work/wait_for/1")
        (tmp_path / "gate.1").touch()
        said = await second.hear(tag=waiting)
        assert said["is_holder"]
        assert (said["ok"]["status"], said["ok"]["results"]["deed"]["pid"]) == ("completed", second.process.pid)
    assert len(deeds(tmp_path)) == 1


async def test_when_the_holder_leaves_the_run_of_another_goes_on(tmp_path: Path) -> None:
    async with peer(tmp_path) as first, peer(tmp_path) as second:
        await second.do("start", machine="gate", input={"n": 1}, run_id="g")
        await first.hear(begun="work/wait_for/1")
        waiting = second.order("settled", run_id="g")
        first.leave()
        late = second.order("start", machine="door", run_id="late")
        (tmp_path / "gate.1").touch()
        await first.hear(ok="closed")
        assert await first.process.wait() == 0
        done = (await second.hear(tag=waiting))["ok"]
        assert (done["status"], done["is_held"]) == ("completed", False)
        assert (await second.hear(tag=late))["ok"]["state"] == "closed"
    assert len(deeds(tmp_path)) == 1


async def test_of_many_that_open_at_once_one_holds_and_all_work(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(peer(tmp_path, is_awaited=False)) for _ in range(4)]
        opened = [await one.hear(ok="open") for one in peers]
        assert sum(said["is_holder"] for said in opened) == 1
        for number, one in enumerate(peers):
            assert (await one.do("start", machine="door", run_id=f"d{number}"))["seq"] == 1
        holder = peers[[said["is_holder"] for said in opened].index(True)]
        holder.process.kill()
        others = [one for one in peers if one is not holder]
        tags = [(one, one.order("signal", run_id="d0", name="OPEN" if number % 2 == 0 else "CLOSE"))
                for number, one in enumerate(others)]  # fmt: skip
        said = [await one.hear(tag=tag) for one, tag in tags]
        assert sum(reply.get("is_holder", False) for reply in said) <= 1
        assert (await others[0].do("start", machine="door", run_id="d3"))["seq"] == 1
    journal = open_journal(tmp_path)
    assert [verify(journal, f"d{number}").problem for number in range(4)] == [""] * 4
    journal.close()


async def test_reading_needs_nobody_and_disturbs_nobody(tmp_path: Path) -> None:
    async with peer(tmp_path) as first:
        await first.do("start", machine="door", run_id="d")
        journal = open_journal(tmp_path)
        for number in range(50):
            tag = first.order("signal", run_id="d", name="OPEN" if number % 2 == 0 else "CLOSE")
            before = journal.record("d")
            assert before is not None
            assert before.summary.seq <= number + 2
            await first.hear(tag=tag)
            after = journal.record("d")
            assert after is not None
            assert after.summary.seq == number + 2
        assert verify(journal, "d").problem == ""
        journal.close()
        first.process.kill()
        await first.process.wait()
    journal = open_journal(tmp_path)
    assert verify(journal, "d").events == 51
    journal.close()


async def test_a_stale_socket_is_no_obstacle(tmp_path: Path) -> None:
    async with peer(tmp_path) as first:
        first.process.kill()
        await first.process.wait()
    assert stat.S_ISSOCK((tmp_path / "door").stat().st_mode)
    async with open_host(tmp_path, effects(tmp_path)) as host:
        assert host.is_holder
        assert (await host.start(DOOR)).seq == 1
    (tmp_path / "door").write_text("not even a socket")
    async with open_host(tmp_path, effects(tmp_path)) as host, open_host(tmp_path) as other:
        assert not other.is_holder
        assert (await other.start(DOOR)).seq == 1
    assert not (tmp_path / "door").exists()


async def test_the_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    async with open_host(tmp_path):
        found = (tmp_path / "door").stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert found.st_mode & 0o777 == 0o600
        assert found.st_uid == os.getuid()


async def test_a_home_with_blanks_and_a_very_long_name(tmp_path: Path) -> None:
    home = tmp_path / "a home with blanks" / ("x" * 120) / ("y" * 120)
    assert len(str(home)) > 250
    async with open_host(home, effects(home)) as host, open_host(home) as other:
        assert (host.is_holder, other.is_holder) == (True, False)
        run = await other.start(MACHINES["asking"], {"n": 1})
        await other.answer(run.id, run.waiting[0].id, {"approved": True})
        assert (await other.settled(run.id)).ended is not None


async def test_a_second_process_can_fork_at_a_checkpoint(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host, open_host(tmp_path) as other:
        run = await host.start(DOOR)
        await host.signal(run.id, "OPEN")
        begun = await other.fork(run.id, "1", new_id="copy", by="ann")
        assert (begun.id, begun.state, begun.by) == ("copy", "closed", "ann")
        assert (await other.fork(run.id)).state == "open"
        with pytest.raises(Unknown, match="events 1 to 2, not 9"):
            await other.fork(run.id, "9")


GO = b'{"go": 2}\n'


def offer(verb: str, **args: object) -> bytes:
    return json.dumps({"protocol": 2, "offer": {"verb": verb, "args": args}}).encode() + b"\n"


async def test_nonsense_at_the_door_hurts_nobody(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        run = await host.start(DOOR)
        nonsense = [
            b"hello\n",
            offer("close"),
            b'{"protocol": 2, "offer": {"verb": "signal", "args": 5}}\n',
            b'{"protocol": 2, "offer": 7}\n',
            b'{"protocol": 3, "offer": {"verb": "signal", "args": {}}}\n',
            b"[]\n",
            b"\xff\n",
            offer("signal", run_id=7, name=8) + GO,
            offer("start", machine=1) + GO,
            offer("answer", run_id=run.id, contract_id="c", answer="no") + GO,
            offer("signal", run_id=run.id, name="OPEN") + b"stop\n",
            offer("signal", run_id=run.id, name="OPEN"),
            b"no newline",
        ]
        for said in nonsense:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "door")
            writer.write(said)
            writer.write_eof()
            reply = await reader.read()
            assert b'"result"' not in reply
            assert b"error" in reply or said == b"no newline" or b"OPEN" in said
            writer.close()
            await writer.wait_closed()
        assert (await host.signal(run.id, "OPEN")).seq == 2


async def test_what_goes_through_the_door_is_checked_before(tmp_path: Path) -> None:
    async with open_host(tmp_path), open_host(tmp_path) as other:
        run = await other.start(DOOR)
        with pytest.raises(Refused, match="JSON has no such number"):
            await other.signal(run.id, "OPEN", {"x": float("nan")})
        with pytest.raises(Refused):
            await other.signal(run.id, "OPEN", {"x": ["y" * 15_000_000] * 5})
        assert (await other.signal(run.id, "OPEN", {"x": "lone \ud800 surrogate"})).seq == 2


async def test_a_holder_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_host, "ANSWER_S", 0.1)
    lock = Lock(tmp_path)
    assert lock.take()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "door"))
        with pytest.raises(NoAnswer, match=rf"process {os.getpid()} \(.+, since .+\) holds .+ nothing was done"):
            async with open_host(tmp_path):
                pass
    lock.free()
    async with open_host(tmp_path) as host:
        assert host.is_holder


async def test_a_closed_host_says_so(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host, open_host(tmp_path) as other:
        pass
    for one in (host, other):
        with pytest.raises(JournalError, match="closed"):
            await one.start(DOOR)
