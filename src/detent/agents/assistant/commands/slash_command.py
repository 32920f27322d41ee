"""The commands of a conversation: what begins with a `/` and is for the program, not for the model."""

import difflib
import shlex
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detent.agents.assistant import check_session
from detent.agents.assistant.commands.conversation_text import list_sessions, render_transcript
from detent.agents.assistant.conversation import check_model
from detent.agents.assistant.memory_store import Store
from detent.agents.assistant.node_effects import MEMORY_FILE
from detent.errors import DetentError, Refused
from detent.kit.language import _
from detent.kit.safe_text import brief, columns, visible, when

if TYPE_CHECKING:
    from detent.agents.assistant.commands.chat import Chat

MEMORIES_SHOWN = 50


def describe_commands() -> dict[str, str]:
    """Every command with what it does."""
    return {
        "/help": _("what can be typed here"),
        "/model": _("the model, or another one: /model openai:NAME"),
        "/tools": _("the tools, and which of them ask first"),
        "/cost": _("tokens and cost of this conversation"),
        "/sessions": _("earlier conversations"),
        "/resume": _("go on with another conversation: /resume NAME; alone: answer what was left open here"),
        "/new": _("begin a new conversation"),
        "/undo": _("take the last message and its answer out of the conversation"),
        "/compact": _("have the conversation so far summarised"),
        "/search": _("look for words in what was summarised: /search WORDS"),
        "/memory": _("what is remembered; /memory NUMBER TEXT corrects, /memory forget NUMBER forgets"),
        "/plan": _("plan first: only tools that change nothing, until /plan is typed again"),
        "/export": _("write the conversation to a Markdown file: /export FILE"),
        "/verbose": _("show contract numbers, statuses and hashes, or hide them again"),
        "/exit": _("leave; so does Ctrl-D, and Ctrl-C twice"),
    }


