"""Where the values of secret inputs are while a run needs them: beside the journal, never in it.

A file per run in the folder `secrets` of the home, which only its owner can read, no step sees and no backup holds. It
goes when the run has completed or was cancelled; one that failed keeps it, so that it can be tried again, until it is
pruned. A home on a database has no such place: there the environment of its workers has the secrets.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from detent.errors import Refused
from detent.redaction import declare_value

FOLDER = "secrets"
STRAY_S = 3600.0  # a file of a run that nobody knows may be of one that is about to begin


class SecretKeeper(Protocol):
    """Keeps the values of secret inputs, each for one run."""

    def keep(self, run_id: str, given: Mapping[str, str], wanted: Iterable[str]) -> None:
        """Keep what a run was given of the secrets it wants; refused where nothing can be kept, or one is missing."""

    def find(self, run_id: str, name: str) -> str | None:
        """The value of a run's secret."""

    def hand_on(self, run_id: str, other: str) -> None:
        """Let another run have the same secrets."""

    def drop(self, run_ids: Iterable[str]) -> None:
        """Forget what these runs were given."""


def check_missing(given: Mapping[str, str], wanted: Iterable[str]) -> None:
    """Refuse a start that a secret is missing for: neither given, nor in the environment of whoever drives the run."""
    missing = [name for name in wanted if name not in given and name not in os.environ]
    if missing:
        raise Refused(
            f"the secret `{missing[0]}` is missing: give it with the input, or set {missing[0]} in the environment"
        )


class SecretFolder:
    """Files in the home, one for each run that was given secrets."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    @cached_property
    def held(self) -> set[str]:
        """The runs that have a file."""
        with contextlib.suppress(OSError):
            return {name for name in os.listdir(self._folder) if not name.startswith(".")}
        return set()

    def keep(self, run_id: str, given: Mapping[str, str], wanted: Iterable[str]) -> None:
        """Write a run's secrets before it begins."""
        check_missing(given, wanted)
        if given:
            self._write(run_id, dict(given))

    def _write(self, run_id: str, values: dict[str, str]) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._folder / f".{run_id}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(values))
            file.flush()
            os.fsync(fd)
        os.replace(draft, self._folder / run_id)
        self.held.add(run_id)
        for value in values.values():
            declare_value(value)

    def _read(self, run_id: str) -> dict[str, str]:
        if run_id not in self.held:
            return {}
        try:
            return msgspec.json.decode((self._folder / run_id).read_bytes(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}  # the call says which secret is missing

    def find(self, run_id: str, name: str) -> str | None:
        """The value of a run's secret."""
        found = self._read(run_id).get(name)
        if found is not None:
            declare_value(found)
        return found

    def hand_on(self, run_id: str, other: str) -> None:
        """Let another run have the same secrets: a fork, or a part of the same file that is a run of its own."""
        values = self._read(run_id)
        if values and other not in self.held:
            self._write(other, values)

    def drop(self, run_ids: Iterable[str]) -> None:
        """Remove the files of these runs."""
        for run_id in self.held.intersection(run_ids):
            (self._folder / run_id).unlink(missing_ok=True)
            self.held.discard(run_id)

    def sweep(self, is_needed: Callable[[str], bool | None]) -> None:
        """After a crash: remove what no run needs; None: nobody knows the run, which may be about to begin."""
        for run_id in tuple(self.held):
            needed = is_needed(run_id)
            with contextlib.suppress(OSError):
                age_s = time.time() - (self._folder / run_id).stat().st_mtime
                if needed is False or (needed is None and age_s > STRAY_S):
                    self.drop([run_id])


class NoSecrets:
    """Of a home that has no place for secrets of a run: those of the environment are all there are."""

    def keep(self, run_id: str, given: Mapping[str, str], wanted: Iterable[str]) -> None:
        """Refuse what would have to be kept; what is missing, a worker's environment may have."""
        del run_id, wanted
        if given:
            name = next(iter(given))
            raise Refused(f"`{name}` is a secret, and a home on a database keeps none: set it for its workers")

    def find(self, run_id: str, name: str) -> str | None:
        """Nothing is kept."""

    def hand_on(self, run_id: str, other: str) -> None:
        """Nothing is kept."""

    def drop(self, run_ids: Iterable[str]) -> None:
        """Nothing is kept."""
