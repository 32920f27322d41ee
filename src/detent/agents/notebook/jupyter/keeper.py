"""The parent of a kernel that may outlive the detent that started it; run as a program, standard library only.

    python -I -S keeper.py SOCKET OUT ERR WORD…

Whoever connects to SOCKET owns the kernel. When an owner is gone, the kernel is ended at once, unless the owner's last
word was `keep SECONDS`: then the next owner has so long to come. When the kernel ends, so does this, in the same way.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

FIRST_S = 60.0  # within which somebody must come after the start
LOOK_S = 1.0


class KernelKeeper:
    """One kernel and whoever owns it."""

    def __init__(self, path: str, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.until = time.monotonic() + FIRST_S
        self._owner: socket.socket | None = None
        self._heard = b""
        self._listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        self._listener.bind(path)
        os.umask(before)
        self._listener.listen(2)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._welcome)
        wake, bell = os.pipe()
        for end in (wake, bell):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 64))

    def run(self) -> int:
        """Stay until the kernel ends or nobody wants it; its exit code."""
        while self.child.poll() is None:
            if self._owner is None and time.monotonic() > self.until:
                self._end()
                break
            for key, _ in self._selector.select(LOOK_S):
                with contextlib.suppress(BlockingIOError):
                    key.data()
        return self.child.wait()

    def _welcome(self) -> None:
        owner, _ = self._listener.accept()
        with contextlib.suppress(BlockingIOError):
            while self._owner is not None:  # it may just have left
                self._hear()
        if self._owner is not None:
            owner.close()  # it has one
            return
        owner.setblocking(False)
        self._owner, self._heard, self.until = owner, b"", 0.0
        self._selector.register(owner, selectors.EVENT_READ, self._hear)

    def _hear(self) -> None:
        owner = self._owner
        if owner is None:
            return
        try:
            piece = owner.recv(1024)
        except BlockingIOError:
            raise
        except OSError:
            piece = b""
        if piece:
            self._heard = (self._heard + piece)[-1024:]
            return
        self._selector.unregister(owner)
        owner.close()
        self._owner = None
        word, _, seconds = self._heard.strip().rpartition(b"\n")[2].partition(b" ")
        if word == b"keep" and seconds.isdigit():
            self.until = time.monotonic() + int(seconds)
        else:
            self._end()

    def _end(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(0, signal.SIGKILL)  # and ourselves with all that it started


def main() -> None:
    """Start the kernel and keep it."""
    path, out, err, *words = sys.argv[1:]
    signal.signal(signal.SIGINT, lambda *_: None)  # meant for the kernel, which is in our group
    streams = [os.open(name, os.O_RDWR) for name in (out, err)]  # held open: a kernel must never find them closed
    env = {**os.environ, "JPY_PARENT_PID": str(os.getpid())}
    child = subprocess.Popen(  # noqa: S603
        words, stdin=subprocess.DEVNULL, stdout=streams[0], stderr=streams[1], env=env
    )
    code = KernelKeeper(path, child).run()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
