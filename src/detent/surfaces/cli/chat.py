"""The command chat: a conversation with the assistant, one turn or many, on a terminal or for a script."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.agents.assistant import checked_session, new_session
from detent.agents.assistant.view import snapshot
from detent.core.run import Run
from detent.core.status import Status
from detent.surfaces.assistant import Past, begin, history, ledger_of, own_effects, tools_of
from detent.surfaces.cli.caller import Caller, emit
from detent.surfaces.cli.option import by_option, verb
from detent.surfaces.cli.talk import line, settle
from detent.surfaces.cli.view import CODES, Standing
from detent.surfaces.language import _

if TYPE_CHECKING:
    from detent.host.embedded.shared import SharedHost


class Chat:
    """One session with what it offers to the model."""

    def __init__(self, caller: Caller, host: "SharedHost", session: str, source: str, by: str) -> None:
        self.caller, self.host, self.session, self.source, self.by = caller, host, session, source, by
        self.tools: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {}

    async def turn(self, message: str) -> int:
        """Say something and stay with it until it is answered or waits."""
        past = history(self.caller.journal, self.session) if self.caller.has_journal() else Past([], [], [])
        run = await begin(self.host, self.session, message, said=past.said + past.news, tools=self.tools,
                          source=self.source, by=self.by, settings=self.settings, facts=past.facts)  # fmt: skip
        return await self.stay(run.id)

    async def stay(self, run_id: str) -> int:
        """Go on with a turn that was begun."""
        self.caller.interrupted = run_id
        run = await settle(self.caller, self.host, run_id, self.by)
        self.caller.interrupted = ""
        return self.give(run)

    def give(self, run: Run) -> int:
        """Tell where the turn stands."""
        standing = Standing(self.caller, run.id)
        if self.caller.is_json:
            ledger = ledger_of(self.caller.journal, run.id)
            shown = [{k: v for k, v in snapshot(e, run.at).items() if k != "idempotency_key"}
                     for e in ledger.executions.values()]  # fmt: skip
            more = {"session": self.session, "response": run.context.get("response", ""), "executions": shown}
            emit({**standing.envelope(ok=standing.code in (0, 3)), **more})
        elif run.ended is not Status.COMPLETED and not (sys.stdin.isatty() and run.ended is None):
            standing.tell()
        return CODES[run.status]

    async def open_questions(self) -> None:
        """Take up the turns of this session that were left waiting or at work."""
        if not self.caller.has_journal():
            return
        for record in reversed(self.caller.journal.session(self.session)):
            if not record.summary.status.is_terminal:
                await self.host.recover(record.summary.run_id)
                await self.stay(record.summary.run_id)

    async def talk(self) -> int:
        """Turn after turn until the input ends."""
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            await self.open_questions()
            self.caller.say(_("session {session}; an empty line or Ctrl-D ends it", session=self.session), "dim")
        code = 0
        while True:
            message = await line("> " if is_terminal else "")
            if message is None or (is_terminal and not message.strip()):
                break
            if message.strip():
                code = await self.turn(message)
        if is_terminal:
            again = self.caller.command("chat", "--session", self.session)
            self.caller.say(_("go on with: {command}", command=again), "dim")
        return code


@verb("chat")
@click.argument("message", default="", metavar="[MESSAGE]")
@click.option("--session", default="", metavar="NAME", help=_("The conversation to begin or to go on with."))
@click.option("--tools", "file", default="", metavar="FILE.py", help=_("A Python file whose effects are the tools."))
@click.option("--tool", "named", multiple=True, metavar="NAME", help=_("A built-in effect to offer as well."))
@click.option("--model", default="", metavar="MODEL", help=_("Another model than $DETENT_MODEL."))
@by_option
async def chat(
    caller: Caller, message: str, session: str, file: str, named: tuple[str, ...], model: str, by: str
) -> int:
    """Talk to the assistant."""
    session = checked_session(session) if session else new_session()
    source = str(Path(file).resolve()) if file else ""
    own = own_effects(source) if source else {}
    async with caller.host() as host:
        one = Chat(caller, host, session, source, by)
        one.tools = tools_of(host.effects, own, named)
        one.settings = {"model": model} if model else {}
        return await one.turn(message) if message else await one.talk()


COMMANDS = {"chat": chat}
