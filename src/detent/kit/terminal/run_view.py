"""Views of a run: the envelope for machines, and the same for people."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from detent.core.contract import Failure
from detent.core.retry import is_vain, obstacle
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError
from detent.host.concurrency_group import find_place
from detent.host.reading import Note, OpenQuestion
from detent.host.standing import Standing
from detent.kit.agent import agent_of, owner
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.safe_text import brief, clock, status_word, visible, when
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.question import render_question
from detent.kit.terminal.run_wording import USUAL, Manner

HOST = "host"  # who holds a run that nobody drives: its process went away before the run was done
CODES = {
    Status.COMPLETED: 0,
    Status.FAILED: 1,
    Status.WAITING: 3,
    Status.RUNNING: 3,
    Status.PENDING: 3,
    Status.REJECTED: 4,
    Status.CANCELLED: 4,
}
COLOURS = {Status.COMPLETED: "green", Status.FAILED: "red", Status.REJECTED: "red", Status.WAITING: "yellow"}


class RunReport:
    """Where a run stands, as people and machines are told: the run, its machine's name, and what it waits for."""

    def __init__(self, caller: Caller, run_id: str) -> None:
        standing = caller.reader.standing(run_id)
        self.caller = caller
        self.run: Run = standing.run
        self.machine = standing.machine
        self.checkpoint = standing.checkpoint
        self.accepts = standing.accepts
        self.tolerated = standing.tolerated
        self.questions = questions(caller, standing)
        self.notes = caller.reader.notes(run_id)
        self.unserved = caller.reader.list_unserved(run_id) if standing.run.status is Status.RUNNING else ()
        self._agent = agent_of(self.run.source, self.run.parent)
        self._manner = self._find_manner()

    @property
    def code(self) -> int:
        """The exit code this status means."""
        return CODES[self.run.status]

    def _find_manner(self) -> Manner:
        try:
            found: Manner | None = self._agent.load("manner") if self._agent is not None else None
        except DetentError as error:  # a run can be seen whatever its agent is like
            self.caller.warn(str(error))
            return USUAL
        return found or USUAL

    def envelope(self, ok: bool) -> dict[str, Any]:
        """The run for machines."""
        run = self.run
        unserved = [{"contract_id": one.contract_id, "problem": one.problem} for one in self.unserved]
        files = self._manner.files(run) if run.ended is not None else ()
        return {
            "ok": ok,
            "run_id": run.id,
            "machine": self.machine.name,
            "state": run.state,
            "status": run.status.value,
            "alarms": list(run.alarms),
            "waiting": self.questions,
            "output": run.output,
            "error": None if run.error is None or run.ended is Status.COMPLETED else msgspec.to_builtins(run.error),
            "checkpoint": self.checkpoint,
            "cost": None if run.usage.get("unpriced_calls") else run.usage.get("cost_usd", 0.0),
            "accepts": list(self.accepts),
            "paused": run.is_held and run.held_by != HOST,
            "wake_at": run.wake_at or None,
            "outbox": [note._asdict() for note in self.notes],
            **({"failed": self._failed} if self._failed else {}),
            **({"unserved": unserved} if unserved else {}),
            **({"files": [*files]} if files else {}),
        }

    @property
    def _failed(self) -> int:
        """How many items, branches or calls the run went on without."""
        return sum(one.failed for one in self.tolerated)

    def give(self, code: int | None = None) -> int:
        """Show the run in the way the caller wants it; returns the exit code."""
        code = self.code if code is None else code
        if self.caller.is_json:
            emit(self.envelope(ok=code in (0, 3)))
        else:
            self.tell()
        self.caller.answered = code
        return code

    def tell(self) -> None:
        """The run for people."""
        for line, colour in self.lines():
            self.caller.say(line, colour)

    def lines(self) -> Iterator[tuple[str, str]]:
        """The run for people, as lines with their colours."""
        run, command = self.run, self.caller.command
        word = status_word(run.status, self._failed)
        if run.is_held and not run.group and run.status is Status.WAITING:
            word = _("not driven") if run.held_by == HOST else _("paused")
        head = f"{run.id}  {visible(self.machine.name)}  {run.state}  {word}  ({when(run.at)})"
        yield head, "yellow" if self._failed else COLOURS.get(run.status, "")
        yield from render_alarms(self.caller, run.id, run.alarms)
        yield from self._absence()
        if run.error is not None and run.ended is not Status.COMPLETED:
            problem = f"{visible(run.error.type)}: {visible(translate_error(run.error.message))}"
            is_over = run.ended is None
            yield (_("  before that: {problem}", problem=problem), "dim") if is_over else (f"  {problem}", "red")
            yield from _holder(self.caller, run.error)
            for row in run.error.data.get("passed_over", ()):
                yield _("  not taken: `{row}`, which has no condition and so is for success", row=visible(str(row))), ""
            if is_vain(run):
                yield _("  a retry would make the same call: give it another key, or the arguments of that one"), ""
            elif not (run.parent or self._manner.has_own_retry or obstacle(run)):
                yield _("  try it again: {command}", command=command("retry", run.id)), ""
        yield from self._tell_taken_back()
        yield from self._tell_tolerated()
        if run.ended is Status.COMPLETED and run.output not in (None, {}):
            yield from _output(self._manner.response(run.output), run.output)
        if files := self._manner.files(run) if run.ended is not None else ():
            yield _("  written: {paths}", paths=visible(", ".join(files))), "dim"
        for note in self.notes:
            yield f"  {_render_note(note)}", "" if note.delivered_at else "yellow"
        for question in self.questions:
            yield from render_question(self.caller, question)
        for one in self.unserved:
            yield f"  {visible(one.contract_id)}: {visible(translate_error(one.problem))}", "yellow"
        yield from self._say_what_next()

    def _tell_taken_back(self) -> Iterator[tuple[str, str]]:
        """Which calls that take something back were made, and which of them failed."""
        undos = [one.id for one in self.machine.work.get(self.machine.on_failure, ())] if self.run.ended else []
        made = {id: said.get("success") for id in undos if isinstance(said := self.run.results.get(id), dict)}
        for is_done, text in ((True, _("  taken back by: {names}")), (False, _("  not taken back by: {names}"))):
            names = ", ".join(visible(id) for id, success in made.items() if success is is_done)
            if names:
                yield text.format(names=names), "" if is_done else "red"

    def _tell_tolerated(self) -> Iterator[tuple[str, str]]:
        """What failed in a run that has completed, and how it is done again."""
        loops = [one.action for one in self.tolerated if one.is_loop]
        if self.tolerated:
            names = ", ".join(f"{visible(one.action)} ({one.failed})" for one in self.tolerated)
            yield _("  failed, and the run went on without it: {names}", names=names), "yellow"
        if loops and self.run.rules >= 2 and not self.run.parent:
            which = ("--loop", loops[-1]) if len(loops) > 1 else ()
            again = self.caller.command("fork", self.run.id, "--failed", *which)
            yield _("  do what failed again, in a new run: {command}", command=again), ""

    def _say_what_next(self) -> Iterator[tuple[str, str]]:
        """What the run waits for, and who can let it go on."""
        run, command = self.run, self.caller.command
        place = find_place(self.caller.reader, run)
        if place is not None:
            about = {"key": visible(place.key), "number": place.number, "run_id": place.behind}
            if place.behind:
                yield _("  waiting for a place in `{key}`: number {number}, behind run {run_id}", **about), ""
            else:
                yield _("  waiting for its time in `{key}`: number {number}", **about), ""
        elif run.is_held and run.ended is None and run.held_by == HOST:
            yield _("  nobody drives it; `detent serve` does, or {command}", command=command("resume", run.id)), ""
        elif run.is_held and run.ended is None:
            again = self._manner.resume or ("resume", run.id)
            yield _("  go on: {command}", command=command(*again)), ""
        elif run.status is Status.WAITING and not self.questions:
            yield from self._wait()
        elif run.status is Status.RUNNING:
            yield _("  at work; if nobody drives it: {command}", command=command("resume", run.id)), ""

    def _absence(self) -> Iterator[tuple[str, str]]:
        """Why a run does not go on whose agent is not installed, or broken."""
        name = owner(self.run.source, self.run.parent)
        if name and self._agent is None and self.run.ended is None:
            text = _("  its agent `{name}` is not here; the run is kept as it is until it is", name=visible(name))
            yield text, "yellow"

    def _wait(self) -> Iterator[tuple[str, str]]:
        run = self.run
        ways = self._manner.ways.get(run.state, ())
        for way in ways:
            yield _("  tell it: {command}", command=self.caller.command(*way)), ""
        if self.accepts and not ways:
            yield _("  waits for a signal: {events}", events=", ".join(self.accepts)), ""
            yield _("  tell it: {command}", command=self.caller.command("signal", run.id, self.accepts[0])), ""
        if run.wake_at:
            yield _("  wakes at {clock} ({when})", clock=clock(run.wake_at), when=when(run.wake_at)), ""


