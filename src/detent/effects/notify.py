"""`notify`: put a message into a file of JSON lines, once for each key, for whatever carries it further."""

import asyncio
import errno
import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, PartialFailure, effect
from detent.effects import protected_path
from detent.effects.arguments import Arguments, invalid
from detent.effects.call_fact import notify_facts

LINE_BYTES_MAX = 1024 * 1024
KNOWN = "outbox to message run_id machine state at"

_lock = threading.Lock()
_seen: dict[tuple[int, int], tuple[int, set[str]]] = {}  # by file: how far it was read, and the keys up to there


@effect("notify", kind="idempotent", timeout_s=30, facts=notify_facts, takes=KNOWN)
async def notify(contract: Contract) -> Outcome:
    """Append a message to the outbox file unless one with its key is there."""
    given = Arguments("notify", contract.input, KNOWN)
    path = Path(given.text("outbox"))
    message = {"key": contract.key, **{k: v for k, v in given.given.items() if k != "outbox"}}
    line = json.dumps(message, ensure_ascii=False, sort_keys=True).encode() + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise invalid(f"a message has at most {LINE_BYTES_MAX:,} bytes")
    try:
        is_new = await asyncio.to_thread(_append, path, contract.key, line)
    except OSError as error:
        raise EffectFailed(f"{path}: {error.strerror}") from None
    return Outcome({"success": True, "new": is_new})


def _append(path: Path, key: str, line: bytes) -> bool:
    """Write the line, on disk when this returns; False if its key was there."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    real = path.resolve()
    with (
        _lock,
        protected_path.open_folder(real, is_writing=True) as folder,
        protected_path.open_file(folder, real.name, flags, is_writing=True, mode=0o600) as fd,
        open(fd, "r+b", buffering=0, closefd=False) as file,
    ):
        fcntl.flock(file, fcntl.LOCK_EX)  # other processes append here too
        keys, is_whole = _keys(file)
        if key in keys:
            return False
        end, line = (
            file.seek(0, os.SEEK_END),
            line if is_whole else b"\n" + line,
        )  # a line cut off by a crash stays alone
        if file.write(line) < len(line):
            file.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            os.fsync(file.fileno())
        except OSError as error:
            raise PartialFailure(f"{path}: the message is in it, but it may not last: {error.strerror}") from error
        return True


def _keys(file: Any) -> tuple[set[str], bool]:
    """The keys in the file, and whether its last line is whole; what was read before is not read again."""
    about = os.fstat(file.fileno())
    place = about.st_dev, about.st_ino
    begin, keys = _seen.get(place, (0, set()))
    if begin > about.st_size:  # somebody has emptied it
        begin, keys = 0, set()
    file.seek(begin)
    rest = file.readall()
    end = rest.rfind(b"\n") + 1
    for line in rest[:end].splitlines():
        try:
            keys.add(str(json.loads(line)["key"]))
        except (ValueError, KeyError, TypeError):
            continue  # a line that was cut off, or not ours
    _seen[place] = begin + end, keys
    return keys, end == len(rest)
