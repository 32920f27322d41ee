"""Whoever is at the keyboard: a line they type, a word they choose; waiting never keeps the program alive."""

import asyncio
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


async def line(prompt: str, *, is_kept: bool = False) -> str | None:
    """A line from standard input, None at its end; on a terminal with the keys of readline, and what is kept again."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[str | None] = loop.create_future()

    def take(text: str | None) -> None:
        if not heard.done():
            heard.set_result(text)

    def read() -> None:
        text = _read_typed(prompt, is_kept) if is_terminal() else _read_piped(prompt)
        with suppress(RuntimeError):  # the loop has ended, and with it whoever asked
            loop.call_soon_threadsafe(take, text)

    with _keep_settings():
        threading.Thread(target=read, daemon=True).start()
        return await heard


async def choose(prompt: str, words: Mapping[str, str]) -> str:
    """What one of these words stands for; another word is asked about again, and the end of input chooses nothing."""
    while True:
        text = await line(prompt)
        if text is None:
            return ""
        if text.strip().lower() in words:
            return words[text.strip().lower()]


def is_terminal() -> bool:
    """Whether somebody sits at both ends of a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _read_typed(prompt: str, is_kept: bool) -> str | None:
    try:
        import readline  # gives `input` its keys
    except ImportError:
        readline = None  # type: ignore[assignment]  # a Python without it
    else:
        readline.set_auto_history(False)
    try:
        text = input(prompt)
    except EOFError:
        sys.stdout.write("\n")
        return None
    if is_kept and readline is not None and text.strip():
        readline.add_history(text)
    return text


def _read_piped(prompt: str) -> str | None:
    sys.stdout.write(prompt)
    sys.stdout.flush()
    text = sys.stdin.readline()
    return text.rstrip("\r\n") if text else None


@contextmanager
def _keep_settings() -> "Iterator[None]":
    """A thread that still reads when the program ends must not leave the terminal without echo."""
    if not is_terminal():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(number, termios.TCSADRAIN, before)
