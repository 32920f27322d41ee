"""A coding job while it is at work, in its own words: tasks, attempts and checks instead of contracts."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from detent.core.history import Consequence, Entry
from detent.core.status import Status
from detent.kit.language import _
from detent.kit.safe_text import duration, visible
from detent.kit.terminal.run_story import Line, Narrator

LOUD = ("code.baseline", "code.work", "code.verify", "code.rollback", "code.undo", "llm")
SAID_ANYWAY = "blocked: "  # the end of the story, which is told with the ways on
LAG_S = 0.5


class CodeNarrator(Narrator):
    """What a person wants to follow of a job, and what its history says meanwhile."""

    name: ClassVar[str] = "job story"

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self._told: set[tuple[float, str]] = set()
        self._begun = time.time() - LAG_S

    @property
    def at_work(self) -> list[tuple[str, str, float]]:
        """What is under way, in words."""
        return [(words, "", at) for at, words in list(self._since.values())]

    def _lines(self, entry: Entry) -> Iterator[Line]:
        yield from self._notes(entry.run.context)  # before where they lead
        yield from super()._lines(entry)

    def _notes(self, context: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for note in context.get("log") or ():
            at, text = float(note.get("at") or 0), str(note.get("text") or "")
            if at >= self._begun and (at, text) not in self._told and not text.startswith(SAID_ANYWAY):
                self._told.add((at, text))
                yield f"  {visible(text)}", "yellow" if " failed" in text else ""

    def _narrate_move(self, entry: Entry, taken: Consequence) -> tuple[str, str] | None:
        contract = entry.run.contract(taken.subject)
        effect = contract.effect if contract else ""
        if taken.target == Status.RUNNING:
            words = _words(effect, entry.run.context) or visible(taken.subject)
            self._since[taken.subject] = entry.event.at, words
            return (f"  {words}", "dim") if effect in LOUD else None
        if taken.target == Status.COMPLETED:
            begun = self._since.pop(taken.subject, None)
            if begun and effect == "code.work":
                return _("  the worker ended after {time}", time=duration(max(0.0, entry.event.at - begun[0]))), "dim"
            return None
        return super()._narrate_move(entry, taken)


def _words(effect: str, context: Mapping[str, Any]) -> str:
    """What an effect of the lifecycle does, for people."""
    step = context.get("step") or {}
    task = visible(str(step.get("task") or ""))
    worker = ((context.get("settings") or {}).get("worker") or {}).get("use") or "shell"
    what = {"task": task, "attempt": step.get("attempt") or 1, "worker": visible(str(worker))}
    return {
        "code.brief": _("planning"),
        "code.plan": _("planning"),
        "llm": _("the model plans"),
        "code.baseline": _("running the checks as things are before the job"),
        "code.checkpoint": _("keeping the files as they are"),
        "code.work": _("{task}, attempt {attempt}: `{worker}` is at work", **what),
        "code.verify": _("{task}: running the checks", task=task),
        "code.rollback": _("putting files back"),
        "code.undo": _("putting files back"),
        "code.archive": _("archiving"),
        "code.next": _("choosing what is next"),
        "code.repair": _("choosing what is next"),
        "code.report": _("writing down what is wrong"),
        "code.present": _("planning"),
    }.get(effect, "")
