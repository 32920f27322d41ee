"""Evidence: what our own checks said about one exact tree, as data that fits into a journal."""

import fnmatch
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal

import msgspec

from detent.core.value import digest

FAILURES_MAX = 50  # kept per step; the count of all is kept too
MESSAGE_MAX = 2000
IDS_MAX = 5000
Word = Literal["", "verified", "checked", "unverified"]
_NOISE = re.compile(r"0x[0-9a-fA-F]+|\d+|/tmp/\S+|\b[0-9a-f]{8,}\b")


class Failing(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong: which test, where, and what was said."""

    test: str
    message: str = ""
    file: str = ""
    line: int = 0


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one verification step came to."""

    name: str
    command: str
    exit: int = 0
    seconds: float = 0.0
    is_required: bool = True
    is_strict: bool = False  # failures that were there before count too
    passed: int = 0
    skipped: int = 0
    counted: bool = False  # whether the numbers mean anything
    failures: tuple[Failing, ...] = ()
    failing_ids: tuple[str, ...] = ()  # of all failures, also those left out above
    output_digest: str = ""
    tail: str = ""
    environment: str = ""  # the machine's fault: what is missing
    timed_out: bool = False
    reran: bool = False  # red at first, then run once more
    first_exit: int = 0
    is_reported: bool = False  # by our own plug-in, test by test
    odd: str = ""  # why the report is no evidence
    replaced: tuple[str, ...] = ()  # functions of the test runner that the project, or a plug-in, has replaced
    ids: str = ""  # digest of the names of the tests that passed
    lost: tuple[Failing, ...] = ()  # passed before the job and did not run and pass now
    mended: dict[str, str] = {}  # of what failed before the job: how it ended now
    flaky: tuple[str, ...] = ()  # came out differently in two runs of the same tree
    running: int = 0  # processes that it left and that had to be ended

    @property
    def failed(self) -> int:
        """How many things are wrong."""
        return len(self.failing_ids)

    @property
    def is_green(self) -> bool:
        """Whether it came out clean."""
        return self.exit == 0 and not self.environment and not self.timed_out and not self.odd


class ReviewItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change that a person has to look at: to a test, to what decides how tests run, or an odd one to the source."""

    path: str
    blob: str  # what it is now; an approval is for this and nothing else
    why: str
    kind: Literal["test", "config", "source"] = "source"

    @property
    def name(self) -> str:
        """What an approval names."""
        return f"{self.path}@{self.blob[:12]}"


class OnlyHere(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test that passes only with what the user's own tree has besides: ignored files, or something outside of it."""

    test: str
    needs: Literal["files", "services"]
    files: tuple[str, ...] = ()  # those that it may need, as far as anybody can tell


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every step's result for one tree; `moved` are files that changed while the checks ran.

    `steps` are the results of the new source with the tests and settings that were there before; `own_steps` those
    with the worker's, where they differ.
    """

    tree: str
    mode: Literal["baseline", "task", "final"] = "task"
    steps: tuple[Checked, ...] = ()
    moved: tuple[str, ...] = ()
    at: float = 0.0
    seconds: float = 0.0
    own_steps: tuple[Checked, ...] = ()
    review: tuple[ReviewItem, ...] = ()
    word: Word = ""
    notes: tuple[str, ...] = ()
    around: dict[str, str] = {}  # of a baseline: digests of the settings files in the folders above the project
    known: tuple[str, ...] | None = None  # of a baseline: programs, packages and settings in the user's home
    too_large: tuple[str, ...] = ()  # new files that no checkpoint holds, each with its size
    only_here: tuple[OnlyHere, ...] = ()  # of a baseline: what passes in the user's own tree and not in a checkout

    @property
    def counted(self) -> str:
        """How many tests ran, as the beginning of a sentence; empty where none were counted."""
        return f"{self.tests} test{'' if self.tests == 1 else 's'}, " if self.tests else ""

    @property
    def tests(self) -> int:
        """Tests that ran, over all steps that count."""
        return sum(step.passed + step.failed for step in self.steps if step.counted)

    @property
    def skips(self) -> int:
        """Tests that were skipped."""
        return sum(step.skipped for step in self.steps if step.counted)

    @property
    def environment(self) -> str:
        """What the machine lacks, if anything."""
        steps = (*self.steps, *self.own_steps)
        return next((f"{step.name}: {step.environment}" for step in steps if step.environment), "")

    def failing(self, step_name: str) -> frozenset[str]:
        """What was wrong in one step."""
        return frozenset(i for step in self.steps if step.name == step_name for i in step.failing_ids)


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason why a task is not done."""

    step: str
    message: str
    test: str = ""
    file: str = ""
    line: int = 0


def faults(
    evidence: Evidence, baseline: Evidence | None, is_meant: Callable[[str], bool] = lambda _: False
) -> tuple[Fault, ...]:
    """What is wrong now and was not wrong before, or was and `is_meant` to be mended (the empty name: whole steps)."""
    found: list[Fault] = []
    for step in evidence.steps:
        if step.is_required and not step.environment:
            found += [Fault(step.name, item.message, item.test) for item in step.lost]
        if step.is_green or not step.is_required or step.environment:
            continue
        before = baseline.failing(step.name) if baseline and not step.is_strict else frozenset[str]()
        before = frozenset(test for test in before if not is_meant(test))
        new = [item for item in step.failures if item.test not in before]
        hidden = set(step.failing_ids) - before - {item.test for item in step.failures}
        if step.odd:
            found.append(Fault(step.name, f"this is no evidence: {step.odd}\n{step.tail}".strip()))
        elif step.timed_out:
            found.append(Fault(step.name, f"`{step.command}` took too long\n{step.tail}".strip()))
        elif new or hidden:
            found += [Fault(step.name, item.message, item.test, item.file, item.line) for item in new]
            found += [
                Fault(step.name, "(not shown: too many failures)", test) for test in sorted(hidden)[:FAILURES_MAX]
            ]
        elif not step.failing_ids and (is_meant("") or not _was_red(baseline, step)):
            found.append(Fault(step.name, f"`{step.command}` ended with {step.exit}\n{step.tail}".strip()))
    return tuple(found)


def _was_red(baseline: Evidence | None, step: Checked) -> bool:
    """Whether a step without details was red before: then nobody can tell whose fault it is now."""
    if baseline is None or step.is_strict:
        return False
    return any(was.name == step.name and not was.is_green and not was.failing_ids for was in baseline.steps)


def signature(found: Iterable[Fault]) -> str:
    """Equal failures have equal signatures: numbers, addresses and temporary paths do not count."""
    told = sorted({(fault.step, fault.test, _NOISE.sub("#", fault.message)[:400]) for fault in found})
    return digest([list(item) for item in told])[:16]


def shrunk(evidence: Evidence, baseline: Evidence | None, allowed: int) -> str:
    """Why the count of tests is not good enough; empty: it is."""
    if baseline is None or any(step.ids for step in baseline.steps):  # then each test is looked for by its name
        return ""
    if evidence.tests < baseline.tests - allowed:
        return f"{evidence.tests} tests ran; there were {baseline.tests} at the beginning"
    if evidence.skips > baseline.skips + allowed:
        return f"{evidence.skips} tests were skipped; {baseline.skips} were at the beginning"
    return ""


@lru_cache(maxsize=256)
def _matcher(globs: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all globs: `**` crosses folders, `*` does too in the way git-ignore files use it."""
    parts = []
    for glob in globs:
        pattern = glob.strip("/")
        if pattern.startswith("**/"):
            parts.append("(?:.*/)?" + fnmatch.translate(pattern[3:]))
        else:
            parts.append(fnmatch.translate(pattern))
        if not any(ch in pattern for ch in "*?["):
            parts.append(fnmatch.translate(pattern + "/*"))
    return re.compile("|".join(parts) or r"(?!)")


def matching(paths: Iterable[str], globs: Iterable[str]) -> list[str]:
    """The paths that one of the globs covers."""
    pattern = _matcher(tuple(globs))
    return [path for path in paths if pattern.match(path)]


def without(paths: Iterable[str], globs: Iterable[str]) -> list[str]:
    """The paths that none of the globs covers."""
    pattern = _matcher(tuple(globs))
    return [path for path in paths if not pattern.match(path)]
