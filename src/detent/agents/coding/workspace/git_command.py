"""The git program: argument vectors only, one environment, and nothing of the user's taste in it.

Every call names its git dir, so that git neither looks for one nor minds who owns it, and leaves out the user's and the
system's configuration, hooks, prompts and pagers. What a call may see is decided here and nowhere else.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from detent.errors import DetentError, Refused

IDENTITY = {
    "GIT_AUTHOR_NAME": "detent",
    "GIT_AUTHOR_EMAIL": "detent@localhost",
    "GIT_COMMITTER_NAME": "detent",
    "GIT_COMMITTER_EMAIL": "detent@localhost",
}
ALONE = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
}
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "gc.auto=0",
)
KNOWN_MAX = 16
ID_LENGTHS = (40, 64)  # of an object's name, by SHA-1 or SHA-256
K = TypeVar("K")
V = TypeVar("V")


class GitFailed(DetentError):
    """The operator's move: git ended with an error that detent has no rule for."""

    def __init__(self, argv: tuple[str, ...], exit_code: int, stderr: bytes) -> None:
        self.exit_code = exit_code
        self.stderr = stderr.decode("utf-8", "replace").strip()
        super().__init__(f"`git {' '.join(argv[:4])}` ended with {exit_code}: {self.stderr or 'without a word'}")


@dataclass(frozen=True)
class Git:
    """git with one git dir, one work tree and one set of settings."""

    cwd: str
    env: Mapping[str, str]
    settings: tuple[str, ...] = field(default=SETTINGS)

    async def __call__(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """What git writes to standard output; GitFailed if it does not end with 0."""
        exit_code, stdout, stderr = await self.run(*argv, stdin=stdin, env=env)
        if exit_code:
            raise GitFailed(argv, exit_code, stderr)
        return stdout

    async def line(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """The single line that git writes."""
        return os.fsdecode((await self(*argv, stdin=stdin, env=env)).removesuffix(b"\n"))

    async def names(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> list[str]:
        """The names that git writes, each ended by a zero byte."""
        return split(await self(*argv, stdin=stdin, env=env))

    async def run(
        self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, bytes]:
        """The exit code and both outputs; a cancelled caller leaves no git behind."""
        settings = [word for setting in self.settings for word in ("-c", setting)]
        try:
            child = await asyncio.create_subprocess_exec(
                "git",
                *settings,
                *argv,
                cwd=self.cwd,
                env={**self.env, **(env or {})},
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            if not os.path.isdir(self.cwd):
                raise Refused(f"there is no folder {self.cwd}") from error
            raise Refused("checkpoints need the program `git`, and there is none on the PATH") from error
        try:
            stdout, stderr = await child.communicate(stdin or None)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
            raise
        return child.returncode or 0, stdout, stderr


def environment(*, plain: bool = False, **further: str) -> dict[str, str]:
    """The environment of every git: ours without its GIT_* variables; `plain` keeps the user's configuration."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    mine |= IDENTITY | ALONE
    if plain:
        for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"):
            del mine[name]
    return mine | further


def first_of(error: BaseException) -> BaseException:
    """What failed first in a group of tasks; the others were cancelled for it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def split(output: bytes) -> list[str]:
    """Names out of zero-ended bytes; a name that is no UTF-8 comes with surrogates, as from the os module."""
    return os.fsdecode(output).split("\0")[:-1] if output else []


def join(names: Iterable[str]) -> bytes:
    """Names as zero-ended bytes."""
    text = "\0".join(names)
    return os.fsencode(f"{text}\0") if text else b""


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Keep what was read of trees, which never change, for whoever asks next; the oldest is forgotten."""
    known[key] = value
    while len(known) > KNOWN_MAX:
        known.pop(next(iter(known)))
