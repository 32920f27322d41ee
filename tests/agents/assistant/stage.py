"""A conversation on a real host: turns are run, questions answered, and the journal is read back."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from detent.agents.assistant import ASSISTANT, Ledger, effects, new_turn, offered, past, turn_input
from detent.core import Contract, Effect, EffectFailed, Outcome, Run, effect
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.live import load
from detent.host.embedded.reader import entries

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

    async def say(self, message: str, session: str = "talk", **given: Any) -> Run:
        """One turn, until it has ended or waits."""
        runs = [load(self.host.journal, r.summary.run_id).run for r in self.host.journal.session(session, 10)]
        wanted = turn_input(message, tools=self.tools, history=past(runs), **given)
        run = await self.host.start(ASSISTANT, wanted, run_id=new_turn(session), session=session, by="kim")
        return await self.host.settled(run.id)

    async def answer(self, run: Run, **said: Any) -> Run:
        """Answer the one question of a turn."""
        (contract,) = run.waiting
        await self.host.answer(run.id, contract.id, {"by": "kim", "call_hash": contract.call_hash, **said})
        return await self.host.settled(run.id)

    def ledger(self, run: Run) -> Ledger:
        """What the journal says was done in a turn."""
        return Ledger(run.id).read(entries(self.host.journal, run.id))


@asynccontextmanager
async def stage(
    home: Path, *tools: Effect, settings: Mapping[str, Any] | None = None, **nodes: Any
) -> AsyncIterator[Stage]:
    """Open a stage; nodes may be replaced by name."""
    async with EmbeddedHost(home, [*effects(home, **nodes), *tools]) as host:
        yield Stage(host, offered(tools, settings))
