"""Artefacts of an embedded journal: the folder `artefacts` of the home.

`content/ab/abcd…` is a content by its SHA-256. A run has it by a link of its own in `runs/RUN`, so a content that two
runs have is on the disk once, and stays until the last of them goes, whatever happens in between.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from detent.errors import JournalError, Unknown
from detent.whole_file import sync_folder

FOLDER = "artefacts"
PIECE = 1024 * 1024
DIGEST = re.compile(r"[0-9a-f]{64}")


class ArtefactFolder:
    """Files by their content, with a link for each run that has them."""

    def __init__(self, home: Path) -> None:
        self._root = home / FOLDER

    def keep(self, run_id: str, pieces: Iterable[bytes]) -> tuple[str, int]:
        """Write a content and link it to the run; the content is on disk before anything has its name."""
        place = self._root / "runs" / run_id
        for folder in (self._root, self._root / "runs", place, self._root / "content"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft, hashed, size = self._root / f".{secrets.token_hex(8)}", hashlib.sha256(), 0
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                    hashed.update(piece)
                    size += len(piece)
                file.flush()
                os.fsync(fd)
            digest = hashed.hexdigest()
            content = self._root / "content" / digest[:2] / digest
            content.parent.mkdir(mode=0o700, exist_ok=True)
            self._link(draft, content)
            try:
                self._link(content, place / digest)
            except FileNotFoundError:  # the last run that had it went in this moment
                self._link(draft, place / digest)
        finally:
            draft.unlink(missing_ok=True)
        for folder in (place, content.parent):
            sync_folder(folder)
        return digest, size

    def _link(self, file: Path, name: Path) -> None:
        with contextlib.suppress(FileExistsError):
            try:
                os.link(file, name)
            except PermissionError:  # a file system without links keeps a copy for each
                shutil.copyfile(file, name)

    def read(self, run_id: str, digest: str) -> Iterator[bytes]:
        """A content that the run has; one that is not what its name says is found out at its end."""
        path = self._root / "runs" / run_id / digest
        if not DIGEST.fullmatch(digest) or not path.is_file():
            raise Unknown(f"run {run_id} has no artefact {digest[:64]}")
        return self._read(path, digest)

    def _read(self, path: Path, digest: str) -> Iterator[bytes]:
        hashed = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                hashed.update(piece)
                yield piece
        if hashed.hexdigest() != digest:
            raise JournalError(f"the artefact {digest} is damaged: its content is another")

    def measure(self, run_id: str) -> int:
        """How many bytes are kept for a run."""
        with contextlib.suppress(FileNotFoundError):
            return sum(entry.stat().st_size for entry in os.scandir(self._root / "runs" / run_id))
        return 0

    def drop(self, run_ids: Iterable[str]) -> None:
        """Let go of what these runs have; contents that no other run has are gone."""
        for run_id in run_ids:
            folder = self._root / "runs" / run_id
            try:
                digests = os.listdir(folder)
            except FileNotFoundError:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            for digest in digests:
                content = self._root / "content" / digest[:2] / digest
                with contextlib.suppress(OSError):
                    if content.stat().st_nlink == 1:
                        content.unlink()

    def sweep(self, is_known: Callable[[str], bool]) -> None:
        """Let go of what runs have that are no longer there: a prune was cut off."""
        with contextlib.suppress(FileNotFoundError):
            self.drop([run_id for run_id in os.listdir(self._root / "runs") if not is_known(run_id)])

    def list_runs(self) -> dict[str, list[str]]:
        """Which contents which run has."""
        root = self._root / "runs"
        names = os.listdir(root) if root.is_dir() else []
        return {run_id: sorted(os.listdir(root / run_id)) for run_id in names}
