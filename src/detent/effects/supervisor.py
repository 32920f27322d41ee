"""The keeper of one process and of all that come from it: a program of its own, run by `containment`.

    python -I -S supervisor.py LIFELINE REPORT GROWTH RESERVE program argument …

It is the subreaper of the program, so a descendant that leaves its session and its parents becomes our child and can be
found. When the program ends, when we are asked to end (SIGTERM), or when whoever started us is gone (the pipe LIFELINE
ends, which no kill -9 can prevent), every descendant is ended, and only then we are. Into REPORT goes one line:
`exited CODE COUNT LEFT`, where COUNT were still there and LEFT could not be ended, or `failed ERRNO`.

No file may grow beyond GROWTH bytes. When the disk of the folder we were started in, or that of the temporary files,
has lost more than GROWTH bytes and our descendants have written as many, or has less than RESERVE left, everybody is
ended at once, and ` grown BYTES`, ` scarce BYTES` or ` files COUNT` is added to the line. 0 is no bound.

Only the standard library, and little of it: this runs before every attempt of a worker.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

IS_LINUX = os.uname().sysname == "Linux"
PR_SET_CHILD_SUBREAPER = 36
POLITE_S = 0.5  # between the polite and the final signal
SURE_S = 5.0
POLL_S = 0.01
RUSH_S = 0.0005  # faster than one that forks and dies to get away
LOOK_S = 0.05  # between two looks at the disk
SHARE = 10  # of a small disk only this part is kept free
FILES_MIN = 5000  # as many more files must fit


def _children(pid: int) -> set[int]:
    found = set[int]()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    return found


def _descendants() -> set[int]:
    """Those that can be seen now; one that forks meanwhile may be missed, and is our child a moment later."""
    family, fresh = set[int](), _children(os.getpid())
    while fresh:
        family |= fresh
        fresh = {child for pid in fresh for child in _children(pid)} - family
    return family


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _count_written() -> int:
    """What our descendants have written so far, also those that have ended; without such an account, anything."""
    found = 0
    for pid in (*_descendants(), os.getpid()):  # we have inherited what our dead have written
        try:
            with open(f"/proc/{pid}/io", "rb") as file:
                told = dict(line.split(b": ") for line in file.read().splitlines())
            found += max(int(told[b"wchar"]), int(told[b"write_bytes"]))
        except FileNotFoundError:
            if not os.path.exists("/proc/self/io"):
                return sys.maxsize
        except (OSError, ValueError, KeyError):
            continue
    return found


class Disk:
    """What is left on the disks that a program can easily fill, and what has to be."""

    def __init__(self, growth: int, reserve: int) -> None:
        self._growth = growth
        self._watched: dict[int, tuple[int, int, int]] = {}  # a folder: bytes free at first; bytes, files to keep
        known = set[int]()
        for folder in (".", os.environ.get("TMPDIR") or "/tmp"):  # noqa: S108 - where others put their files
            with contextlib.suppress(OSError):
                fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                device, found = os.fstat(fd).st_dev, os.fstatvfs(fd)
                free = found.f_bavail * found.f_frsize
                keep = min(reserve, found.f_blocks * found.f_frsize // SHARE, free // 2)
                files = min(FILES_MIN, found.f_files // SHARE, found.f_favail // 2) if reserve else 0
                if device not in known and (growth or reserve):
                    self._watched[fd] = free, keep, files
                known.add(device)

    @property
    def look_ms(self) -> float | None:
        """How long one may wait until the next look; None: for ever."""
        return LOOK_S * 1000 if self._watched else None

    def trouble(self) -> str:
        """What is wrong by now, in two words of the report; empty: nothing."""
        for fd, (before, keep, files) in self._watched.items():
            found = os.fstatvfs(fd)
            free = found.f_bavail * found.f_frsize
            if self._growth and before - free > self._growth and _count_written() > self._growth:
                return f"grown {before - free}"
            if free < keep:
                return f"scarce {free}"
            if found.f_files and found.f_favail < files:
                return f"files {found.f_favail}"
        return ""


def _bound_files(most: int) -> None:
    """No file larger than this, for us and for all that come from us."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most and (hard == resource.RLIM_INFINITY or most < hard):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


