"""Running the checks: the only thing in the lifecycle that can say that a task is done."""

import asyncio
import errno
import fnmatch
import hashlib
import os
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding import parser
from detent.agents.coding.evidence import FAILURES_MAX, IDS_MAX, Checked
from detent.agents.coding.port import Hear
from detent.agents.coding.settings import CheckStep
from detent.core.effect_type import EffectFailed
from detent.effects import containment, process, sandbox
from detent.effects.containment import ANY, Space
from detent.effects.sandbox import NO_WISH, SandboxWish

TAIL_CHARS = 4000
OWN_STEP = "task"  # the name of a task's own verify line
SECRETS = ("*_API_KEY", "*_TOKEN", "*_SECRET", "*PASSWORD*", "*_CREDENTIALS", "DETENT_*")
MISSING = re.compile(
    r"No module named '?(pytest|ruff|mypy)\b|No space left on device|Disk quota exceeded|command not found"
)


def environment(report: Path) -> dict[str, str]:
    """What a check sees: our environment without what looks like a secret, and no bytecode left in the tree."""
    kept = {k: v for k, v in os.environ.items() if not any(fnmatch.fnmatchcase(k.upper(), glob) for glob in SECRETS)}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "CI": kept.get("CI", "1"), "DETENT_REPORT_FILE": str(report)}


async def run_steps(
    steps: Sequence[CheckStep],
    root: str,
    folder: Path,
    key: str,
    hear: Hear,
    rerun: bool = False,
    space: Space = ANY,
    wish: SandboxWish = NO_WISH,
) -> tuple[Checked, ...]:
    """Run every step in order; a red one does not keep the next from running, a missing tool does."""
    folder.mkdir(parents=True, exist_ok=True)
    done: list[Checked] = []
    for step in steps:
        checked = await _run(step, root, folder, key, hear, space, wish)
        if rerun and not checked.is_green and not checked.environment and not checked.timed_out:
            again = await _run(step, root, folder, key, hear, space, wish)
            checked = msgspec.structs.replace(again, reran=True, first_exit=checked.exit)
        done.append(checked)
        if checked.environment:
            break
    return tuple(done)


async def _run(
    step: CheckStep, root: str, folder: Path, key: str, hear: Hear, space: Space, wish: SandboxWish
) -> Checked:
    report = folder / f"{step.name.replace(' ', '-')}.report"
    report.unlink(missing_ok=True)
    argv = [argument.replace("{report}", str(report)) for argument in step.argv]
    command = shlex.join(step.argv)
    facts: dict[str, Any] = {
        "name": step.name,
        "command": command[:1000],
        "is_required": step.required,
        "is_strict": step.baseline == "strict",
    }
    heard = _Heard(hear)
    begun = time.monotonic()
    try:
        async with asyncio.timeout(step.timeout or None) as limit:
            ears = process.Ears(stdout=heard.take, stderr=heard.take)
            box = await sandbox.enter(wish, root, (str(folder), root))
            seen = environment(report) | {"PWD": root}
            finished = await containment.run(argv, seen, root, None, key, ears, space, box)
    except TimeoutError:
        if not limit.expired():
            raise
        await asyncio.to_thread(process.kill_leftovers, key)
        return Checked(**facts, exit=-9, seconds=_since(begun), timed_out=True, tail=heard.tail)
    except EffectFailed as error:
        return Checked(**facts, exit=127, seconds=_since(begun), environment=str(error))
    except process.NotStarted as error:
        return Checked(**facts, exit=127, seconds=_since(begun), environment=_not_started(argv[0], error.__cause__))
    await asyncio.to_thread(process.kill_leftovers, key)
    if finished.disk:
        return Checked(**facts, exit=-9, seconds=_since(begun), environment=f"it was stopped: {finished.disk}")
    output = f"{finished.stdout}\n{finished.stderr}" if finished.stderr else finished.stdout
    return _judge_step(facts, step, finished.exit, _since(begun), output, _text(report), heard.tail)


def _judge_step(
    facts: dict[str, Any], step: CheckStep, code: int, seconds: float, output: str, report: str, tail: str
) -> Checked:
    found = parser.parse(step.parse, report, output)
    failures = found.failures if code != 0 or found.counted else ()
    missing = MISSING.search(output) if code != 0 and not (found.counted and (found.passed or failures)) else None
    is_empty = step.parse == "junit" and "pytest" in facts["command"] and code == 5  # pytest: nothing was collected
    return Checked(
        **facts,
        exit=1 if code == 0 and failures else (0 if is_empty else code),
        seconds=seconds,
        passed=found.passed,
        skipped=found.skipped,
        counted=found.counted,
        failures=failures[:FAILURES_MAX],
        failing_ids=tuple(dict.fromkeys(item.test for item in failures))[:IDS_MAX],
        output_digest=hashlib.sha256(output.encode("utf-8", "replace")).hexdigest(),
        tail=tail,
        environment=missing.group(0) if missing else "",
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(parser.REPORT_MAX).decode("utf-8", "replace")
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
