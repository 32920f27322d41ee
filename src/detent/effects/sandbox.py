"""Sandboxes for programs that effects start: the home is out of their reach, and more where more is asked for.

    off      nothing is kept from the program
    home     the default. As without, except that the home is an empty folder, and that policy, people and
             `detent.*.yaml` files can be read but not changed
    folder   also: only the working folder and the declared paths can be written; `/tmp` is the program's own
    strict   also: only the system's programs, the working folder and the declared paths can be read, and there is a
             network only where `network: true` declares one

bubblewrap does it. As an ordinary user it makes a user namespace, so that the program cannot look through /proc at the
processes outside; as root it makes a process namespace for the same reason, and takes away the capabilities that
could undo the rest. Where bubblewrap cannot run, Landlock can do `folder` if no writable path has the home in it;
nothing else can do `home`. The default is then `off`, and the journal says why, as does one line on the terminal; a
level that somebody asked for is refused.

What a program asks of a service outside (systemd, cron, a container engine, another user) is done outside.
"""

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from detent.core import progress
from detent.core.effect_type import EffectFailed
from detent.effects import landlock
from detent.effects.arguments import Arguments, invalid
from detent.effects.protected_path import guarded_files, identify, state_folder

LEVELS = ("off", "home", "folder", "strict")
DEFAULT = "home"
KNOWN = "sandbox paths network"
MARK = "DETENT_SANDBOX"  # says it to a program that wonders; nothing is decided by it
PROBE_S = 10.0
# What could undo the mounts, look into processes outside, or reach disks and the kernel past them.
TAKEN_FROM_ROOT = (
    "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_DAC_READ_SEARCH", "CAP_SYS_BOOT",
    "CAP_MKNOD", "CAP_BPF", "CAP_PERFMON",
)  # fmt: skip
KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys/devices/system/cpu")
# Each of them is a mount, and each mount takes a tenth of a millisecond: so these are few.
SETTINGS = (
    "ld.so.cache", "passwd", "group", "nsswitch.conf", "hosts", "localtime", "timezone", "ssl", "pki", "alternatives",
    "mime.types", "fonts",
)  # fmt: skip
NETWORK_SETTINGS = ("resolv.conf", "ca-certificates", "services", "protocols")
# Looked into first: into other folders of the PATH a program could have put a bubblewrap of its own.
SYSTEM_PROGRAMS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/wrappers/bin")
OWN_TMP = ("--tmpfs", "/tmp", "--setenv", "TMPDIR", "/tmp")  # noqa: S108
NEVER_FATAL = {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
               signal.SIGURG, signal.SIGWINCH}  # fmt: skip


class SandboxWish(msgspec.Struct, frozen=True):
    """What an action wants: a level ("": the default), and what the stricter ones let through.

    `mounts` are folders seen at another place, each (folder, place); those of `shown` can only be read there. `kept`
    can be read and not written though it lies in something that can; `hidden` are empty folders. So are the `emptied`,
    but they can be written, for this program only, and what the others name in them is seen.
    """

    level: str = ""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = False
    mounts: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()


NO_WISH = SandboxWish()


class Sandbox(msgspec.Struct, frozen=True):
    """What a program is started in: its level, what comes before its own words, and why it is off if nobody said so."""

    level: str = "off"
    prefix: tuple[str, ...] = ()
    is_bubble: bool = False
    why: str = ""

    @property
    def note(self) -> str:
        """What the journal says of it."""
        return f"off: {self.why}" if self.why else self.level

    def command(self, argv: list[str], status: int = -1, words: Iterable[str] = ()) -> list[str]:
        """The program inside; bubblewrap takes further words, and tells `status`, an open file, whether it started."""
        if not self.prefix:
            return argv
        told = ["--json-status-fd", str(status)] if self.is_bubble and status >= 0 else []
        more = words if self.is_bubble else ()
        return [self.prefix[0], *told, *self.prefix[1:], *more, "--", *argv]

    def exit_code(self, code: int) -> int:
        """The program's own exit code: bubblewrap gives 128 and the number for one that was ended by a signal."""
        if not self.is_bubble or code <= 128:  # as shells do
            return code
        number = code - 128
        return -number if number in set(signal.Signals) - NEVER_FATAL else code


