"""Files that are written whole or not at all: whoever reads one at that moment sees the old text or the new one."""

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

OURS_ALONE = 0o600
FOR_ALL = 0o644
NAME_MAX = 100  # letters of a name that its draft begins with


def write_whole(
    path: Path, content: bytes | Iterable[bytes], *, mode: int = OURS_ALONE, is_durable: bool = False
) -> None:
    """Write a file beside its place, then put it there; where it must outlive a power cut, it is on disk before."""
    draft = path.with_name(f".{path.name[:NAME_MAX]}.{secrets.token_hex(8)}")
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OURS_ALONE)
    try:
        with open(made, "wb") as file:
            os.fchmod(made, mode)
            for piece in (content,) if isinstance(content, bytes) else content:
                file.write(piece)
            if is_durable:
                file.flush()
                os.fsync(made)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    if is_durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
