"""Mutation tests: small wrong changes of the core and the embedded host, and whether a test notices.

    ./run mutate [--count 300] [--seed N] [--only PART] [--seconds 60]

Every mutant runs in a process of its own, forked from one that has imported pytest, on the quickest of the tests that
enter the changed function. Survivors are printed with their places. Those that are explained in tests/mutants.md count
as equal to the original. Why our own: docs/decisions/0034.
"""

import argparse
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

import hypothesis
import pytest

from tests.mutation.mutant import Mutant, mutants, mutated
from tests.mutation.reach import QUIETLY, Reach, recorded

ROOT = Path(__file__).parents[2]
PARTS = ("src/detent/core", "src/detent/host/embedded")
TESTS = ("tests/core", "tests/host", "tests/simulation/test_crash_anywhere.py", "tests/define/test_workflow.py")
LEFT_OUT = ("tests/core/test_laws.py", "tests/host/test_many.py", "tests/host/test_processes.py")
KEPT = ROOT / ".mutants" / "reach.json"
EXPLAINED = ROOT / "tests" / "mutants.md"
GOAL = 0.9
TESTS_S = 12.0  # of tests, as long as they take without a mutant, that are tried on one
PROCESSES = 2
KILLED, SURVIVED, UNREACHED = "killed", "survived", "no test enters it"


class Trial(NamedTuple):
    """A mutant that is being tried."""

    mutant: Mutant
    until: float


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Finds one module, and gives it with a change in it."""

    def __init__(self, name: str, file: Path, code: CodeType) -> None:
        self._name, self._file, self._code = name, file, code

    def find_spec(
        self, fullname: str, _: object, __: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The changed module's spec, and nobody else's."""
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self._file))

    def get_code(self, _: str) -> CodeType:
        """The changed code."""
        return self._code

    def get_filename(self, _: str) -> str:
        """Where the original is."""
        return str(self._file)

    def get_data(self, path: str) -> bytes:
        """The original's bytes."""
        return Path(path).read_bytes()


def main() -> int:
    """Sample, try, report."""
    given = _arguments()
    hypothesis.settings.register_profile("mutants", max_examples=30, deadline=None, derandomize=True, database=None)
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    files = [file for part in PARTS for file in sorted((ROOT / part).rglob("*.py")) if given.only in str(file)]
    everything = [mutant for file in files for mutant in mutants(ROOT, file)]
    chosen = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    print(f"mutate: seed {given.seed}: {len(chosen)} of {len(everything)} mutants in {len(files)} files", flush=True)
    tests = [*TESTS, *(f"--ignore={name}" for name in LEFT_OUT)]
    all_files = {str(file.relative_to(ROOT)) for part in PARTS for file in (ROOT / part).rglob("*.py")}
    reach = recorded(ROOT, all_files, tests, KEPT)
    found = _try_all(chosen, reach, given.seconds)
    explained = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    left = [mutant for mutant, end in found.items() if end != KILLED and f"`{_mark(mutant)}`" not in explained]
    known = len([end for end in found.values() if end != KILLED]) - len(left)
    killed = len(found) - len(left) - known
    for mutant in sorted(left):
        print(f"  {found[mutant]}: {mutant.place}")
    rate = killed / max(1, len(found) - known)
    print(f"mutate: {killed} killed, {len(left)} not, {known} explained; {rate:.1%} (seed {given.seed})")
    return 0 if rate >= GOAL else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutate", description="try small wrong changes on the tests")
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which of them")
    parser.add_argument("--only", default="", help="only files whose path has this in it")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one mutant (60); what hangs longer is killed")
    return parser.parse_args()


def _mark(mutant: Mutant) -> str:
    """How a mutant is named in tests/mutants.md: without its line, which changes with every edit."""
    return f"{Path(mutant.file).name} {mutant.function}: {mutant.what}".replace("`", "'")


def _try_all(chosen: list[Mutant], reach: Reach, seconds: float) -> dict[Mutant, str]:
    """Try them, a few at a time; what takes too long has been noticed: the original does not."""
    todo, running, found = list(chosen), dict[int, Trial](), dict[Mutant, str]()
    while todo or running:
        while todo and len(running) < PROCESSES:
            mutant = todo.pop(0)
            tests = _tests(reach.get(f"{mutant.file} {mutant.function}", []))
            if tests:
                running[_start(mutant, tests)] = Trial(mutant, time.monotonic() + seconds)
            else:
                found[mutant] = UNREACHED
        if not running:
            continue
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            signal.sigtimedwait([signal.SIGCHLD], 0.2)
            for one, trial in running.items():
                if time.monotonic() > trial.until:
                    os.killpg(one, signal.SIGKILL)
        elif pid in running:
            trial = running.pop(pid)
            found[trial.mutant] = SURVIVED if status == 0 else KILLED
            print("." if status else "S", end="", flush=True)
    print()
    return found


def _tests(known: list[tuple[str, float]]) -> list[str]:
    """The quickest tests, as many as fit; one at least."""
    left, chosen = TESTS_S, list[str]()
    for test, seconds in known:
        left -= seconds
        if left < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def _start(mutant: Mutant, tests: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    file = ROOT / mutant.file
    name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    sys.meta_path.insert(0, Changed(name, file, compile(mutated(ROOT, mutant), str(file), "exec")))
    code = 1
    try:
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *QUIETLY, *tests]))
    finally:
        os._exit(min(code, 100))


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    sys.exit(main())
