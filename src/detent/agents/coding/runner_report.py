"""What our plug-in in a test runner said: read from a file without a name, and believed only if every line fits.

The code under test shares the plug-in's process, so it could find the file. It cannot write a line that fits without
the key, which is gone before that code is loaded, and it cannot leave out the last line unnoticed.
"""

import contextlib
import hashlib
import hmac
import json
import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding.check_result import MESSAGE_MAX, Failing

PLUGIN = "detent_evidence"  # in the folder `runner`; it and this module agree on the next two
VARIABLE = "DETENT_EVIDENCE"
KEY_BYTES = 32
REPORT_MAX = 256 * 1024 * 1024


class Testimony(msgspec.Struct, frozen=True):
    """What a test runner did: how every test ended, and what is odd about it."""

    __test__ = False

    outcomes: dict[str, str] = {}  # passed, failed, skipped, xfailed, xpassed, deselected, not_run
    failures: tuple[Failing, ...] = ()
    exit: int = 0
    odd: str = ""  # why this is no evidence
    files: tuple[str, ...] = ()  # of the modules that were loaded
    python: str = ""
    replaced: tuple[
        str, ...
    ] = ()  # functions of the test runner that are others now than before the project was loaded

    @property
    def passed(self) -> tuple[str, ...]:
        """The tests that ran and passed."""
        return tuple(sorted(test for test, outcome in self.outcomes.items() if outcome == "passed"))


class Channel:
    """The file that one test runner reports to."""

    def __init__(self, fd: int, only: Collection[str] = ()) -> None:
        self.fd, self._key = fd, os.urandom(KEY_BYTES)
        rest = self._key + "\n".join(sorted(only)).encode()
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.lseek(fd, 0, os.SEEK_SET)

    def describe(self, paths: Collection[str] = ()) -> dict[str, str]:
        """What tells the plug-in where to report, and pytest where the plug-in is; further import paths after that."""
        known = os.environ.get("PYTHONPATH", "")
        places = [str(Path(__file__).parent / "runner"), *paths, *([known] if known else [])]
        return {VARIABLE: str(self.fd), "PYTHONPATH": os.pathsep.join(places)}

    def read(self) -> Testimony | None:
        """What was said; None: nothing at all, so the plug-in was never loaded."""
        os.lseek(self.fd, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self.fd), "rb") as file:
            body = file.read(REPORT_MAX)
        if body[:KEY_BYTES] == self._key or not body:
            return None
        said: list[dict[str, Any]] = []
        chain = b""
        for line in body.split(b"\n")[:-1]:
            code, _, text = line.partition(b" ")
            chain = hmac.new(self._key, chain + text, hashlib.sha256).hexdigest().encode()
            if not hmac.compare_digest(chain, code):
                return Testimony(odd="its report was written by somebody else, too")
            said.append(json.loads(text))
        return _conclude(said)


@contextlib.contextmanager
def open_channel(only: Collection[str] = ()) -> Iterator[Channel]:
    """A file without a name; with `only`, no other tests than these are run."""
    if sys.platform == "linux":
        fd = os.memfd_create("report")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        yield Channel(fd, only)
    finally:
        os.close(fd)


def _conclude(said: list[dict[str, Any]]) -> Testimony:
    outcomes: dict[str, str] = {}
    failures: dict[str, Failing] = {}
    odd, end, files, python = [], None, (), ""
    for one in said:
        match one["kind"]:
            case "begin":
                python = one["python"]
            case "collected":
                outcomes |= dict.fromkeys((test for test in one["tests"] if test not in outcomes), "not_run")
            case "deselected":
                outcomes |= dict.fromkeys(one["tests"], "deselected")
            case "unreadable":
                outcomes[one["test"]] = "failed"
                failures[one["test"]] = Failing(one["test"], one["text"][-MESSAGE_MAX:])
            case "phase":
                _note_phase(one, outcomes, failures)
            case "canary" if one["outcome"] == "passed":
                odd.append("a test that must fail has passed: somebody has changed how tests are judged")
            case "modules":
                files = tuple(one["files"])
            case "end":
                end = one
    if end is None:
        odd.append("the test runner ended before it was done")
    code = int(end["exit"]) if end else 1
    replaced = tuple(end["changed"]) if end else ()
    told = "; ".join(dict.fromkeys(odd))
    return Testimony(outcomes, tuple(failures.values()), code, told, files, python, replaced)


def _note_phase(one: dict[str, Any], outcomes: dict[str, str], failures: dict[str, Failing]) -> None:
    test, outcome = one["test"], one["outcome"]
    if outcome == "failed":
        outcomes[test] = "failed"
        text = str(one.get("text", ""))[-MESSAGE_MAX:]
        failures.setdefault(test, Failing(test, text, str(one.get("file", "")), int(one.get("line") or 0) + 1))
    elif outcomes.get(test) == "failed":
        return
    elif outcome == "skipped":
        outcomes[test] = "xfailed" if one.get("xfail") else "skipped"
    elif one["when"] == "call":
        outcomes[test] = "xpassed" if one.get("xfail") else "passed"


def attach(argv: list[str]) -> list[str] | None:
    """The command with our plug-in; None if it is not pytest that is started."""
    return _add(argv, "-p", PLUGIN)


def stop_at_first(argv: list[str]) -> list[str]:
    """The same command, which ends when a test has failed."""
    return _add(argv, "-x") or argv


def _add(argv: list[str], *words: str) -> list[str] | None:
    for position, word in enumerate(argv[:4]):
        name = os.path.basename(word)
        is_module = position > 0 and argv[position - 1] == "-m"
        if name in ("pytest", "py.test") and (position == 0 or is_module):
            return [*argv[: position + 1], *words, *argv[position + 1 :]]
    return None
