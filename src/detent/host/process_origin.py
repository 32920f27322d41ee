"""Where a process comes from: whether a step of some run has started it. The kernel says so, not the process.

Every process that holds a journal has a lock on the file `lock` in its home, which /proc shows. What it starts for a
step gets a session of its own, and no process can join the session of another. So a process below a holder in another
session was started by a step; below a `detent` command, which starts nothing but for steps, one in the same session
too. A command that holds a journal adopts what its steps leave behind (`adopt_orphans`), so that a second fork does not
lead out of the family. The mark in the environment is only a hint, believed when it speaks against its carrier.

Where there is no /proc nothing can be known: see docs/security.md.
"""

import contextlib
import ipaddress
import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from detent.host.reading import JournalHolder

Origin = Literal["step", "person", "unknown"]
PR_SET_CHILD_SUBREAPER = 36
DEPTH_MAX = 4096
MARK = b"DETENT_CALL="
PROGRAM = "detent"  # how the commands of detent name themselves in a lock
TABLES = (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6))  # of /proc/net
PEER = struct.Struct("3i")
PEOPLE_MAX = 1024  # connections of people that are remembered
WORLD = ("pid", "user")  # the namespaces in which a process must be to be one of ours: root's sandboxes have the first


_of_people: dict[tuple[tuple[str, int], tuple[str, int], str], None] = {}  # by both ends and the kernel's own number


class Peer(NamedTuple):
    """The process at the other end of a connection, as the kernel knows it; -1 and 0: it does not say."""

    pid: int = 0
    uid: int = -1


def can_know() -> bool:
    """Whether this system shows where processes come from."""
    return os.path.exists("/proc/self/stat")


def peer_of(connection: socket.socket) -> Peer:
    """Who is at the other end of a Unix socket."""
    if not hasattr(socket, "SO_PEERCRED"):
        return Peer()
    pid, uid, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return Peer(pid, uid)


def origin_of(pid: int) -> Origin:
    """Whether a step has started this process; `unknown` where the system does not show it."""
    if not can_know():
        return "unknown"
    if pid > 0 and is_started_by_effect(pid):
        return "step"
    return "person" if pid > 0 and _is_of_our_world(pid) else "unknown"


def is_started_by_effect(pid: int) -> bool:
    """Whether an effect of some detent has started this process, or one that it comes from."""
    own = _stat(pid)
    if own is None:
        return False
    seen = 0
    here = pid
    while here > 1 and seen < DEPTH_MAX:
        if _is_marked(here):
            return True
        found = _stat(here)
        if found is None:
            return False
        here, seen = found[0], seen + 1
        above = _stat(here)
        if above is not None and (said := _holds(here)) is not None:
            is_command = said.command == PROGRAM or said.command.startswith(PROGRAM + " ")
            if is_command or own[1] != above[1]:
                return True
    return False


def peer_of_connection(client: tuple[str, int], server: tuple[str, int]) -> tuple[Peer, ...]:
    """Every process that holds the client's end of a TCP connection on this machine; none where that is not shown.

    One whose processes cannot be seen (another user's, another container's) is told with its user alone.
    """
    found = _find_connection(client, server)
    return () if found is None else _find_peers(*found)


def user_of_connection(client: tuple[str, int], server: tuple[str, int]) -> int:
    """The user of the client's end of a TCP connection on this machine; -1 where that is not shown."""
    found = _find_connection(client, server)
    return -1 if found is None else found[1]


def origin_of_connection(client: tuple[str, int], server: tuple[str, int]) -> Origin:
    """Whether something that a step has started holds the other end of a TCP connection on this machine.

    Who holds it is looked up in all open files of all processes. A person's connection is looked up once: nobody else
    gets hold of it but by that person's program giving it away.
    """
    found = _find_connection(client, server)
    if found is None:
        return "unknown"
    if (client, server, found[0]) in _of_people:
        return "person"
    origin = _judge_peers(_find_peers(*found))
    if origin == "person":
        while len(_of_people) >= PEOPLE_MAX:
            del _of_people[next(iter(_of_people))]
        _of_people[client, server, found[0]] = None
    return origin


