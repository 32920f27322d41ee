"""Which files of a work tree a checkpoint holds: what the user's index names, and what is untracked and not ignored.

A repository inside the work tree (a submodule or not) is asked for its own list, under its own rules; its files are
then files of the checkpoint like all others, so that they come back even if the repository is deleted as a whole.
"""

import asyncio
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from detent.agents.coding.workspace.git_command import Git, GitFailed, join, split
from detent.agents.coding.workspace.work_tree import OWN_FOLDER, Worktree, find_nested, git_dir_of

PATHSPECS_MAX = 200

_ENTRY = re.compile("([0-7]{6}) ([0-9a-f]+) ([0-3])\t([^\0]+)\0")
IndexEntry = tuple[str, str, str, str]  # mode, object, stage, path


@dataclass
class FileListing:
    """One area's files and folders, all paths from the root of the outer work tree."""

    files: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)  # folders that hold no listed file
    repositories: set[str] = field(default_factory=set)  # found inside


def is_own(path: str) -> bool:
    """Whether a path belongs to detent itself."""
    return path == OWN_FOLDER or path.startswith(OWN_FOLDER + "/")


def parents(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder above these paths."""
    nearest = {path.rpartition("/")[0] for path in paths}
    found = nearest - {""}
    for folder in nearest:
        for parent in parents(folder):
            if parent in found:
                break
            found.add(parent)
    return found


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders or lies in one."""
    found = folders if isinstance(folders, set | frozenset | dict) else set(folders)
    return bool(found) and (path in found or any(parent in found for parent in parents(path)))


async def index_entries(place: Worktree) -> list[IndexEntry]:
    """The user's index, entry by entry."""
    if not place.has_git:
        return []
    return _ENTRY.findall(os.fsdecode(await place.users("ls-files", "-s", "-z")))


async def list_untracked(git: Git, root: str) -> FileListing:
    """What this index does not hold and no rule ignores: files, folders without files, repositories inside."""
    found, collapsed = FileListing(), []
    for path in await git.names("ls-files", "-z", "-o", "--exclude-standard", "--directory"):
        if path.endswith("/"):
            collapsed.append(path[:-1])
        else:
            found.files.add(path)
    return await list_untracked_in(git, root, collapsed, found)


async def list_untracked_in(git: Git, root: str, folders: list[str], found: FileListing | None = None) -> FileListing:
    """The same for some folders; git leaves out one that has the name of a file in the index."""
    found = found or FileListing()
    folders = [path for path in folders if not is_own(path)]
    if not folders:
        return found
    only = ("--", *(f"{path}/" for path in folders)) if len(folders) <= PATHSPECS_MAX else ()
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    for path in await git.names("ls-files", "-z", "-o", "--exclude-standard", *only, env=literal):
        if path.endswith("/"):
            found.repositories.add(path[:-1])
        else:
            found.files.add(path)
    walked = set()
    for path in folders:
        walked |= _folders_below(root, path)
    walked -= folders_of(found.files) | folders_of(found.repositories) | found.repositories
    found.bare |= walked - await find_ignored(git, sorted(walked))
    return found


async def find_ignored(git: Git, paths: list[str]) -> set[str]:
    """Those of the paths that the rules in force hide, whether or not an index holds them."""
    if not paths:
        return set()
    argv = ("check-ignore", "-z", "--no-index", "--stdin")
    # In front of a colon, which would begin a pathspec's magic, the dot makes a name a name.
    exit_code, answer, stderr = await git.run(*argv, stdin=join(f"./{path}" for path in paths))
    if exit_code > 1:  # 1 only says: none of them
        raise GitFailed(argv, exit_code, stderr)
    return {path[2:] for path in split(answer)}


def _folders_below(root: str, top: str) -> set[str]:
    found, rest = set(), [top]
    while rest:
        folder = rest.pop()
        full = os.path.join(root, folder)
        if git_dir_of(full) is not None:
            continue
        found.add(folder)
        try:
            with os.scandir(full) as entries:
                rest += [f"{folder}/{e.name}" for e in entries if e.is_dir(follow_symlinks=False) and e.name != ".git"]
        except OSError:
            continue
    return found


def repositories_among(root: str, folders: Iterable[str]) -> set[str]:
    """Those of the folders that are the work tree of a repository."""
    found = set()
    for folder in folders:
        full = f"{root}/{folder}"
        try:
            os.lstat(f"{full}/.git")
        except OSError:
            continue
        if not os.path.islink(full) and git_dir_of(full) is not None:
            found.add(folder)
    return found


async def inside(outer: Worktree, path: str) -> tuple[Worktree, FileListing] | None:
    """The list of a repository inside the work tree, with that of every further one in it left to the caller."""
    place = await find_nested(outer, os.path.join(outer.root, path))
    if place is None:
        return None
    entries, found = await asyncio.gather(index_entries(place), list_untracked(place.users, place.root))
    files = {name for mode, _, _, name in entries if mode != "160000"} | found.files
    links = {name for mode, _, _, name in entries if mode == "160000"}
    ground = Ground(place.root)
    taken = sorted(name for name in files if ground.is_folder(name) and git_dir_of(f"{place.root}/{name}") is None)
    files |= (await list_untracked_in(place.users, place.root, taken, found)).files
    further = found.repositories | repositories_among(place.root, links | folders_of(files) | found.bare)
    existing = {name for name in files if ground.stat(name) is not None}
    emptied = {name for name in folders_of(files) - folders_of(existing) - further if ground.is_folder(name)}
    found.bare |= emptied - await find_ignored(place.users, sorted(emptied))
    return place, FileListing(
        {f"{path}/{name}" for name in files if not is_below(name, further)},
        {f"{path}/{name}" for name in found.bare},
        {f"{path}/{name}" for name in further},
    )


class Ground:
    """What is on disk at a path, seen without following any link on the way there."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real: dict[str, bool] = {"": True}

    def stat(self, path: str) -> os.stat_result | None:
        """The file, link or folder at a path; nothing if there is none or if a link leads there."""
        parent = path.rpartition("/")[0]
        if not self._is_real(parent):
            return None
        try:
            return os.lstat(f"{self._root}/{path}")
        except OSError:
            return None

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder, and no link on the way to it."""
        found = self.stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def _is_real(self, folder: str) -> bool:
        known = self._real.get(folder)
        if known is None:
            found = self.stat(folder)
            known = self._real[folder] = found is not None and stat.S_ISDIR(found.st_mode)
        return known
