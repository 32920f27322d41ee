"""Watching files: what has come or changed below a folder, once it has been left alone for a while."""

import os
from pathlib import Path
from typing import NamedTuple

from detent.kit.trigger.armed_trigger import ArmedTrigger
from detent.kit.trigger.firing import Occasion, mark_of_event

FILES_MAX = 10_000  # that one pattern is looked through for


class FileVersion(NamedTuple):
    """A file as it was when somebody looked."""

    size: int
    changed_ns: int
    arrived: float  # when it came here or was changed, as the file system has it


class FileWatch:
    """Looks at the files of one trigger; a file counts once for each of its versions."""

    def __init__(self, armed: ArmedTrigger, folder: Path) -> None:
        self.armed, self._folder = armed, folder
        self._seen: dict[str, tuple[FileVersion, float]] = {}  # as it is, and since when it was seen so

    def look(self, now: float) -> list[Occasion]:
        """The files that have come or changed since the trigger was armed, and are left alone now."""
        trigger, found, seen = self.armed.trigger, [], {}
        for name, version in self._list():
            known = self._seen.get(name)
            since = known[1] if known is not None and known[0] == version else now
            seen[name] = version, since
            if version.arrived < self.armed.since and not trigger.is_existing:
                continue
            # Who looks for the first time cannot know how long it has been so, but the file system does.
            quiet_s = max(now - since, now - max(version.arrived, version.changed_ns / 1e9))
            if quiet_s >= trigger.settle_s:
                found.append(self._occasion_of(name, version))
        self._seen = seen
        return sorted(found, key=lambda one: (one.at, one.mark))

    def _list(self) -> list[tuple[str, FileVersion]]:
        found = []
        for path in self._folder.glob(self.armed.trigger.files):
            name = path.relative_to(self._folder).as_posix()
            try:
                stat = os.stat(path, follow_symlinks=False)
            except OSError:
                continue  # it has gone again
            if path.is_file() and not path.is_symlink():  # what a link points to is elsewhere, and not watched
                found.append((name, FileVersion(stat.st_size, stat.st_mtime_ns, max(stat.st_ctime, stat.st_mtime))))
            if len(found) >= FILES_MAX:
                break
        return found

    def _occasion_of(self, name: str, version: FileVersion) -> Occasion:
        path = self._folder / name
        event = {"path": str(path), "name": path.name, "relative": name, "size": version.size}
        return Occasion(mark_of_event(name, str(version.size), str(version.changed_ns)), version.arrived, event)
