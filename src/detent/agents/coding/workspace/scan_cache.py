"""What the last look at a work tree found, so that the next one need not look at every file again.

It is only believed while the index files it was made from are untouched; whoever loses it loses time, nothing else.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

VERSION = 1
Signature = list[int]


@dataclass
class UsersIndex:
    """What the user's index file holds: the file as a blob, its contents as a tree, and what follows for the list."""

    signature: Signature = field(default_factory=list)
    raw: str = ""  # empty: there is no index file
    tree: str = ""
    gitlinks: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # its paths that the view did not hold when last compared


@dataclass
class LastView:
    """The view after the last look."""

    version: int = VERSION
    signature: Signature = field(default_factory=list)
    umask: int = -1
    tree: str = ""
    permissions: dict[str, int] = field(default_factory=dict)  # of files, where they are not the usual ones
    recent: list[str] = field(default_factory=list)  # changed so lately that a later change might look the same
    absent: list[str] = field(default_factory=list)  # looked at and not in the view
    folders: list[str] = field(default_factory=list)  # of the files in the view
    ignores: list[str] = field(default_factory=list)  # the ignore files in the view
    nested: list[str] = field(default_factory=list)
    users: UsersIndex = field(default_factory=UsersIndex)


def signature(path: Path) -> Signature:
    """What changes whenever a file is replaced; empty if there is none."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return []
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def load(path: Path) -> LastView:
    """The last look, or an empty one."""
    try:
        found = json.loads(path.read_bytes())
        if found.pop("version") != VERSION:
            return LastView()
        users = UsersIndex(**found.pop("users"))
        return LastView(users=users, **found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return LastView()


def save(path: Path, seen: LastView) -> None:
    """Keep a look for the next one."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(vars(seen), default=vars), encoding="ascii")
    fresh.replace(path)
