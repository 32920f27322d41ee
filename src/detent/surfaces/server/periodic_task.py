"""What a server does again and again beside its runs: backups of its home, anchors of its journal.

Each is done by a process of its own: checking a copy takes the processor for a while, and runs must not wait for that.
"""

import asyncio
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from detent.core.duration import seconds_of
from detent.surfaces.server.setting import AnchorPlan, BackupPlan, ServerSettings

PROGRAM = "from detent.surfaces.entry import main; main()"
SAID_MAX = 2000


def upkeep(settings: ServerSettings, home: Path) -> list[Coroutine[Any, Any, None]]:
    """What is to be done from now on, as far as somebody wants it."""
    tasks = []
    if settings.backup is not None:
        tasks.append(_back_up(settings.backup, home))
    if settings.anchor is not None:
        tasks.append(_anchor(settings.anchor, home))
    return tasks


async def _back_up(plan: BackupPlan, home: Path) -> None:
    folder, every_s = Path(plan.to), seconds_of(plan.every) or 3600.0
    words = ["backup", str(folder), "--keep", str(plan.keep)]
    while True:
        await asyncio.sleep(_due(folder, every_s))
        if (home / "journal.db").exists():
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                await _do(home, words)
            except OSError as error:
                _say("backup", f"cannot use {folder}: {error.strerror}")
        await asyncio.sleep(min(every_s, 1.0))  # what could not be written is tried again, but not at once


def _due(folder: Path, every_s: float) -> float:
    """In how many seconds the next backup is due, by the newest that is there."""
    try:
        newest = max((path.stat().st_mtime for path in folder.glob("*.detent")), default=0.0)
    except OSError:
        newest = 0.0
    return max(0.0, newest + every_s - time.time())


async def _anchor(plan: AnchorPlan, home: Path) -> None:
    words = ["anchor", "--to", plan.to, *(["--key", plan.key] if plan.key else [])]
    while True:
        if (home / "journal.db").exists():
            await _do(home, words)
        await asyncio.sleep(seconds_of(plan.every) or 3600.0)


async def _do(home: Path, words: list[str]) -> None:
    """Do one command; what went wrong is said, and tried again at its next time."""
    command = [sys.executable, "-c", PROGRAM, "--home", str(home), *words]
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=nothing, stderr=pipe)
    except OSError as error:
        _say(words[0], str(error))
        return
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        _say(words[0], said.decode("utf-8", "replace").strip()[-SAID_MAX:] or str(process.returncode))


def _say(command: str, problem: str) -> None:
    sys.stderr.write(f"detent {command}: {problem}\n")
    sys.stderr.flush()
