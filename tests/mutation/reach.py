"""Which tests enter which functions: asked once, so that a mutant is tried only by tests that can tell."""

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

# hypothesis is imported before pytest, once for all the processes that are forked.
QUIETLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
Reach = dict[str, list[tuple[str, float]]]  # "file function" → tests and how long each takes


class Recorder:
    """A plugin of pytest that writes down the functions each test enters."""

    def __init__(self, root: Path, files: set[str]) -> None:
        self._codes: dict[Any, str] = {}
        self._files = {str(root / file): file for file in files}
        self.found: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = self._codes.get(code)
        if name is None:
            file = self._files.get(code.co_filename)
            name = f"{file} {code.co_qualname.replace('.<locals>', '')}" if file else ""
            self._codes[code] = name
        if name:
            self.found[name].add(self._test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test."""
        self._test, begun = item.nodeid, time.process_time()
        sys.setprofile(self._enter)
        threading.setprofile(self._enter)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.seconds[item.nodeid] = time.process_time() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without a mutant proves nothing."""
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


def recorded(root: Path, files: set[str], tests: list[str], kept: Path) -> Reach:
    """The reach of these tests; kept in a file for as long as neither tests nor sources change."""
    mark = hashlib.sha256()
    for path in sorted([*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py")]):
        mark.update(path.read_bytes())
    if kept.exists() and (found := json.loads(kept.read_text()))["mark"] == mark.hexdigest():
        return {name: [(test, seconds) for test, seconds in rows] for name, rows in found["reach"].items()}
    recorder = Recorder(root, files)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        given = ["-q", "-p", "no:cacheprovider", "--no-header", *QUIETLY, *tests]
        code = pytest.main(given, plugins=[recorder])
        seconds = recorder.seconds
        reach = {
            name: sorted(((test, seconds[test]) for test in found - recorder.failed), key=lambda one: one[1])
            for name, found in recorder.found.items()
        }
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps({"mark": mark.hexdigest(), "reach": reach}))
        os._exit(int(code) if int(code) != 1 else 0)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("mutate: the tests could not be run without a mutant")
    return recorded(root, files, tests, kept)
