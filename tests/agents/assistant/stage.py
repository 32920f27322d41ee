"""A conversation on a real host: turns are run, questions answered, and the journal is read back."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.agents.assistant import ASSISTANT, Ledger, effects, new_turn, offer_tools, past, turn_input
from detent.core import Contract, Effect, EffectFailed, Outcome, Run, effect
from detent.host.embedded import EmbeddedHost
from detent.host.parts.loaded_run import load
from tests.effects.llm.scripted import DONE, Script, Server, calling, chunk, said, serving, streaming

SCHEMA = {
    "type": "object",
    "required": ["to"],
    "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}},
}
INVITE = "帮我给 bob@example.com 发一封会议邀请邮件"


class Post:
    """A post office: sends by appending to a list, and can be out of order."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.broken: list[Exception] = []

    @property
    def effect(self) -> Effect:
        """`email.send`, which cannot be taken back."""

        @effect("email.send", schema=SCHEMA, settle_s=0.0, timeout_s=5.0)
        async def send(contract: Contract) -> Outcome:
            """Send an e-mail."""
            if self.broken:
                raise self.broken.pop(0)
            self.sent.append(contract.input)
            return Outcome("邮件已发送")

        return send


def refused() -> Exception:
    """What a mail server that is not there leads to."""
    return EffectFailed("SMTP connection refused")


class Stage:
    """One host with the assistant's effects and some tools."""

    def __init__(self, host: EmbeddedHost, tools: Sequence[dict[str, Any]]) -> None:
        self.host, self.tools = host, list(tools)
        self.model = Server(())

    @property
    def heard(self) -> list[dict[str, Any]]:
        """What the model was asked, request by request, as it came over the wire."""
        return [asked.body for asked in self.model.asked]

    async def say(self, message: str, session: str = "talk", **given: Any) -> Run:
        """One turn, until it has ended or waits."""
        return await self.host.settled((await self.begin(message, session, **given)).id)

    async def begin(self, message: str, session: str = "talk", **given: Any) -> Run:
        """One turn that has begun."""
        runs = [load(self.host.journal, r.summary.run_id).run for r in self.host.journal.session(session, 10)]
        wanted = turn_input(message, tools=self.tools, history=past(runs), **given)
        return await self.host.start(ASSISTANT, wanted, run_id=new_turn(session), session=session, by="kim")

    async def answer(self, run: Run, **said: Any) -> Run:
        """Answer the one question of a turn."""
        (contract,) = run.waiting
        await self.host.answer(run.id, contract.id, {"by": "kim", "call_hash": contract.call_hash, **said})
        return await self.host.settled(run.id)

    def ledger(self, run: Run) -> Ledger:
        """What the journal says was done in a turn."""
        made = self.host.reader.project(run.id, Ledger)
        whole = Ledger(run.id).read(self.host.reader.entries(run.id))
        assert (made.executions, made.rows) == (whole.executions, whole.rows)
        return made


@asynccontextmanager
async def stage(
    home: Path, *tools: Effect, settings: Mapping[str, Any] | None = None, **nodes: Any
) -> AsyncIterator[Stage]:
    """Open a stage; nodes may be replaced by name."""
    async with EmbeddedHost(home, [*effects(home, **nodes), *tools]) as host:
        yield Stage(host, offer_tools(tools, settings))


def asking(name: str, **arguments: Any) -> Script:
    """What a model says when it wants a tool."""
    return calling(name.replace(".", "_"), **arguments)


@asynccontextmanager
async def speaking(home: Path, *tools: Effect, says: Sequence[Any], **given: Any) -> AsyncIterator[Stage]:
    """A stage whose model is a server on the loopback that gives these answers, the last one for ever."""
    scripts = [said(one) if isinstance(one, str) else one for one in says]
    async with serving(*scripts) as model:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DETENT_BASE_URL", model.url)
            environment.setenv("DETENT_MODEL", "openai:test")
            async with stage(home, *tools, **given) as scene:
                scene.model = model
                yield scene


def asking_all(*calls: tuple[str, Any]) -> Script:
    """What a model says when it wants several tools at once; arguments that are a text go over the wire as they are."""
    wanted = [
        {"index": at, "id": f"c{at + 1}", "type": "function", "function": {
            "name": name.replace(".", "_"), "arguments": given if isinstance(given, str) else json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]  # fmt: skip
    return streaming(chunk({"tool_calls": wanted}), chunk({}, "tool_calls"), DONE)
