"""Objects written into the store without a git process: a checkpoint is three small ones, and each process has a price.

They lie beside git's own loose objects, in the same format, and come into being whole or not at all. Like git with its
usual settings, we leave it to the system when they reach the disk.
"""

import contextlib
import hashlib
import os
import tempfile
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from detent.agents.coding.workspace.git_command import IDENTITY
from detent.agents.coding.workspace.work_tree import Worktree

TreeEntry = tuple[str, str, str]  # mode, object, name
FOLDER = "40000"


def write_object(place: Worktree, kind: str, body: bytes) -> str:
    """Keep an object; its id."""
    whole = f"{kind} {len(body)}\0".encode() + body
    name = hashlib.new(place.hash_name, whole).hexdigest()
    path = _find_path(place, name)
    try:
        os.utime(path)  # as git does: what is wanted again is not pruned for its age
    except OSError:
        _make_folder(path.parent)
        _put(path, zlib.compress(whole, 1))
    return name


def is_there(place: Worktree, name: str) -> bool:
    """Whether an object lies in the store by itself; one in a pack does not."""
    return _find_path(place, name).exists()


def _find_path(place: Worktree, name: str) -> Path:
    return place.common_dir / "objects" / name[:2] / name[2:]


def write_tree(place: Worktree, entries: Iterable[TreeEntry]) -> str:
    """Keep a tree of these entries."""
    rows = [(mode.lstrip("0"), os.fsencode(name), bytes.fromhex(blob)) for mode, blob, name in entries]
    rows.sort(key=lambda row: row[1] + b"/" * (row[0] == FOLDER))  # git's order: a folder as if its name ended so
    return write_object(
        place, "tree", b"".join(mode.encode() + b" " + name + b"\0" + blob for mode, name, blob in rows)
    )


def write_commit(place: Worktree, tree: str, parents: Iterable[str], message: bytes) -> str:
    """Keep a commit of ours."""
    who = f"{IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}> {int(time.time())} +0000"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
    return write_object(place, "commit", "\n".join(lines).encode() + b"\n\n" + message)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(folder.parent.stat().st_mode & 0o7777)  # a repository that a group shares stays theirs


def _put(path: Path, body: bytes) -> None:
    fd, fresh = tempfile.mkstemp(prefix="tmp_obj_", dir=path.parent)  # a name that git's own gc clears away
    try:
        with open(fd, "wb") as file:
            file.write(body)
            os.fchmod(fd, 0o444)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
