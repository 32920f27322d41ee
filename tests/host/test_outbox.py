"""The outbox: a message is as durable as the event that led to it, and nobody waits for its delivery."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, Machine, Outcome, Status, Transition, effect
from detent.effects.notify import notify
from detent.host.embedded import EmbeddedHost
from detent.testing import World, simulate

MACHINE = Machine(
    name="billing",
    initial="pay",
    transitions=(
        Transition(
            "pay",
            "late",
            error="*",
            then=(Action("notify_requester", "log", {"message": "{{ error.message }}", "level": "notify"}),),
        ),
    ),
    work={"pay": (Action("pay", "break"),), "late": (Action("say", "log", {"message": "quietly"}),)},
    ends={"late": Status.COMPLETED},
)


@effect("break", kind="pure")
async def broken(_contract: Contract) -> Outcome:
    """Fail."""
    raise RuntimeError("no money")


def lines(home: Path) -> list[dict[str, Any]]:
    file = home / "outbox.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_a_message_is_delivered_to_the_file_with_its_key(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [broken, notify], sync="off") as host:
        run = await host.settled((await host.start(MACHINE, by="kim")).id)
        assert run.status is Status.COMPLETED
    (line,) = lines(tmp_path)
    assert line.pop("at") > 0
    assert line.pop("key").startswith(f"notify:{run.id}/")
    assert line == {
        "to": "kim",
        "message": "RuntimeError: no money",
        "run_id": run.id,
        "machine": "billing",
        "state": "late",
    }
    async with EmbeddedHost(tmp_path, [broken, notify], sync="off") as host:
        (note,) = host.journal.notes(run.id)
        assert (note.delivered_at > 0, note.tries, note.problem) == (True, 1, "")
        assert host.journal.notes() == []
        await host.recover()
    assert len(lines(tmp_path)) == 1


async def test_nobody_waits_for_a_delivery_and_a_later_process_takes_it_up(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @effect("notify", kind="idempotent")
    async def hangs(_contract: Contract) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    async with EmbeddedHost(tmp_path, [broken, hangs], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(MACHINE)).id)
        assert run.ended is Status.COMPLETED
        await begun.wait()
        assert [note.run_id for note in host.journal.notes()] == [run.id]
    async with EmbeddedHost(tmp_path, [broken, notify], sync="off") as host:
        await host.recover()
    assert [line["run_id"] for line in lines(tmp_path)] == [run.id]


async def test_a_host_without_the_effect_keeps_the_message(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [broken], sync="off") as host:
        run = await host.settled((await host.start(MACHINE)).id)
        assert [note.message["message"] for note in host.journal.notes(run.id)] == ["RuntimeError: no money"]


def test_a_failed_delivery_is_tried_again_with_the_same_key() -> None:
    async def story() -> None:
        with World() as world:
            world.effect("break", kind="pure", answers=[RuntimeError("no money")])
            world.effect("notify", kind="idempotent", answers=[RuntimeError("busy"), ConnectionError("gone"), {}])
            async with world.host() as host:
                run = await host.settled((await host.start(MACHINE)).id)
                await asyncio.sleep(10)
                mails = [call.key for call in world.calls if call.effect == "notify"]
                assert (len(mails), len(set(mails))) == (3, 1)
                (note,) = host.journal.notes(run.id)
                assert (note.delivered_at > 0, note.tries, note.problem) == (True, 3, "")

    simulate(story())


def test_a_message_survives_death_at_any_moment() -> None:
    def told(die_at: int) -> tuple[int, bool]:
        async def story() -> tuple[int, bool]:
            with World(die_at=[die_at]) as world:
                world.effect("break", kind="pure", answers=[RuntimeError("no money")])
                world.effect("notify", kind="idempotent")
                for _ in range(2):
                    async with world.host() as host:
                        await world.unless_dead(_life(host))
                async with world.host() as host:
                    await _life(host)
                    assert host.journal.notes() == []
                    assert {deed.key for deed in world.deeds if deed.effect == "notify"} == {
                        note.key for note in host.journal.notes("r")
                    }
                    assert len(host.journal.notes("r")) == 1
                return world.points, bool(world.die_at & set(range(world.points + 1)))

        return simulate(story())

    points, _ = told(0)
    assert points > 5
    for point in range(1, points + 1):
        assert told(point)[1], point


async def _life(host: EmbeddedHost) -> None:
    await host.start(MACHINE, run_id="r")
    await host.recover()
    await host.settled("r")
    await asyncio.sleep(5)


@pytest.mark.parametrize("torn", [b"", b'{"key": "x"}\n', b'{"key": "cut o'])
async def test_the_file_takes_each_key_once_whatever_a_crash_left_in_it(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "outbox.jsonl"
    file.write_bytes(torn)
    for key in ("a", "b", "a", "b"):
        await notify.perform(Contract("c", "n", "notify", input={"outbox": str(file), "message": key}, key=key))
    found = [line for line in file.read_bytes().split(b"\n") if b'"message"' in line]
    assert [json.loads(line)["key"] for line in found] == ["a", "b"]