def render_alarms(caller: Caller, run_id: str, alarms: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What somebody must look into at once, whatever else there is to say of the run."""
    found = list(alarms)
    for text in found:
        yield _("  ALARM: {problem}", problem=visible(translate_error(text))), "red"
    if found:
        yield _("  look into it: {command}", command=caller.command("log", run_id)), "red"


def _holder(caller: Caller, error: Failure) -> Iterator[tuple[str, str]]:
    """Where the deed is that keeps this one from being done."""
    held = error.data.get("holder")
    if isinstance(held, dict) and held.get("run_id"):
        command = caller.command("show", str(held["run_id"]))
        if error.type == "key_held":
            yield _("  settle it there: {command}", command=command), ""
        else:
            yield _("  see it there: {command}", command=command), ""


def _output(said: str, output: Any) -> Iterator[tuple[str, str]]:
    """What a run gave; where its agent has text for people, that."""
    if said.strip():
        yield "", ""
        for line in said.strip().split("\n"):
            yield visible(line, keep="\t"), ""
    else:
        yield _("  output: {value}", value=brief(output, 2000)), ""


def _render_note(note: Note) -> str:
    to, message = visible(str(note.message.get("to") or "?")), brief(note.message.get("message"), 500)
    if note.delivered_at:
        return _("told {to}: {message}", to=to, message=message)
    why = brief(note.problem, 200) if note.problem else _("not yet delivered")
    return _("to be told to {to}: {message} ({why})", to=to, message=message, why=why)


def questions(caller: Caller, standing: Standing) -> list[dict[str, Any]]:
    """Every open question of a run and of the child runs it waits for, each with the run it belongs to."""
    found = [(standing.run.id, question) for question in standing.questions]
    for child in standing.children:
        found += _questions_of(caller, child)
    return [{"run_id": run_id, **msgspec.to_builtins(question)} for run_id, question in found]


def _questions_of(caller: Caller, run_id: str) -> list[tuple[str, OpenQuestion]]:
    try:
        return [*caller.reader.questions(run_id)]
    except DetentError:
        return []  # the child is not there yet


def is_for_people(run: Run) -> bool:
    """Whether only a person or a signal can move the run."""
    if run.is_held or run.waiting or not run.contracts:
        return True
    return any(c.status is Status.WAITING and c.question and c.question.reason == "event" for c in run.contracts)
