"""What a tool asks while it is at work, under a real host: who may answer, and what the server is told of a no."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Machine, Question, Run, Status, table
from detent.effects.mcp import ServerConfig, Servers, ToolConfig
from detent.errors import Refused
from detent.host.embedded import EmbeddedHost
from tests.effects.mcp.test_tools import peer

ENDS = {"done": "completed", "stopped": "rejected"}
ROWS = table("""
    asking  -                   done
    asking  !approval_rejected  stopped
    asking  !key_held           stopped
""")
NUMBERS = itertools.count()


def asking(tool: str, ask: Question | None = None) -> Machine:
    work = {"asking": [Action("call", f"peer.{tool}", ask=ask)]}
    return Machine(name="asking", initial="asking", transitions=ROWS, work=work, ends=ENDS)  # type: ignore[arg-type]


class Stage:
    """A host with the peer's tools, and what the peer has noted."""

    def __init__(self, host: EmbeddedHost, notes: Path) -> None:
        self.host, self._notes = host, notes

    async def asked(self, tool: str, ask: Question | None = None, by: str = "") -> Run:
        """A run up to its question."""
        run = await self.host.start(asking(tool, ask), run_id=f"r{next(NUMBERS)}", by=by)
        return await self.host.settled(run.id)

    async def said(self, run: Run, **said: Any) -> Run:
        await self.host.answer(run.id, run.waiting[0].id, said)
        return await self.host.settled(run.id)

    async def noted(self, line: str) -> None:
        """Wait until the server has written this; the test's own limit ends it."""
        while line not in self.notes.split("\n"):  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.01)

    @property
    def notes(self) -> str:
        return self._notes.read_text() if self._notes.exists() else ""


@contextlib.asynccontextmanager
async def stage(tmp_path: Path, **more: Any) -> AsyncIterator[Stage]:
    config: ServerConfig = peer(tmp_path, **more)
    async with (
        Servers(tmp_path, {"peer": config}) as servers,
        EmbeddedHost(tmp_path, list((await servers.effects()).values()), sync="off") as host,
    ):
        yield Stage(host, tmp_path / "notes")


async def test_a_no_on_an_open_line_is_told_to_the_server(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.said(await at.asked("enrol"), approved=False, by="kim", comment="not now")
        assert (run.ended, run.state) == (Status.REJECTED, "stopped")
        assert run.error is not None
        assert run.error.message == "kim said no: not now"
        assert at.notes == "enrol decline\n"
        again = await at.asked("enrol")
        assert again.waiting, "the tool said itself that it did nothing, so its key is free"


async def test_a_tool_that_was_told_no_and_reports_no_error_keeps_its_key(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        first = await at.said(await at.asked("greet"), approved=False, by="kim")
        assert first.ended is Status.REJECTED
        assert at.notes == "greet decline\n"
        second = await at.asked("greet")
        assert second.ended is Status.REJECTED
        assert second.error is not None
        assert f"in doubt in asking/call/1 of run {first.id}" in second.error.message
        assert at.notes == "greet decline\n"


async def test_a_no_to_a_question_with_its_own_state_needs_no_word_to_the_server(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run = await at.said(await at.asked("greet"), approved=False, by="kim")
        assert run.ended is Status.REJECTED
        assert (await at.asked("greet")).waiting, "the first call had ended with its question"
    assert at.notes == ""


async def test_a_no_after_the_line_is_gone_keeps_the_key(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.asked("greet")
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.said(await at.host.settled(run.id), approved=False, by="kim")
        assert run.ended is Status.REJECTED
        assert (await at.asked("greet")).ended is Status.REJECTED


async def test_a_cancelled_run_withdraws_its_question(tmp_path: Path) -> None:
    harmless = {"greet": ToolConfig(effect="idempotent")}
    async with stage(tmp_path, protocol="legacy", tools=harmless) as at:
        run = await at.asked("greet")
        assert (await at.host.cancel(run.id, by="kim")).ended is Status.CANCELLED
        await at.noted("greet cancel")
        run = await at.said(await at.asked("greet"), data={"name": "Ada", "age": 3}, by="kim")
        assert run.ended is Status.COMPLETED, "the line is free for the next call"


async def test_a_cancelled_irreversible_call_that_had_asked_is_a_doubt(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.host.cancel((await at.asked("greet")).id, by="kim")
        await at.noted("greet cancel")
        (doubt,) = run.waiting
        assert doubt.question is not None
        assert doubt.question.reason == "outcome_unknown"
        run = await at.said(run, outcome="give_up", by="kim")
        assert run.ended is Status.CANCELLED


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_what_a_tool_asks_is_for_those_who_may_approve_its_call(tmp_path: Path, protocol: str) -> None:
    async with stage(tmp_path, protocol=protocol) as at:
        run = await at.asked("greet", Question("Greet?", approvers=("kim", "lee"), separate=True), by="lee")
        run = await at.said(run, approved=True, by="kim")
        (contract,) = run.waiting
        assert contract.question is not None
        assert "Who are you?" in contract.question.text
        assert contract.question.approvers == ("kim", "lee")
        data = {"name": "Ada", "age": 36}
        for by, why in (("mallory", "may not answer"), ("", "may not answer"), ("lee", "started this run")):
            with pytest.raises(Refused, match=why):
                await at.said(run, data=data, by=by)
            with pytest.raises(Refused, match=why):
                await at.said(run, approved=False, by=by)
        assert at.notes == ""
        run = await at.said(run, data=data, by="kim")
        assert run.ended is Status.COMPLETED
    assert at.notes == "greet\n"
