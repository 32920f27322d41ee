"""Live views: a few lines at the bottom of a terminal that are drawn anew as things change.

Without a terminal nothing is drawn over: what is new is written once, so that a pipe can read it.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import msgspec

from detent.core.history import Entry
from detent.core.status import Status
from detent.host.reading import Query, Summary
from detent.kit.error_translation import translate_error
from detent.kit.event_record import record_of
from detent.kit.language import _
from detent.kit.run_index import FoundRun
from detent.kit.safe_text import brief, clock, columns, duration, status_word, visible, when, wide
from detent.kit.terminal.caller import Caller, emit, has_colour
from detent.kit.terminal.run_story import Narrator
from detent.kit.terminal.run_view import CODES, HOST, RunReport

COLUMNS_MAX = 6  # attributes that are shown beside each other
NAME_MIN = 8  # letters of a name that are always shown
CLOCK_S = 0.1  # how often the times that a terminal shows are drawn anew
Lines = Iterable[tuple[str, str]]  # a line and its colour


class Board:
    """The place of the lines that are drawn anew; with a terminal or without."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
        self._live: Any = None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal, as it is now."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def __enter__(self) -> "Board":
        if self.is_live:
            from rich.console import Console
            from rich.live import Live

            console = Console(highlight=False, markup=False)
            self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="ellipsis")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self, lines: Lines, *, is_cut: bool = False) -> None:
        """Draw these instead of the last ones; a line that is too long goes on in the next, or is cut."""
        if self._live is not None:
            from rich.text import Text

            text = Text(no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
            for number, (line, colour) in enumerate(lines):
                text.append(("\n" if number else "") + visible(line), style=self._style(colour))
            self._live.update(text, refresh=True)

    def line(self, caller: Caller, text: str, colour: str) -> None:
        """One line that stays, above those that are drawn anew."""
        if self._live is None:
            caller.say(text, colour)
        else:
            self._live.console.print(visible(text), style=self._style(colour), soft_wrap=True)

    @staticmethod
    def _style(colour: str) -> str | None:
        return colour if colour and has_colour(sys.stdout) else None


async def watch_run(caller: Caller, run_id: str, after: int) -> int:
    """Follow one run: its story as it comes, and below it where it stands now."""
    narrator = Narrator(run_id)
    standing: RunReport | None = None
    with caller.reader.following(run_id, after) as place, Board() as board:
        while True:
            while entries := place.more():
                standing = None
                for entry in entries:
                    _tell_entry(caller, board, narrator, entry)
            if place.run.ended is not None:
                break
            if board.is_live and not caller.is_json:
                standing = standing or RunReport(caller, run_id)
                board.draw([("", ""), *standing.lines(), *_at_work(narrator)])
            await _wait_for_news(place.wait, board)
    if board.is_live and not caller.is_json:
        RunReport(caller, run_id).tell()
    return CODES[place.run.ended]


def _tell_entry(caller: Caller, board: Board, narrator: Narrator, entry: Entry) -> None:
    if caller.is_json:
        emit(record_of(entry))
        return
    narrator.take(entry)
    for line, colour in narrator.news():
        board.line(caller, f"{clock(entry.event.at)}  {line}", colour)


async def _wait_for_news(wait: Callable[[], Awaitable[None]], board: Board) -> None:
    """Wait for news; on a terminal not for long, for the times that are shown go on."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOCK_S if board.is_live else None):
            await wait()


def _at_work(narrator: Narrator) -> Lines:
    for name, effect, at in narrator.at_work:
        yield f"  {visible(name)}: {visible(effect)} {duration(max(0.0, time.time() - at))}", "dim"


async def watch_list(caller: Caller, query: Query) -> int:
    """Keep the list of runs in view until somebody has seen enough."""
    seen: dict[str, Summary] | None = None
    with caller.reader.watching() as news, Board() as board:
        while True:
            runs = find_runs(caller, query)
            now = {summary.run_id: summary for summary in runs}
            if caller.is_json:
                if now != seen:
                    emit({"ok": True, "runs": msgspec.to_builtins(runs), "error": None})
            elif board.is_live:
                about = _("{count} runs, {clock}; Ctrl-C ends this", count=len(runs), clock=clock(time.time()))
                width, height = board.size
                board.draw([*fit_list(runs, width, height - 3), ("", ""), (about, "dim")], is_cut=True)
            else:
                _tell_changes(caller, seen or {}, now)
            seen = now
            await _wait_for_news(news.wait, board)


def _tell_changes(caller: Caller, seen: dict[str, Summary], now: dict[str, Summary]) -> None:
    for run_id, summary in reversed(now.items()):
        if seen.get(run_id) != summary:
            row = "  ".join(part for part in _row(summary) if part)
            caller.say(f"{clock(summary.updated_at)}  {row}", _colour(summary))
    for run_id in seen.keys() - now.keys():
        caller.say(_("{clock}  {run_id} is no longer in this list", clock=clock(time.time()), run_id=run_id))


def find_runs(caller: Caller, query: Query) -> list[Summary]:
    """The runs to show, newest first."""
    return caller.reader.list(query).runs if caller.has_journal() else []


def table(runs: Sequence[Summary]) -> list[tuple[str, str]]:
    """The list of runs as aligned lines with their colours."""
    if not runs:
        return [(_("no runs"), "")]
    ordered = order_families(runs)
    lines = columns([_head(), *(_row(summary, depth) for summary, depth in ordered)])
    return [(lines[0], ""), *zip(lines[1:], (_colour(summary) for summary, _depth in ordered), strict=True)]


def order_families(runs: Sequence[Summary]) -> list[tuple[Summary, int]]:
    """The runs with how deep they stand: children beneath their parents, where the newest of the family would be."""
    known = {summary.run_id: summary for summary in runs}
    children: dict[str, list[Summary]] = {}
    for summary in reversed(runs):
        children.setdefault(summary.parent.partition(" ")[0], []).append(summary)
    ordered: dict[str, tuple[Summary, int]] = {}

    def place(summary: Summary, depth: int) -> None:
        ordered[summary.run_id] = summary, depth
        for child in children.get(summary.run_id, ()):
            place(child, depth + 1)

    for summary in runs:
        top = summary
        while (above := known.get(top.parent.partition(" ")[0])) is not None:
            top = above
        if top.run_id not in ordered:
            place(top, 0)
    return list(ordered.values())


def _head() -> list[str]:
    return [_("run"), _("machine"), _("state"), _("status"), _("changed"), _("question or error")]


def fit_list(runs: Sequence[Summary], width: int, height: int = 0) -> Lines:
    """The list for a terminal of this size: what is asked goes beneath its run when there is no room beside it.

    Where even that is too wide, names are cut, and then each run takes several lines. Without a height it is as long as
    it is.
    """
    runs = [summary for summary, _depth in order_families(runs)]
    lines = [line for line, _painted in table(runs)]
    groups = [[line] for line in lines[1:]]
    if any(wide(line) > width for line in lines):
        rows = [_row(summary) for summary in runs]
        lines = columns(_cut_names([row[:-1] for row in (_head(), *rows)], width))
        under = [[f"  │ {row[-1]}"] if row[-1] else [] for row in rows]
        if any(wide(line) > width for line in lines):  # as narrow as a phone: one thing beneath the other
            under = [[f"  {row[1]} · {row[2]}", f"  {row[4]}", *more] for row, more in zip(rows, under, strict=True)]
            lines = columns([[row[0], row[3]] for row in (_head(), *rows)])
        groups = [[_cut(one, width) for one in (line, *more)] for line, more in zip(lines[1:], under, strict=True)]
    yield lines[0], "" if len(lines) == 1 else "dim"
    left = height - 1 if height else sum(map(len, groups)) + 1
    for number, group in enumerate(groups):
        left -= len(group)
        if left < (number + 1 < len(groups)):
            yield _("{count} more that do not fit here", count=len(groups) - number), "dim"
            return
        yield from ((line, _colour(runs[number])) for line in group)


def list_found(found: Sequence[FoundRun], width: int) -> Lines:
    """Runs with a column for each of their attributes; as wide as it is where there is no width."""
    names = list(dict.fromkeys(name for one in found for name in one.attributes))[:COLUMNS_MAX]
    rows = []
    for one in found:
        *known, asked = _row(one.summary)
        rows.append([*known, *(brief(str(one.attributes.get(name, "")), 30) for name in names), asked])
    *head, last = _head()
    lines = columns([[*head, *map(visible, names), last], *rows]) if rows else [_("no runs")]
    if width and any(wide(line) > width for line in lines):  # what they were looked for by goes beneath them
        more = [
            [f"  {visible(name)}: {row[at]}" for at, name in enumerate(names, len(head)) if row[at]] for row in rows
        ]
        for one, under in zip(found, more, strict=True):
            fitted = [line for line, _painted in fit_list([one.summary], width)]
            yield from ((_cut(line, width), "") for line in (*fitted[1:], *under))
        return
    yield from ((line, "") for line in lines)


def _cut_names(rows: list[list[str]], width: int) -> list[list[str]]:
    """Rows that fit, as far as the names of machines and states can give room."""
    over = max(map(wide, columns(rows))) - width
    if over <= 0:
        return rows
    room = sum(max(wide(row[place]) for row in rows) for place in (1, 2)) - over
    most = max(NAME_MIN, room // 2)
    return [[row[0], _cut(row[1], most), _cut(row[2], most), *row[3:]] for row in rows]


def _cut(text: str, width: int) -> str:
    """A text that takes at most so many columns; wide letters take two."""
    if wide(text) <= width:
        return text
    while wide(text) >= width:
        text = text[:-1]
    return f"{text}…"


def _row(summary: Summary, depth: int = 0) -> list[str]:
    first = summary.waiting[0].question if summary.waiting else ""
    asked = brief(first, 60)
    if summary.error is not None:
        asked = brief(f"{summary.error['type']}: {translate_error(summary.error['message'])}", 60)
    if len(summary.waiting) > 1:
        asked = _("{question} (and {count} more)", question=asked, count=len(summary.waiting) - 1)
    if summary.alarms:
        asked = _("ALARM: {problem}", problem=brief(translate_error(summary.alarms[-1]), 100))
    names = [
        f"{'  ' * (depth - 1)}└ {summary.run_id}" if depth else summary.run_id,
        visible(summary.name),
        visible(summary.state),
    ]
    return [*names, _status(summary), when(summary.updated_at), asked]


def _status(summary: Summary) -> str:
    """The word for where a run stands, the same as `show` has."""
    if summary.status is Status.WAITING and summary.held_by and not summary.held_by.startswith("group:"):
        return _("not driven") if summary.held_by == HOST else _("paused")
    return status_word(summary.status, summary.failed)


def _colour(summary: Summary) -> str:
    return "red" if summary.alarms else ""
