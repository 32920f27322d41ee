"""The suite on every core: collected once, then forked; each process takes one file after the other from a queue.

Processes that begin from nothing, as those of pytest-xdist do, would each import and collect the whole suite first: a
tenth of its time. `./run test` says `-p tests.spread --forks N`; decision 0095.
"""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Reports = Connection[Any, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the files in this many processes at once")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Have every file run by one of the forks, and report what they say."""
    if not session.config.option.forks or session.config.option.collectonly or session.testsfailed:
        return None
    files: dict[Any, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.path, []).append(item)
    Spread(session, list(files.values())).run(session.config.option.forks)
    return True


class Spread:
    """The process that has collected, and its forks."""

    def __init__(self, session: pytest.Session, files: Sequence[list[pytest.Item]]) -> None:
        self._session, self._config, self._files = session, session.config, files
        self._forks: dict[Reports, Fork] = {}
        self._base: Path = temporary_folders(session.config).getbasetemp()
        self._made = 0
        # Whoever reads two bytes from this pipe has taken a file; there is nothing to lock.
        self._queue, end = os.pipe()
        os.write(end, b"".join(number.to_bytes(2, "big") for number in range(len(files))))
        os.close(end)

    def run(self, count: int) -> None:
        """Run every file."""
        gc.collect()
        gc.freeze()  # what was collected stays as it is, and shared
        try:
            for _ in range(min(count, len(self._files))):
                self._begin([])
            while self._forks:
                ready = wait(list(self._forks))
                for reports in [one for one in self._forks if one in ready]:
                    self._hear(reports)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for fork in self._forks.values():
                os.kill(fork.pid, signal.SIGINT)
                os.waitpid(fork.pid, 0)

    def _begin(self, items: list[pytest.Item]) -> None:
        """Fork a process that runs these first."""
        self._made += 1
        reports, tell = Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries have threads; none of them is used here
            pid = os.fork()
        if not pid:
            status = 1
            try:
                for other in (reports, *self._forks):
                    other.close()
                FileRunner(self._session, self._files, self._queue, tell).run(items, self._base / f"fork{self._made}")
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        tell.close()
        self._forks[reports] = Fork(pid, items)

    def _hear(self, reports: "Reports") -> None:
        fork, hook = self._forks[reports], self._config.hook
        what, about = receive(reports)
        if what == "file":
            fork.left += self._files[about]
        elif what == "report":
            report = hook.pytest_report_from_serializable(config=self._config, data=about)
            hook.pytest_runtest_logreport(report=report)
        elif what == "done":
            done = fork.left.pop(0)
            hook.pytest_runtest_logfinish(nodeid=done.nodeid, location=done.location)
        else:
            del self._forks[reports]
            self._end(fork, os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1]))

    def _end(self, fork: "Fork", status: int) -> None:
        """A process is done, or has died of a test: another one goes on with what it had taken."""
        if not fork.left:
            return
        died, *left = fork.left
        said = f"the process that ran this test ended with {status}"
        report = pytest.TestReport(died.nodeid, died.location, {}, "failed", said, "call")
        self._config.hook.pytest_runtest_logreport(report=report)
        self._begin(left)


def receive(reports: "Reports") -> tuple[str, Any]:
    """What a fork tells; "end" also where it has died."""
    try:
        return reports.recv()  # type: ignore[no-any-return]
    except (EOFError, OSError):
        return "end", None


def temporary_folders(config: pytest.Config) -> Any:
    """Where `tmp_path` comes from."""
    return config._tmp_path_factory  # type: ignore[attr-defined]


class Fork:
    """A process, and the tests that it has taken and not done."""

    def __init__(self, pid: int, left: Iterable[pytest.Item]) -> None:
        self.pid, self.left = pid, list(left)


class FileRunner:
    """In a fork: runs what it takes from the queue, and tells of it."""

    def __init__(
        self, session: pytest.Session, files: Sequence[list[pytest.Item]], queue: int, tell: "Reports"
    ) -> None:
        self._config, self._files, self._queue, self._tell = session.config, files, queue, tell

    def run(self, items: list[pytest.Item], folder: Path) -> None:
        """Run these, then file after file."""
        plugins = self._config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self)
        capture: Any = plugins.getplugin("capturemanager")
        # The files that it writes to are shared with the others. They stay open: libraries kept them as `sys.stderr`.
        capture.suspend_global_capture(in_=True)
        self._shared, capture._global_capturing = capture._global_capturing, None
        capture.start_global_capturing()
        folder.mkdir(mode=0o700)
        temporary_folders(self._config)._basetemp = folder
        todo = [*items, *([] if items else self._take())]
        while todo:
            item = todo.pop(0)
            if not todo:  # what is shared by more than a file is ended when no other follows
                todo = self._take()
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=todo[0] if todo else None)
            self._tell.send(("done", None))
        self._tell.send(("end", None))

    def _take(self) -> list[pytest.Item]:
        number = os.read(self._queue, 2)
        if not number:
            return []
        self._tell.send(("file", int.from_bytes(number, "big")))
        return list(self._files[int.from_bytes(number, "big")])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell how a part of a test went."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._tell.send(("report", data))
