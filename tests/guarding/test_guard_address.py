"""Guarded functions of a program that knows the journal by a server's address only: the same law, through HTTP."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import detent
from detent.errors import AlreadyDone, CallNotDone, NotPermitted, Refused, Rejected, Waiting
from detent.guarding import FunctionGuard
from detent.guarding.remote_call_journal import PATH
from detent.surfaces.server.setting import ServerSettings
from tests.effort import PATIENCE_S
from tests.surfaces.server.people import token_of, with_people
from tests.surfaces.server.stage import Stage, stage

PROGRAM = Path(__file__).with_name("program.py")
TOKEN = "a-token-of-the-server-0123456789"


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path, ServerSettings(), token=TOKEN) as found:
        found.client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield found


def begin(at: Stage, what: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, str(PROGRAM), at.served.address, what]
    environment = {**os.environ, "DETENT_TOKEN": TOKEN, "LEDGER": str(at.folder)}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


async def run(at: Stage, what: str) -> Any:
    """What a program says; the signal it died of."""
    with begin(at, what) as program:
        said, errors = await asyncio.to_thread(program.communicate, timeout=PATIENCE_S)
    if program.returncode < 0:
        return program.returncode
    assert program.returncode == 0, errors
    return json.loads(said.splitlines()[-1])


def paid(at: Stage) -> list[str]:
    ledger = at.folder / "ledger"
    return ledger.read_text().splitlines() if ledger.exists() else []


async def answer(at: Stage, asked: Any, **said: Any) -> None:
    told = asked if isinstance(asked, dict) else {"run_id": asked.run_id, "contract_id": asked.contract_id}
    await at.post(f"/api/runs/{told['run_id']}/contracts/{told['contract_id']}/answer", said)


def make_pay(guard: FunctionGuard, made: list[Any], **terms: Any) -> Any:
    @guard.tool("bank.pay", **{"ask": "Pay {amount} to {to}?", "settle_s": 0.0, **terms})
    async def pay(to: str, amount: int) -> dict[str, int]:
        made.append((to, amount))
        return {"paid": amount}

    return pay


@pytest.mark.parametrize("dies", ["inside", "inside-after", "after"])
async def test_a_program_that_is_killed_has_paid_once_or_somebody_is_asked(tmp_path: Path, dies: str) -> None:
    async with served(tmp_path) as at:
        asked = await run(at, "ask")
        assert asked["waiting"] == "Pay 5 to ann?"
        await answer(at, asked, approved=True)
        assert paid(at) == [], "approved, and nobody was there to make the call"
        assert await run(at, dies) == -signal.SIGKILL
        made = paid(at)
        assert made == ([] if dies == "inside" else ["ann 5"])
        again = await run(at, "ask")
        if dies == "after":
            assert again["already"] == {"paid": 5}
        else:
            assert "may already have happened" in again["waiting"]
        assert paid(at) == made


async def test_twice_at_once_is_one_payment(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        await answer(at, await run(at, "ask"), approved=True)
        both = await asyncio.gather(run(at, "ask"), run(at, "ask"))
        assert paid(at) == ["ann 5"]
        assert {"result": {"paid": 5}} in both


async def test_waiting_answers_repeats_and_budgets_are_as_at_home(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        made: list[Any] = []
        with detent.guard(at.served.address, waiting="raise", token=TOKEN, by="kim") as guard:
            pay = make_pay(guard, made, budget={"calls": 3})
            with pytest.raises(Waiting) as asked:
                await pay("ann", 5)
            await guard.answer_async(asked.value, {"approved": True}, by="ann")
            assert made == []
            assert await pay("ann", 5) == {"paid": 5}
            with pytest.raises(AlreadyDone) as done:
                await pay("ann", 5)
            assert done.value.result == {"paid": 5}
            with pytest.raises(Waiting) as asked:
                await guard.options(pay, call_id="c1")("bob", 5)
            # by its id it is that call, also where the answer comes first; without one it would be a new one then
            blocked = asyncio.ensure_future(guard.options(pay, waiting="block", call_id="c1")("bob", 5))
            await answer(at, asked.value, approved=False, comment="too much")
            with pytest.raises(Rejected, match="too much"):
                await blocked
            with pytest.raises(Refused, match="server's address"):
                _ = guard.background.host
            look = guard.tool("look.up", effect="pure")(len)
            assert await asyncio.to_thread(look, "abc") == 3
            for number in range(2):
                with pytest.raises(Waiting):
                    await pay("kim", number)
            with pytest.raises(CallNotDone, match="budget of 3 calls") as over:
                await pay("kim", 3)
            assert over.value.type == "budget_exceeded"
        assert made == [("ann", 5)]


async def test_a_server_that_comes_back_is_told_what_came_of_a_call(tmp_path: Path) -> None:
    made: list[Any] = []
    inside, go = asyncio.Event(), asyncio.Event()
    async with stage(tmp_path) as at:
        address = at.served.address
        guard = detent.guard(address)

        @guard.tool("bank.pay", ask=False, settle_s=0.0)
        async def pay(to: str) -> str:
            made.append(to)
            inside.set()
            await go.wait()
            return to

        calling = asyncio.ensure_future(pay("ann"))
        await asyncio.wait_for(inside.wait(), PATIENCE_S)
    try:
        async with stage(tmp_path, port=at.port) as at:
            go.set()
            assert await asyncio.wait_for(calling, PATIENCE_S) == "ann"
            (done,) = (await at.get("/api/runs", params={"machine": "bank_pay"}))["runs"]
            assert done["status"] == "completed"
    finally:
        await asyncio.to_thread(guard.close, 0.0)
    assert made == ["ann"]


async def test_only_who_may_start_runs_gets_in_and_nobody_speaks_for_anothers_program(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (at, as_person):
        for name, problem in (("kim", "operator"), ("eve", "token")):
            with (
                detent.guard(at.served.address, token=token_of(name)) as guard,
                pytest.raises(NotPermitted, match=problem),
            ):
                await make_pay(guard, [], ask=False)("ann", 1)
        made: list[Any] = []
        with detent.guard(at.served.address, token=token_of("opal"), waiting="raise") as guard:
            with pytest.raises(Waiting):
                await make_pay(guard, made)("ann", 1)
            secret = guard.background.desk._path.removeprefix(PATH)  # type: ignore[attr-defined]
            ada = await as_person("ada")
            stolen = await ada.post(f"{PATH}{secret}/lines/1", json={"said": {"result": 1}})
            assert "no stream open" in stolen.text
        assert made == []


async def test_a_call_can_be_nothing_but_a_call(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        begun = await at.start("approval", what="x", amount=500)
        name = "0123456789abcdef"
        terms = {"name": "bank.pay", "kind": "pure", "is_asked": False, "has_key": False, "repeat": "refuse"}
        order: dict[str, Any] = {"run_id": begun, "terms": terms, "input": {"args": {}}}
        async with at.client.stream("GET", f"{PATH}/{name}/lines") as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()  # kept: the stream ends with it
            await anext(lines)
            refused = await at.post(f"{PATH}/{name}/calls", order, 409)
            assert "not a call" in refused["error"]["message"]
            await at.get(f"{PATH}/{name}/calls/{begun}", 404)
            await at.post(f"{PATH}/{name}/calls", {**order, "terms": {**terms, "name": "a b"}}, 422)
            await at.post(f"{PATH}/{name}/calls", {**order, "machine": {}}, 422)
        await at.post(f"{PATH}/short/calls", order, 400)


async def test_an_address_that_is_no_server_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="policy"):
        detent.guard("http://127.0.0.1:9", policy="p.yaml")
    with pytest.raises(Refused, match="address"):
        detent.guard(tmp_path / ".detent", token=TOKEN)
    with (
        detent.guard("http://127.0.0.1:9") as guard,
        pytest.raises(detent.errors.JournalError, match="cannot be reached"),
    ):
        await make_pay(guard, [])("ann", 1)
