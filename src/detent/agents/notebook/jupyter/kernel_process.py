"""One kernel process with its channels, its standard outputs and the watch over its exit.

Three persistent readers take every message and pass on only what answers the request now at work (by the parent's
msg_id); so whatever an earlier cell still sends is dropped, and no message is lost between two waits. A process that is
gone takes its whole group with it.
"""

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from detent.agents.notebook.jupyter import kernel_launch
from detent.agents.notebook.jupyter.cell_request import CellRequest
from detent.agents.notebook.jupyter.kernel_message import read_message
from detent.agents.notebook.jupyter.output import Outputs
from detent.agents.notebook.jupyter.output_pipe import KernelPipe
from detent.core import EffectFailed
from detent.core.value import scrub
from detent.effects import process, sandbox
from detent.effects.process_census import identity
from detent.effects.sandbox import NO_WISH, SandboxWish
from detent.whole_file import write_whole

SAID_MAX = 4000
KNOCK_S = 0.2  # how often a starting kernel is asked whether it is there
QUIET_S = 0.02  # after an exit: no message for so long means that nothing more will come
DRAIN_S = 0.2  # and this long at most
REAP_S = 5.0
TAKE_UP_S = 0.5
POLL_S = 0.02
RECONNECT_MS = 20
HANDSHAKE = 0x1000  # zmq's event that both sides know a channel
JOIN_S = 1.0  # so long may that take a kernel that answers
CHANNELS = "channels.json"  # how the kernel of a keeper is reached
KEPT = "kept"  # a file in the folder of a kernel that was left: whoever it names keeps the folder


def own(folder: Path) -> socket.socket:
    """Own the kernel of that folder as long as the connection lasts."""
    owner = socket.socket(socket.AF_UNIX)
    owner.connect(str(folder / "k"))  # a Unix socket with room in its queue does not wait
    return owner


# A kernel looks at its parent to know when we are gone; inside it has another one, so the sandbox ends it instead.
KERNEL_WORDS = ("--die-with-parent", "--unsetenv", "JPY_PARENT_PID")


