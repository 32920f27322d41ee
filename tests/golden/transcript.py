"""Transcripts of what users see: written down, with marks for what differs from day to day, and compared.

A transcript is a text in `transcripts/`. `DETENT_GOLDEN=write` writes it anew; CONTRIBUTING.md says when that is right.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from tests.surfaces.command import Done

TRANSCRIPTS = Path(__file__).parent / "transcripts"
IS_WRITING = os.environ.get("DETENT_GOLDEN") == "write"
# The names of things are the same on every day: a machine and a call are named by what is in them.
STABLE = {"machine", "digest", "call_hash", "from_machine", "to_machine"}
DURATIONS = {"seconds", "elapsed_s", "took_s", "waited_s", "duration_ms", "age_s", "size", "free", "pid"}
TIMES = range(1_600_000_000, 2_000_000_000)
# What an outcome says of a program for which nobody chose a sandbox: it depends on what the machine can do.
BY_DEFAULT = ("home", "off: ")
# What is numbered in the order it comes, so that a reader sees which two are the same.
NUMBERED = {
    "hash": re.compile(r"\b[0-9a-f]{64}\b"),
    "commit": re.compile(r"\b[0-9a-f]{40}\b"),
    "uuid": re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    "turn": re.compile(r"(?<=-)1[0-9a-f]{14}\b"),
    "id": re.compile(r"\b(?=[a-f]*[0-9])[0-9a-f]{16}\b|\b(?=[a-f]*[0-9])[0-9a-f]{12}\b"),
}
MARKED = {
    "<time>": re.compile(
        r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\b|\b1[6-9]\d{8}\.\d+"
    ),
    "chk-<time>": re.compile(r"\bchk-\d{14}\b"),
    "<seconds> s": re.compile(r"\b\d+(?:\.\d+)? s\b"),
    "<python>": re.compile(re.escape(sys.executable)),
    "<clock>": re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"),
    "127.0.0.1:<port>": re.compile(r"\b127\.0\.0\.1:\d+"),
    "<version>": re.compile(rf"(?<![\d.]){re.escape(version('detent'))}(?![\d.]*\d)"),
    "<python version>": re.compile(rf"(?<![\d.]){re.escape(python_version())}(?![\d.]*\d)"),
}


class Marks:
    """Puts marks in the place of what differs between two machines or two days; all of that is said here."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._seen: dict[str, dict[str, str]] = {kind: {} for kind in NUMBERED}

    def text(self, text: str) -> str:
        """A text with its marks."""
        text = text.replace(self._folder, "<folder>")
        for kind, pattern in NUMBERED.items():
            text = pattern.sub(self._numbered(kind), text)
        for mark, pattern in MARKED.items():
            text = pattern.sub(mark, text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        """A JSON value with its marks."""
        if isinstance(value, dict):
            return {self.text(name): self.value(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, key) for inner in value]
        if key == "sandbox" and isinstance(value, str) and value.startswith(BY_DEFAULT):
            return "<sandbox>"
        if isinstance(value, str):
            return value if key in STABLE else self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return "<number>" if key in DURATIONS else "<time>" if int(value) in TIMES else value
        return value

    def _numbered(self, kind: str) -> Callable[[re.Match[str]], str]:
        seen = self._seen[kind]
        return lambda found: seen.setdefault(found[0], f"<{kind}-{len(seen) + 1}>")


def pretty(value: Any, *, is_sorted: bool = False) -> str:
    """A JSON value as a text that is read and compared line by line."""
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=is_sorted) + "\n"


def told(done: Done, marks: Marks) -> str:
    """What a command said on stdout, object by object, and its exit code."""
    rows = done.out.splitlines()
    try:
        objects = [json.loads(done.out)] if done.out.startswith("{\n") else [json.loads(row) for row in rows]
    except ValueError:
        return f"{marks.text(done.out)}exit {done.code}\n"
    return "".join(pretty(marks.value(said)) for said in objects) + f"exit {done.code}\n"


def compare(name: str, text: str) -> None:
    """The transcript of that name says the same; or is written anew, where that was asked for."""
    file = TRANSCRIPTS / name
    if IS_WRITING:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"there is no {file.name}; DETENT_GOLDEN=write writes it"
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()
