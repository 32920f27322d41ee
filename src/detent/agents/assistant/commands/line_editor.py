"""The keyboard of a conversation: messages of one or many lines, answers to questions, and keys while an answer comes.

On a terminal this is prompt_toolkit: it knows pasted text from typed text, edits many lines, searches the history and
completes, which readline does only in part. Where it is not installed, or the terminal is a dumb one, lines are read
with the keys of readline.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from detent.kit.language import _
from detent.kit.safe_text import brief, visible
from detent.kit.terminal.keyboard import line

if TYPE_CHECKING:
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings

HISTORY_FILE = "chat_history"
ESCAPE_S = 0.05  # a lone Esc is one after which nothing comes for so long
FILES_MAX = 100


class Left(Exception):
    """Ctrl-C, twice: whoever was here leaves."""


class Keyboard(Protocol):
    """What a conversation needs of whoever types."""

    async def read_message(self) -> str | None:
        """The next message, None at the end of input."""

    async def read_line(self, prompt: str, default: str = "") -> str | None:
        """An answer on one line, None at the end of input."""

    def hold(self) -> AbstractContextManager[None]:
        """Have the terminal for a whole conversation: a key between two prompts is for the conversation, too."""

    def listen(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Hear Esc and Ctrl-C while the block is at work."""

    def render_hint(self) -> str:
        """What can be pressed while an answer comes, or what was typed since."""


