"""The command chat: a conversation with the assistant, one turn or many, on a terminal or for a script."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.agents.assistant import check_session, new_session
from detent.agents.assistant.attachment import attach, attach_named
from detent.agents.assistant.commands.call_line import render_deed
from detent.agents.assistant.commands.conversation_text import list_sessions
from detent.agents.assistant.commands.line_editor import Keyboard, Left, open_keyboard
from detent.agents.assistant.commands.screen import Screen
from detent.agents.assistant.commands.slash_command import SlashCommands, describe_commands
from detent.agents.assistant.commands.terminal_turn import Talk
from detent.agents.assistant.compaction import measure
from detent.agents.assistant.conversation import (
    Past,
    begin,
    check_model,
    history,
    ledger_of,
    own_effects,
    plan_only,
    settings_of,
    tools_of,
)
from detent.agents.assistant.turn import COMPACT_AT
from detent.agents.assistant.view import view_for
from detent.core.run import Run
from detent.core.status import Status
from detent.effects.llm import choose_model as chosen_model
from detent.errors import Refused
from detent.kit.agent import find_agent
from detent.kit.language import _, translate
from detent.kit.safe_text import brief, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.keyboard import is_terminal, line
from detent.kit.terminal.option import by_option, verb
from detent.kit.terminal.run_driver import readable
from detent.kit.terminal.run_view import CODES, RunReport

if TYPE_CHECKING:
    from detent.host.port import OpenHost


ENDINGS = ("/exit", "/quit", "exit", "quit", "bye")
SHOWN_MAX = 8  # names of tools in the greeting
TURNS_COUNTED = 1000
PIPED_MAX = 150_000  # characters of standard input that go with a message
SUMMARY_SHOWN = 600  # characters of a summary that was just made


class Chat:
    """One session with what it offers to the model."""

    def __init__(self, caller: Caller, host: "OpenHost", session: str, source: str, by: str) -> None:
        self.caller, self.host, self.session, self.source, self.by = caller, host, session, source, by
        self.screen = Screen(caller)
        self.tools: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {}
        self.words: list[str] = []  # of the command line that began it, to go on with
        self.is_planning = False
        self._undone = 0  # turns at the end that are taken out of the conversation
        self._keyboard: Keyboard | None = None
        self._titles: dict[str, str] = {}  # of the conversations that are known by their names
        self._usage: dict[str, float] = {}
        self._size = 0

    @property
    def model(self) -> str:
        """The model that answers, as it is written in DETENT_MODEL."""
        return chosen_model(str(settings_of(self.caller.home, **self.settings).get("model", ""))).spec

    def list_offered(self) -> list[dict[str, Any]]:
        """The tools of the next turn; a plan is made without those that change something."""
        return plan_only(self.tools, {})[0] if self.is_planning else self.tools

    def _settings(self) -> dict[str, Any]:
        given = settings_of(self.caller.home, **self.settings)
        return plan_only((), given)[1] if self.is_planning else given

    def _past(self) -> Past:
        if not self.caller.has_journal():
            return Past([], [], [])
        return history(self.caller.reader, self.session, self._undone)

    async def turn(self, message: str, images: list[dict[str, str]] | None = None) -> int:
        """Say something and stay with it until it is answered or waits."""
        past = self._past()
        run = await begin(self.host, self.session, message, said=past.said + past.news, tools=self.list_offered(),
                          source=self.source, by=self.by, facts=past.facts, images=images or [],
                          settings=self._settings())  # fmt: skip
        self._undone = 0
        return await self.stay(run.id)

    async def stay(self, run_id: str, *, is_known: bool = False) -> int:
        """Go on with a turn that was begun."""
        self.caller.interrupted = run_id
        talk = Talk(self.screen, self._keyboard, self.host, self.by)
        run = await talk.settle(run_id, is_known=is_known)
        self.caller.interrupted = ""
        self._count(run)
        return self.give(run)

    def give(self, run: Run) -> int:
        """Tell where the turn stands."""
        standing = RunReport(self.caller, run.id)
        if self.caller.is_json:
            ledger = ledger_of(self.caller.reader, run.id)
            shown = [view_for(execution, "diagnosis", run.at) for execution in ledger.executions.values()]
            more = {"session": self.session, "response": run.context.get("response", ""), "executions": shown}
            emit({**standing.envelope(ok=standing.code in (0, 3)), **more})
        elif run.ended is Status.CANCELLED and self._keyboard is not None:
            self.screen.note(_("stopped; what was said before stands"))
            return 0  # whoever is at the keyboard wanted it
        elif run.ended is not Status.COMPLETED and not (sys.stdin.isatty() and run.ended is None):
            self._tell_trouble(run, standing)
        return CODES[run.status]

    def _tell_trouble(self, run: Run, standing: RunReport) -> None:
        if self._keyboard is not None and not self.screen.is_verbose and run.error is not None and run.ended:
            self.screen.say(visible(run.error.message or run.error.type), "red")
            self.screen.note(_("the conversation goes on; say it again to try again"))
        elif self.screen.is_quiet:
            self.caller.notes(standing.lines())  # standard output is for the answer alone
        else:
            standing.tell()

    async def open_questions(self) -> bool:
        """Take up the turns of this session that were left waiting or at work; first it is told what they are about.

        Whether there were any.
        """
        turns = self.caller.reader.session(self.session) if self.caller.has_journal() else ()
        left = [turn for turn in reversed(turns) if not turn.status.is_terminal]
        for turn in left:
            self._tell_left(turn.run_id, is_cut_off=turn.status is not Status.WAITING)
            await self.host.recover(turn.run_id)
            await self.stay(turn.run_id, is_known=True)
        return bool(left)

    def _tell_left(self, run_id: str, *, is_cut_off: bool) -> None:
        """What happened in a turn that nobody saw the end of."""
        run = readable(self.caller, run_id)
        if run is None:
            return
        self.screen.say(_("Earlier you said: {message}", message=brief(run.context.get("message") or "", 200)), "cyan")
        if is_cut_off and run.context.get("response"):  # what waits shows it with its question
            self.screen.say(_("The answer so far: {text}", text=brief(run.context["response"], 400)))
        for execution in ledger_of(self.caller.reader, run_id).executions.values():
            if execution.type != "tool_call" or execution.error == "superseded":
                continue
            name = f"{visible(execution.summary)} {brief(execution.detail.get('args'), 120)}"
            if execution.status.is_terminal:
                self.screen.note(*render_deed(execution))
            elif execution.status is Status.RUNNING and is_cut_off:
                self.screen.say(_("  ? {name} was under way when the program ended", name=name), "yellow")
        if is_cut_off:
            self.screen.say(_("The program ended before this was answered; it goes on now."), "yellow")
        else:
            self.screen.say(_("It waits for your answer:"), "yellow")

    async def talk(self) -> int:
        """Turn after turn until the input ends."""
        if not is_terminal():
            code = 0
            while (message := await line("")) is not None:
                code = await self.turn(message) if message.strip() else code
            return code
        self._titles |= {one.name: brief(one.title, 60) for one in list_sessions(self.caller)}
        self._keyboard = open_keyboard(
            self.caller.home, self.screen.is_live, self.render_status, describe_commands(), self._titles
        )
        self.screen.render_hint = self._keyboard.render_hint
        self.greet()
        self._count_all()
        try:
            with self._keyboard.hold():
                await self.open_questions()
                return await self._talk(self._keyboard)
        except Left:
            return 0
        finally:
            again = self.caller.command("chat", "--session", self.session, *self.words)
            self.screen.say(_("go on with: {command}", command=again), "dim")

    async def _talk(self, keyboard: Keyboard) -> int:
        code, commands = 0, SlashCommands(self)
        while (text := await keyboard.read_message()) is not None and text.strip().lower() not in ENDINGS:
            if text.startswith("/"):
                await commands.take(text)
            elif text.strip():
                code = await self._say(text.strip())
        return code

    async def _say(self, text: str) -> int:
        self._titles.setdefault(self.session, brief(text, 60))
        try:
            given = attach(text, Path())
            for name in given.names:
                self.screen.note(_("  with {name}", name=visible(name)))
            return await self.turn(given.message, given.images)
        except Refused as error:
            self.screen.note(visible(str(error)), "red")
            return 0

    async def compact(self) -> None:
        """Have the conversation so far summarised."""
        past = self._past()
        if not past.said:
            self.screen.note(_("there is nothing to summarise"))
            return
        run = await begin(self.host, self.session, "", said=past.said + past.news, source=self.source, by=self.by,
                          facts=past.facts, settings=self._settings())  # fmt: skip
        self._undone = 0
        run = await Talk(self.screen, self._keyboard, self.host, self.by).settle(run.id)
        self._count(run)
        after = run.context.get("history") or []
        if run.context.get("must_compact") or not after:
            self.screen.note(_("the model gave no summary; nothing has changed"), "red")
            return
        self.screen.say(_("summarised: {before} characters are {after} now; /search finds the rest",
                          before=f"{measure(past.said):,}", after=f"{measure(after):,}"))  # fmt: skip
        self.screen.say(self.screen.wrap(visible(after[0]["content"][:SUMMARY_SHOWN], keep="\n")), "dim")

    def undo(self) -> tuple[str, list[str]] | None:
        """Take the last turn out of the conversation; its message, and what it did, which stays done."""
        turns = self.caller.reader.session(self.session, self._undone + 1) if self.caller.has_journal() else []
        run = readable(self.caller, turns[self._undone].run_id) if len(turns) > self._undone else None
        if run is None or run.ended is None:
            return None
        self._undone += 1
        facts = [one["line"] for one in run.context.get("executions") or () if one["view"]["has_side_effects"]]
        return str(run.context.get("message") or ""), facts

    async def change_session(self, name: str) -> None:
        """Go on with another conversation, or with a new one."""
        self.session, self._undone = name or new_session(), 0
        self._count_all()
        self.screen.say(_("session {session}; {who}", session=self.session, who=visible(self.model)), "dim")
        past = self._past()
        for one in past.said[-2:]:
            if one["role"] in ("user", "assistant"):
                self.screen.say(f"  {'>' if one['role'] == 'user' else ' '} {brief(one['content'], 300)}", "dim")
        await self.open_questions()

    def _count_all(self) -> None:
        """Tokens and cost of the conversation so far; every further turn is added to it."""
        self._usage, self._size = {}, 0
        turns = self.caller.reader.session(self.session, TURNS_COUNTED) if self.caller.has_journal() else []
        for turn in reversed(turns):
            run = readable(self.caller, turn.run_id)
            if run is not None and run.ended is not None:
                self._count(run)

    def _count(self, run: Run) -> None:
        """Add a turn, and see how much of the conversation the model is told; one that waits is added when it ends."""
        self._size = measure(run.context.get("history") or ())
        for name, amount in run.usage.items() if run.ended is not None else ():
            self._usage[name] = self._usage.get(name, 0.0) + amount

    def render_cost(self) -> str:
        """Tokens and cost of the conversation in words."""
        tokens, dollars = self._usage.get("tokens", 0.0), self._usage.get("cost_usd", 0.0)
        cost = f"${dollars:.4f}" if dollars else "$0"
        if unknown := self._usage.get("unpriced_calls"):
            cost = _("{cost} and {count} calls of unknown price", cost=cost, count=int(unknown)) if dollars else (
                _("price not known"))  # fmt: skip
        return _("{tokens} tokens · {cost}", tokens=f"{int(tokens):,}", cost=cost)

    def render_status(self) -> str:
        """The line below the input."""
        room = int(settings_of(self.caller.home).get("compact_at") or COMPACT_AT)
        parts = [
            self.model,
            self.session,
            self.render_cost(),
            _("{share} % of the history", share=self._size * 100 // room),
        ]
        if self.is_planning:
            parts.append(_("planning"))
        return " " + visible(" · ".join(parts))

    def greet(self) -> None:
        """Who answers, and with what."""
        choice = chosen_model(str(settings_of(self.caller.home, **self.settings).get("model", "")))
        who = _("model {name}", name=visible(choice.spec))
        if choice.is_builtin:
            who = _("no model is configured: built-in rules answer a few sentences (see `detent doctor`)")
        names = ", ".join(visible(tool["name"]) for tool in self.tools[:SHOWN_MAX])
        more = ", …" if len(self.tools) > SHOWN_MAX else ""
        self.screen.say(_("session {session}; {who}", session=self.session, who=who), "dim")
        tools = _("tools: {names}", names=names + more) if names else _("no tools: --tools, --tool or detent.mcp.yaml")
        self.screen.say(_("{tools}; /help, /exit", tools=tools), "dim")


@verb("chat", translate(find_agent("assistant").commands["chat"]))
@click.argument("message", default="", metavar="[MESSAGE]")
@click.option("--session", default="", metavar="NAME", help=_("The conversation to start or continue."))
@click.option("--tools", "file", default="", metavar="FILE.py", help=_("A Python file whose effects are the tools."))
@click.option("--tool", "named", multiple=True, metavar="NAME", help=_("A built-in effect to offer as well."))
@click.option("--model", default="", metavar="MODEL", help=_("The model to use instead of $DETENT_MODEL."))
@click.option("--attach", "attached", multiple=True, metavar="FILE", help=_("A file or image that goes with MESSAGE."))
@click.option("--continue", "is_latest", is_flag=True, help=_("Go on with the latest conversation."))
@click.option(
    "--print",
    "is_printed",
    is_flag=True,
    help=_("Only print the answer, for scripts; what is piped in goes with the message."),
)
@click.option("--verbose", "is_verbose", is_flag=True, help=_("Show contract numbers, statuses and hashes."))
@by_option
async def chat(  # noqa: PLR0913, PLR0917  # options of the command
    caller: Caller,
    message: str,
    session: str,
    file: str,
    named: tuple[str, ...],
    model: str,
    attached: tuple[str, ...],
    is_latest: bool,
    is_printed: bool,
    is_verbose: bool,
    by: str,
) -> int:
    """Talk to the assistant."""
    session = _find_session(caller, session, is_latest)
    source = str(Path(file).resolve()) if file else ""
    own = own_effects(source) if source else {}
    async with caller.host() as host:
        one = Chat(caller, host, session, source, by)
        one.screen.is_quiet, one.screen.is_verbose = is_printed, is_verbose
        one.tools = tools_of(host.effects, own, named)
        one.settings = {"model": model} if model else {}
        one.words = [word for name, values in (("--tools", [file]), ("--tool", named), ("--model", [model]))
                     for value in values if value for word in (name, value)]  # fmt: skip
        check_model(str(settings_of(caller.home, **one.settings).get("model", "")), is_here=host.is_holder)
        if is_printed:
            message = _with_piped(message)
        if not message:
            return await one.talk()
        given = attach_named(message, attached)
        return await one.turn(given.message, given.images)


def _find_session(caller: Caller, session: str, is_latest: bool) -> str:
    if session:
        return check_session(session)
    found = list_sessions(caller, 1) if is_latest else []
    return found[0].name if found else new_session()


def _with_piped(message: str) -> str:
    """The message with what another program pipes in."""
    piped = "" if sys.stdin.isatty() else sys.stdin.read(PIPED_MAX + 1)
    if len(piped) > PIPED_MAX:
        raise Refused(f"at most {PIPED_MAX:,} characters can be piped in")
    whole = "\n\n".join(part for part in (message, piped.strip()) if part)
    if not whole:
        raise Refused("--print needs a message, or something piped in")
    return whole


COMMANDS = {"chat": chat}
