"""Tickets: secrets that were handed out, each as one small file named by its hash.

The file never holds the secret. Processes of one home share the folder: whoever removes a file first has used it, and
a ticket that was removed is not valid anywhere.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from detent.whole_file import write_whole

SECRET_BYTES = 32
KEY_LENGTH = 64


def hash_secret(secret: str) -> str:
    """The name a secret is kept under. It is random and long, so a fast hash is as good as a slow one."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class TicketFolder:
    """The tickets of one kind; at most `most` of them, the oldest go first."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most

    def issue(self, content: bytes, prefix: str = "") -> str:
        """Hand out a new secret."""
        secret = prefix + secrets.token_urlsafe(SECRET_BYTES)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.write(hash_secret(secret), content)
        for key in self.list_keys()[self._most :]:
            self.remove(key)
        return secret

    def write(self, key: str, content: bytes) -> None:
        """Keep what is known of a ticket, whole or not at all."""
        write_whole(self._folder / key, content)

    def read(self, key: str) -> bytes | None:
        """What is known of a ticket."""
        try:
            return (self._folder / key).read_bytes()
        except OSError:
            return None

    def read_use(self, key: str) -> tuple[float, int] | None:
        """When a ticket was last used, and which version of it that was; None when it is gone."""
        try:
            found = os.stat(self._folder / key)
        except OSError:
            return None
        return found.st_mtime, found.st_ino

    def touch(self, key: str, at: float) -> None:
        """Note that a ticket is in use."""
        with contextlib.suppress(OSError):
            os.utime(self._folder / key, (at, at))

    def take(self, key: str) -> bytes | None:
        """Use a ticket up: of several who try, one gets what is known of it."""
        content = self.read(key)
        return content if content is not None and self.remove(key) else None

    def remove(self, key: str) -> bool:
        """Make a ticket worthless; whether it was there."""
        try:
            os.unlink(self._folder / key)
        except OSError:
            return False
        return True

    def list_keys(self) -> list[str]:
        """The tickets there are, newest first."""
        return [key for _, key in sorted(self._scan(), reverse=True)]

    def _scan(self) -> Iterator[tuple[float, str]]:
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if len(entry.name) == KEY_LENGTH:
                        yield entry.stat().st_mtime, entry.name
