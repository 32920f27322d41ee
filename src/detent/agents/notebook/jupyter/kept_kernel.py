"""Kernels that stay when their detent leaves: which there are, and how the next detent goes on in one of them.

A record per run lies beside the journal while its kernel runs. It says who the process is, so that anybody can see,
interrupt or end it; one whose detent has left for a while also says until when it waits.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from detent.agents.notebook.jupyter import kernel_launch
from detent.agents.notebook.jupyter.kernel_process import CHANNELS, KEPT, Link, own
from detent.agents.notebook.jupyter.output_pipe import KernelPipe
from detent.core import EffectFailed
from detent.effects import process
from detent.effects.process_census import identity, lives
from detent.effects.sandbox import NO_WISH, Sandbox

FOLDER = "kernels"
MARKS = "deeds"  # a file in the kernel's folder: what its cells were about to do to the world (`audit_hook`)
INTERRUPTED = "interrupted"  # a file in the kernel's folder: somebody interrupted its cell from elsewhere


class KernelRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a run's kernel while it runs."""

    run_id: str
    identity: str  # of the process that detent started
    host: str  # and of the detent it belongs to, or belonged to
    folder: str
    name: str = "python3"
    executed: int = 0  # how many cells of the journal it has run
    is_bubble: bool = False
    until: float = 0.0  # kept until then; 0: its detent is there
    since: float = 0.0

    @property
    def pid(self) -> int:
        """The process."""
        return int(self.identity.partition("-")[0])

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return lives(self.identity)

    @property
    def is_kept(self) -> bool:
        """Whether it waits for a detent that goes on with it."""
        return self.until > time.time() and self.is_alive


class KernelRecords:
    """The records of one home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def _path(self, run_id: str) -> Path:
        return self._folder / f"run-{run_id}.json"

    def write(self, record: KernelRecord) -> None:
        """Enter a kernel."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self._folder / f".new-{os.getpid()}"
        part.write_bytes(msgspec.json.encode(record))
        part.chmod(0o600)
        part.replace(self._path(record.run_id))

    def read(self, run_id: str) -> KernelRecord | None:
        """The kernel of a run, if one runs."""
        try:
            found = msgspec.json.decode(self._path(run_id).read_bytes(), type=KernelRecord)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.is_alive else None

    def keep_marks(self) -> None:
        """Take over what the cells of kernels that have died were about to do, before their folders go."""
        for path in self._folder.glob("run-*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                record = msgspec.json.decode(path.read_bytes(), type=KernelRecord)
                if not record.is_alive:
                    marks = (Path(record.folder) / MARKS).read_bytes()
                    (self._folder / f"deeds-{record.run_id}").write_bytes(marks)

    def list_marks(self, run_id: str, code: str) -> list[str]:
        """What this cell was about to do in a kernel that died with its detent."""
        try:
            text = (self._folder / f"deeds-{run_id}").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return marks_of(text, code)

    def forget_marks(self, run_id: str) -> None:
        """What was marked has been dealt with."""
        (self._folder / f"deeds-{run_id}").unlink(missing_ok=True)

    def all(self) -> list[KernelRecord]:
        """Every kernel that runs; records of those that have ended are taken away."""
        found = []
        for path in sorted(self._folder.glob("run-*.json")):
            record = self.read(path.name.removeprefix("run-").removesuffix(".json"))
            if record is None:
                path.unlink(missing_ok=True)
            else:
                found.append(record)
        return found

    def remove(self, run_id: str) -> None:
        """Forget a kernel."""
        self._path(run_id).unlink(missing_ok=True)


def marks_of(text: str, code: str) -> list[str]:
    """The lines of a file of marks that are about this code, or about code that nobody could name."""
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    parts = [line.partition(" ") for line in text.splitlines()]
    return list(dict.fromkeys(what for cell, _, what in parts if cell in (digest, "-")))


def interrupt_kernel(record: KernelRecord) -> None:
    """Interrupt the cell at work, from any process of the same user."""
    (Path(record.folder) / INTERRUPTED).touch()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if record.is_bubble:
            process.signal_inside(process.first_child(record.pid), signal.SIGINT)
        else:
            os.killpg(record.pid, signal.SIGINT)


def end_kernel(record: KernelRecord) -> None:
    """End a kernel and all it started."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(record.pid, signal.SIGKILL)
    kernel_launch.remove(Path(record.folder))


def memory_of(record: KernelRecord) -> int:
    """Bytes of memory that the processes of a kernel hold, where the system says; else 0."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == record.pid:  # the group
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


class KeptLink(Link):
    """The link to a kernel that an earlier detent started and left."""

    def __init__(self, record: KernelRecord) -> None:
        super().__init__(record.name, "", {}, {}, NO_WISH, folder=Path(record.folder), keeper=("",))
        self._record = record
        self.sandbox = Sandbox(is_bubble=True) if record.is_bubble else self.sandbox

    @property
    def pid(self) -> int:
        """The process."""
        return self._record.pid

    async def open(self, within_s: float) -> None:
        """Go on with the process; an EffectFailed says why that is not possible."""
        try:
            given = json.loads((self.folder / CHANNELS).read_text(encoding="utf-8"))
            self._owner = own(self.folder)
        except (OSError, ValueError) as error:
            raise EffectFailed(f"the kernel that was kept cannot be reached: {error}") from error
        self._prepare_context()
        for stream in ("stdout", "stderr"):
            self._pipes[stream] = KernelPipe.open_named(self.folder / stream, self._take_stream(stream))
        self._watch_exit()
        client = kernel_launch.load_extra("jupyter_client.asynchronous").AsyncKernelClient(context=self._context)
        client.load_connection_info(given)
        self._client = client
        self._listen()
        await self._answers(within_s)
        self.can_look = self.language == "python"
        (self.folder / KEPT).unlink(missing_ok=True)

    def farewell(self) -> str:
        """How the process ended, as the end of a sentence."""
        return "ended"

    async def _poll(self) -> None:
        while lives(self._record.identity):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self._reap()

    def _collect(self) -> None:
        """Nothing to do: another process is its parent."""

    async def _ask_to_stop(self) -> None:
        os.killpg(self.pid, signal.SIGINT)


def keeper_words(folder: Path) -> list[str]:
    """The words that start a kernel under a keeper; its own words follow."""
    program = str(Path(__file__).with_name("keeper.py"))
    return [sys.executable, "-I", "-S", program, str(folder / "k"), str(folder / "stdout"), str(folder / "stderr")]


def record_of(run_id: str, link: Link, executed: int, until: float = 0.0) -> KernelRecord:
    """What is to be known of a kernel."""
    return KernelRecord(
        run_id, identity(link.pid), identity(os.getpid()), str(link.folder), link.name, executed,
        link.sandbox.is_bubble, until, time.time(),
    )  # fmt: skip
