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


def is_asked_whether_again(run: Run, first: Run) -> bool:
    """Whether a run waits for a word on a deed that the first one may have done."""
    (contract,) = run.waiting
    assert contract.question is not None
    earlier = contract.question.earlier
    return (earlier.get("run_id"), earlier.get("status")) == (first.id, "possible")


async def test_a_no_on_an_open_line_is_told_to_the_server(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.said(await at.asked("enrol"), approved=False, by="kim", comment="not now")
        assert (run.ended, run.state) == (Status.REJECTED, "stopped")
        assert run.error is not None
        assert run.error.message == "kim said no: not now"
        assert at.notes == "enrol decline\n"


@pytest.mark.parametrize("tool", ["enrol", "greet"])
async def test_a_tool_that_was_told_no_keeps_its_key_whether_or_not_it_reports_an_error(
    tmp_path: Path, tool: str
) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        first = await at.said(await at.asked(tool), approved=False, by="kim")
        assert first.ended is Status.REJECTED
        second = await at.asked(tool)
        assert is_asked_whether_again(second, first)
        assert at.notes == f"{tool} decline\n", "and nothing is done before somebody says so"
        second = await at.said(second, approved=True, by="kim")
        second = await at.said(second, data={"name": "Ada", "age": 3}, by="kim")
        assert second.ended is Status.COMPLETED


async def test_a_page_to_open_is_shown_and_the_call_goes_on_when_somebody_has_opened_it(tmp_path: Path) -> None:
    async with stage(tmp_path, protocol="legacy") as at:
        run = await at.asked("withdraw")
        (contract,) = run.waiting
        assert contract.question is not None
        assert "https://bank.example/login" in contract.question.text
        assert at.notes == ""
        run = await at.said(run, data={}, by="kim")
        assert run.waiting, "nobody had opened it"
        (tmp_path / "opened").touch()
        run = await at.said(run, approved=True, by="kim")
        assert run.ended is Status.COMPLETED
        run = await at.asked("pay_on_page")
        assert "https://bank.example/pay" in str(run.waiting[0].question)
        run = await at.said(run, approved=True, by="kim")
        assert run.ended is Status.COMPLETED
    assert at.notes == "withdrawn\npaid accept\n"


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
        assert is_asked_whether_again(await at.asked("greet"), run)


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


def calling(tool: str, **given: Any) -> Machine:
    work: dict[str, tuple[Action, ...]] = {"asking": (Action("call", f"peer.{tool}", given),)}
    rows = table("""
        asking  -             done
        asking  !tool_failure stopped
    """)
    ends: Any = {"done": "completed", "stopped": "failed"}
    return Machine(name="calling", initial="asking", transitions=rows, work=work, ends=ends)


async def test_a_tool_that_failed_after_its_deed_is_not_called_again_without_a_word(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        first = await at.host.settled((await at.host.start(calling("half", amount=5))).id)
        assert (first.ended, first.state) == (Status.FAILED, "stopped"), "the run takes its error path at once"
        second = await at.host.settled((await at.host.start(calling("half", amount=5))).id)
        assert is_asked_whether_again(second, first)
        earlier = second.waiting[0].question.earlier  # type: ignore[union-attr]
        assert earlier["error"]["type"] == "tool_failure"
        assert earlier["result"]["success"] is False
    assert at.notes == "half 5\n"


async def test_a_request_that_the_server_refused_frees_the_key(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for _ in range(2):
            run = await at.host.settled((await at.host.start(calling("code", number=-32602))).id)
            assert (run.ended, run.error.type if run.error else "") == (Status.FAILED, "validation_error")


async def test_whoever_is_asked_about_a_tool_of_an_untrusted_server_is_told_how_to_declare_it(tmp_path: Path) -> None:
    look = calling("look", word="tree")
    async with stage(tmp_path) as at:
        await at.host.settled((await at.host.start(look)).id)
        run = await at.host.settled((await at.host.start(look)).id)
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.earlier["result"]["text"] == "seen tree"
        assert "Do it again?" in contract.question.text
        assert "write `look: {effect: pure}` under `tools` of `peer` in detent.mcp.yaml" in contract.question.text
        run = await at.host.settled((await at.host.start(calling("die", amount=1))).id)
        (doubt,) = run.waiting
        assert doubt.question is not None
        assert "write `die: {effect: pure}`" in doubt.question.text


@pytest.mark.parametrize("said", [{"trusted": True}, {"tools": {"look": ToolConfig(effect="pure")}}])
async def test_a_read_may_be_made_in_any_number_of_runs(tmp_path: Path, said: dict[str, Any]) -> None:
    async with stage(tmp_path, **said) as at:
        for _ in range(2):
            run = await at.host.settled((await at.host.start(calling("look", word="tree"))).id)
            assert (run.ended, run.results["call"]["text"]) == (Status.COMPLETED, "seen tree")


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
