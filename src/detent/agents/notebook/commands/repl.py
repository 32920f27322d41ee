"""`detent notebook repl`: a notebook by hand, one command per line.

Before `start` one collects what the run shall know (`var`, `todo`); afterwards every word is a verb on the journalled
run. `exec` tries code in the run's kernel without making it part of the notebook.
"""

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.commands.export_file import notebooks, read_book, write
from detent.agents.notebook.commands.notebook import DRIVEN_BY, _planner, dumps
from detent.agents.notebook.commands.progress import telling
from detent.agents.notebook.kernel_session import outputs_of
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.observation import observe
from detent.agents.notebook.service import Notebooks
from detent.errors import DetentError, Refused
from detent.kit.agent import of_agent
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, user
from detent.kit.terminal.keyboard import is_terminal, line
from detent.kit.terminal.option import verb
from detent.kit.terminal.run_driver import drive
from detent.kit.terminal.run_view import RunReport

if TYPE_CHECKING:
    from detent.host.port import OpenHost

PROMPT = "notebook> "


@verb("repl", _("Work on a notebook by hand, one command per line."))
@click.argument("run", metavar="[RUN]", default="")
@click.option(
    "--planner", default="", metavar="NAME", help=_("The planner: builtin:analysis, builtin:script, http or llm.")
)
@click.option("--script", default="", metavar="FILE", help=_("The script file for builtin:script."))
@click.option("--url", default="", metavar="URL", help=_("The URL of an http planner."))
async def repl(caller: Caller, run: str, planner: str, script: str, url: str) -> int:
    """Read commands until there are no more."""
    settings = _planner(planner, Path(script) if script else None, url, {})
    run_id = caller.find(run).run_id if run else ""
    async with caller.host() as host, Notebooks(caller.home, reader=caller.reader) as scratch:
        loop = Repl(caller, host, scratch, settings, run_id)
        while True:
            typed = await line(PROMPT if is_terminal() else "", is_kept=True)
            if typed is None or not await loop.obey(typed):
                return 0


