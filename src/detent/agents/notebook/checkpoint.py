"""Checkpoints of kernels' variables: files beside the journal, which holds the hash of each.

The kernel writes the file into a folder of its own and reads it there; here it is only copied and hashed, never loaded.
A file whose hash is not the journal's is as good as none.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "checkpoints"
PIECE_BYTES = 1024 * 1024
BYTES_MAX = 2 * 1024**3
NAMES_MAX = 2_000


class Kept(NamedTuple):
    """A file that is kept."""

    hash: str
    size: int


class CheckpointFiles:
    """The files of one home, by run and hash; only its user can open them."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def _folder(self, run_id: str) -> Path:
        return self._home / FOLDER / f"run-{run_id}"

    def path(self, run_id: str, digest: str) -> Path:
        """Where a checkpoint lies, if it is there."""
        return self._folder(run_id) / f"{digest}.pickle"

    def has(self, run_id: str, checkpoint: dict[str, Any]) -> bool:
        """Whether the file of a journalled checkpoint is there; its hash is looked at when it is used."""
        if not checkpoint.get("hash"):
            return False
        try:
            return self.path(run_id, checkpoint["hash"]).stat().st_size == checkpoint.get("bytes")
        except OSError:
            return False

    def keep(self, run_id: str, source: Path, spare: str = "") -> Kept:
        """Copy a file that a kernel has written, and forget the older ones but `spare`; on disk when this returns."""
        folder = self._folder(run_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = folder / f"new-{os.getpid()}"
        try:
            found = _copy(source, part, is_synced=True)
            part.replace(self.path(run_id, found.hash))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        for old in folder.glob("*"):
            if old.name not in (f"{found.hash}.pickle", f"{spare}.pickle"):
                old.unlink(missing_ok=True)
        return found

    def fetch(self, run_id: str, digest: str, target: Path) -> bool:
        """Copy a checkpoint to where a kernel can read it; false where it is not the one the journal means."""
        try:
            is_right = _copy(self.path(run_id, digest), target).hash == digest
        except OSError:
            is_right = False
        if not is_right:
            target.unlink(missing_ok=True)
        return is_right

    def forget(self, run_id: str) -> None:
        """Take away everything of a run."""
        shutil.rmtree(self._folder(run_id), ignore_errors=True)


def _copy(source: Path, target: Path, *, is_synced: bool = False) -> Kept:
    digest, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with source.open("rb") as given, os.fdopen(handle, "wb", buffering=0) as file:
        while piece := given.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
        if is_synced:
            os.fsync(file.fileno())
    return Kept(digest.hexdigest(), size)
