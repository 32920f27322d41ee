"""What the doctor finds, and whether a home is private and can be written."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from detent.kit.language import _
from detent.kit.people_file import PEOPLE_FILE
from detent.kit.safe_text import visible


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    level: str  # ok, note, risk or problem
    text: str


def check_permissions(home: Path) -> Iterator[Finding]:
    """Whether a home is there, is the caller's alone, and can be written."""
    if not home.exists():
        place = find_existing(home)
        is_usable = os.access(place, os.W_OK | os.X_OK) and place.is_dir()
        text = _("{path} does not exist yet; the first run creates it", path=visible(str(home)))
        if not is_usable:
            text = _(
                "{path} cannot be made: {place} is not writable", path=visible(str(home)), place=visible(str(place))
            )
        yield Finding("home", "ok" if is_usable else "problem", text)
        return
    if not home.is_dir():
        yield Finding("home", "problem", _("{path} is not a folder", path=visible(str(home))))
        return
    problems = [*_open_to_others(home)]
    if not os.access(home, os.W_OK | os.X_OK):
        problems.append(_("{path} is not writable", path=visible(str(home))))
    for problem in problems:
        yield Finding("home", "problem", problem)
    if not problems:
        yield Finding("home", "ok", _("{path} is yours alone", path=visible(str(home))))


def _open_to_others(home: Path) -> Iterator[str]:
    """A private home keeps everything in it private; where it is open, each file must look after itself."""
    places = [
        home,
        *(home / name for name in ("journal.db", "journal.db-wal", "journal.db-shm", "door", "lock", PEOPLE_FILE)),
    ]
    for path in places:
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except OSError:
            continue
        if path == home and not mode & 0o077:
            return
        if mode & 0o077:
            wanted = "700" if path == home else "600"
            yield _(
                "others may use {path} (mode {mode}): chmod {wanted}",
                path=visible(str(path)),
                mode=f"{mode:o}",
                wanted=wanted,
            )


def find_existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