class Repl:
    """One conversation; `run_id` is empty until something was started."""

    def __init__(
        self, caller: Caller, host: "OpenHost", scratch: Notebooks, planner: dict[str, Any], run_id: str
    ) -> None:
        self.caller, self.host, self.scratch, self.planner, self.run_id = caller, host, scratch, planner, run_id
        self.variables: dict[str, Any] = {}
        self.todo: list[Any] = []

    async def obey(self, line: str) -> bool:
        """Do what one line says; False when it says goodbye."""
        if not line.strip():
            return True
        try:
            word, *words = shlex.split(line) if not line.startswith("exec ") else ("exec", line[5:])
        except ValueError as error:
            self.caller.say(str(error), "red")
            return True
        if word in ("quit", "exit"):
            return False
        command = COMMANDS_OF.get(word)
        if command is None:
            self.caller.say(_("there is no command {name}; `help` lists them", name=visible(word)), "yellow")
            return True
        try:
            await command(self, words)
        except IndexError:
            self.caller.say(_("usage: {usage}", usage=(command.__doc__ or word).strip()), "yellow")
        except (DetentError, ValueError, OSError) as error:
            self.caller.say(visible(str(error)), "red")
        return True

    def _require_run(self) -> str:
        if not self.run_id:
            raise Refused("nothing was started yet; `start` does it")
        return self.run_id

    async def start(self, words: list[str]) -> None:
        """start [GOAL]: begin a run with what was collected."""
        goal = " ".join(words)
        variables = {**self.variables, **({"problem_description": goal} if goal else {})}
        kernel = KernelBrief(cwd=str(Path.cwd()))
        brief = Brief(goal=goal, variables=variables, todo=self.todo, planner=self.planner, kernel=kernel)
        begun = await self.host.start(NOTEBOOK, brief.input(), by=user(), source=of_agent("notebook"))
        self.run_id = begun.id
        await self.host.signal(begun.id, "START_WORKFLOW", by=user())
        await self._drive()

    async def _drive(self) -> None:
        seq = RunReport(self.caller, self._require_run()).run.seq
        await drive(self.caller, self.host, self.run_id, seq, telling(self.host))
        RunReport(self.caller, self.run_id).tell()

    async def status(self, _words: list[str]) -> None:
        """status: where the run stands."""
        place = observe(read_book(self.caller, self._require_run()))["location"]["current"]
        self.caller.say(dumps(place))
        RunReport(self.caller, self.run_id).tell()

    async def transition(self, words: list[str]) -> None:
        """transition EVENT: move the run with an event of the protocol."""
        await self.host.signal(self._require_run(), words[0].upper(), by=user())
        await self._drive()

    async def reset(self, _words: list[str]) -> None:
        """reset: back to idle."""
        run = await self.host.signal(self._require_run(), DRIVEN_BY["reset"], by=user())
        self.caller.say(run.state)

    async def var(self, words: list[str]) -> None:
        """var list | var get NAME | var set NAME VALUE: what the planner is told."""
        known = observe(read_book(self.caller, self.run_id))["context"]["variables"] if self.run_id else self.variables
        match words:
            case ["set", name, value]:
                if self.run_id:
                    raise Refused("a run's variables are its kernel's; `var set` collects for the next `start`")
                try:
                    self.variables[name] = msgspec.json.decode(value)
                except msgspec.DecodeError:
                    self.variables[name] = value
            case ["get", name]:
                self.caller.say(visible(dumps(known.get(name)), keep="\n"))
            case _:
                self.caller.say(visible(dumps(known), keep="\n"))

    async def to_do(self, words: list[str]) -> None:
        """todo list | todo add TEXT | todo clear: the list the planner is shown."""
        if words[:1] == ["add"]:
            self.todo.append(" ".join(words[1:]))
        elif words[:1] == ["clear"]:
            self.todo.clear()
        shown = observe(read_book(self.caller, self.run_id))["context"]["toDoList"] if self.run_id else self.todo
        self.caller.say(visible(dumps(shown), keep="\n"))

    async def effect(self, _words: list[str]) -> None:
        """effect: what cells have put out."""
        self.caller.say(
            visible(dumps(observe(read_book(self.caller, self._require_run()))["context"]["effects"]), keep="\n")
        )

    async def execute(self, words: list[str]) -> None:
        """exec CODE: try code in a copy of the run's kernel; it does not become part of the notebook."""
        kernel, _told = await self.scratch.bench.ready(self.scratch.book(self._require_run()), lambda _: None)
        done = await kernel.execute("\n".join(words).replace("\\n", "\n"))
        for output in outputs_of(done.outputs, None):
            self.caller.say(visible(output.content.rstrip(), keep="\n"))

    async def cells(self, _words: list[str]) -> None:
        """cells: every cell in one line."""
        for cell in read_book(self.caller, self._require_run()).cells:
            self.caller.say(f"{cell.id}  {cell.type}  {cell.ran}  {visible(cell.content.partition(chr(10))[0])[:80]}")

    async def show(self, _words: list[str]) -> None:
        """show: the notebook as text."""
        for cell in read_book(self.caller, self._require_run()).cells:
            self.caller.say(visible(cell.content, keep="\n"), "cyan" if cell.type == "code" else "")
            for output in cell.outputs:
                self.caller.say(visible(output.content.rstrip(), keep="\n"), "dim")

    async def runs(self, _words: list[str]) -> None:
        """list: the notebooks of this home."""
        for row in notebooks(self.caller):
            self.caller.say(f"{row.run_id}  {row.state}  {row.status.value}")

    async def save(self, words: list[str]) -> None:
        """save FILE, export FILE: write the notebook; the ending says the form."""
        write(self.caller, self._require_run(), Path(words[0]))

    async def clear(self, _words: list[str]) -> None:
        """clear: forget what was collected, and the run; its journal stays."""
        self.run_id, self.variables, self.todo = "", {}, []

    async def help(self, _words: list[str]) -> None:
        """help: this list."""
        for name, command in COMMANDS_OF.items():
            self.caller.say(f"{name:<11} {(command.__doc__ or '').strip()}")


Command = Callable[[Repl, list[str]], Awaitable[None]]
COMMANDS_OF: dict[str, Command] = {
    "status": Repl.status,
    "start": Repl.start,
    "show": Repl.show,
    "list": Repl.runs,
    "export": Repl.save,
    "transition": Repl.transition,
    "reset": Repl.reset,
    "var": Repl.var,
    "todo": Repl.to_do,
    "effect": Repl.effect,
    "exec": Repl.execute,
    "namespace": Repl.var,
    "save": Repl.save,
    "cells": Repl.cells,
    "clear": Repl.clear,
    "help": Repl.help,
}
COMMANDS = {"repl": repl}
