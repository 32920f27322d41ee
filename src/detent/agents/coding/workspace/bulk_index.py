"""Many files into an empty index, which is what a first checkpoint costs.

Three ways, the cheapest first. A file that the user's index knows to be unchanged (times to the nanosecond, inode, size
and owner) is not read at all, if it is as long as its blob and no attribute names a filter or an encoding: then nothing
was converted between the two. Else a file whose bytes hash to the blob that the user's index names needs no git: the
blob is there already, and hashing here is several times faster. Both kinds of entries are written into the index
directly; git reads all other files.
"""

import asyncio
import hashlib
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from detent.agents.coding.workspace.git_command import join, split
from detent.agents.coding.workspace.work_tree import Worktree

FILES_MIN = 1000
FILE_BYTES_MAX = 16 * 1024 * 1024
THREADS = 2
HEADER = b"DIRC\0\0\0\2"
HEADER_BYTES = 12
STAT = struct.Struct(">10I")
LONG_NAME = 0xFFF
U32 = 0xFFFFFFFF
DEVICE = slice(16, 20)
MODE = slice(24, 28)
INDEX_BYTES_MAX = 1024 * 1024  # a larger one takes git less time than us
HELD_BYTES_MAX = 1024 * 1024
ABNORMAL = 0xF0  # of an entry's flags: assumed unchanged, extended, in the middle of a merge
SETTLED_S = 2  # a file younger than the user's index by less than this may have changed unnoticed
CONVERTING = ("filter", "working-tree-encoding")  # what may change a file's bytes and keep their number
PLAIN = ("unspecified", "unset")

Facts = Mapping[str, os.stat_result]
Entries = dict[bytes, bytes]  # by name, each as the index file has it


async def read(place: Worktree, paths: list[str], known: Mapping[str, str], facts: Facts) -> None:
    """Bring the files at these paths into the view's index.

    `known` are the blobs that the user's index names, `facts` what was seen of the files a moment ago.
    """
    index = place.view_dir / "index"
    if index.exists() or len(paths) < FILES_MIN or not known:
        await _update(place, paths)
        return
    entries = await _reuse_entries(place, facts)
    entries |= await _equal(
        place, [path for path in paths if path in known and os.fsencode(path) not in entries], known
    )
    rest = [path for path in paths if os.fsencode(path) not in entries]
    other = place.view_dir / "index.rest"
    other.unlink(missing_ok=True)
    if rest:
        await _update(place, rest, other)
    if not _join(place, entries, other, index):
        await _update(place, paths)
    other.unlink(missing_ok=True)


def find_held(place: Worktree, facts: Facts) -> set[str]:
    """Those of some files that the view's index holds just as they are: they need not be read into it again."""
    try:
        raw = (place.view_dir / "index").read_bytes()
    except OSError:
        return set()
    if not raw.startswith(HEADER) or len(raw) > INDEX_BYTES_MAX:
        return set()
    wanted = {os.fsencode(path): path for path in facts}
    entries = [(name, entry) for name, entry in _parse_index(raw, place.hash_bytes) if name in wanted]
    at = STAT.size
    known = {wanted[name]: entry[at : at + place.hash_bytes].hex() for name, entry in entries}
    now = _matching(place, [path for path in known if facts[path].st_size <= HELD_BYTES_MAX], known)
    return {wanted[name] for name, entry in entries if now.get(wanted[name], b"")[MODE] == entry[MODE]}


async def _update(place: Worktree, paths: list[str], index: Path | None = None) -> None:
    env = {"GIT_INDEX_FILE": str(index)} if index is not None else None
    argv = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    await place.view(*argv, stdin=join(paths), env=env)


async def _reuse_entries(place: Worktree, facts: Facts) -> Entries:
    """The entries of files that need not be read: the user's index knows them, and nothing converts them."""
    found = _find_unchanged(place, facts)
    if not found:
        return {}
    asked = [entry[STAT.size : STAT.size + place.hash_bytes].hex() for entry in found.values()]
    told, converted = await asyncio.gather(_ask_store(place, asked), _find_converted(place, list(found)))
    items = zip(found.items(), asked, told, strict=True)
    return {
        os.fsencode(path): entry
        for (path, entry), blob, line in items
        if line == f"{blob} {facts[path].st_size}" and path not in converted
    }


def _find_unchanged(place: Worktree, facts: Facts) -> dict[str, bytes]:
    """Files that are as they were when the user's index was written, each with its entry there."""
    try:
        since = os.lstat(place.git_dir / "index").st_mtime_ns - SETTLED_S * 10**9
        raw = (place.git_dir / "index").read_bytes()
    except OSError:
        return {}
    if not raw.startswith(HEADER):  # another version of the format, or none
        return {}
    settled = {}
    flags_at = STAT.size + place.hash_bytes
    for name, entry in _parse_index(raw, place.hash_bytes):
        path = name.decode("utf-8", "surrogateescape")
        found = facts.get(path)
        if found is None or entry[flags_at] & ABNORMAL or max(found.st_mtime_ns, found.st_ctime_ns) >= since:
            continue
        noted = _stat(found)
        # The device is left out: it is another one after every mount, and git does not look at it either.
        if noted[: DEVICE.start] == entry[: DEVICE.start] and noted[DEVICE.stop :] == entry[DEVICE.stop : STAT.size]:
            settled[path] = entry
    return settled


