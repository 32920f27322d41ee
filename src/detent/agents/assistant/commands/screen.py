"""The screen of a conversation: the answer as it comes, a line for every deed, and below them what is at work now."""

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from detent.agents.assistant.commands.answer_text import AnswerText
from detent.agents.assistant.commands.bottom_line import BottomLine
from detent.agents.assistant.commands.markdown_stream import MarkdownStream, WordWrap
from detent.kit.language import _
from detent.kit.safe_text import brief, duration, visible, wide
from detent.kit.terminal.caller import Caller, has_colour

WHEEL = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
REDRAW_S = 0.12
THINKING = ("reasoning/think", "memory/compact")


def is_live() -> bool:
    """Whether somebody looks at a terminal that can do more than write line by line."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


class Screen:
    """Where a conversation is shown; for scripts the words alone, as they come."""

    def __init__(self, caller: Caller, *, is_quiet: bool = False) -> None:
        self.caller = caller
        self.is_live = is_live() and not caller.is_json
        self.is_verbose = False
        self.is_quiet = is_quiet  # only the answer, and only when it is whole
        self._wheel = itertools.cycle(WHEEL)
        self._below = BottomLine()
        self._since = time.monotonic()
        self.render_hint: Callable[[], str] = str
        self.running: dict[str, str] = {}  # what is at work, by contract
        self._answer = AnswerText()
        self._drawn: MarkdownStream | None = None
        self._from = ""
        self._has_words = self._is_open = False

    def begin(self) -> None:
        """A new turn, or one that goes on after a question."""
        self._since = time.monotonic()
        self.running.clear()
        self._answer, self._drawn, self._from = AnswerText(), None, ""
        self._has_words = self._is_open = False

    def is_new(self, contract_id: str) -> bool:
        """Whether these are the first words of another thought."""
        return contract_id != self._from and contract_id.startswith(THINKING[0])

    def hear(self, contract_id: str, data: Mapping[str, Any]) -> None:
        """What an effect says while it is at work: words of the model, or how far a tool has come."""
        if self.caller.is_json or self.is_quiet:
            return
        text = data.get("text")
        if contract_id.startswith(THINKING[0]):
            if isinstance(text, str):
                self._hear_words(contract_id, text)
        elif contract_id.startswith("tools/"):
            told = text if isinstance(text, str) else data.get("message") or data.get("progress")
            if told is not None and contract_id in self.running:
                self.running[contract_id] = f"{self.running[contract_id].partition(': ')[0]}: {brief(told, 60)}"
                self.redraw()

    def _hear_words(self, contract_id: str, piece: str) -> None:
        if contract_id != self._from:
            if self._has_words and not self.running and self._is_open:
                self.end_words()
                self.note(_("the answer broke off; it is asked for again"))
            self.end_words()
            self._answer, self._drawn, self._from = AnswerText(), None, contract_id
        words = self._answer.add(piece)
        if words:
            self._write_words(words)

    def _write_words(self, words: str) -> None:
        self._has_words = self._is_open = True
        if not self.is_live or not has_colour(sys.stdout):
            self._write(visible(words, keep="\n\t"))
            return
        if self._drawn is None:
            size = shutil.get_terminal_size()
            self._drawn = MarkdownStream(size.columns, size.lines - 1)
        self._write(self._drawn.add(words))

    def end_words(self) -> None:
        """What comes next is not part of the answer."""
        if self._drawn is not None:
            self._write(self._drawn.end())
            self._drawn = None
        elif self._is_open and not self._answer.shown.endswith("\n"):
            self._write("\n")
        self._is_open = False

    def finish(self, response: str) -> None:
        """The whole answer: whatever of it was not shown yet."""
        rest = self._answer.rest(response) if self._has_words else response
        if rest.strip():
            if self._has_words and self._answer.rest(response) != response:
                self._write_words(rest)
            else:
                self.end_words()
                self._answer = AnswerText()
                self._answer.shown = rest
                self._write_words(rest)
        self.end_words()

    def say(self, text: str = "", colour: str = "") -> None:
        """A line of the conversation."""
        self.end_words()
        self.caller.say(text, colour)

    def note(self, text: str, colour: str = "dim") -> None:
        """A line beside the conversation."""
        if self.is_quiet:
            return
        self.end_words()
        self.caller.note(self.wrap(text), colour)

    def wrap(self, text: str) -> str:
        """Broken between words, where a terminal would break it anywhere."""
        if not self.is_live:
            return text
        width = shutil.get_terminal_size().columns
        indent = len(text) - len(text.lstrip(" "))
        return "\n".join(
            WordWrap(width, indent + 2).add(line) if wide(line) > width else line for line in text.split("\n")
        )

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def keep_line(self) -> None:
        """Have the last row for what is at work, where somebody looks."""
        if self.is_live:
            self._below.keep()

    def free_line(self) -> None:
        """Give the last row back."""
        self._below.free()

    def redraw(self) -> None:
        """Draw the line that says what is at work."""
        passed = duration(float(int(time.monotonic() - self._since)))
        what = ", ".join(list(self.running.values())[:3]) or (_("answering") if self._is_open else _("thinking"))
        self._below.draw(f"{next(self._wheel)} {what} · {passed}{self.render_hint()}")
