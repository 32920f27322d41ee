"""Many files into an empty index, which is what a first checkpoint costs.

A file whose bytes hash to the blob that the user's index names for it needs no git: the blob is there already, and
hashing here is several times faster. Such entries are written into the index directly; git reads all other files.
"""

import asyncio
import hashlib
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from detent.effects.git.command import joined
from detent.effects.git.place import Place

FILES_MIN = 1000
FILE_BYTES_MAX = 16 * 1024 * 1024
THREADS = 2
HEADER = b"DIRC\0\0\0\2"
HEADER_BYTES = 12
STAT = struct.Struct(">10I")
LONG_NAME = 0xFFF
U32 = 0xFFFFFFFF

Entries = dict[bytes, bytes]  # by name, each as the index file has it


async def read(place: Place, paths: list[str], known: Mapping[str, str]) -> None:
    """Bring the files at these paths into the view's index; `known` are the blobs that the user's index names."""
    index = place.view_dir / "index"
    if index.exists() or len(paths) < FILES_MIN or not known:
        await _update(place, paths)
        return
    likely = [path for path in paths if path in known]
    size = -(-len(likely) // THREADS) or 1
    parts = [likely[at : at + size] for at in range(0, len(likely), size)]
    hashed = await asyncio.gather(*(asyncio.to_thread(_matching, place, part, known) for part in parts))
    missing = await _missing(place, {known[path] for part in hashed for path in part})
    entries = {
        os.fsencode(path): entry for part in hashed for path, entry in part.items() if known[path] not in missing
    }
    rest = [path for path in paths if os.fsencode(path) not in entries]
    other = place.view_dir / "index.rest"
    other.unlink(missing_ok=True)
    if rest:
        await _update(place, rest, other)
    if not _join(place, entries, other, index):
        await _update(place, paths)
    other.unlink(missing_ok=True)


async def _update(place: Place, paths: list[str], index: Path | None = None) -> None:
    env = {"GIT_INDEX_FILE": str(index)} if index is not None else None
    argv = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    await place.view(*argv, stdin=joined(paths), env=env)


def _matching(place: Place, paths: list[str], known: Mapping[str, str]) -> dict[str, bytes]:
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


def _entry(name: bytes, facts: os.stat_result, digest: bytes) -> bytes:
    mode = 0o100755 if facts.st_mode & 0o100 else 0o100644
    ctime, mtime = divmod(facts.st_ctime_ns, 10**9), divmod(facts.st_mtime_ns, 10**9)
    numbers = (*ctime, *mtime, facts.st_dev, facts.st_ino, mode, facts.st_uid, facts.st_gid, facts.st_size)
    body = STAT.pack(*(number & U32 for number in numbers)) + digest + min(len(name), LONG_NAME).to_bytes(2) + name
    return body + b"\0" * (8 - len(body) % 8)


async def _missing(place: Place, blobs: set[str]) -> set[str]:
    """Those of the blobs that the object store does not hold after all."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    answer = await place.view("cat-file", "--buffer", "--batch-check=%(objectname)", stdin=asked)
    return {line.split()[0].decode() for line in answer.splitlines() if line.endswith(b" missing")}


def _join(place: Place, entries: Entries, other: Path, index: Path) -> bool:
    """Write the whole index; whether git's part of it is of the kind we know."""
    if other.exists():
        raw = other.read_bytes()
        if not raw.startswith(HEADER):
            return False
        entries |= _parsed(raw, hashlib.new(place.hash_name).digest_size)
    whole = HEADER + len(entries).to_bytes(4) + b"".join(entries[name] for name in sorted(entries))
    fresh = index.with_name("index.joined")
    fresh.write_bytes(whole + hashlib.new(place.hash_name, whole).digest())
    fresh.replace(index)
    return True


def _parsed(raw: bytes, hash_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    at, fixed = HEADER_BYTES, STAT.size + hash_bytes + 2
    for _ in range(int.from_bytes(raw[8:HEADER_BYTES])):
        length = int.from_bytes(raw[at + fixed - 2 : at + fixed]) & LONG_NAME
        if length == LONG_NAME:
            length = raw.index(b"\0", at + fixed) - at - fixed
        end = at + ((fixed + length + 8) & ~7)
        yield raw[at + fixed : at + fixed + length], raw[at:end]
        at = end
