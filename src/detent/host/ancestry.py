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
from collections.abc import Iterator
from typing import Literal, NamedTuple

from detent.host.reading import JournalHolder

Origin = Literal["step", "person", "unknown"]
PR_SET_CHILD_SUBREAPER = 36
DEPTH_MAX = 4096
MARK = b"DETENT_CALL="
PROGRAM = "detent"  # how the commands of detent name themselves in a lock
TABLES = (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6))  # of /proc/net
PEER = struct.Struct("3i")
WORLD = ("pid", "user")  # the namespaces in which a process must be to be one of ours: root's sandboxes have the first


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
    for name, family in TABLES:
        for inode, uid in _connections(name, family, client, server):
            return tuple(Peer(pid, uid) for pid in _owners(inode)) or (Peer(0, uid),)
    return ()


def user_of_connection(client: tuple[str, int], server: tuple[str, int]) -> int:
    """The user of the client's end of a TCP connection on this machine; -1 where that is not shown."""
    for name, family in TABLES:
        for _, uid in _connections(name, family, client, server):
            return uid
    return -1


def origin_of_connection(client: tuple[str, int], server: tuple[str, int]) -> Origin:
    """Whether something that a step has started holds the other end of a TCP connection on this machine."""
    peers = peer_of_connection(client, server)
    found = [origin_of(peer.pid) if peer.pid else "unknown" for peer in peers]
    if "step" in found:
        return "step"
    if "unknown" not in found and found:
        return "person"
    return "person" if peers and all(peer.uid not in (os.getuid(), -1) for peer in peers) else "unknown"


def _connections(name: str, family: int, client: tuple[str, int], server: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """The inode and the user of the client's end of a connection, as the kernel lists it."""
    try:
        wanted = _address(client, family), _address(server, family)
    except ValueError:
        return
    with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
        next(file, None)
        for line in file:
            parts = line.split()
            if (parts[1], parts[2]) == wanted:
                yield parts[9], int(parts[7])


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


def _owners(inode: str) -> Iterator[int]:
    wanted = f"socket:[{inode}]"
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{name}") == wanted:
                        yield int(pid)
                        break


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
            return any(one.startswith(MARK) for one in file.read().split(b"\0"))
    except OSError:
        return False


def _holds(pid: int) -> JournalHolder | None:
    """What a process says of itself in the lock of the journal it holds; None if it holds none."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                place = os.readlink(f"/proc/{pid}/fd/{name}")
                if not place.endswith("/lock"):
                    continue
                with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:
                    if "FLOCK" not in file.read():
                        continue
                with open(f"/proc/{pid}/fd/{name}", encoding="utf-8") as file:
                    said = json.load(file)
                return JournalHolder(int(said["pid"]), str(said.get("command") or ""), float(said.get("since") or 0))
    return None
