"""What a checkpoint could not see: its own ignore rules, laid out once more and asked about files of today.

A file that was ignored when the checkpoint was taken is missing from it and may still have been there, so no rollback
may delete it, whatever the ignore files say now.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from detent.agents.coding.workspace.checkpoint_record import CheckpointFacts
from detent.agents.coding.workspace.file_listing import find_ignored, parents
from detent.agents.coding.workspace.git_command import Git, split
from detent.agents.coding.workspace.work_tree import OWN_FOLDER, Worktree, make_git_dir


async def find_hidden(
    place: Worktree, target: CheckpointFacts, files: Iterable[str], folders: Iterable[str]
) -> set[str]:
    """Those of the files and folders that the checkpoint's rules hid from it."""
    owned: dict[str, tuple[list[str], list[str]]] = {}
    for number, paths in enumerate((files, folders)):
        for path in paths:
            owner = next((parent for parent in parents(path) if parent in target.nested), "")
            owned.setdefault(owner, ([], []))[number].append(path)
    if not owned:
        return set()
    scratch = place.home / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        texts = await _ignore_files(place, target)
        found: set[str] = set()
        for number, (owner, (inner_files, inner_folders)) in enumerate(owned.items()):
            git = _lay_out(place, target, owner, texts, scratch / str(number), inner_folders)
            start = len(owner) + 1 if owner else 0
            hidden = await find_ignored(git, [path[start:] for path in (*inner_files, *inner_folders)])
            if hidden:
                hidden -= await _index_paths(place, target, owner, scratch)
            found |= {f"{owner}/{path}" if owner else path for path in hidden}
        return found
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def _ignore_files(place: Worktree, target: CheckpointFacts) -> dict[str, bytes]:
    """Every ignore file that was in force, captured or not."""
    blobs = {}
    for line in await place.view.names("ls-tree", "-r", "-z", target.checkpoint.tree):
        facts, _, path = line.partition("\t")
        if path.rpartition("/")[2] == ".gitignore" and facts.startswith("100"):
            blobs[path] = facts.split(" ")[2]
    texts = {path: os.fsencode(text) for path, text in target.hidden_ignores.items()}
    for path, blob in blobs.items():
        texts[path] = await place.view("cat-file", "blob", blob)
    return texts


def _lay_out(
    place: Worktree, target: CheckpointFacts, owner: str, texts: dict[str, bytes], scratch: Path, folders: list[str]
) -> Git:
    start = len(owner) + 1 if owner else 0
    tree, git_dir = scratch / "tree", scratch / "git"
    tree.mkdir(parents=True)
    for folder in folders:
        (tree / folder[start:]).mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        if path.startswith(f"{owner}/") if owner else True:
            file = tree / path[start:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
    make_git_dir(git_dir, place.object_format)
    rules = target.nested[owner].excludes if owner else f"{target.excludes[0]}\n/{OWN_FOLDER}/\n"
    (git_dir / "info" / "exclude").write_bytes(os.fsencode(rules))
    (scratch / "global").write_bytes(os.fsencode(target.excludes[1]))
    git = place.scratch(git_dir, tree)
    return Git(git.cwd, git.env, (*Git.settings, f"core.excludesFile={scratch / 'global'}"))


async def _index_paths(place: Worktree, target: CheckpointFacts, owner: str, scratch: Path) -> set[str]:
    """What the user's index named then: the checkpoint did look at these, ignored or not."""
    raw = target.nested[owner].raw_index if owner else target.raw_index
    if not raw:
        return set()
    copy = scratch / "index"
    copy.write_bytes(await place.view("cat-file", "blob", raw))
    return set(split(await place.view("ls-files", "-z", env={"GIT_INDEX_FILE": str(copy)})))
