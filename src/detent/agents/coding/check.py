"""Running the checks: the only thing in the lifecycle that can say that a task is done."""

import asyncio
import errno
import fnmatch
import hashlib
import os
import re
import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from detent.agents.coding import runner_report, test_report_parser
from detent.agents.coding.check_result import FAILURES_MAX, IDS_MAX, Checked
from detent.agents.coding.job_sandbox import Workplace
from detent.agents.coding.port import Hear
from detent.agents.coding.settings import CheckStep
from detent.core.effect_type import EffectFailed
from detent.effects import containment, process, sandbox
from detent.effects.containment import ANY, Space

TAIL_CHARS = 4000
PYTEST_FAILED, PYTEST_EMPTY = 1, 5  # tests failed; nothing was collected
CACHES = ("MYPY_CACHE_DIR", "RUFF_CACHE_DIR", "CARGO_TARGET_DIR", "GOCACHE")
OWN_STEP = "task"  # the name of a task's own verify line
SECRETS = ("*_API_KEY", "*_TOKEN", "*_SECRET", "*PASSWORD*", "*_CREDENTIALS", "DETENT_*")
MISSING = re.compile(
    r"No module named '?(pytest|ruff|mypy)\b|No space left on device|Disk quota exceeded|command not found"
)


def environment(report: Path, own: Path, services: Collection[str] = ()) -> dict[str, str]:
    """What a check sees: our environment without what looks like a secret, and no bytecode left in the tree.

    The caches of tools are the step's own: only earlier runs of this very step have written them. Variables that are
    named in `services` are handed on, whatever they look like; `*` means all.
    """
    is_secret = {k for k in os.environ if any(fnmatch.fnmatchcase(k.upper(), glob) for glob in SECRETS)}
    wanted = is_secret if "*" in services else is_secret.intersection(services)
    kept = {k: v for k, v in os.environ.items() if k not in is_secret or (k in wanted and not k.startswith("DETENT_"))}
    kept |= {name: str(own / "cache") for name in CACHES}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "CI": kept.get("CI", "1"), "DETENT_REPORT_FILE": str(report)}


class Ran(NamedTuple):
    """One step that was run: its result, by name how each test ended, as far as anybody said, and what it loaded."""

    checked: Checked
    outcomes: dict[str, str]
    files: tuple[str, ...] = ()  # Python modules, as they were seen

    @property
    def passed(self) -> list[str]:
        """The tests that ran and passed."""
        return sorted(test for test, outcome in self.outcomes.items() if outcome == "passed")


async def run_steps(
    steps: Sequence[CheckStep],
    place: Workplace,
    folder: Path,
    key: str,
    hear: Hear,
    rerun: bool = False,
    space: Space = ANY,
    only: Collection[str] = (),
) -> tuple[Ran, ...]:
    """Run every step in order; a red one does not keep the next from running, a missing tool does.

    Where tests can be chosen by name, `only` these are run.
    """
    done: list[Ran] = []
    for step in steps:
        ran = await _run(step, place, folder, key, hear, space, only)
        checked = ran.checked
        if rerun and not checked.is_green and not checked.environment and not checked.timed_out:
            again = await _run(step, place, folder, key, hear, space, only)
            facts = {"reran": True, "first_exit": checked.exit, "flaky": _list_flaky(ran, again)}
            ran = again._replace(checked=msgspec.structs.replace(again.checked, **facts))
        done.append(ran)
        if ran.checked.environment:
            break
    return tuple(done)


def _list_flaky(one: Ran, two: Ran) -> tuple[str, ...]:
    """What came out differently in two runs of the same tree; a step without names stands for itself."""
    names = {*one.outcomes, *two.outcomes}
    found = sorted(name for name in names if one.outcomes.get(name) != two.outcomes.get(name))
    if not found and one.checked.is_green != two.checked.is_green:
        found = [one.checked.name]
    return tuple(found[:FAILURES_MAX])


