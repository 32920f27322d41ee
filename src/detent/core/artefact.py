"""Artefacts: files that a run leaves for people, known by their content. Who keeps the journal keeps them too."""

from collections.abc import Iterable, Iterator
from typing import Protocol

KEEP = "files.keep"  # the effect whose results name them


class ArtefactStore(Protocol):
    """Keeps contents by their SHA-256, each as long as a run that has it is there. From any thread."""

    def keep(self, run_id: str, pieces: Iterable[bytes]) -> tuple[str, int]:
        """Keep a content for a run; its digest and size, when it is on disk."""

    def read(self, run_id: str, digest: str) -> Iterator[bytes]:
        """A content that a run has kept, piece by piece; `Unknown` if it has not."""

    def measure(self, run_id: str) -> int:
        """How many bytes are kept for a run."""
