"""A worker's process: limits while it runs, and nobody left when it is done.

A supervisor keeps the worker with all that it starts (see `effects.containment`). The supervisor's number, start time
and boot are written down before the worker exists, so that after a crash `sweep` ends exactly that one and what is left
of its own, and never somebody else's.
"""

import asyncio
import codecs
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from detent.agents.coding.port import Assignment, AttemptLimits, Ended, Hear, Word, WorkerReport
from detent.core.effect_type import EffectFailed
from detent.effects import containment, process, process_census, sandbox

PROMPT, FAILURES, RESULT, OUTPUT, PROCESS = "prompt.md", "failures.json", "result.json", "output.log", "process.json"
RESULT_BYTES_MAX = 1024 * 1024
TAIL_CHARS = 8000
LINE_CHARS_MAX = 1024 * 1024  # agents print whole files in one line of JSON
POLL_S = 0.02
LARGEST = 3
BALLAST = "ballast"
BALLAST_BYTES = 16 * 1024**2
LOOKED_AT_MAX = 200_000
OWN_VARIABLES = ("DETENT_HOME", "DETENT_LANG", "DETENT_DEBUG", "DETENT_TOKEN")


class Result(msgspec.Struct, frozen=True):
    """What a worker may write into DETENT_RESULT_FILE."""

    status: Word = "unknown"
    summary: str = ""
    question: str = ""
    plan: str = ""


