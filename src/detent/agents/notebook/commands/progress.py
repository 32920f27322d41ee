"""What a person sees while a notebook is made: the plan as a tree, the cell at work, and for how long."""

import sys
import time
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from detent.agents.notebook.cell_text import gist, peek
from detent.agents.notebook.notebook_state import NotebookState
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller, has_colour
from detent.kit.terminal.run_driver import Tell, on_every_ring
from detent.kit.terminal.run_story import Line

if TYPE_CHECKING:
    from detent.host.port import OpenHost

STEPS_SHOWN = 12
WIDTH = 100
WIDTH_MIN = 30
WARNING_MAX = 400
COMMENTING = "builtin:analysis"  # it begins a step with a word on the one before


class Narrative:
    """A run's events as lines, and the present as a picture; a projection of the run."""

    name: ClassVar[str] = "notebook story"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.book = NotebookState(run_id)
        self.width = WIDTH
        self.doing = ""
        self.begun = self.since = time.monotonic()
        self.said = ""  # the last line a cell printed
        self._held = ""  # the heading of a step that has not yet said anything of its own
        self._told: set[str] = set()  # headings that a line of ours has said already
        self._news: list[Line] = []

    def take(self, entry: Entry) -> None:
        """What one entry is to a person."""
        self._news += self._lines(entry)

    def news(self) -> list[Line]:
        """The lines that have come since this was last asked."""
        news, self._news = self._news, []
        return news

    def _lines(self, entry: Entry) -> Iterator[Line]:
        before = self.book.location.stage_id, self.book.location.step_id
        self.book.take(entry)
        place, plan = self.book.location, self.book.plan
        if (place.stage_id, place.step_id) != before and place.step_id and plan is not None:
            stage, step = plan.stage(place.stage_id), plan.step(place.stage_id, place.step_id)
            titles = (stage.title if stage else str(place.stage_id)), (step.title if step else place.step_id)
            self._told = {*titles}
            yield from self._heading()
            self._held = self._fit(f"▸ {titles[0]} / {titles[1]}")
            if (self.book.given_input.get("planner") or {}).get("use") != COMMENTING:
                yield from self._heading()
        event = entry.event
        changes = event.result.get("changes") if type(event) is ContractMoved and isinstance(event.result, dict) else {}
        if isinstance(changes, dict):
            yield from self._narrate_changes(changes)

    def _heading(self) -> Iterator[Line]:
        if self._held:
            yield self._held, "cyan"
        self._held = ""

    def _narrate_changes(self, changes: dict[str, Any]) -> Iterator[Line]:
        ran = {one["cell_id"]: one["ran"] for one in changes.get("executed", ())}
        for cell in changes.get("cells", ()):
            if cell["id"] in ran:
                yield from self._heading()
                number, status = cell.get("execution_count") or "?", ran[cell["id"]]
                took = _("{seconds} s", seconds=f"{cell.get('duration_s', 0.0):.1f}")
                text = f"  [{number}] {peek(cell.get('content', ''))}"
                yield self._fit(text, f"  {status} {took}"), "" if status == "ok" else "red"
            elif cell.get("type", "markdown") in ("markdown", "thinking"):
                text = gist(cell.get("content", "") or " ".join(cell.get("text_array", ())))
                is_heading = text in self._told or text == self.book.title
                if cell.get("type") == "thinking" or (is_heading and text != self.book.title):
                    yield from self._heading()
                if text and not is_heading and not cell.get("metadata", {}).get("finished_thinking"):
                    yield self._fit(f"  {'… ' if cell.get('type') == 'thinking' else ''}{text}"), "dim"
        for text in changes.get("warned", ()):
            yield f"  ! {_flat(text)}", "yellow"
        for text in changes.get("effects", ()):
            if text.startswith("⚠️"):
                yield f"  {_flat(text)}", "yellow"

    def hear(self, _contract_id: str, data: Mapping[str, Any]) -> None:
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
        elif "restoring" in data:
            self._begin(_("bringing {count} variables back from a checkpoint", count=data["restoring"]))
        elif "code" in data:
            self._begin(peek(str(data["code"])))
        elif isinstance(data.get("output"), dict):
            text = str(data["output"].get("text") or data["output"].get("data", {}).get("text/plain") or "")
            self.said = text.rstrip().rpartition("\n")[2] or self.said

    def _begin(self, text: str) -> None:
        self.doing, self.said, self.since = text, "", time.monotonic()

    def picture(self, height: int = 0) -> str:
        """The plan as a tree with marks, and what is under way; at most so many lines, the present last."""
        book, rows = self.book, []
        place = book.location
        done = {*place.list_done("stages")}
        for stage in book.plan.stages if book.plan else ():
            mark = "✓" if stage.id in done else "▸" if stage.id == place.stage_id else "·"
            rows.append(self._fit(f"{mark} {stage.title}"))
            if stage.id == place.stage_id:
                finished = {*place.list_done("steps")}
                for step in stage.steps[:STEPS_SHOWN]:
                    sign = "✓" if step.step_id in finished else "▸" if step.step_id == place.step_id else "·"
                    rows.append(self._fit(f"    {sign} {step.title}"))
        now = time.monotonic()
        took = _("{seconds} s in all", seconds=int(now - self.begun))
        if book.queue and book.position < len(book.queue):
            count = _("  action {number} of {count}", number=book.position + 1, count=len(book.queue))
            rows.append(self._fit(count, f"  ({took})"))
        if self.doing:
            rows.append(self._fit(f"  {self.doing}", "  " + _("{seconds} s", seconds=int(now - self.since))))
        if self.said:
            rows.append(self._fit(f"    {self.said}"))
        return "\n".join(rows[-height:] if height else rows)

    def _fit(self, text: str, tail: str = "") -> str:
        """A text in one line of the terminal; what is cut off is its end, never the tail."""
        return fit_width(visible(_flat(text, self.width * 2)), self.width - wide(tail)) + tail


def wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def fit_width(text: str, width: int) -> str:
    """A text cut to so many columns."""
    if wide(text) <= width:
        return text
    taken, end = 1, 0
    while end < len(text) and taken + wide(text[end]) <= width:
        taken += wide(text[end])
        end += 1
    return text[:end] + "…"


def _flat(text: str, most: int = WARNING_MAX) -> str:
    line = next((line.rstrip() for line in text.replace("\ufe0f", "").splitlines() if line.strip()), "")
    return line if len(line) <= most else line[: most - 1] + "…"


def telling(host: "OpenHost") -> Tell:
    """Tell how a notebook comes along while a block is at work."""

    @asynccontextmanager
    async def tell(caller: Caller, run_id: str, after: int) -> AsyncIterator[None]:
        if caller.is_json:
            yield
            return
        narrative = Narrative(run_id)
        stop = host.overhear(run_id, narrative.hear)
        with host.reader.following(run_id) as place, _Screen(narrative) as screen:

            def news() -> None:
                while entries := place.more():
                    for entry in entries:
                        narrative.take(entry)
                        for line, colour in narrative.news():
                            if entry.seq > after:
                                screen.line(caller, line, colour)

            try:
                async with on_every_ring(news, place.wait):
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

            console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
            self._live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._draw)
            self._narrative.width = _width(console.width)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> Any:
        from rich.text import Text

        size = self._live.console.size if self._live is not None else None
        if size is not None:
            self._narrative.width = _width(size.width)
        return Text(self._narrative.picture(size.height - 1 if size is not None else 0), no_wrap=True)

    def line(self, caller: Caller, text: str, colour: str) -> None:
        """A line above the picture."""
        if self._live is None:
            caller.note(text, colour)
        else:
            self._live.console.print(visible(text), style=colour or None)


def _width(columns: int) -> int:
    return max(WIDTH_MIN, min(WIDTH, columns - 1))
