"""What a person sees while a notebook is made: the plan as a tree, the cell at work, and for how long."""

import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from detent.agents.notebook.book import Book
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.host.embedded.reader import Follower
from detent.surfaces.cli.caller import Caller, has_colour
from detent.surfaces.cli.driver import Tell, again_and_again
from detent.surfaces.cli.text import visible
from detent.surfaces.language import _

if TYPE_CHECKING:
    from detent.host.embedded.shared import SharedHost

PAUSE_S = 0.1
STEPS_SHOWN = 12
WIDTH = 100


class Narrative:
    """A run's events as lines, and the present as a picture."""

    def __init__(self) -> None:
        self.book = Book()
        self.doing = ""
        self.since = time.monotonic()
        self.said = ""  # the last line a cell printed

    def lines(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """What one event is to a person."""
        before = self.book.location.stage_id, self.book.location.step_id
        self.book.take(entry)
        place, plan = self.book.location, self.book.plan
        if (place.stage_id, place.step_id) != before and place.step_id and plan is not None:
            stage, step = plan.stage(place.stage_id), plan.step(place.stage_id, place.step_id)
            yield f"▸ {stage.title if stage else place.stage_id} / {step.title if step else place.step_id}", "cyan"
        event = entry.event
        changes = event.result.get("changes") if type(event) is ContractMoved and isinstance(event.result, dict) else {}
        if isinstance(changes, dict):
            yield from _changed(changes)
        error = entry.run.error
        if error is not None and entry.run.ended is not None:
            yield _("  failed: {message}", message=f"{error.type}: {error.message}"), "red"

    def heard(self, _contract_id: str, data: Mapping[str, Any]) -> None:
        """Something an effect says while it is at work."""
        if "asking" in data:
            self._begin(_("asking the planner"))
        elif "generated" in data:
            self.said = str(data.get("action", ""))
            self.doing = _("generating actions: {count}", count=data["generated"])
        elif "replaying" in data:
            self._begin(
                _("bringing the kernel back: cell {number} of {count}", number=data["replaying"], count=data["of"])
            )
        elif "code" in data:
            self._begin(_first(str(data["code"])))
        elif isinstance(data.get("output"), dict):
            text = str(data["output"].get("text") or data["output"].get("data", {}).get("text/plain") or "")
            self.said = _first(text.rstrip().rpartition("\n")[2]) or self.said

    def _begin(self, text: str) -> None:
        self.doing, self.said, self.since = text, "", time.monotonic()

    def picture(self) -> str:
        """The plan as a tree with marks, and what is under way."""
        book, rows = self.book, []
        place = book.location
        done = {*place.done("stages")}
        for stage in book.plan.stages if book.plan else ():
            mark = "✓" if stage.id in done else "▸" if stage.id == place.stage_id else "·"
            rows.append(f"{mark} {stage.title}")
            if stage.id == place.stage_id:
                finished = {*place.done("steps")}
                for step in stage.steps[:STEPS_SHOWN]:
                    sign = "✓" if step.step_id in finished else "▸" if step.step_id == place.step_id else "·"
                    rows.append(f"    {sign} {step.title}")
        if book.queue and book.position < len(book.queue):
            rows.append(_("  action {number} of {count}", number=book.position + 1, count=len(book.queue)))
        if self.doing:
            rows.append(f"  {self.doing}  {int(time.monotonic() - self.since)} s")
        if self.said:
            rows.append(f"    {self.said}")
        return "\n".join(visible(row)[:WIDTH] for row in rows)


def _changed(changes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    ran = {one["cell_id"]: one["ran"] for one in changes.get("executed", ())}
    for cell in changes.get("cells", ()):
        if cell["id"] in ran:
            number, status = cell.get("execution_count") or "?", ran[cell["id"]]
            took = _("{seconds} s", seconds=cell.get("duration_s", 0.0))
            yield f"  [{number}] {_first(cell.get('content', ''))}  {status} {took}", "" if status == "ok" else "red"
        elif cell.get("metadata", {}).get("is_chapter") or cell.get("metadata", {}).get("is_section"):
            yield f"  {_first(cell.get('content', ''))}", "dim"
    for text in changes.get("warned", ()):
        yield f"  ! {_first(text)}", "yellow"
    for text in changes.get("effects", ()):
        if text.startswith("⚠️"):
            yield f"  {_first(text)}", "yellow"


def _first(text: str) -> str:
    line = next((line for line in text.replace("\ufe0f", "").splitlines() if line.strip()), "")
    return line if len(line) <= WIDTH - 20 else line[: WIDTH - 21] + "…"


def telling(host: "SharedHost") -> Tell:
    """Tell how a notebook comes along while a block is at work."""

    @asynccontextmanager
    async def tell(caller: Caller, run_id: str, after: int) -> AsyncIterator[None]:
        if caller.is_json:
            yield
            return
        narrative, follower = Narrative(), Follower(caller.journal, run_id)
        stop = host.overhear(run_id, narrative.heard)
        with _Screen(narrative) as screen:

            def news() -> None:
                for entry in follower.more():
                    for line, colour in narrative.lines(entry):
                        if entry.seq > after:
                            screen.line(caller, line, colour)

            try:
                async with again_and_again(news, PAUSE_S):
                    yield
            finally:
                stop()

    return tell


class _Screen:
    """On a terminal, a picture below the lines; else only the lines."""

    def __init__(self, narrative: Narrative) -> None:
        self._narrative = narrative
        self._live: Any = None

    def __enter__(self) -> "_Screen":
        if has_colour(sys.stderr):
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
            self._live = Live(
                console=console,
                transient=True,
                refresh_per_second=8,
                get_renderable=lambda: Text(self._narrative.picture()),
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self, caller: Caller, text: str, colour: str) -> None:
        """A line above the picture."""
        if self._live is None:
            caller.note(text, colour)
        else:
            self._live.console.print(visible(text), style=colour or None)
