"""The caller of one command: where its journal is, who they are, and how they want to be spoken to."""

import json
import os
import shlex
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Optional

import click

from detent.core.events import Started
from detent.errors import Refused
from detent.host.address import find_address, find_home
from detent.host.opening import admit, find_twins, holder_of, open_host, open_reader
from detent.kit.language import _
from detent.kit.people_file import TOKEN_VARIABLE, PeopleFile
from detent.kit.policy_file import HOME, HOME_VARIABLE, find_policy, guarded_files
from detent.kit.safe_text import silence, visible

if TYPE_CHECKING:
    from detent.core.identity import Identity
    from detent.core.policy import Policy
    from detent.host.port import OpenHost, Reader
    from detent.host.reading import Summary

# The commands that can make a run act, so that a policy matters to them.
DRIVING = frozenset(
    {
        "run",
        "chat",
        "signal",
        "approve",
        "reject",
        "answer",
        "settle",
        "cancel",
        "resume",
        "retry",
        "fork",
        "migrate",
        "serve",
        "edit",
    }
)


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line of stdout, plain."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, default=str) + "\n")
    sys.stdout.flush()


def has_colour(stream: Any) -> bool:
    """Whether this stream is a terminal whose user wants colours."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"
    return wanted and bool(stream.isatty())


def show_line(text: str, colour: str = "", *, stream: Any = None) -> None:
    """One line, by default on stderr; whatever could act on the terminal is made visible first."""
    show_lines([(text, colour)], stream)


def show_lines(lines: Iterable[tuple[str, str]], stream: Any = None) -> None:
    """Several lines with their colours, in one breath."""
    out = sys.stderr if stream is None else stream
    is_coloured = has_colour(out)
    said: list[str] = []
    try:
        for text, colour in lines:
            said.append(_paint(visible(text, keep="\n"), colour if is_coloured else "") + "\n")
    finally:  # what could be told before something went wrong is told
        if said:
            out.write("".join(said))
            out.flush()


def _paint(text: str, colour: str) -> str:
    if not colour:
        return text
    return click.style(text, dim=True) if colour == "dim" else click.style(text, fg=colour)


class Caller:
    """What every command needs to know of its surroundings."""

    current: ClassVar[Optional["Caller"]] = None  # whose command an interruption interrupts

    def __init__(self, home: str | None, is_json: bool, policy: str = "") -> None:
        self.home = find_home(home or os.environ.get(HOME_VARIABLE) or HOME)
        self.is_json = is_json
        self.interrupted = ""  # the run that Ctrl-C puts down
        self.go_on: tuple[str, ...] = ()  # the command that takes it up again, where it is not `resume RUN`
        self.is_stopping = False  # Ctrl-C was heard and its answer told: the next one stops at once
        self.answered: int | None = None  # the exit code of the answer, once it was given
        self.name = ""  # the command, as others are told of it while it holds the journal
        self.given_up = ""  # what became of a verb that another process had not answered yet
        self._found = ""
        self.is_driven_elsewhere = False
        self.catch_up: Callable[[], object] = lambda: None  # tells what has happened and has not been told yet
        self._home_option, self._policy_option = home, policy
        self._reader: Reader | None = None
        self._warned: set[str] = set()
        Caller.current = self

    def say(self, text: str = "", colour: str = "") -> None:
        """A line of the answer, for people."""
        if not self.is_json:
            show_line(text, colour, stream=sys.stdout)

    def note(self, text: str, colour: str = "") -> None:
        """A line beside the answer, for people."""
        if not self.is_json:
            show_line(text, colour)

    def notes(self, lines: Iterable[tuple[str, str]]) -> None:
        """Several such lines with their colours."""
        if not self.is_json:
            show_lines(lines)

    def warn(self, text: str) -> None:
        """Something the caller should know whatever they asked for; once."""
        if text not in self._warned:
            self._warned.add(text)
            show_line(_("Warning: {message}", message=visible(text)), "yellow")

    def command(self, verb: str, *words: str) -> str:
        """A command line the caller can paste."""
        home = ["--home", self._home_option] if self._home_option else []
        return visible(shlex.join(["detent", *home, verb, *words, *self._policy_words(verb)]))

    def _policy_words(self, verb: str) -> list[str]:
        return ["--policy", self._policy_option] if self._policy_option and verb in DRIVING else []

    @property
    def reader(self) -> "Reader":
        """Reads the runs of this home; those that a host here drives, from memory."""
        if self._reader is None:
            self._check_home()
            self._reader = open_reader(self.home)
        return self._reader

    def _check_home(self) -> None:
        """What is no folder, or closed to us, must not look like a journal without runs."""
        try:
            if not stat.S_ISDIR(self.home.stat().st_mode):
                raise Refused(f"{self.home} is not a folder, so it cannot be a home")
            if not os.access(self.home, os.R_OK | os.X_OK):
                raise Refused(f"{self.home} cannot be read: it is closed to you")
        except FileNotFoundError:
            return  # the first run makes it
        except (OSError, ValueError) as error:
            raise Refused(f"{self.home} cannot be a home: {getattr(error, 'strerror', None) or error}") from None

    def find(self, name: str) -> "Summary":
        """A run by its id, an unambiguous beginning of it, or `last`."""
        summary = self.reader.find(name)
        self._found = summary.run_id
        return summary

    def find_known(self, run_id: str) -> "Summary | None":
        """The run of that id, if there is one."""
        return self.reader.summary(run_id) if run_id and self.has_journal() else None

    def refuse_other_input(self, run_id: str, given: Mapping[str, Any]) -> None:
        """A run goes on with what it began with: whoever gives something else under its id means another run."""
        begun = next(iter(self.reader.entries(run_id, upto=1))).event
        had = begun.input if isinstance(begun, Started) else {}
        if other := [name for name, value in given.items() if name in had and had[name] != value]:
            raise Refused(f"run {run_id} began with other input ({', '.join(other)}); give this one another id")

    def has_journal(self) -> bool:
        """Whether anything was ever written here."""
        return self.reader.has_runs()

    @asynccontextmanager
    async def driving(self) -> AsyncIterator[dict[str, Any]]:
        """What a host here must be given while it lives: the effects, the policy that holds, and how to notify."""
        from detent.effects import sandbox
        from detent.kit.available_effects import effects_here
        from detent.kit.effect_source import Sources

        self._check_home()
        policy = self.policy()
        notify = os.environ.get("DETENT_NOTIFY") or "notify"
        async with effects_here(self.home, self.warn) as effects, Sources(self.home, self.warn, self.reader) as sources:
            if notify not in effects:
                raise Refused(f"DETENT_NOTIFY: there is no effect `{notify}`")
            with sandbox.pass_warnings_to(self._warn_of_open_home):
                yield {
                    "effects": effects,
                    "find_effects": sources.find,
                    "policy": policy,
                    "guarded": guarded_files(self.home, self._policy_option),
                    "notify": notify,
                    "command": self.name,
                    "people": self._people(),
                }

    def _people(self) -> PeopleFile:
        return PeopleFile(self.home, os.environ.get(TOKEN_VARIABLE, ""))

    def admit(self, verb: str, by: str = "") -> "Identity":
        """Who does something to this home as a whole, where no host can be asked; refuses who may not."""
        return admit(self._people(), verb, by)

    def _warn_of_open_home(self, problem: str) -> None:
        way_out = _("`detent doctor` says what this machine can do")
        sentence = _("programs run without a sandbox and can reach the journal: {problem}", problem=problem)
        self.warn(f"{sentence}; {way_out}")

    def policy(self) -> "Policy | None":
        """The policy that holds here, None where there is none; one that cannot be read is an error."""
        return find_policy(self.home, self._policy_option)

    def check_policy(self, host: "OpenHost") -> None:
        """A policy that was named must be the one that holds."""
        if self._policy_option and not host.is_holder:
            raise Refused("another process drives this journal, under its own policy; leave out --policy or end it")

    @asynccontextmanager
    async def host(self) -> "AsyncIterator[OpenHost]":
        """A host that drives runs, here or in the process that has the journal."""
        async with self.driving() as given, open_host(self.home, reader=self.reader, **given) as host:
            self.check_policy(host)
            for twin in find_twins(self.home):
                self.warn(_("the same journal is also in {home}; use only one of them", home=twin))
            self.interrupted, self.is_driven_elsewhere = self._found, not host.is_holder
            host.on_silence = self._warn_of_silence
            try:
                yield host
            finally:
                self.given_up = host.given_up

    def _warn_of_silence(self) -> None:
        if find_address(self.home):
            self.warn(_("the database does not answer; still waiting"))
            return
        self.warn(" ".join([*silence(*holder_of(self.home)), _("Still waiting; Ctrl-C is safe.")]))

    def close(self) -> None:
        """Let go of the journal."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def user() -> str:
    """The name of whoever is at the keyboard."""
    for name in ("USER", "LOGNAME"):
        if found := os.environ.get(name):
            return found
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