async def _find_converted(place: Worktree, paths: list[str]) -> set[str]:
    """Those of the files that an attribute, wherever it is written, puts through a filter or an encoding."""
    answer = await place.plain("check-attr", "-z", "--stdin", *CONVERTING, stdin=join(paths))
    if answer.count(b"\0unspecified\0") == len(paths) * len(CONVERTING):
        return set()
    words = split(answer)
    return {path for path, value in zip(words[::3], words[2::3], strict=True) if value not in PLAIN}


async def _equal(place: Worktree, likely: list[str], known: Mapping[str, str]) -> Entries:
    """The entries of files that hash to the blob that the user's index names."""
    if not likely:
        return {}
    size = -(-len(likely) // THREADS) or 1
    parts = [likely[at : at + size] for at in range(0, len(likely), size)]
    hashed = await asyncio.gather(*(asyncio.to_thread(_matching, place, part, known) for part in parts))
    found = [(path, entry) for part in hashed for path, entry in part.items()]
    told = await _ask_store(place, [known[path] for path, _ in found])
    return {
        os.fsencode(path): entry
        for (path, entry), line in zip(found, told, strict=True)
        if not line.endswith(" missing")
    }


def _matching(place: Worktree, paths: list[str], known: Mapping[str, str]) -> dict[str, bytes]:
    """Those of the files that are their known blob, each with its index entry."""
    found = {}
    for path in paths:
        try:
            # No link is followed: the paths were looked at a moment ago, and this one is opened without.
            fd = os.open(f"{place.root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                facts = os.fstat(fd)
                if not stat.S_ISREG(facts.st_mode) or facts.st_size > FILE_BYTES_MAX:
                    continue
                body = os.read(fd, facts.st_size + 1)
            finally:
                os.close(fd)
        except OSError:
            continue
        digest = hashlib.new(place.hash_name, b"blob %d\0" % len(body))
        digest.update(body)
        if len(body) == facts.st_size and digest.hexdigest() == known[path]:
            found[path] = _entry(os.fsencode(path), facts, digest.digest())
    return found


def _stat(facts: os.stat_result) -> bytes:
    """What an index notes of a regular file."""
    mode = 0o100755 if facts.st_mode & 0o100 else 0o100644
    ctime, mtime = divmod(facts.st_ctime_ns, 10**9), divmod(facts.st_mtime_ns, 10**9)
    return STAT.pack(
        ctime[0] & U32, ctime[1], mtime[0] & U32, mtime[1], facts.st_dev & U32, facts.st_ino & U32,
        mode if stat.S_ISREG(facts.st_mode) else 0, facts.st_uid & U32, facts.st_gid & U32, facts.st_size & U32,
    )  # fmt: skip


def _entry(name: bytes, facts: os.stat_result, digest: bytes) -> bytes:
    body = _stat(facts) + digest + min(len(name), LONG_NAME).to_bytes(2) + name
    return body + b"\0" * (8 - len(body) % 8)


async def _ask_store(place: Worktree, blobs: list[str]) -> list[str]:
    """What the object store says of each of the blobs: `BLOB BYTES`, or `BLOB missing`."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    argv = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize)")
    return (await place.view(*argv, stdin=asked)).decode().splitlines() if blobs else []


def _join(place: Worktree, entries: Entries, other: Path, index: Path) -> bool:
    """Write the whole index; whether git's part of it is of the kind we know."""
    if other.exists():
        raw = other.read_bytes()
        if not raw.startswith(HEADER):
            return False
        entries |= _parse_index(raw, place.hash_bytes)
    whole = HEADER + len(entries).to_bytes(4) + b"".join(entries[name] for name in sorted(entries))
    fresh = index.with_name("index.joined")
    fresh.write_bytes(whole + hashlib.new(place.hash_name, whole).digest())
    fresh.replace(index)
    return True


def _parse_index(raw: bytes, hash_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    at, fixed = HEADER_BYTES, STAT.size + hash_bytes + 2
    for _ in range(int.from_bytes(raw[8:HEADER_BYTES])):
        length = int.from_bytes(raw[at + fixed - 2 : at + fixed]) & LONG_NAME
        if length == LONG_NAME:
            length = raw.index(b"\0", at + fixed) - at - fixed
        end = at + ((fixed + length + 8) & ~7)
        yield raw[at + fixed : at + fixed + length], raw[at:end]
        at = end