class SlashCommands:
    """Carries out the commands of one conversation."""

    def __init__(self, chat: "Chat") -> None:
        self._chat = chat
        self._screen = chat.screen
        self._ways: dict[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help, "/model": self._model, "/tools": self._tools, "/cost": self._cost,
            "/sessions": self._sessions, "/resume": self._resume, "/new": self._new, "/undo": self._undo,
            "/compact": self._compact, "/search": self._search, "/memory": self._memory, "/plan": self._plan,
            "/export": self._export, "/verbose": self._verbose,
        }  # fmt: skip

    async def take(self, text: str) -> None:
        """Do what a line that begins with `/` says; one that is unknown is refused, and said to nobody."""
        word, _blank, rest = text.strip().partition(" ")
        way = self._ways.get({"/?": "/help"}.get(word, word))
        if way is None:
            told = _("there is no command `{word}`; /help lists them, and a blank in front says it to the model",
                     word=visible(word)[:40])  # fmt: skip
            close = difflib.get_close_matches(word, self._ways, n=1)
            self._screen.note(f"{told}. {_('Did you mean {name}?', name=close[0])}" if close else told, "red")
            return
        try:
            await way(rest.strip())
        except DetentError as error:
            self._screen.note(visible(str(error)), "red")

    async def _help(self, _rest: str) -> None:
        for row in columns([[f"  {word}", about] for word, about in describe_commands().items()]):
            self._screen.say(self._screen.wrap(row))
        self._screen.say(self._screen.wrap(_(
            "  Enter sends; Alt-Enter, Ctrl-J or \\ at the end of a line begin a new line. @FILE attaches a file."
        )), "dim")  # fmt: skip
        self._screen.say(_("  Esc stops an answer. Ctrl-R searches what was typed before. Tab completes."), "dim")

    async def _model(self, rest: str) -> None:
        if rest:
            check_model(rest, is_here=self._chat.host.is_holder)
            self._chat.settings["model"] = rest
        self._screen.say(f"  {visible(self._chat.model)}")

    async def _tools(self, _rest: str) -> None:
        rows = []
        for tool in self._chat.list_offered():
            about = str(tool.get("description") or "").partition("\n")[0]
            asks = _("asks first") if tool["kind"] == "irreversible" else ""
            rows.append([f"  {visible(tool['name'])}", asks, visible(about)[:80]])
        for row in columns(rows):
            self._screen.say(row)
        if not rows:
            self._screen.say(_("no tools: --tools, --tool or detent.mcp.yaml"))

    async def _cost(self, _rest: str) -> None:
        self._screen.say(f"  {self._chat.render_cost()}")

    async def _sessions(self, _rest: str) -> None:
        rows = [[f"  {'*' if one.name == self._chat.session else ' '} {one.name}", when(one.updated_at),
                 _("{count} messages", count=one.turns) if one.turns != 1 else _("1 message"), brief(one.title, 60)]
                for one in list_sessions(self._chat.caller)]  # fmt: skip
        for row in columns(rows):
            self._screen.say(row)
        if not rows:
            self._screen.say(_("nothing was said here yet"))

    async def _resume(self, rest: str) -> None:
        if not rest and await self._chat.open_questions():
            return
        if not rest:
            await self._sessions("")
            self._screen.note(_("go on with another conversation: /resume NAME"))
            return
        known = [one.name for one in list_sessions(self._chat.caller)]
        found = [name for name in known if name == rest] or [name for name in known if rest and name.startswith(rest)]
        if len(found) != 1:
            raise Refused(f"`{rest}` is not one conversation; /sessions lists them")
        await self._chat.change_session(found[0])

    async def _new(self, rest: str) -> None:
        await self._chat.change_session(check_session(rest) if rest else "")

    async def _undo(self, _rest: str) -> None:
        turn = self._chat.undo()
        if turn is None:
            self._screen.note(_("there is nothing to take back"))
            return
        message, deeds = turn
        if message:
            self._screen.say(_("taken back: {message}", message=brief(message.partition("\n")[0], 80)))
        else:
            self._screen.say(_("taken back: the summary; the conversation is as it was before"))
        for deed in deeds:
            self._screen.note(_("it stays done, and the model knows: {deed}", deed=brief(deed, 200)), "yellow")

    async def _compact(self, _rest: str) -> None:
        await self._chat.compact()

    async def _search(self, rest: str) -> None:
        found = self._ask(lambda store: store.passages(self._chat.session, rest))
        for one in found:
            self._screen.say(f"  {one.role}: {brief(one.content, 300)}")
        if not found:
            self._screen.say(_("nothing was found; only what was summarised is looked through"))

    async def _memory(self, rest: str) -> None:
        words = rest.split(maxsplit=1)
        if len(words) == 2 and words[0] == "forget":
            number = _number(words[1])
            if not self._ask(lambda store: store.forget(number)):
                raise Refused(f"there is no memory {number}")
            self._screen.say(_("forgotten"))
        elif len(words) == 2:
            number = _number(words[0])
            if not self._ask(lambda store: store.correct(number, words[1])):
                raise Refused(f"there is no memory {number}")
            self._screen.say(_("corrected"))
        else:
            self._list_memories()

    def _list_memories(self) -> None:
        kept = [one for one in self._ask(lambda store: store.memories(500)) if one.category != "execution"]
        for row in columns([[f"  {one.id}", one.category, f"{visible(one.key)[:40]}: {brief(one.value, 80)}"]
                            for one in kept[:MEMORIES_SHOWN]]):  # fmt: skip
            self._screen.say(row)
        if not kept:
            self._screen.say(_("nothing is remembered"))

    def _ask(self, ask: Callable[[Store], Any]) -> Any:
        with closing(Store(self._chat.caller.home / MEMORY_FILE)) as store:
            return ask(store)

    async def _plan(self, _rest: str) -> None:
        self._chat.is_planning = not self._chat.is_planning
        on = _("planning: nothing is changed until /plan is typed again")
        self._screen.say(on if self._chat.is_planning else _("no longer planning: all tools are offered again"))

    async def _export(self, rest: str) -> None:
        try:
            (name,) = shlex.split(rest) if rest else [f"{self._chat.session}.md"]
        except ValueError:
            raise Refused("/export takes one file name") from None
        path = Path(name).expanduser()
        text = render_transcript(self._chat.caller, self._chat.session)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Refused(f"{path} is there already; name another file") from None
        except OSError as error:
            raise Refused(f"{path} cannot be written: {error.strerror or error}") from None
        self._screen.say(_("written to {path}", path=visible(str(path))))

    async def _verbose(self, _rest: str) -> None:
        self._screen.is_verbose = not self._screen.is_verbose
        self._screen.say(_("verbose") if self._screen.is_verbose else _("brief"))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Refused(f"`{text[:20]}` is not the number of a memory; /memory lists them")
    return int(text)
