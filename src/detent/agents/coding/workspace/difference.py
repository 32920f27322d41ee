"""What differs between two trees: for people as a patch, for programs as a list."""

from collections.abc import Collection
from dataclasses import dataclass

from detent.agents.coding.workspace.git_command import ID_LENGTHS, remember, split
from detent.agents.coding.workspace.work_tree import Worktree

WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "retyped"}


@dataclass(frozen=True)
class Change:
    """One path that differs; the counts of lines are None for what is not text."""

    path: str
    change: str  # added, deleted, modified (contents or executable bit), retyped (file to link or back)
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class PathStep:
    """One path that differs, with both its modes and objects."""

    path: str
    status: str
    old_mode: str
    new_mode: str
    old: str
    new: str


_known: dict[tuple[str, str], dict[str, PathStep]] = {}
_counted: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}


async def steps(place: Worktree, before: str, after: str, *, is_counted: bool = False) -> dict[str, PathStep]:
    """The differing paths of two trees; `is_counted`: their lines will be asked for as well, so count them now."""
    if before == after:
        return {}
    if (before, after) in _known:
        return dict(_known[before, after])
    flags = ("-r", "-z", "--raw", *(("--numstat", "--no-ext-diff", "--no-textconv") if is_counted else ()))
    output = split(await place.view("diff-tree", *flags, "--no-renames", before, after))
    found, at = {}, 0
    while at < len(output) and output[at].startswith(":"):
        old_mode, new_mode, old, new, status = output[at].removeprefix(":").split(" ")
        path = output[at + 1]
        found[path] = PathStep(path, status[0], old_mode, new_mode, old, new)
        at += 2
    if len(before) == len(after) and len(before) in ID_LENGTHS:
        remember(_known, (before, after), dict(found))
        if is_counted:
            remember(_counted, (before, after), _read_counts(output[at:]))
    return found


async def changes(place: Worktree, before: str, after: str) -> list[Change]:
    """The differing paths with their counts of lines, in the order of their names."""
    found = await steps(place, before, after)
    if not found:
        return []
    counted = await line_counts(place, before, after)
    return [Change(path, WORDS[step.status], *counted.get(path, (None, None))) for path, step in sorted(found.items())]


async def line_counts(place: Worktree, before: str, after: str) -> dict[str, tuple[int, int]]:
    """The lines added and removed in every differing file that is text."""
    if before == after:
        return {}
    if (before, after) in _counted:
        return dict(_counted[before, after])
    flags = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    return _read_counts(split(await place.view("diff-tree", *flags, before, after)))


def _read_counts(lines: list[str]) -> dict[str, tuple[int, int]]:
    counted = {}
    for line in lines:
        added, removed, path = line.split("\t", 2)
        if added != "-":
            counted[path] = (int(added), int(removed))
    return counted


async def patch(place: Worktree, before: str, after: str, paths: Collection[str] = ()) -> str:
    """The difference as text, of these paths or of all; bytes that are no UTF-8 are replaced."""
    flags = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    only = ("--", *paths) if paths else ()
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    return (await place.view("diff-tree", *flags, before, after, *only, env=literal)).decode("utf-8", "replace")