class Link:
    """A kernel process from its start to its end; `open` it before use and `close` it whatever happens."""

    def __init__(
        self,
        name: str,
        cwd: str,
        env: Mapping[str, str],
        marks: Mapping[str, str],
        wish: SandboxWish = NO_WISH,
        *,
        folder: Path | None = None,
        keeper: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._keeper = keeper  # words that start what keeps the process when we leave; none: it ends with us
        self._owner: socket.socket | None = None
        self.sandbox = sandbox.OPEN  # what the process runs in, once it does
        self._wish = wish
        self.language = ""
        self.language_info: dict[str, Any] = {}
        self.can_look = False  # whether the probe is in place
        self.ended = asyncio.Event()
        self.folder = folder or kernel_launch.private_folder()
        self._cwd = cwd
        self._env = kernel_launch.environment(env, marks, self.folder)
        self._loop = asyncio.get_running_loop()
        self._cell: CellRequest | None = None
        self._said = ""
        self._heard_at = 0.0
        self._ready = {"shell": False, "iopub": False}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._pipes: dict[str, KernelPipe] = {}
        self._pidfd = -1
        self._is_watched = False
        self._client: Any = None
        self._manager: Any = None
        self._context: Any = None

    @property
    def pid(self) -> int:
        """The process, 0 before there is one; asked of the library, for a cancel may come right after the fork."""
        return getattr(getattr(self._manager, "provisioner", None), "pid", None) or 0

    async def open(self, within_s: float) -> None:
        """Start the process and wait until it answers; a kernel that cannot start is an EffectFailed that says why."""
        if "\0" in self._cwd or not os.path.isdir(self._cwd):
            raise EffectFailed(f"there is no folder {self._cwd!r} for the kernel to work in", type="validation_error")
        self._prepare_context()
        self.sandbox = await sandbox.enter(self._wish, self._cwd, (str(self.folder),))
        held = [*self._keeper, *self.sandbox.command([], -1, KERNEL_WORDS)]
        self._manager, flags = kernel_launch.manager(self.name, self.folder, self._context, held)
        for stream in ("stdout", "stderr"):
            take = self._take_stream(stream)
            self._pipes[stream] = (
                KernelPipe.open_named(self.folder / stream, take) if self._keeper else KernelPipe(take)
            )
        await self._launch(flags)
        self._watch_exit()
        self._client = self._manager.client()
        self._listen()
        await self._answers(within_s)
        if self._keeper:
            self._owner = own(self.folder)
            # Ours to keep: the library takes its own file away with the object that wrote it.
            write_whole(self.folder / CHANNELS, (self.folder / "connection.json").read_bytes())

    def _prepare_context(self) -> None:
        self._context = kernel_launch.load_extra("zmq.asyncio").Context()
        self._context.linger = 0
        self._context.rcvhwm = 0  # a flood of small outputs must not be thinned out
        self._context.reconnect_ivl = RECONNECT_MS

    def _take_stream(self, name: str) -> Callable[[str], None]:
        return functools.partial(self._hear, name)

    def _listen(self) -> None:
        self._client.start_channels(shell=True, iopub=True, stdin=True, hb=False, control=True)  # noqa: S604
        for channel, take in (("shell", self._on_shell), ("iopub", self._on_iopub), ("stdin", self._on_stdin)):
            self._own(self._read(getattr(self._client, f"{channel}_channel").socket, take))
        asking = self._client.stdin_channel.socket
        self._joined = self._own(self._join(asking, asking.get_monitor_socket(HANDSHAKE)))

    async def _join(self, channel: Any, monitor: Any) -> None:
        """What a kernel asks before it knows the channel for the answer is lost, and it would wait for ever."""
        await monitor.recv_multipart()
        channel.disable_monitor()
        monitor.close()

    @property
    def can_stay(self) -> bool:
        """Whether the process can go on without us."""
        return self._owner is not None and not self.ended.is_set()

    async def leave(self, keep_s: int) -> None:
        """Leave the process to its keeper, for a while, and give back everything of ours."""
        if self._owner is not None:
            (self.folder / KEPT).write_text(identity(self.pid), encoding="ascii")
            with contextlib.suppress(OSError):  # its keeper is gone, and so is the kernel
                self._owner.send(b"keep %d\n" % keep_s)
            self._owner.close()
            self._owner = None
        if self._manager is not None:
            self._manager.provisioner.process.returncode = 0  # not ours to wait for any more
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        await self._give_back(is_left=True)

    async def _launch(self, flags: list[str]) -> None:
        try:
            await self._manager.start_kernel(
                extra_arguments=flags,
                env=self._env,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,  # reading standard input finds its end at once
                stdout=self._pipes["stdout"].writer if not self._keeper else subprocess.DEVNULL,
                stderr=self._pipes["stderr"].writer if not self._keeper else subprocess.DEVNULL,
            )
        except OSError as error:
            raise EffectFailed(f"the kernel `{self.name}` could not be started: {error}") from error
        finally:
            for pipe in self._pipes.values():
                pipe.release()

    async def _answers(self, within_s: float) -> None:
        """Knock until both channels have answered: what a kernel says before we listen would be lost."""
        until = time.monotonic() + within_s
        while not all(self._ready.values()):
            if self.ended.is_set():
                raise EffectFailed(
                    f"the kernel `{self.name}` {self.farewell()} while starting; it said: {self._last_words()}"
                )
            if time.monotonic() > until:
                raise EffectFailed(
                    f"the kernel `{self.name}` did not answer within {within_s:g} s", type="timeout.action"
                )
            self._news.clear()
            await self._send("shell", "kernel_info_request", {})
            await asyncio.wait((self._own(self._news_came()),), timeout=KNOCK_S)
        await asyncio.wait((self._joined,), timeout=JOIN_S)

    async def _news_came(self) -> None:
        while not all(self._ready.values()) and not self.ended.is_set():
            self._news.clear()
            await self._news.wait()

    def _last_words(self) -> str:
        for pipe in self._pipes.values():
            pipe.rest()
        return self._said.strip() or "nothing"

    def farewell(self) -> str:
        """How the process ended, as the end of a sentence."""
        code = getattr(getattr(self._manager.provisioner, "process", None), "returncode", None)
        if code is None:
            return "ended"
        code = self.sandbox.exit_code(code)
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"was ended by {name}"

    # Requests

    async def send(
        self,
        code: str,
        outputs: Outputs,
        expressions: Mapping[str, str],
        is_silent: bool,
        inputs: Sequence[str] | None = None,
    ) -> CellRequest:
        """Send a cell; from now on it hears what the kernel says about it. Without `inputs`, `input()` raises."""
        for pipe in self._pipes.values():  # what lies there is not this cell's
            pipe.rest()
        content = {
            "code": code,
            "silent": is_silent,
            "store_history": not is_silent,
            "user_expressions": dict(expressions),
            "allow_stdin": inputs is not None,  # without: input() raises at once
            "stop_on_error": False,  # we send one request at a time: there is no queue to abort
        }
        message = self._client.session.msg("execute_request", content)
        self._cell = cell = CellRequest(message["header"]["msg_id"], outputs, is_silent)
        cell.inputs, cell.may_ask = [*(inputs or ())], inputs is not None
        if self.ended.is_set():
            cell.end_dead()
        else:
            await self._send("shell", message)
        return cell

    def release(self, cell: CellRequest) -> None:
        """The cell is over: take what it wrote to the descriptors, and listen no longer."""
        for pipe in self._pipes.values():
            pipe.rest()
        cell.close()
        self._cell = None

    async def _send(self, channel: str, kind: Any, content: dict[str, Any] | None = None) -> None:
        session = self._client.session
        message = kind if isinstance(kind, dict) else session.msg(kind, content)
        # Through the loop's own socket: sending on its shadow, as the library does, may swallow a reader's wake-up.
        await getattr(self._client, f"{channel}_channel").socket.send_multipart(session.serialize(message))

    # What the kernel says

    async def _read(self, socket: Any, take: Callable[[str, str, dict[str, Any]], None]) -> None:
        session = self._client.session
        while True:
            frames = await socket.recv_multipart()
            self._heard_at = time.monotonic()
            with contextlib.suppress(Exception):  # a bad message (forged, or too deep) is no reason to go deaf
                take(*read_message(session, frames))

    def _on_shell(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        if kind == "kernel_info_reply":
            self.language_info = dict(content.get("language_info") or {})
            self.language = str(self.language_info.get("name", ""))
            self._ready["shell"] = True
            self._news.set()
        elif kind == "execute_reply" and self._cell is not None and parent == self._cell.msg_id:
            self._cell.take_reply(content)

    def _on_iopub(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        if not self._ready["iopub"]:
            self._ready["iopub"] = True
            self._news.set()
        if self._cell is not None and parent == self._cell.msg_id:
            self._cell.put_out(kind, content)

    def _on_stdin(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        """A cell asks for input: it is given what there is, else it waits for a person; a password is never asked."""
        cell = self._cell
        if kind != "input_request" or cell is None or parent != cell.msg_id:
            return
        prompt = scrub(str(content.get("prompt", "")))
        if content.get("password"):
            cell.outputs.note(f"the cell asked for a password ({prompt!r}): it would be journalled; give it with --env")
            self._own(self.interrupt())
        elif not cell.may_ask:  # a kernel that asks although we said that nobody will answer
            cell.outputs.note(f"the cell asked for input ({prompt!r}); nobody can answer")
            self._own(self.interrupt())
        elif cell.inputs:
            self._own(self.give_input(cell.inputs.pop(0)))
        else:
            cell.ask(prompt)

    async def give_input(self, value: str) -> None:
        """Answer the cell that waits for input."""
        await self._send("stdin", "input_reply", {"value": value})

    def _hear(self, stream: str, text: str) -> None:
        self._heard_at = time.monotonic()
        if self._cell is not None:
            self._cell.outputs.stream(stream, text)
        else:
            self._said = (self._said + text)[-SAID_MAX:]

    # The process

    def _watch_exit(self) -> None:
        self._is_watched = True
        try:
            if sys.platform != "linux":
                raise OSError
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:  # another system, or a very old kernel
            self._own(self._poll())
        else:
            self._loop.add_reader(self._pidfd, self._reap)

    async def _poll(self) -> None:
        while self._manager.provisioner.process.poll() is None:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(POLL_S)
        self._reap()

    def _reap(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        self.kill_group()  # before it is reaped: then its number could already be somebody else's
        self._collect()
        self.ended.set()
        self._news.set()
        self._drain(time.monotonic() + DRAIN_S)

    def _collect(self) -> None:
        self._manager.provisioner.process.poll()

    def _drain(self, until: float) -> None:
        """Let in what the process had sent before it died, then tell the cell."""
        if self._cell is None:
            return
        now = time.monotonic()
        if now < until and (now - self._heard_at < QUIET_S or now < until - DRAIN_S + QUIET_S):
            self._loop.call_later(QUIET_S, self._drain, until)
            return
        for pipe in self._pipes.values():
            pipe.rest()
        self._cell.end_dead()

    async def interrupt(self, again: int = 0) -> None:
        """Ask the kernel to give up what it is doing, in the way its kernelspec says.

        A kernel that has not begun with the cell ignores it; `again` says how often it is then repeated.
        """
        cell = self._cell
        is_early = cell is not None and not cell.is_taken_up
        if cell is not None:
            await cell.wait_begun(TAKE_UP_S)
        await self._interrupt()
        for _ in range(again if is_early else 0):
            if cell is None or await cell.over(TAKE_UP_S):
                return
            await self._interrupt()

    async def _interrupt(self) -> None:
        if not self.ended.is_set():
            with contextlib.suppress(OSError, RuntimeError):
                if self.sandbox.is_bubble:  # the group's first process is bubblewrap, which would end
                    process.signal_inside(self.inner_pid, signal.SIGINT)
                else:
                    await self._ask_to_stop()

    async def _ask_to_stop(self) -> None:
        await self._manager.interrupt_kernel()

    @property
    def inner_pid(self) -> int:
        """The process that holds the kernel: ours, or what its keeper has started."""
        return process.first_child(self.pid) if self._keeper else self.pid

    async def kill(self) -> None:
        """End the process and all it started, now."""
        if not self._is_watched:
            self._watch_exit()
        self.kill_group()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAP_S):
                await self.ended.wait()

    def kill_group(self) -> None:
        """Send the signal that nobody survives, without waiting for its effect."""
        if self.pid and not self.ended.is_set():
            for end in (os.killpg, os.kill):  # it may have left the group we gave it
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    end(self.pid, signal.SIGKILL)

    async def close(self, polite_s: float = 0.0) -> None:
        """End the process (politely first, if there is time for that) and give back everything it held."""
        try:
            if polite_s and self.pid and self._client is not None and not self.ended.is_set():
                await self._send("control", "shutdown_request", {"restart": False})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(polite_s):
                        await self.ended.wait()
        finally:
            try:
                if self.pid:
                    await self.kill()
            finally:
                await self._give_back()

    async def _give_back(self, *, is_left: bool = False) -> None:
        """Nothing here waits for anybody before everything is back, so no cancel can leave something behind."""
        for task in self._tasks:
            task.cancel()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if self._client is not None:
            self._client.stop_channels()
        if self._owner is not None:
            self._owner.close()
        if self._context is not None:
            self._context.destroy(linger=0)
        for pipe in self._pipes.values():
            pipe.close()
        self._pipes.clear()
        if not is_left:
            kernel_launch.remove(self.folder)
        if self._manager is not None and not is_left:
            await self._manager.cleanup_resources()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._tasks = [task for task in self._tasks if not task.done()]
        task = self._loop.create_task(work)
        self._tasks.append(task)
        return task
