"""Making values readable and harmless: an approval screen must not be forged by what it shows.

Whatever could move the cursor, turn the writing around or hide itself is written as an escape.
"""

import json
import os
import re
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from detent.core.status import Status
from detent.kit.language import _

HIDDEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters by category, blank to the eye
HIDING = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"))
# What Python calls printable although nobody sees it: the letters above, and the selectors of a letter's variants.
UNSEEN = HIDDEN | {chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))}
# Drawn over a letter, so that it can be taken for another or for struck out.
STRIKING = frozenset("\u0334\u0335\u0336\u0337\u0338\u20d2\u20d3\u20d8\u20d9\u20da\u20e5\u20e6\u20ea\u20eb")
MARKS_MAX = 3  # on one letter; no language needs more, and piled up they cover the lines above
CALL_MAX = 20_000
_MARK = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ua670-\ua672\ufe20-\ufe2f]")
_PILED = re.compile(f"{_MARK.pattern}{{4,}}")


def visible(text: str, *, keep: str = "") -> str:
    """The text with every character that is not plainly visible written as an escape; `keep` is left as it is."""
    if text.isascii() or text.replace("→", "").isascii():  # the arrow stands in every other line of ours
        if text.isprintable():
            return text
    elif text.isprintable() and UNSEEN.isdisjoint(text) and not _MARK.search(text):
        return text
    return "".join(ch if ch in keep else _show(ch) for ch in _unpile(text, _write_escape))


def _show(ch: str) -> str:
    if " " <= ch < "\x7f":
        return ch
    code = ord(ch)
    if code < 0x20:
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(ch) or chr(0x2400 + code)  # ␛ and its like
    if ch == "\x7f":
        return "\u2421"
    category = unicodedata.category(ch)
    is_blank = category == "Zs" and ch != "\u3000"  # the ideographic space is as wide as it looks
    if category in HIDING or is_blank or ch in UNSEEN or ch in STRIKING:
        return _write_escape(ch)
    return ch


def _write_escape(ch: str) -> str:
    code = ord(ch)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _unpile(text: str, written: Callable[[str], str]) -> str:
    """The text with marks that are piled upon one letter written as escapes."""
    return _PILED.sub(lambda found: found[0][:MARKS_MAX] + "".join(map(written, found[0][MARKS_MAX:])), text)


def near(text: str) -> str:
    """A message that begins with a place in a file, named as seen from here."""
    try:
        return text.removeprefix(f"{Path.cwd()}{os.sep}")
    except OSError:
        return text  # the folder we are in is gone


def as_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON text in which nothing is hidden; still JSON, and the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return "".join(ch if ch == "\n" else _escape(ch) for ch in _unpile(text, lambda ch: json.dumps(ch)[1:-1]))


def _escape(ch: str) -> str:
    """One character of a JSON text, where control characters below space are escaped already."""
    if " " <= ch < "\x7f" or (ch > "\x9f" and _show(ch) == ch):
        return ch
    return json.dumps(ch)[1:-1]


def call_lines(call: dict[str, Any]) -> list[str]:
    """The exact call, one line per piece; a very long one says how much is left out."""
    text = f"{visible(str(call.get('effect', '')))} {as_json(call.get('input'), indent=2)}"
    lines = text[:CALL_MAX].split("\n")
    if len(text) > CALL_MAX:
        lines.append(_("… {count} more characters are NOT shown here; --json shows all", count=len(text) - CALL_MAX))
    return lines


def brief(value: Any, width: int = 100) -> str:
    """A value on one short line."""
    text = visible(value) if isinstance(value, str) else as_json(value)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def columns(rows: list[list[str]]) -> list[str]:
    """Rows as aligned lines; wide letters count twice."""
    widths = [max(map(wide, column)) for column in zip(*rows, strict=True)] if rows else []
    return ["  ".join(pad(c, w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def pad(text: str, width: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (width - wide(text))


def wide(text: str) -> int:
    """How many columns a text takes; wide letters count twice."""
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def duration(seconds: float) -> str:
    """A length of time in one or two figures, and never a longer one than it is."""
    if seconds < 1:
        return _("{count} ms", count=round(seconds * 1000))
    if seconds < 60:
        return _("{count} s", count=f"{seconds:.1f}".removesuffix(".0"))
    if seconds < 3600:
        return _("{count} min", count=int(seconds // 60))
    if seconds < 48 * 3600:
        rest = int(seconds % 3600 // 60)
        hours = _("{count} h", count=int(seconds // 3600))
        return f"{hours} {_('{count} min', count=rest)}" if rest else hours
    rest = int(seconds % 86400 // 3600)
    days = _("{count} d", count=int(seconds // 86400))
    return f"{days} {_('{count} h', count=rest)}" if rest else days


def when(at: float, now: float | None = None) -> str:
    """A time as seen from now."""
    apart = (time.time() if now is None else now) - at
    if abs(apart) < 1:
        return _("just now")
    whole = float(int(abs(apart)))  # tenths of a second would only flicker
    return _("{time} ago", time=duration(whole)) if apart > 0 else _("in {time}", time=duration(whole))


def clock(at: float) -> str:
    """A time of the day, with the date when it is not today."""
    then, today = time.localtime(at), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M:%S", then)


def process_name(pid: int, command: str, since: float) -> str:
    """The process that holds the journal, with what it runs and since when."""
    known = {"pid": pid or "?", "command": visible(command) or "?", "time": clock(since) if since else "?"}
    return _("process {pid} ({command}, since {time})", **known)


def silence(pid: int, command: str, since: float) -> tuple[str, str]:
    """That the process which holds the journal does not answer, and what can be done about it."""
    about = _("{process} holds the journal and does not answer.", process=process_name(pid, command, since))
    way = _(
        "`kill -CONT {pid}` wakes it if it was stopped; `kill -9 {pid}` ends it, and the journal survives that.",
        pid=pid,
    )
    return about, way if pid else ""


def status_word(status: Status, failed: int = 0) -> str:
    """A status in the reader's language, with how much a run went on without."""
    word = {
        Status.PENDING: _("pending"),
        Status.RUNNING: _("running"),
        Status.WAITING: _("waiting"),
        Status.COMPLETED: _("completed"),
        Status.FAILED: _("failed"),
        Status.REJECTED: _("rejected"),
        Status.CANCELLED: _("cancelled"),
    }[status]
    return _("{status}, {count} failed", status=word, count=failed) if failed else word
