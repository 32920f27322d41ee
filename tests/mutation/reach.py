"""Which tests reach which lines: asked once, so that a mutant is tried only by tests that can tell.

What is known of a file of tests is kept for as long as neither that file nor the sources change, so a new test costs
the recording of its own file. `coverage` looks on; a test that fails without a mutant proves nothing and is left out.
"""

import hashlib
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

# hypothesis is imported before pytest, once for all the processes that are forked.
QUIETLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore::coverage.exceptions.CoverageWarning")
Lines = dict[str, list[int]]  # file → lines that a test reaches


class Reach:
    """How long every test takes, and which of them reach a line."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], list[str]] = defaultdict(list)

    def add(self, test: str, seconds: float, lines: Lines) -> None:
        """What one test reaches."""
        self.seconds[test] = seconds
        for file, numbers in lines.items():
            for number in numbers:
                self._tests[file, number].append(test)

    def find(self, file: str, first: int, last: int) -> list[str]:
        """The tests that reach one of these lines, the quickest first."""
        found = {test for number in range(first, last + 1) for test in self._tests.get((file, number), ())}
        return sorted(found, key=lambda test: (self.seconds[test], test))


class Recorder:
    """A plugin of pytest that tells the tests apart for the one who looks on."""

    def __init__(self, look: coverage.Coverage) -> None:
        self._look = look
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test."""
        begun = time.process_time()
        self._look.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._look.switch_context("")
            self.seconds[item.nodeid] = time.process_time() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without a mutant proves nothing."""
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


def record_reach(root: Path, parts: tuple[str, ...], tests: list[Path], kept: Path) -> Reach:
    """The reach of these files of tests; each is recorded again when it or a source has changed."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((root / "src").rglob("*.py")))).hexdigest()
    found = Reach()
    kept.mkdir(parents=True, exist_ok=True)
    for file in tests:
        mark = hashlib.sha256(sources.encode() + file.read_bytes()).hexdigest()
        place = kept / f"{'-'.join(file.relative_to(root).with_suffix('').parts)}.json"
        if not place.exists() or json.loads(place.read_text())["mark"] != mark:
            print(f"mutate: recording {file.relative_to(root)}", flush=True)
            _record(root, parts, file, place, mark)
        for test, (seconds, lines) in json.loads(place.read_text())["tests"].items():
            found.add(test, seconds, lines)
    return found


def _record(root: Path, parts: tuple[str, ...], file: Path, place: Path, mark: str) -> None:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        if not place.exists() or json.loads(place.read_text())["mark"] != mark:
            raise SystemExit(f"mutate: {file} could not be run without a mutant")
        return
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    try:
        look = coverage.Coverage(data_file=None, include=[f"{root}/{part}/*" for part in parts], config_file=False)
        recorder = Recorder(look)
        look.start()
        pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", *QUIETLY, str(file)], plugins=[recorder])
        look.stop()
        place.write_text(json.dumps({"mark": mark, "tests": _tell(root, look, recorder)}))
    finally:
        os._exit(0)


def _tell(root: Path, look: coverage.Coverage, recorder: Recorder) -> dict[str, Any]:
    lines: dict[str, Lines] = defaultdict(dict)
    data = look.get_data()
    for path in data.measured_files():
        name = str(Path(path).relative_to(root))
        for line, tests in data.contexts_by_lineno(path).items():
            for test in tests:
                lines[test].setdefault(name, []).append(line)
    return {
        test: (seconds, lines[test])
        for test, seconds in recorder.seconds.items()
        if test not in recorder.failed and test in lines
    }