def prepare(assignment: Assignment) -> dict[str, str]:
    """Write down what the worker is given; the environment it finds that in."""
    folder = Path(assignment.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (RESULT, OUTPUT, PROCESS, BALLAST):
        (folder / stale).unlink(missing_ok=True)
    (folder / PROMPT).write_text(assignment.prompt, encoding="utf-8")
    (folder / FAILURES).write_text(json.dumps(list(assignment.failures), ensure_ascii=False, indent=1), "utf-8")
    return {
        "DETENT_RUN": assignment.run_id,
        "DETENT_TASK": assignment.task_id,
        "DETENT_ATTEMPT": str(assignment.attempt),
        "DETENT_ROLE": assignment.role,
        "DETENT_PROMPT_FILE": str(folder / PROMPT),
        "DETENT_FAILURES_FILE": str(folder / FAILURES),
        "DETENT_RESULT_FILE": str(folder / RESULT),
        "PWD": assignment.root,  # some programs believe it more than where they are
    }


def environment(added: Mapping[str, str]) -> dict[str, str]:
    """Our own environment, which has the worker's keys, without what steers detent itself."""
    return {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES} | dict(added)


async def hold(
    argv: list[str],
    env: Mapping[str, str],
    assignment: Assignment,
    hear: Hear,
    stdin: str | None = None,
    cost_usd: Callable[[], float] = float,
) -> WorkerReport:
    """Run a worker's process within its limits; when this returns or is cancelled, nothing of it is left.

    `cost_usd` says what it has cost so far, as far as its output tells.
    """
    folder = Path(assignment.folder)
    _hold_back(folder / BALLAST, assignment.limits.free_bytes)
    try:
        with (folder / OUTPUT).open("wb") as log:
            watch = _Watch(assignment.limits, hear, log.write, cost_usd)
            report = await _keep_process(argv, env, assignment, stdin, watch)
    except OSError as error:
        report = WorkerReport(ended="not_started", error=f"cannot keep the worker's output: {error}", environment=True)
    finally:
        swept = await asyncio.shield(asyncio.to_thread(sweep, folder, assignment.key))
        (folder / BALLAST).unlink(missing_ok=True)
    tail = watch.tail if "watch" in locals() else ""
    swept += report.swept
    return msgspec.structs.replace(report, swept=swept, output_file=str(folder / OUTPUT), output_tail=tail)


async def _keep_process(
    argv: list[str], env: Mapping[str, str], assignment: Assignment, stdin: str | None, watch: "_Watch"
) -> WorkerReport:
    folder, begun = Path(assignment.folder), time.time()
    ears = process.Ears(
        lambda pid: begin(folder, pid), lambda chunk: watch.take("stdout", chunk), lambda c: watch.take("stderr", c)
    )
    try:
        box = await sandbox.enter(assignment.sandbox, assignment.root, (assignment.folder, assignment.root))
        async with asyncio.timeout(None) as watch.alarm:
            watch.set()
            finished = await containment.run(
                argv, dict(env), assignment.root, stdin, assignment.key, ears, assignment.limits.space, box
            )
    except TimeoutError:
        if not watch.alarm.expired():
            raise
        return WorkerReport(ended=watch.cause, error=watch.sentence())
    except EffectFailed as error:
        return WorkerReport(ended="not_started", error=str(error), environment=True)
    except process.NotStarted as error:
        sentence = f"`{argv[0]}` could not be started: {error.__cause__}"
        return WorkerReport(ended="not_started", error=sentence, environment=True)
    finally:
        watch.end()
    if finished.disk:
        newest = await asyncio.to_thread(_largest, assignment.tree or assignment.root, begun)
        return WorkerReport(ended="disk", swept=finished.swept, error=f"it was stopped: {finished.disk}{newest}")
    return WorkerReport(exit=finished.exit, swept=finished.swept, error=finished.problem)


def _hold_back(ballast: Path, most: int) -> None:
    """Take a little of the disk while a worker is loose: when the rest is full, we can still write our journal."""
    with contextlib.suppress(OSError, AttributeError):  # then there is none: it only helps in the worst case
        found = os.statvfs(ballast.parent)
        size = min(most, BALLAST_BYTES, found.f_bavail * found.f_frsize // 10)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def _largest(root: str, since: float) -> str:
    """The largest files of the work tree that came or changed since then: what a person would look for first."""
    found: list[tuple[int, str]] = []
    seen = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                facts = os.lstat(os.path.join(folder, name))
                if facts.st_ctime >= since:
                    found.append((facts.st_size, os.path.relpath(os.path.join(folder, name), root)))
        seen += len(names)
        if seen > LOOKED_AT_MAX:
            break
    shown = ", ".join(f"{path} ({size:,} bytes)" for size, path in sorted(found, reverse=True)[:LARGEST])
    return f"; the largest new files here: {shown}" if shown else ""


def result_of(folder: str, report: WorkerReport) -> WorkerReport:
    """The report with what the worker itself wrote into its result file, if that can be read."""
    try:
        with (Path(folder) / RESULT).open("rb") as file:
            body = file.read(RESULT_BYTES_MAX + 1)
        if len(body) > RESULT_BYTES_MAX:
            raise ValueError(f"more than {RESULT_BYTES_MAX:,} bytes")
        said = msgspec.json.decode(body, type=Result)
    except FileNotFoundError:
        return report
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        return msgspec.structs.replace(report, error=report.error or f"its result file cannot be read: {error}")
    if report.ended != "exited":
        said = msgspec.structs.replace(said, status="unknown")
    return msgspec.structs.replace(
        report, status=said.status, summary=said.summary, question=said.question, plan=said.plan
    )


class _Watch:
    """Output on its way to the file and the listener, and the clocks and counts that end an attempt."""

    def __init__(
        self, limits: AttemptLimits, hear: Hear, write: Callable[[bytes], object], cost_usd: Callable[[], float]
    ) -> None:
        self.alarm = asyncio.timeout(None)
        self.cause: Ended = "wall"
        self._limits, self._hear, self._write, self._cost_usd = limits, hear, write, cost_usd
        self._loop = asyncio.get_running_loop()
        self._wall = self._loop.time() + limits.wall_s if limits.wall_s else float("inf")
        self._count = 0
        self._problem = ""
        self._lines = {name: _Lines() for name in ("stdout", "stderr")}
        self.tail = ""

    def set(self) -> None:
        """Wind the clocks."""
        if self.cause in ("output", "cost", "not_started"):
            return
        silent = self._loop.time() + self._limits.silence_s if self._limits.silence_s else float("inf")
        self.cause = "silence" if silent < self._wall else "wall"
        until = min(silent, self._wall)
        self.alarm.reschedule(None if until == float("inf") else until)

    def take(self, stream: str, chunk: bytes) -> None:
        """Some bytes of output."""
        self._count += len(chunk)
        most = self._limits.output_bytes
        if most and self._count > most:
            chunk = chunk[: max(0, len(chunk) - (self._count - most))]
            self._stop("output", "")
        else:
            self.set()
        try:
            self._write(chunk)
        except OSError as error:
            self._stop("not_started", f"its output could not be kept: {error.strerror}")
        self._tell(stream, self._lines[stream].take(chunk))

    def end(self) -> None:
        """What came without a line's end."""
        for stream, lines in self._lines.items():
            self._tell(stream, lines.rest())

    def _stop(self, cause: Ended, problem: str) -> None:
        if not self.alarm.expired():
            self.cause, self._problem = cause, problem
            self.alarm.reschedule(self._loop.time())

    def _tell(self, stream: str, lines: list[str]) -> None:
        for line in lines:
            self._hear(stream, line)
        if lines:
            self.tail = (self.tail + "\n".join(lines) + "\n")[-TAIL_CHARS:]
            if self._limits.cost_usd and self._cost_usd() > self._limits.cost_usd:
                self._stop("cost", f"it has cost {self._cost_usd():.2f} USD; {self._limits.cost_usd:.2f} were left")

    def sentence(self) -> str:
        """Why the attempt was ended."""
        return self._problem or {
            "wall": f"it had not ended after {self._limits.wall_s:g} s",
            "silence": f"it said nothing for {self._limits.silence_s:g} s",
            "output": (
                f"it wrote more than {self._limits.output_bytes:,} bytes; "
                f"{self._count - self._limits.output_bytes:,} more were seen and not kept"
            ),
        }.get(self.cause, "")


class _Lines:
    """Bytes into lines; a line without an end is cut, not kept for ever."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def take(self, chunk: bytes) -> list[str]:
        """The lines that are complete now."""
        *lines, self._begun = (self._begun + self._decoder.decode(chunk)).split("\n")
        if len(self._begun) > LINE_CHARS_MAX:
            lines.append(self._begun)
            self._begun = ""
        return [line.removesuffix("\r")[:LINE_CHARS_MAX] for line in lines]

    def rest(self) -> list[str]:
        """What has no end."""
        begun, self._begun = self._begun, ""
        return [begun] if begun else []


def begin(folder: Path, pid: int = 0) -> None:
    """Write down, for good, that an attempt begins and which process keeps it; 0: it has none of its own."""
    body = {"process": process_census.identity(pid) if pid else "", "pid": pid, "boot": process_census.boot()}
    fd = os.open(folder / PROCESS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, json.dumps(body).encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def has_begun(folder: Path) -> bool:
    """Whether an attempt with this folder was ever begun."""
    return (folder / PROCESS).exists()


def sweep(folder: Path, key: str) -> int:
    """End what an attempt has left running: what its supervisor keeps, and all that carry its mark."""
    count = 0
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        body = json.loads((folder / PROCESS).read_text("utf-8"))
        pid, named = int(body["pid"]), str(body["process"])
        if body["boot"] == process_census.boot() and process_census.lives(named) and os.getpgid(pid) == pid:
            count += 1
            _end(pid, named)
    return count + process.kill_leftovers(key)


def _end(pid: int, named: str) -> None:
    """Let a supervisor end its own: killed at once it would let go of those that only it can find."""
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + containment.PATIENCE_S
    while process_census.lives(named) and time.monotonic() < until:
        time.sleep(POLL_S)
    if process_census.lives(named):
        os.killpg(pid, signal.SIGKILL)
