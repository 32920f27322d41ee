"""People at the embedded host: a death while they are changed, names from Python, vouchers, and who is where."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import detent
from detent.core.events import ATTEMPT, Signalled
from detent.core.identity import Identity
from detent.core.people import People, check_token, hash_token
from detent.core.run import Run
from detent.errors import JournalError, NotPermitted, Refused
from detent.host.embedded.voucher import check_voucher, vouch
from detent.host.people import RECORD_ID, difference_of, user_name
from detent.host.process_origin import is_started_by_effect, origin_of, peer_of, peer_of_connection
from detent.kit.people_file import PeopleFile
from detent.testing import World, simulate
from detent.testing.conformance import ASKING, DOOR, Outside

USER = user_name(os.getuid())
ADD = ({"do": "add", "name": "ann", "roles": ["admin"]}, {"do": "add", "name": "kim", "roles": ["viewer"]})


def test_a_death_anywhere_leaves_no_change_that_is_not_journalled() -> None:
    def once(die_at: int) -> int:
        world = World(seed=1)
        world.die_at = frozenset({die_at})
        try:
            simulate(_add_two(world))
            found = simulate(_look(world))
            assert found == "", f"died at {die_at}"
        finally:
            world.close()
        return world.points

    for point in range(1, once(0) + 1):
        once(point)


async def _add_two(world: World) -> None:
    """Add two people; whoever dies over it looks at what is there, and adds what is missing."""
    for _ in range(10):
        async with world.host() as host:

            async def add() -> bool:
                for change in ADD:
                    people = PeopleFile(world.home).current()
                    if people is None or change["name"] not in people.by_name:
                        await host.change_people(change, by=Identity("ann", "token"))
                return True

            if await world.unless_dead(add()):
                return
            people = PeopleFile(world.home).current()
        async with world.host() as host:
            assert "by hand" not in difference_of(people, await _record(host)), "a change holds that is not journalled"
    raise AssertionError("ten lives were not enough")


async def _record(host: object) -> Run | None:
    try:
        return await host.show(RECORD_ID)  # type: ignore[attr-defined,no-any-return]
    except Refused:
        return None


async def _look(world: World) -> str:
    async with world.host() as host:
        return difference_of(PeopleFile(world.home).current(), await host.show(RECORD_ID))


async def test_a_name_from_python_is_the_user_of_the_process(tmp_path: Path) -> None:
    outside = Outside()
    async with detent.open(tmp_path / "home", [outside.effect()]) as host:
        first = await host.start(ASKING, {"amount": 1}, by="boss")
        assert first.by == "boss"
        await host.change_people({"do": "add", "name": "ann", "roles": ["admin", "approver"], "os_user": USER})
        await host.change_people({"do": "add", "name": "kim", "roles": ["approver"]})
        with pytest.raises(NotPermitted, match="you are `ann`"):
            await host.answer(first.id, first.waiting[0].id, {"approved": True, "by": "kim"})
        run = await host.start(ASKING, {"amount": 2})
        assert run.by == "ann"
        forged = {"approved": True, "known_by": "ssh", "spoken_by": "kim"}
        run = await host.settled((await host.answer(run.id, run.waiting[0].id, forged)).id)
        assert {name: run.answers["deed"].get(name) for name in ("by", "known_by", "spoken_by")} == {
            "by": "ann",
            "known_by": "os_user",
            "spoken_by": None,
        }


async def test_a_file_that_is_gone_is_not_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for has_other in (False, True):
        async with detent.open(home) as host:
            await host.change_people({"do": "add", "name": "ann", "roles": ["admin"], "os_user": USER})
            PeopleFile(home).path.unlink()
            with pytest.raises(JournalError, match="their file is gone"):
                await host.start(DOOR)
            async with detent.open(home) as other:
                with pytest.raises(JournalError, match="their file is gone"):
                    await other.start(DOOR)
                await (other if has_other else host).change_people({"do": "adopt"})
                assert (await other.start(DOOR, by="x")).by == "x"


async def test_a_verb_that_is_handed_over_is_of_the_user_of_its_process(tmp_path: Path) -> None:
    async with detent.open(tmp_path / "home") as holder, detent.open(tmp_path / "home") as other:
        assert not other.is_holder
        await holder.change_people({"do": "add", "name": "ann", "roles": ["admin", "operator"], "os_user": USER})
        with pytest.raises(NotPermitted, match="not for `kim`"):
            await other.start(DOOR, by="kim")
        assert (await other.start(DOOR)).by == "ann"
        await holder.change_people({"do": "add", "name": "kim", "roles": ["operator"]})
        run = await other.start(DOOR, by=Identity("kim", "session"))  # the word of a server of this home
        assert run.by == "kim"
        with pytest.raises(NotPermitted):
            await other.start(DOOR, by=Identity("eve", "session"))


async def test_a_program_with_a_token_has_the_rights_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Identity("mcp:tester", "mcp")
    async with detent.open(tmp_path / "home") as holder:
        await holder.change_people({"do": "add", "name": "ann", "roles": ["admin"], "os_user": USER})
        for name, role in (("vic", "viewer"), ("bob", "operator")):
            kept = hash_token(f"{name}.secret", b"0123456789abcdef")
            await holder.change_people({"do": "add", "name": name, "roles": [role], "token": kept})
        assert (await holder.start(DOOR, by=client)).by == "mcp:tester"
        monkeypatch.setenv("DETENT_TOKEN", "bob.secret")
        async with detent.open(tmp_path / "home") as beside:
            assert (await beside.start(DOOR, by=client)).by == "bob"
        monkeypatch.setenv("DETENT_TOKEN", "vic.secret")
        async with detent.open(tmp_path / "home") as beside:
            with pytest.raises(NotPermitted, match="`vic` is viewer"):
                await beside.start(DOOR, by=client)
    async with detent.open(tmp_path / "home") as alone:
        with pytest.raises(NotPermitted, match="`vic` is viewer"):
            await alone.start(DOOR, by=client)


@pytest.mark.parametrize("known", ["step", "unknown"])
async def test_a_program_of_nobody_has_nobodys_rights(tmp_path: Path, known: Any) -> None:
    async with detent.open(tmp_path / "home", [Outside().effect()]) as host:
        await host.change_people({"do": "add", "name": "ann", "roles": ["admin", "approver"], "os_user": USER})
        run = await host.start(ASKING, {"amount": 1})
        for verb in (host.cancel(run.id, by=Identity("ann", known)), host.release(run.id, by=Identity("ann", known))):
            with pytest.raises(NotPermitted, match="may"):
                await verb
        for name in ("ann", "kim"):  # whatever name it gives, it is written down once
            with pytest.raises(NotPermitted, match="answer"):
                await host.answer(run.id, run.waiting[0].id, {"approved": True}, by=Identity(name, known))
        events = [entry.event for entry in host.reader.entries(run.id)]
        tried = [event for event in events if isinstance(event, Signalled) and event.name == ATTEMPT]
        assert [event.known_by for event in tried] == [known]


def test_a_voucher_is_of_one_process_and_one_home(tmp_path: Path) -> None:
    who = Identity("ann", "session", "kim")
    (tmp_path / "other").mkdir()
    given = vouch(tmp_path, who)
    assert check_voucher(tmp_path, given, os.getpid()) == who
    forged = {**given, "identity": {"name": "eve", "known": "session"}}
    for home, said, pid in (
        (tmp_path, given, os.getpid() + 1),
        (tmp_path / "other", given, os.getpid()),
        (tmp_path, forged, os.getpid()),
        (tmp_path, {"identity": {"name": "x", "known": "king"}}, os.getpid()),
        (tmp_path, "nonsense", os.getpid()),
        (tmp_path, vouch(tmp_path, Identity("x", "detent")), os.getpid()),
    ):
        with pytest.raises(NotPermitted):
            check_voucher(home, said, pid)
    assert (tmp_path / "voucher.key").stat().st_mode & 0o777 == 0o600


def test_a_token_is_kept_as_a_slow_hash() -> None:
    kept = hash_token("ann.secret", b"s" * 16)
    assert "secret" not in kept
    assert check_token("ann.secret", kept)
    for wrong in ("ann.secreT", "", "kim.secret"):
        assert not check_token(wrong, kept)
    for broken in ("", "scrypt:0:0:0:" + "00" * 16 + ":" + "00" * 32, kept.replace("16384", "99999999"), "plain:x"):
        assert not check_token("ann.secret", broken)
    assert People().of_token("ann.secret") is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows where a process comes from")
async def test_what_a_holder_starts_in_another_session_is_a_step(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()"]
    async with detent.open(tmp_path / "home"):
        own = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
        step = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, start_new_session=True)
        assert origin_of(step.pid) == "step"
        assert origin_of(own.pid) == "person"  # a program may start what it likes in its own session
        await asyncio.gather(own.communicate(b"\n"), step.communicate(b"\n"))
    assert not is_started_by_effect(os.getpid())
    assert origin_of(0) == "unknown"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="it takes a namespace of another user")
def test_what_a_sandbox_leaves_behind_is_nobody_we_know() -> None:
    command = ["unshare", "--user", sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as left:
        assert left.stdin is not None
        assert left.stdout is not None
        if not left.stdout.readline():
            pytest.skip("namespaces cannot be made here")
        assert origin_of(left.pid) == "unknown"  # whoever started it has ended, and its environment says nothing
        left.stdin.write(b"\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows who is at the other end")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_kernel_says_who_is_at_the_other_end(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"there is no {address} here")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        inner, far = server.accept()
        with inner:
            (peer,) = peer_of_connection(far[:2], inner.getsockname()[:2])
            assert (peer.pid, peer.uid) == (os.getpid(), os.getuid())
            assert client.getsockname()[:2] == far[:2]
    left, right = socket.socketpair()
    with left, right:
        assert peer_of(left) == (os.getpid(), os.getuid())