def _judge_peers(peers: Sequence[Peer]) -> Origin:
    found = [origin_of(peer.pid) if peer.pid else "unknown" for peer in peers]
    if "step" in found:
        return "step"
    if "unknown" not in found:
        return "person"
    return "person" if all(peer.uid not in (os.getuid(), -1) for peer in peers) else "unknown"


def _find_connection(client: tuple[str, int], server: tuple[str, int]) -> tuple[str, int] | None:
    """The inode and the user of the client's end of a connection, as the kernel lists it."""
    for name, family in TABLES:
        try:
            wanted = f" {_address(client, family)} {_address(server, family)} "
        except ValueError:
            continue
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            for line in file:
                if wanted in line:
                    parts = line.split()
                    return parts[9], int(parts[7])
    return None


def _address(end: tuple[str, int], family: int) -> str:
    """An address as /proc/net writes it: each word of it as this machine stores it."""
    host = ipaddress.ip_address(end[0].partition("%")[0])
    if family == socket.AF_INET6:
        packed = (ipaddress.IPv6Address(f"::ffff:{host}") if host.version == 4 else host).packed
    elif host.version == 4:
        packed = host.packed
    else:
        mapped = ipaddress.IPv6Address(str(host)).ipv4_mapped
        if mapped is None:
            raise ValueError(end[0])
        packed = mapped.packed
    words = struct.unpack(f"{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"


def _find_peers(inode: str, uid: int) -> tuple[Peer, ...]:
    """Who has a socket open. Thousands of files are looked at, so that each may cost little."""
    wanted = f"socket:[{inode}]"
    found = list[Peer]()
    for pid in os.listdir("/proc"):
        try:
            for name in os.listdir(f"/proc/{pid}/fd") if pid.isdecimal() else ():
                try:
                    if os.readlink(f"/proc/{pid}/fd/{name}") == wanted:
                        found.append(Peer(int(pid), uid))
                        break
                except OSError:  # it was closed meanwhile
                    continue
        except OSError:  # the process has ended, or is another user's
            continue
    return tuple(found) or (Peer(0, uid),)


def adopt_orphans() -> bool:
    """Become the parent of whatever our descendants leave behind; whether the system can do that."""
    try:
        import ctypes  # noqa: PLC0415  # a dozen modules that most processes never need

        return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError, ImportError):
        return False


def dead_children() -> set[int]:
    """Our children that have ended and that nobody has taken leave of."""
    found = set[int]()
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
                for pid in map(int, file.read().split()):
                    if _state(pid) == "Z":
                        found.add(pid)
    return found


def _fields(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().decode("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _stat(pid: int) -> tuple[int, int] | None:
    """The parent and the session of a process."""
    found = _fields(pid)
    return (int(found[1]), int(found[3])) if found else None


def _state(pid: int) -> str:
    found = _fields(pid)
    return found[0] if found else ""


def _is_of_our_world(pid: int) -> bool:
    """Whether a process is there, in our own namespaces or in ones that we cannot compare.

    Every sandbox of ours has namespaces of its own, and nobody comes back out of one: what a step leaves behind there
    is known by them also when the detent that started it has long ended.
    """
    try:
        return all(os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}") for name in WORLD)
    except PermissionError:
        return _stat(pid) is not None  # another user's
    except OSError:
        return False


def _is_marked(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + MARK in b"\0" + file.read()
    except OSError:
        return False


def _holds(pid: int) -> JournalHolder | None:
    """What a process says of itself in the lock of the journal it holds; None if it holds none."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for name in names:
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}").endswith("/lock") and (held := _read_lock(pid, name)):
                return held
        except OSError:  # it was closed meanwhile
            continue
    return None


def _read_lock(pid: int, name: str) -> JournalHolder | None:
    """What stands in a file that a process has open, if it has locked it."""
    try:
        with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:
            if "FLOCK" not in file.read():
                return None
        with open(f"/proc/{pid}/fd/{name}", encoding="utf-8") as file:
            said = json.load(file)
        return JournalHolder(int(said["pid"]), str(said.get("command") or ""), float(said.get("since") or 0))
    except (ValueError, TypeError, KeyError):  # another program's lock
        return None