class Keeper:
    """The program we look after."""

    def __init__(self, lifeline: int, disk: Disk) -> None:
        self._lifeline, self._disk = lifeline, disk
        self.trouble = ""
        self._woken, self._waker = os.pipe()
        for fd in (self._woken, self._waker):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note_signal)
        self._is_stopped = False
        self._program = 0
        self.code: int | None = None

    def _note_signal(self, number: int, _frame: object) -> None:
        self._is_stopped |= number != signal.SIGCHLD

    def start(self, argv: list[str]) -> None:
        """Start it in a session of its own, with our streams, which we then let go."""
        default = [signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD]
        if hasattr(signal, "SIGXFSZ"):
            default.append(signal.SIGXFSZ)
        self._program = os.posix_spawnp(argv[0], argv, os.environ, setsid=True, setsigdef=default)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)

    def watch(self) -> None:
        """Return when it has ended, or when it has to."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.register(self._lifeline, select.POLLIN | select.POLLHUP)
        while self._reap() and self.code is None and not self._is_stopped:
            ready = [fd for fd, _ in poll.poll(self._disk.look_ms)]
            self.trouble = self._disk.trouble()
            if self.trouble:
                return
            if self._lifeline in ready and not os.read(self._lifeline, 1):
                return
            if self._woken in ready:
                os.read(self._woken, 4096)
        if not self._is_stopped:  # one that filled the disk between two looks and gave up is no better
            self.trouble = self._disk.trouble()

    def _reap(self) -> bool:
        """Take leave of the children that have ended; whether there are others."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._program:
                    self.code = os.waitstatus_to_exitcode(status)
        return False

    def sweep(self) -> tuple[int, int]:
        """End everybody: politely (unless the disk is running full), then surely; how many, and how many are left.

        As long as a descendant lives, one of them is our child: to have none is the only proof that all are gone.
        """
        begun, seen = time.monotonic() - (POLITE_S if self.trouble else 0.0), set[int]()
        while True:
            is_one_left = self._reap()
            found = _descendants() | self._group()
            waited_s = time.monotonic() - begun
            if not (is_one_left or found) or waited_s > POLITE_S + SURE_S:
                return len(seen - {self._program}), len(found) or int(is_one_left)
            if waited_s >= POLITE_S:
                _signal(found, signal.SIGKILL)
            else:
                _signal(found - seen, signal.SIGTERM)
            seen |= found
            time.sleep(POLL_S if waited_s < POLITE_S else RUSH_S)

    def _group(self) -> set[int]:
        """On a system where we are nobody's subreaper: at least the program's own group."""
        if IS_LINUX:
            return set()
        try:
            os.killpg(self._program, 0)
        except OSError:
            return set()
        return {-self._program}


def main(argv: list[str]) -> None:
    """Keep one program."""
    lifeline, report = int(argv[0]), int(argv[1])
    for fd in (lifeline, report):
        os.set_inheritable(fd, False)
    if IS_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    growth, reserve = int(argv[2]), int(argv[3])
    keeper = Keeper(lifeline, Disk(growth, reserve))
    _bound_files(growth)
    if not os.read(lifeline, 1):  # nobody is there any more, so nothing is to be started
        return
    try:
        keeper.start(argv[4:])
    except OSError as error:
        os.write(report, f"failed {error.errno}\n".encode())
        return
    keeper.watch()
    swept, left = keeper.sweep()
    code = keeper.code if keeper.code is not None else -int(signal.SIGKILL)
    with contextlib.suppress(OSError):  # the one who wanted to know may be gone
        os.write(report, f"exited {code} {swept} {left} {keeper.trouble}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