OPEN = Sandbox()


def read_wish(given: Arguments) -> SandboxWish:
    """What the arguments of a call say of its sandbox."""
    level = given.choice("sandbox", LEVELS) if "sandbox" in given else ""
    read, write = _read_paths(given, given.any("paths", {}))
    return SandboxWish(level, read, write, given.flag("network"))


def _read_paths(given: Arguments, paths: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`paths`: a list of those that can be written, or a mapping of `read` and `write` to lists."""
    named = {"write": paths} if isinstance(paths, list) else paths
    wanted = "a list of paths, or a mapping with `read` and `write`"
    if not isinstance(named, dict) or not set(named) <= {"read", "write"}:
        raise given.refuse_type("paths", paths, wanted)
    for places in named.values():
        if not isinstance(places, list) or not all(isinstance(one, str) and one and "\0" not in one for one in places):
            raise given.refuse_type("paths", places, wanted)
    return tuple(named.get("read", ())), tuple(named.get("write", ()))


def stricter(one: str, other: str) -> str:
    """The stricter of two levels; an empty one says nothing."""
    return max(one, other, key=lambda level: LEVELS.index(level) if level else -1)


def find_demanded() -> str:
    """The level that the policy demands of the call at work; empty: none."""
    attempt = progress.attempt.get()
    return attempt.least if attempt is not None else ""


def plan_level(wish: SandboxWish) -> str:
    """The level that a call will be made at, as far as that is known before."""
    attempt = progress.attempt.get()
    return stricter(wish.level or DEFAULT, attempt.least if attempt is not None else "")


async def enter(wish: SandboxWish, cwd: str, own: Iterable[str] = ()) -> Sandbox:
    """The sandbox of a program that is about to start in `cwd`; `own` are folders of this call, writable at any level.

    The level is noted for the journal. Raises EffectFailed where a level that somebody asked for cannot be had.
    """
    attempt = progress.attempt.get()
    least = attempt.least if attempt is not None else ""
    home, _, home_id = attempt.ground if attempt is not None else progress.OffLimits()
    level = stricter(wish.level or DEFAULT, least)
    if level == "off" or (level == "home" and not home and not wish.mounts):
        return _note_level(Sandbox())
    if home_id and home_id != identify(home):
        raise EffectFailed(f"the home is not at {home} any more, so no sandbox can keep programs from it; put it back")
    problem = await _probe(level)
    ground = _Ground(level, os.path.realpath(cwd), os.path.realpath(home) if home else "", wish, tuple(own))
    if problem and level == "folder" and not wish.mounts and (prefix := ground.landlock()):
        return _note_level(Sandbox(level, prefix))
    if not problem:
        return _note_level(Sandbox(level, ground.bubble(), is_bubble=True))
    if wish.level or least:
        by = "the policy" if stricter(least, wish.level) == least != wish.level else "the action"
        way_out = "`detent doctor` says what this machine can do"
        raise EffectFailed(f"the sandbox `{level}`, which {by} asks for, is not available here: {problem}; {way_out}")
    for hear in _listeners:
        hear(problem)
    return _note_level(Sandbox(why=problem))


_listeners: list[Callable[[str], object]] = []


@contextlib.contextmanager
def pass_warnings_to(listener: Callable[[str], object]) -> Iterator[None]:
    """Tell somebody why, each time that a program runs without the sandbox it would have by default."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


_probed: set[str] = set()


async def _probe(level: str) -> str:
    """`find_problem`, with a thread the first time only: handing over to one takes longer than all the rest here."""
    if level not in _probed:
        await asyncio.to_thread(find_problem, level)
        _probed.add(level)
    return find_problem(level)


def _note_level(sandbox: Sandbox) -> Sandbox:
    progress.note("sandbox", sandbox.note)
    return sandbox


class _Ground(msgspec.Struct, frozen=True):
    """What a sandbox is made of."""

    level: str
    cwd: str
    home: str
    wish: SandboxWish
    own: tuple[str, ...]

    def bubble(self) -> tuple[str, ...]:
        """bubblewrap with everything that stands before the program."""
        words = [*_begin(self.level, has_network=self.level != "strict" or self.wish.network)]
        words += [word for place in self.wish.emptied if os.path.isdir(place) for word in ("--tmpfs", place)]
        for flag, places in (("--ro-bind", self._places(self.wish.read)), ("--bind", self._writable())):
            for place in places:
                words += [flag, place, place]
        words += self._mount()
        words += self._hide_home()
        for file in guarded_files(self.home, self.cwd):
            if not any(_lies_in(file, place) for _, place in self.wish.mounts):
                words += ["--ro-bind", file, file]
        return (*words, "--setenv", MARK, self.level, "--chdir", self.cwd)

    def _mount(self) -> list[str]:
        """What is seen elsewhere than where it is, and what in writable folders is not writable."""
        wish = self.wish
        words = [word for place in wish.kept if os.path.exists(place) for word in ("--ro-bind", place, place)]
        words += [word for place in wish.hidden for word in ("--tmpfs", place, "--remount-ro", place)]
        words += [word for folder, place in wish.mounts for word in ("--bind", folder, place)]
        words += [word for folder, place in wish.shown for word in ("--ro-bind", folder, place)]
        inside = [one for one in map(os.path.realpath, self.own) if any(_lies_in(one, at) for _, at in wish.mounts)]
        for place in inside:
            if not (self.home and _lies_in(place, self.home)) and place not in {at for _, at in wish.mounts}:
                words += ["--bind", place, place]
        return words

    def _writable(self) -> list[str]:
        if self.level == "home":
            return []
        return [self.cwd, *self._places(self.wish.write), *self.own]

    def _hide_home(self) -> list[str]:
        """The home as an empty folder, with nothing but this call's own folders in it; and what is known of it."""
        words: list[str] = []
        if self.home and os.path.isdir(self.home) and self._is_seen(self.home):
            words = ["--perms", "0700", "--tmpfs", self.home]
            for place in map(os.path.realpath, self.own):
                if _lies_in(place, self.home):
                    words += ["--bind", place, place]
            words += ["--remount-ro", self.home]
        state = state_folder()
        return [*words, "--ro-bind", state, state] if state and self._is_seen(state) else words

    def _is_seen(self, place: str) -> bool:
        """Whether it would be there at all: a strict sandbox has only what was declared."""
        if self.level != "strict":
            return True
        there = (self.cwd, *self._places((*self.wish.read, *self.wish.write)), *self.own)
        return any(_lies_in(place, one) for one in there)

    def _places(self, given: Iterable[str]) -> list[str]:
        found = [os.path.realpath(os.path.join(self.cwd, os.path.expanduser(one))) for one in given]
        for place, one in zip(found, given, strict=True):
            if not os.path.exists(place):
                raise invalid(f"`paths`: there is no {one!r}, so it cannot be let into the sandbox")
        return found

    def landlock(self) -> tuple[str, ...]:
        """Landlock's launcher, if it can do this: it cannot take the home out of a folder that may be written."""
        writable = self._writable()
        kept = [*([self.home] if self.home else []), *guarded_files(self.home, self.cwd)]
        if not landlock.is_able() or any(_lies_in(one, place) for one in kept for place in writable):
            return ()
        return (sys.executable, "-I", "-S", landlock.__file__, *writable)


def _lies_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


@functools.cache
def _begin(level: str, *, has_network: bool) -> tuple[str, ...]:
    """bubblewrap and what is the same for every program at a level: it changes with the machine only."""
    return _bubblewrap(), *{"home": _all, "folder": _read_only, "strict": _nothing}[level](has_network=has_network)


def _all(*, has_network: bool) -> list[str]:
    del has_network
    return ["--dev-bind", "/", "/", *_for_root(), *(("--ro-bind", "/sys", "/sys") if os.geteuid() == 0 else ())]


def _read_only(*, has_network: bool) -> list[str]:
    del has_network
    proc = [] if os.geteuid() == 0 else ["--bind", "/proc", "/proc"]
    words = ["--ro-bind", "/", "/", "--dev", "/dev", *proc, *_for_root(), *OWN_TMP]
    for place in _interpreter():
        words += ["--ro-bind-try", place, place]  # it may lie where `/tmp` was
    return words


def _nothing(*, has_network: bool) -> list[str]:
    words = [] if has_network else ["--unshare-net"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--proc", "/proc", "--dev", "/dev", *OWN_TMP]
    settings = (*SETTINGS, *NETWORK_SETTINGS) if has_network else SETTINGS
    for place in (*SYSTEM, *(f"/etc/{name}" for name in settings), *_interpreter()):
        words += _show(place)
    return [*words, *_keep_from_root()]


def _show(place: str) -> list[str]:
    """A place of the system in an empty sandbox; a link to what is there anyway stays one, which is no mount."""
    if os.path.islink(place) and _lies_in(os.path.realpath(place), "/usr"):
        return ["--symlink", os.readlink(place), place]
    return ["--ro-bind-try", place, place] if os.path.exists(place) else []


def _interpreter() -> list[str]:
    """Python and this package: sandboxed functions and supervised programs need them."""
    places = (sys.base_prefix, sys.prefix, str(Path(__file__).parents[1]))
    return [place for place in dict.fromkeys(map(os.path.realpath, places)) if not _lies_in(place, "/usr")]


def _for_root() -> list[str]:
    return ["--unshare-pid", "--proc", "/proc", *_keep_from_root()] if os.geteuid() == 0 else []


def _keep_from_root() -> list[str]:
    """Root writes the kernel's settings, and one of them names a program that the kernel starts outside."""
    if os.geteuid() != 0:
        return []
    words = [word for place in KERNEL_SETTINGS for word in ("--ro-bind-try", place, place)]
    return [*words, *(word for name in TAKEN_FROM_ROOT for word in ("--cap-drop", name))]


def _bubblewrap() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return (
        shutil.which("bwrap", path=os.pathsep.join(sorted(folders, key=lambda one: one not in SYSTEM_PROGRAMS))) or ""
    )


def forget_abilities() -> None:
    """Find out anew what this machine can do."""
    find_problem.cache_clear()
    _begin.cache_clear()
    _probed.clear()


@functools.cache
def find_problem(level: str) -> str:
    """Why bubblewrap cannot make a sandbox of this level on this machine; empty: it can. Found out by making one."""
    if sys.platform != "linux":
        return "sandboxes need Linux"
    if not _bubblewrap():
        return "bubblewrap (bwrap) is not installed"
    with tempfile.TemporaryDirectory() as folder:
        hidden = ["--bind", folder, folder, "--tmpfs", folder, "--remount-ro", folder]
        argv = [*_begin(level, has_network=level != "strict"), *hidden, "--", "/bin/sh", "-c", ":"]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=PROBE_S, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not run: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return f"bubblewrap does not run: {said or f'exit code {done.returncode}'}"


def abilities() -> dict[str, str]:
    """What this machine can do: each level with nothing, or with why it cannot be had."""
    found = {level: find_problem(level) for level in LEVELS[1:]}
    if found["folder"] and landlock.is_able():
        found["folder"] = ""
    return found


def read_status(status: int) -> bool:
    """Whether bubblewrap says that the program was started; it has ended when this is asked."""
    os.set_blocking(status, False)
    with contextlib.suppress(BlockingIOError):
        return b"exit-code" in os.read(status, 65536)
    return False
