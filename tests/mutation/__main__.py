"""Mutation tests: small wrong changes of the core and the embedded host, and whether a test notices.

    ./run mutate [--count 300] [--seed N] [--only PART] [--seconds 60] [--minutes M]

Every mutant runs in a process of its own, forked from one that has collected the tests, on those that reach the changed
line, the quickest first. The fork exchanges the code of the functions that are changed, so nothing is imported again.
What was found is kept: the same seed goes on where it was stopped, and tries survivors again when a test has changed.
Survivors are printed with their places. Those that are explained in tests/mutants.md count as equal to the original.
Why our own: docs/decisions/0034.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest

from tests.mutation.mutant import Mutant, exchange, mutants
from tests.mutation.reach import QUIETLY, Reach, record_reach

ROOT = Path(__file__).parents[2]
PARTS = ("src/detent/core", "src/detent/host/embedded", "src/detent/host/parts")
TESTS = ("tests/core", "tests/host", "tests/simulation/test_crash_anywhere.py", "tests/define")
LEFT_OUT = (
    "tests/define/test_cases.py",  # long, and of whole files
    "tests/define/graph/test_layout.py",  # about pictures
    "tests/host/test_many.py",
    "tests/host/test_processes.py",
)
KEPT = ROOT / ".mutants"
EXPLAINED = ROOT / "tests" / "mutants.md"
GOAL = 0.9
TESTS_S = 40.0  # of tests, as long as they take without a mutant, that are tried on one
PROCESSES = 2
KILLED, SURVIVED, UNREACHED = "killed", "survived", "no test reaches it"


class Trial(NamedTuple):
    """A mutant that is being tried."""

    mutant: Mutant
    until: float


class Trials:
    """A plugin of pytest that tries mutants instead of running tests: the tests are collected once, for all of them."""

    def __init__(self, todo: list[Mutant], reach: Reach, known: "Known", seconds: float, until: float) -> None:
        self._todo, self._reach, self._known, self._seconds, self._until = todo, reach, known, seconds, until
        self._items: dict[str, pytest.Item] = {}
        self._is_noticed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try them, a few at a time; what takes too long has been noticed: the original does not."""
        self._items = {item.nodeid: item for item in session.items}
        running = dict[int, Trial]()
        while running or (self._todo and time.monotonic() < self._until):
            while self._todo and len(running) < PROCESSES and time.monotonic() < self._until:
                mutant = self._todo.pop(0)
                tests = _choose(self._reach.find(mutant.file, mutant.line, mutant.end), self._reach.seconds)
                if tests:
                    running[self._start(mutant, tests)] = Trial(mutant, time.monotonic() + self._seconds)
                else:
                    self._known.keep(mutant, UNREACHED)
            pid, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
            if pid == 0:
                signal.sigtimedwait([signal.SIGCHLD], 0.2)
                for one, trial in running.items():
                    if time.monotonic() > trial.until:
                        os.killpg(one, signal.SIGKILL)
            elif pid in running:
                self._known.keep(running.pop(pid).mutant, SURVIVED if status == 0 else KILLED)
                print("." if status else "S", end="", flush=True)
        print()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In a child: a test has noticed."""
        self._is_noticed = self._is_noticed or report.failed

    def _start(self, mutant: Mutant, tests: list[str]) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            exchange(ROOT, mutant)
            for item in (self._items[test] for test in tests if test in self._items):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._is_noticed:
                    break
            else:
                code = 0
        finally:
            os._exit(code)


def main() -> int:
    """Sample, try, report."""
    given = _arguments()
    hypothesis.settings.register_profile("mutants", max_examples=30, deadline=None, derandomize=True, database=None)
    os.environ |= {"HYPOTHESIS_PROFILE": "mutants", "DETENT_EXAMPLES": "0.2"}
    files = [file for part in PARTS for file in sorted((ROOT / part).rglob("*.py")) if given.only in str(file)]
    everything = [mutant for file in files for mutant in mutants(ROOT, file)]
    chosen = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    print(f"mutate: seed {given.seed}: {len(chosen)} of {len(everything)} mutants in {len(files)} files", flush=True)
    reach = record_reach(ROOT, PARTS, _test_files(), KEPT / "reach")
    known = Known(KEPT / "found.json", reach)
    until = time.monotonic() + given.minutes * 60
    trials = Trials([one for one in chosen if known.end_of(one) is None], reach, known, given.seconds, until)
    files_of_tests = [str(path) for path in _test_files()]
    pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--no-header", *QUIETLY, *files_of_tests], plugins=[trials])
    return _report(chosen, known, given.seed)


def _test_files() -> list[Path]:
    found = [path for name in TESTS for path in (sorted((ROOT / name).rglob("test_*.py")) or [ROOT / name])]
    return [path for path in found if str(path.relative_to(ROOT)) not in LEFT_OUT]


def _report(chosen: list[Mutant], known: "Known", seed: int) -> int:
    explained = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    found = {mutant: end for mutant in chosen if (end := known.end_of(mutant)) is not None}
    alive = [mutant for mutant, end in found.items() if end != KILLED]
    left = sorted(mutant for mutant in alive if f"`{_mark(mutant)}`" not in explained)
    equal, killed = len(alive) - len(left), len(found) - len(alive)
    for mutant in left:
        print(f"  {found[mutant]}: {mutant.place}")
    rate = killed / max(1, len(found) - equal)
    print(f"mutate: {killed} killed, {len(left)} not, {equal} explained; {rate:.1%} (seed {seed})")
    if len(found) < len(chosen):
        print(f"mutate: {len(chosen) - len(found)} are left; the same command goes on")
        return 1
    return 0 if rate >= GOAL else 1


class Known:
    """What became of mutants, kept for as long as the file and the tests that reach the line are the same."""

    def __init__(self, place: Path, reach: Reach) -> None:
        self._place, self._reach = place, reach
        self._ends: dict[str, str] = json.loads(place.read_text()) if place.exists() else {}

    def end_of(self, mutant: Mutant) -> str | None:
        """What became of a mutant; None: not tried yet."""
        return self._ends.get(self._key(mutant))

    def keep(self, mutant: Mutant, end: str) -> None:
        """Remember what became of it."""
        self._ends[self._key(mutant)] = end
        self._place.write_text(json.dumps(self._ends))

    def _key(self, mutant: Mutant) -> str:
        said = (
            (ROOT / mutant.file).read_text(),
            mutant.number,
            sorted(self._reach.find(mutant.file, mutant.line, mutant.end)),
        )
        return f"{_mark(mutant)} {hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutate", description="try small wrong changes on the tests")
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which of them")
    parser.add_argument("--only", default="", help="only files whose path has this in it")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one mutant (60); what hangs longer is killed")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after that; the same seed goes on")
    return parser.parse_args()


def _mark(mutant: Mutant) -> str:
    """How a mutant is named in tests/mutants.md: without its line, which changes with every edit."""
    return f"{Path(mutant.file).name} {mutant.function}: {mutant.what}".replace("`", "'")


def _choose(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """The quickest tests, one at least, and as many of the others as there is time for."""
    chosen, spent = list[str](), 0.0
    for test in tests:
        spent += seconds[test]
        if not chosen or spent <= TESTS_S:
            chosen.append(test)
    return chosen


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    sys.exit(main())