async def _run(
    step: CheckStep, place: Workplace, folder: Path, key: str, hear: Hear, space: Space, only: Collection[str]
) -> Ran:
    own = folder / step.name.replace(" ", "-")  # not that of another step: what is in it is believed
    own.mkdir(parents=True, exist_ok=True)
    report = own / "report"
    report.unlink(missing_ok=True)
    argv = [argument.replace("{report}", str(report)) for argument in place.locate(step.argv)]
    facts: dict[str, Any] = {
        "name": step.name,
        "command": shlex.join(step.argv)[:1000],
        "is_required": step.required,
        "is_strict": step.baseline == "strict",
    }
    heard = _Heard(hear)
    begun = time.monotonic()
    witnessed = runner_report.attach(argv)
    with runner_report.open_channel(only) as channel:
        seen = environment(report, own, place.services) | {"PWD": place.seen}
        fds: tuple[int, ...] = ()
        if witnessed is not None:
            seen, fds = seen | channel.describe(_list_paths(argv, place)), (channel.fd,)
        try:
            async with asyncio.timeout(step.timeout or None) as limit:
                ears = process.Ears(stdout=heard.take, stderr=heard.take)
                box = await sandbox.enter(place.wish, place.seen, (str(own), place.seen))
                finished = await containment.run(witnessed or argv, seen, place.seen, None, key, ears, space, box, fds)
        except TimeoutError:
            if not limit.expired():
                raise
            await asyncio.to_thread(process.kill_leftovers, key)
            return Ran(Checked(**facts, exit=-9, seconds=_since(begun), timed_out=True, tail=heard.tail), {})
        except EffectFailed as error:
            return Ran(Checked(**facts, exit=127, seconds=_since(begun), environment=str(error)), {})
        except process.NotStarted as error:
            missing = _not_started(argv[0], error.__cause__)
            return Ran(Checked(**facts, exit=127, seconds=_since(begun), environment=missing), {})
        await asyncio.to_thread(process.kill_leftovers, key)
        if finished.disk:
            stopped = f"it was stopped: {finished.disk}"
            return Ran(Checked(**facts, exit=-9, seconds=_since(begun), environment=stopped), {})
        told = channel.read() if witnessed is not None else None
    output = f"{finished.stdout}\n{finished.stderr}" if finished.stderr else finished.stdout
    facts |= {"seconds": _since(begun), "tail": heard.tail, "running": finished.swept}
    facts["output_digest"] = hashlib.sha256(output.encode("utf-8", "replace")).hexdigest()
    if told is not None:
        return _judge_report(facts, told, place)
    return _judge_output(facts, step, finished.exit, output, _text(report))


def _list_paths(argv: Sequence[str], place: Workplace) -> list[str]:
    """Where a command says that tests find the project: what they start finds it there as well."""
    chosen = [word.partition("=")[2] for word in argv if word.startswith("pythonpath=")]
    return [os.path.join(place.seen, path) for path in chosen]


def _judge_report(facts: dict[str, Any], told: runner_report.Testimony, place: Workplace) -> Ran:
    """What our own plug-in said decides, not the exit code."""
    is_red = bool(told.failures) or told.exit not in (0, PYTEST_FAILED, PYTEST_EMPTY)
    skipped = sum(outcome in ("skipped", "xfailed") for outcome in told.outcomes.values())
    checked = Checked(
        **facts,
        exit=(told.exit or 1) if is_red else 0,
        passed=len(told.passed),
        skipped=skipped,
        counted=True,
        failures=told.failures[:FAILURES_MAX],
        failing_ids=tuple(item.test for item in told.failures)[:IDS_MAX],
        environment=_find_foreign(told, place),
        is_reported=True,
        odd=told.odd or _find_stranger(told, place),
        replaced=told.replaced,
    )
    return Ran(checked, told.outcomes, told.files)


def _find_stranger(told: runner_report.Testimony, place: Workplace) -> str:
    """A module from somewhere a worker can write: neither of the project, nor of its interpreter and packages."""
    if not place.is_mounted:
        return ""
    known = (place.seen, *place.wish.kept, str(Path(runner_report.__file__).parent))
    loose = [os.path.realpath(one) for one in (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm")]  # noqa: S108
    for file in told.files:
        real = Path(os.path.realpath(file))
        if any(real.is_relative_to(one) for one in loose) and not any(real.is_relative_to(one) for one in known):
            return f"{real}, which is no part of the project, was imported"
    return ""


def _find_foreign(told: runner_report.Testimony, place: Workplace) -> str:
    """Modules that came from the user's own tree, though another one was to be tested."""
    if place.is_mounted or not place.root or place.root == place.seen:
        return ""
    inside, own = place.root + os.sep, place.seen + os.sep
    shared = ("site-packages", "dist-packages", "node_modules")
    for file in told.files:
        real = os.path.realpath(file)
        if real.startswith(inside) and not real.startswith(own) and not any(name in real for name in shared):
            return f"{real} was imported from your own tree instead of the copy under test (an editable install?)"
    return ""


def _judge_output(facts: dict[str, Any], step: CheckStep, code: int, output: str, report: str) -> Ran:
    found = test_report_parser.parse(step.parse, report, output)
    failures = found.failures if code != 0 or found.counted else ()
    missing = MISSING.search(output) if code != 0 and not (found.counted and (found.passed or failures)) else None
    is_empty = step.parse == "junit" and "pytest" in facts["command"] and code == PYTEST_EMPTY
    checked = Checked(
        **facts,
        exit=1 if code == 0 and failures else (0 if is_empty else code),
        passed=found.passed,
        skipped=found.skipped,
        counted=found.counted,
        failures=failures[:FAILURES_MAX],
        failing_ids=tuple(dict.fromkeys(item.test for item in failures))[:IDS_MAX],
        environment=missing.group(0) if missing else "",
    )
    return Ran(checked, dict.fromkeys(found.names, "passed") | dict.fromkeys((f.test for f in failures), "failed"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(test_report_parser.REPORT_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def _not_started(program: str, error: BaseException | None) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no program `{program}` on this machine"
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"`{program}` may not be run"
    return f"`{program}` could not be started: {error}"


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)


class _Heard:
    """Output on its way to whoever watches, and the end of it for the record."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self.tail = ""

    def take(self, chunk: bytes) -> None:
        """Some of it."""
        text = chunk.decode("utf-8", "replace")
        self.tail = (self.tail + text)[-TAIL_CHARS:]
        for line in text.splitlines():
            self._hear("check", line)