class PlainKeyboard:
    """Lines, with the keys of readline."""

    async def read_message(self) -> str | None:
        """The next line."""
        return await line("> ", is_kept=True)

    async def read_line(self, prompt: str, default: str = "") -> str | None:  # noqa: ARG002  # readline has none
        """An answer."""
        return await line(prompt)

    def hold(self) -> AbstractContextManager[None]:
        """Nothing: the terminal is as it was."""
        return nullcontext()

    def listen(self, stop: Callable[[], None]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing: Ctrl-C is a signal here."""
        return nullcontext()

    def render_hint(self) -> str:
        """Nothing: there is no line for it."""
        return ""


def open_keyboard(
    home: Path, is_live: bool, status: Callable[[], str], words: dict[str, str], sessions: dict[str, str]
) -> Keyboard:
    """The best keyboard there is; `words` are what can be completed after a `/`, `sessions` after `/resume`."""
    if not is_live:
        return PlainKeyboard()
    try:
        import prompt_toolkit as _known  # noqa: F401
    except ImportError:
        return PlainKeyboard()
    return LiveKeyboard(home, status, words, sessions)


class LiveKeyboard:
    """prompt_toolkit."""

    def __init__(self, home: Path, status: Callable[[], str], words: dict[str, str], sessions: dict[str, str]) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
        from prompt_toolkit.completion import ThreadedCompleter
        from prompt_toolkit.input import create_input

        self.typed = ""  # while an answer came: the beginning of the next message
        self._queued: list[str] = []  # whole messages that were sent meanwhile: they come next
        self._is_leaving, self._status = False, status
        self._source = create_input()
        self._stop: Callable[[], None] | None = None  # of the answer that comes
        self._is_unwanted = False  # Esc or Ctrl-C was pressed since the last message
        self._session: PromptSession[str] = PromptSession(
            history=_open_history(home), multiline=True, key_bindings=self._bindings(), complete_while_typing=True,
            completer=ThreadedCompleter(_make_completer(words, sessions)), auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=self._render_status, prompt_continuation=lambda width, _number, _is_soft: "… ".rjust(width),
            reserve_space_for_menu=4, enable_suspend=True,
        )  # fmt: skip
        self._asking: PromptSession[str] = PromptSession(key_bindings=_leave_by_escape())
        self._session.default_buffer.on_text_changed += self._stay

    def _stay(self, _buffer: Any) -> None:
        self._is_leaving = False

    def _render_status(self) -> "StyleAndTextTuples":
        if self._is_leaving:
            return [("bold", " " + _("Ctrl-C again leaves; Ctrl-D does, too."))]
        return [("", self._status())]

    def _bindings(self) -> "KeyBindings":
        from prompt_toolkit.enums import DEFAULT_BUFFER
        from prompt_toolkit.filters import completion_is_selected, has_focus
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()
        is_writing = has_focus(DEFAULT_BUFFER)  # and not searching, where Enter and Ctrl-C end the search

        @keys.add("enter", filter=is_writing & ~completion_is_selected)
        def _send(event: Any) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("enter", filter=is_writing & completion_is_selected)
        def _take(event: Any) -> None:
            event.current_buffer.complete_state = None

        @keys.add("c-c", filter=is_writing)
        def _clear_or_leave(event: Any) -> None:
            if self._is_leaving:
                event.app.exit(exception=Left())
                return
            event.current_buffer.reset()
            self._is_leaving = True
            event.app.invalidate()

        @keys.add("escape", "enter", filter=is_writing)
        @keys.add("c-j", filter=is_writing)
        def _break(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        return keys

    async def read_message(self) -> str | None:
        """A message of one or many lines; the first Ctrl-C clears what was typed, the second leaves."""
        self._hear_pending()
        self._is_unwanted = False
        if self._queued:
            return self._say_queued()
        typed, self.typed = self.typed, ""
        try:
            text = str(await self._session.prompt_async("> ", default=typed, handle_sigint=False))
        except EOFError:
            return None
        self._is_leaving = False
        return text

    def _say_queued(self) -> str:
        text = self._queued.pop(0)
        self._session.history.append_string(text)
        sys.stdout.write("> " + visible(text, keep="\n").replace("\n", "\n… ") + "\n")
        sys.stdout.flush()
        return text

    def render_hint(self) -> str:
        """What was sent and typed while an answer came."""
        pending = " ⏎ ".join([*self._queued, self.typed])
        return f" · > {brief(pending, 60)}" if pending else _(" · Esc stops it")

    async def read_line(self, prompt: str, default: str = "") -> str | None:
        """An answer; Esc, Ctrl-C and Ctrl-D leave the question open.

        Whatever was pressed before the question stood there was not meant for it.
        """
        self._hear_pending()
        with suppress(EOFError, KeyboardInterrupt):
            return str(await self._asking.prompt_async(prompt, default=default, handle_sigint=False))
        return None

    def _hear_pending(self) -> None:
        """Take what was pressed before anybody listened: it belongs to the next message, never to a question."""
        from prompt_toolkit.input.typeahead import get_typeahead

        self._take([*get_typeahead(self._source), *self._source.read_keys()])

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hear every key that is pressed while no prompt is there: none is echoed, and none is a signal."""
        loop = asyncio.get_running_loop()
        flush: asyncio.TimerHandle | None = None

        def ready() -> None:
            nonlocal flush
            self._take(self._source.read_keys())
            if flush is not None:
                flush.cancel()
            flush = loop.call_later(ESCAPE_S, lambda: self._take(self._source.flush_keys()))

        with self._source.raw_mode(), self._source.attach(ready):
            yield
        if flush is not None:
            flush.cancel()

    @contextmanager
    def listen(self, stop: Callable[[], None]) -> Iterator[None]:
        """Esc or Ctrl-C stop the answer; what else is typed is the next message, which Enter sends when it is time."""
        self._hear_pending()
        self._stop = stop
        if self._is_unwanted:
            stop()  # pressed after the message was sent, before there was anything to stop
        try:
            yield
        finally:
            self._stop, self._is_unwanted = None, False

    def _take(self, pressed: Iterable[Any]) -> None:
        from prompt_toolkit.keys import Keys

        for key in pressed:
            if key.key is Keys.Escape:
                self._cut_short()
            elif key.key is Keys.ControlC and self._is_leaving:
                signal.raise_signal(signal.SIGINT)  # again, and what was to be stopped has not stopped
            elif key.key is Keys.ControlC:
                self._is_leaving = True  # once more, and whoever is here leaves
                self._cut_short()
            elif key.key is Keys.ControlZ:
                with self._source.cooked_mode():
                    os.kill(0, signal.SIGTSTP)  # with the servers that were started here, as at the prompt
            elif key.key is Keys.BracketedPaste or (len(key.data) == 1 and key.data.isprintable()):
                self.typed += key.data
            elif key.key in (Keys.Backspace, Keys.ControlH):
                self.typed = self.typed[:-1]
            elif key.key is Keys.ControlM and self.typed.strip():
                self._queued.append(self.typed)
                self.typed = ""

    def _cut_short(self) -> None:
        self._is_unwanted = True
        self.typed = "\n".join(filter(None, [*self._queued, self.typed]))  # whoever stops it wants to think again
        self._queued.clear()
        if self._stop is not None:
            self._stop()


def _leave_by_escape() -> "KeyBindings":
    """Esc does at a question what Ctrl-C does."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape")
    def _leave(event: Any) -> None:
        event.app.exit(exception=KeyboardInterrupt)

    return keys


def _open_history(home: Path) -> Any:
    """What was typed before, in a file that is nobody else's."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = home / HISTORY_FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _make_completer(words: dict[str, str], sessions: dict[str, str]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class MessageCompleter(Completer):
        """Commands after a `/` at the beginning, files after an `@`."""

        def get_completions(self, document: "Document", complete_event: Any) -> Iterator[Any]:  # noqa: ARG002
            before = document.text_before_cursor
            if before.startswith("/resume "):
                begun = before.removeprefix("/resume ").lstrip()
                for name, title in sessions.items():
                    if name.startswith(begun):
                        yield Completion(name, start_position=-len(begun), display_meta=title)
                return
            if before.startswith("/") and " " not in before and "\n" not in before:
                for word, about in words.items():
                    if word.startswith(before):
                        yield Completion(word, start_position=-len(before), display_meta=about)
                return
            last = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
            if last.startswith("@"):
                for name in _find_files(last[1:]):
                    quoted = f'"{name}"' if any(ch.isspace() for ch in name) else name
                    yield Completion(quoted, start_position=1 - len(last), display=name)

    return MessageCompleter()


def _find_files(begun: str) -> list[str]:
    """Files and folders whose name begins like this."""
    folder, _slash, start = begun.rpartition("/")
    try:
        with os.scandir(Path(folder or ("/" if _slash else ".")).expanduser()) as found:
            names = [one.name + ("/" if one.is_dir() else "") for one in found
                     if one.name.startswith(start) and (start or not one.name.startswith("."))]  # fmt: skip
    except OSError:
        return []
    return [visible(f"{folder}/{name}" if _slash else name) for name in sorted(names)[:FILES_MAX]]
