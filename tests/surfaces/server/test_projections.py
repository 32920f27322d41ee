"""What the server shows of a whole run is folded once, and the same as if it were folded again."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.core import Action, Contract, Machine, Question, Status, effect, table
from detent.define.graph import picture
from detent.host.embedded import EmbeddedHost
from detent.surfaces.server.contract_history import ContractLives
from detent.surfaces.server.graph import GraphQuery, graph, lay_out
from detent.surfaces.server.waterfall import RunBars

PAYING = Machine(
    "paying",
    "asking",
    table("asking - idle\nidle AGAIN asking\nidle END done"),
    {"asking": (Action("pay", "pay", {"to": "bob"}, ask=Question("Pay?")),)},
    {"done": Status.COMPLETED},
)


@effect("pay", kind="idempotent")
async def pay(contract: Contract) -> dict[str, Any]:
    return {"paid": contract.input["to"]}


async def _pay(host: EmbeddedHost, *, again: bool) -> None:
    if again:
        await host.signal("r", "AGAIN")
    (question,) = (await host.settled("r")).waiting
    await host.answer("r", question.id, {"approved": True, "by": "ann"})
    await host.settled("r")


async def test_the_picture_of_now_is_that_of_the_latest_event(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [pay]) as host:
        run = await host.start(PAYING, run_id="r")
        for round in range(4):
            assert graph(host.reader, "r") == graph(host.reader, "r", GraphQuery((await host.show("r")).seq))
            await _pay(host, again=round > 0)
        run = await host.signal("r", "END")
        assert graph(host.reader, "r") == graph(host.reader, "r", GraphQuery(run.seq))
        assert [edge.visits for edge in graph(host.reader, "r").edges] == [4, 3, 1]
        for seq in range(1, run.seq + 1):  # any moment of the past, as if it were folded again
            was = host.reader.at("r", seq)
            folded = picture(was.machine, was.run, host.reader.entries("r", upto=seq))
            drawn = graph(host.reader, "r", GraphQuery(seq))
            assert (drawn.upto, replace(drawn, upto=0)) == (seq, lay_out(was.machine, folded))


async def test_bars_that_were_kept_are_those_of_the_events(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [pay]) as host:
        await host.start(PAYING, run_id="r")
        for round in range(3):
            await _pay(host, again=round > 0)
            bars, anew = host.reader.project("r", RunBars), RunBars("r")
            for entry in host.reader.entries("r"):
                anew.take(entry)
                anew = RunBars.load("r", anew.dump())  # a process may end after any event
            assert anew.bars == bars.bars
            assert [bar.end_seq for bar in anew.ended] == [bar.end_seq for bar in bars.ended]
        assert [bar.name for bar in bars.bars if bar.kind == "contract"] == ["pay"] * 3


async def test_lives_that_were_kept_are_those_of_the_events(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [pay]) as host:
        await host.start(PAYING, run_id="r")
        for round in range(3):
            await _pay(host, again=round > 0)
            lives = host.reader.project("r", ContractLives)
            anew = ContractLives("r")
            for entry in host.reader.entries("r"):
                anew.take(entry)
            assert ContractLives.load("r", lives.dump()).page(0, 9) == lives.page(0, 9) == anew.page(0, 9)
            assert len(lives.contracts) == round + 1
        assert lives.page(1, 2)[0].contract.result == {"paid": "bob"}
