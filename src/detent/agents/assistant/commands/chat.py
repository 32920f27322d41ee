"""The command chat: a conversation with the assistant, one turn or many, on a terminal or for a script."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.agents.assistant import check_session, new_session
from detent.agents.assistant.commands.talk import settle
from detent.agents.assistant.conversation import (
    Past,
    begin,
    check_model,
    history,
    ledger_of,
    own_effects,
    settings_of,
    tools_of,
)
from detent.agents.assistant.view import view_for
from detent.core.run import Run
from detent.core.status import Status
from detent.effects.llm import choose_model as chosen_model
from detent.kit.agent import find_agent
from detent.kit.language import _, translate
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.keyboard import is_terminal, line
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.view import CODES, RunReport
from detent.kit.text import columns, visible

if TYPE_CHECKING:
    from detent.host.port import OpenHost


ENDINGS = ("/exit", "/quit", "exit", "quit", "bye")
SHOWN_MAX = 8  # names of tools in the greeting


class Chat:
    """One session with what it offers to the model."""

    def __init__(self, caller: Caller, host: "OpenHost", session: str, source: str, by: str) -> None:
        self.caller, self.host, self.session, self.source, self.by = caller, host, session, source, by
        self.tools: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {}
        self.words: list[str] = []  # of the command line that began it, to go on with

    async def turn(self, message: str) -> int:
        """Say something and stay with it until it is answered or waits."""
        past = history(self.caller.reader, self.session) if self.caller.has_journal() else Past([], [], [])
        run = await begin(self.host, self.session, message, said=past.said + past.news, tools=self.tools,
                          source=self.source, by=self.by, facts=past.facts,
                          settings=settings_of(self.caller.home, **self.settings))  # fmt: skip
        return await self.stay(run.id)

    async def stay(self, run_id: str) -> int:
        """Go on with a turn that was begun."""
        self.caller.interrupted = run_id
        run = await settle(self.caller, self.host, run_id, self.by)
        self.caller.interrupted = ""
        return self.give(run)

    def give(self, run: Run) -> int:
        """Tell where the turn stands."""
        standing = RunReport(self.caller, run.id)
        if self.caller.is_json:
            ledger = ledger_of(self.caller.reader, run.id)
            shown = [view_for(execution, "diagnosis", run.at) for execution in ledger.executions.values()]
            more = {"session": self.session, "response": run.context.get("response", ""), "executions": shown}
            emit({**standing.envelope(ok=standing.code in (0, 3)), **more})
        elif run.ended is not Status.COMPLETED and not (sys.stdin.isatty() and run.ended is None):
            standing.tell()
        return CODES[run.status]

    async def open_questions(self) -> None:
        """Take up the turns of this session that were left waiting or at work."""
        if not self.caller.has_journal():
            return
        for turn in reversed(self.caller.reader.session(self.session)):
            if not turn.status.is_terminal:
                await self.host.recover(turn.run_id)
                await self.stay(turn.run_id)

    async def talk(self) -> int:
        """Turn after turn until the input ends."""
        if not is_terminal():
            code = 0
            while (message := await line("")) is not None:
                code = await self.turn(message) if message.strip() else code
            return code
        self.greet()
        await self.open_questions()
        try:
            return await self._talk()
        finally:
            again = self.caller.command("chat", "--session", self.session, *self.words)
            self.caller.say(_("go on with: {command}", command=again), "dim")

    async def _talk(self) -> int:
        code = 0
        while (message := await self._read_line()) is not None and message.strip().lower() not in ENDINGS:
            if message.strip() == "/tools":
                self.show_tools()
            elif message.strip() in ("/help", "/?"):
                self.caller.say(_("Type a message. /tools lists the tools, /exit or Ctrl-D ends the chat."))
            elif message.strip():
                code = await self.turn(message)
        return code

    async def _read_line(self) -> str | None:
        try:
            return await line("> ", is_kept=True)
        except asyncio.CancelledError:
            self.caller.say()  # Ctrl-C leaves the cursor behind the prompt
            raise

    def greet(self) -> None:
        """Who answers, and with what."""
        choice = chosen_model(str(settings_of(self.caller.home, **self.settings).get("model", "")))
        who = _("model {name}", name=visible(choice.spec))
        if choice.is_builtin:
            who = _("no model is configured: built-in rules answer a few sentences (see `detent doctor`)")
        names = ", ".join(visible(tool["name"]) for tool in self.tools[:SHOWN_MAX])
        more = ", …" if len(self.tools) > SHOWN_MAX else ""
        self.caller.say(_("session {session}; {who}", session=self.session, who=who), "dim")
        tools = _("tools: {names}", names=names + more) if names else _("no tools: --tools, --tool or detent.mcp.yaml")
        self.caller.say(_("{tools}; /help, /exit", tools=tools), "dim")

    def show_tools(self) -> None:
        """Every tool, and whether somebody is asked first."""
        asks = {True: _("asks first"), False: ""}
        rows = []
        for tool in self.tools:
            about = str(tool.get("description") or "").partition("\n")[0]
            rows.append([f"  {visible(tool['name'])}", asks[tool["kind"] == "irreversible"], visible(about)[:80]])
        for row in columns(rows):
            self.caller.say(row)
        if not rows:
            self.caller.say(_("no tools: --tools, --tool or detent.mcp.yaml"))


@verb("chat", translate(find_agent("assistant").commands["chat"]))
@click.argument("message", default="", metavar="[MESSAGE]")
@click.option("--session", default="", metavar="NAME", help=_("The conversation to start or continue."))
@click.option("--tools", "file", default="", metavar="FILE.py", help=_("A Python file whose effects are the tools."))
@click.option("--tool", "named", multiple=True, metavar="NAME", help=_("A built-in effect to offer as well."))
@click.option("--model", default="", metavar="MODEL", help=_("The model to use instead of $DETENT_MODEL."))
@by_option
async def chat(
    caller: Caller, message: str, session: str, file: str, named: tuple[str, ...], model: str, by: str
) -> int:
    """Talk to the assistant."""
    session = check_session(session) if session else new_session()
    source = str(Path(file).resolve()) if file else ""
    own = own_effects(source) if source else {}
    async with caller.host() as host:
        one = Chat(caller, host, session, source, by)
        one.tools = tools_of(host.effects, own, named)
        one.settings = {"model": model} if model else {}
        one.words = [word for name, values in (("--tools", [file]), ("--tool", named), ("--model", [model]))
                     for value in values if value for word in (name, value)]  # fmt: skip
        check_model(str(settings_of(caller.home, **one.settings).get("model", "")), is_here=host.is_holder)
        return await one.turn(message) if message else await one.talk()


COMMANDS = {"chat": chat}
