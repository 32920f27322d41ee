"""Folders made from a tree: the copy of a project that a worker gets, and the clean checkouts that judge its work.

Both stand on the project's object store through a view of their own, which lies outside of the folder. So nothing that
is done in the folder can change what detent knows of it. A worker's copy also has a `.git` of its own, for the worker:
packs are hard links to those of the project, everything else is copied, and no ref, hook or setting of it is ever read
by us or by the user's git.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from detent.agents.coding.workspace.checkpoint_record import CheckpointFacts
from detent.agents.coding.workspace.git_command import ID_LENGTHS, GitFailed, join, remember
from detent.agents.coding.workspace.work_tree import Worktree

COPIED = ("packed-refs", "HEAD", "index", "shallow")
LOOSE_MAX = 200_000
SETTINGS = """[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	logAllRefUpdates = true
[user]
	name = worker
	email = worker@localhost
[gc]
	auto = 0
"""
SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
Blob = tuple[str, str]  # mode and object


def copy_of(project: Worktree, folder: Path, own: Path) -> Worktree:
    """The work tree in a folder that stands on a project's objects; `own` is where we keep what we know of it."""
    return Worktree(
        str(folder),
        project.git_dir,
        project.common_dir,
        project.object_format,
        has_git=False,
        excludes_file=project.excludes_file,
        own=own,
    )


async def put(place: Worktree, tree: str) -> None:
    """Make a folder hold exactly this tree, whatever was done in it: nothing untracked or ignored is left."""
    root = Path(place.root)
    await asyncio.to_thread(_make_real, root)
    place.make_view()
    if not (place.view_dir / "index").exists() and not os.listdir(root):
        await place.view("read-tree", "--reset", "-u", tree)  # nothing can be left of anything
        return
    try:
        await _put(place, tree)
    except GitFailed:  # the view's index is only a cache, and so is what is in the folder
        (place.view_dir / "index").unlink(missing_ok=True)
        await asyncio.to_thread(_empty, root)
        await _put(place, tree)


async def _put(place: Worktree, tree: str) -> None:
    await place.view("read-tree", "--reset", "-u", tree)
    extra = await place.view.names("ls-files", "-z", "-o", "--directory")
    await asyncio.to_thread(_remove, place.root, [*extra, ".git"])
    if await place.view("diff-files", "-z", "--name-only"):
        raise GitFailed(("diff-files",), 1, b"the folder does not hold the tree")


def _make_real(root: Path) -> None:
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        root.unlink()
    root.mkdir(parents=True, exist_ok=True)


def _empty(root: Path) -> None:
    _remove(str(root), os.listdir(root))


def _remove(root: str, names: list[str]) -> None:
    for name in names:
        path = os.path.join(root, name.rstrip("/"))
        if os.path.islink(path) or not os.path.isdir(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        else:
            remove_tree(path)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Delete a folder, also one whose folders are closed to their owner."""

    def open_and_retry(function: object, name: str, _error: object) -> None:
        del function
        for one in (os.path.dirname(name), name):
            with contextlib.suppress(OSError):
                os.chmod(one, 0o700)
        with contextlib.suppress(OSError):
            shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)

    shutil.rmtree(path, onerror=open_and_retry)


async def find_moved(place: Worktree) -> list[str]:
    """What in a checkout is not as it was put there; ignored files do not count."""
    changed, new = await asyncio.gather(
        place.view.names("diff-files", "-z", "--name-only", "--no-renames"),
        place.view.names("ls-files", "-z", "-o", "--exclude-standard"),
    )
    return sorted({*changed, *(name for name in new if not name.startswith(".detent/"))})


async def make_copy(project: Worktree, place: Worktree, facts: CheckpointFacts, *, is_linked: bool = True) -> None:
    """The project as it was at a checkpoint, with a `.git` for whoever works in it.

    Packs may be linked if whoever works in it cannot write them: one that could would write the project's, too.
    """
    await put(place, facts.checkpoint.tree)
    root = Path(place.root)
    for folder in facts.bare:
        with contextlib.suppress(OSError):
            (root / folder).mkdir(parents=True, exist_ok=True)
    for path, mode in facts.permissions.items():
        with contextlib.suppress(OSError):
            if not (root / path).is_symlink():
                (root / path).chmod(mode)
    paths = await place.view.names("ls-files", "-z")
    (place.view_dir / "users.paths").write_bytes(join(paths))
    if project.has_git:
        await asyncio.to_thread(_make_git, project, root / ".git", facts, is_linked)


def _make_git(project: Worktree, into: Path, facts: CheckpointFacts, is_linked: bool) -> None:
    """A git dir of its own over copied and linked objects, on the same branch."""
    for folder in ("refs/heads", "refs/tags", "info", "objects"):
        (into / folder).mkdir(parents=True, exist_ok=True)
    is_sha256 = project.object_format == "sha256"
    text = SETTINGS.format(version=int(is_sha256)) + SHA256 * is_sha256
    (into / "config").write_text(text, "utf-8")
    _copy_objects(project.common_dir / "objects", into / "objects", is_linked)
    for name in COPIED:
        source = (project.common_dir if name in ("packed-refs", "shallow") else project.git_dir) / name
        with contextlib.suppress(OSError):
            shutil.copyfile(source, into / name)
    for group in ("heads", "tags"):
        source = project.common_dir / "refs" / group
        if source.is_dir():
            shutil.copytree(source, into / "refs" / group, dirs_exist_ok=True, copy_function=shutil.copyfile)
    with contextlib.suppress(OSError):
        (into / "info" / "exclude").write_text(f"{facts.excludes[0]}\n/.detent/\n", "utf-8", errors="surrogateescape")


def _copy_objects(source: Path, into: Path, is_linked: bool) -> None:
    """Packs by hard links, which a sandbox shows read-only; the loose ones, which lie among new ones, by copying."""
    count = 0
    for folder, folders, names in os.walk(source):
        inner = os.path.relpath(folder, source)
        folders[:] = [name for name in folders if name != "info"]
        is_pack = inner == "pack" and is_linked
        target = into / inner
        target.mkdir(exist_ok=True)
        for name in names:
            count += 1
            if count > LOOSE_MAX or name.startswith("tmp_"):
                continue
            with contextlib.suppress(OSError):
                if not is_pack or not _link(Path(folder, name), target / name):
                    shutil.copyfile(Path(folder, name), target / name)


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


_known: dict[str, dict[str, Blob]] = {}


async def list_blobs(place: Worktree, tree: str) -> dict[str, Blob]:
    """Every file of a tree."""
    if tree in _known:
        return dict(_known[tree])
    found = {}
    for line in await place.view.names("ls-tree", "-r", "-z", tree):
        facts, _, path = line.partition("\t")
        mode, _, name = facts.split(" ")
        found[path] = (mode, name)
    if len(tree) in ID_LENGTHS:
        remember(_known, tree, dict(found))
    return found


async def adjust(place: Worktree, tree: str, changes: Mapping[str, Blob | None]) -> str:
    """A tree with some files put in its place and some taken out."""
    if not changes:
        return tree
    zero = "0" * len(tree)
    gone = [f"0 {zero}\t{path}" for path, blob in changes.items() if blob is None]
    new = [f"{blob[0]} {blob[1]}\t{path}" for path, blob in changes.items() if blob is not None]
    # An index of its own for each call: tasks that are worked on at once are judged at once, over one project.
    with tempfile.TemporaryDirectory(prefix="detent-adjust-") as folder:
        env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        await place.view("read-tree", tree, env=env)
        await place.view("update-index", "-z", "--add", "--replace", "--index-info", stdin=join([*gone, *new]), env=env)
        return await place.view.line("write-tree", env=env)
