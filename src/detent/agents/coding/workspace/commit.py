"""What a task changed as a commit, and nothing else with it: never what the user had not committed, never `add -A`.

On a branch of its own the task's difference is merged onto the branch's tip, so lines that the user had changed and not
committed stay out; the user's branch, index and files are not touched. In place only files that were clean when the
task began are committed, on the current branch, and their entries in the index follow. Contents pass the user's own
filters and line ends, as with `git add`; hooks do not run, nothing is signed.
"""

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from detent.agents.coding.workspace import difference, head, loose_object
from detent.agents.coding.workspace.checkpoint_record import CheckpointFacts
from detent.agents.coding.workspace.difference import PathStep
from detent.agents.coding.workspace.git_command import Git, GitFailed, environment, join
from detent.agents.coding.workspace.ref import INDEX
from detent.agents.coding.workspace.ref import write as write_ref
from detent.agents.coding.workspace.work_tree import Worktree
from detent.errors import Refused

BRANCHES = "refs/heads/detent"
GONE = "000000"
TOLD = ("-m", "detent: a task is done")  # in the reflog
LINK = "120000"

Blob = tuple[str, str]  # mode and object; ("000000", "") where there is nothing


@dataclass(frozen=True)
class Committed:
    """A commit, the ref that has it, its paths, and those that were left out; no id: there was nothing to commit."""

    id: str
    ref: str
    paths: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


async def on_branch(
    place: Worktree, run: str, trees: tuple[str, str], message: str, paths: Collection[str] | None = None
) -> Committed:
    """Commit the difference of two trees onto `detent/RUN`, which begins at the user's HEAD."""
    _check(place)
    ref = f"{BRANCHES}/{run}"
    tip = await head.commit_of(place, ref)
    base = tip or (await head.read_head(place)).commit
    steps, skipped = await _choose_paths(place, *trees, paths)
    found = await _clean(place, steps)
    with _index(place) as env:
        before = await _tree(place, base, {path: old for path, (old, _) in found.items()}, env)
        after = await _tree(place, base, {path: new for path, (_, new) in found.items()}, env)
        ours = await _tree(place, base, {}, env)
    tree = await _merge(place, before, ours, after, ref)
    if tree == ours:
        return Committed("", ref, skipped=skipped)
    made = await _commit(place, tree, base, message)
    await write_ref(place, "update-ref", *TOLD, ref, made, tip or "0" * len(made), ref=ref)
    return Committed(made, ref, tuple(sorted(found)), skipped)


async def in_place(
    place: Worktree, before: CheckpointFacts, after: str, message: str, paths: Collection[str] | None = None
) -> Committed:
    """Commit on the current branch what changed since a checkpoint, as far as it was clean then."""
    _check(place)
    present = await head.read_head(place)
    if present.operations:
        raise Refused(f"nothing was committed: git is in the middle of something ({', '.join(present.operations)})")
    steps, skipped = await _choose_paths(place, before.checkpoint.tree, after, paths)
    found = await _clean(place, steps)
    then = await _blobs(place, before.head.commit, found)
    staged = await _blobs(place, before.index_tree, found)
    now = await _blobs(place, present.commit, found)
    done = {path for path, (_, new) in found.items() if now[path] == new}
    clean = {path for path, (old, _) in found.items() if old == then[path] == staged[path] == now[path]} - done
    dirty = tuple(sorted(set(found) - clean - done))
    changes = {path: found[path][1] for path in sorted(clean)}
    ref = present.ref or "HEAD"
    if not changes:
        return Committed("", ref, skipped=(*skipped, *dirty))
    with _index(place) as env:
        tree = await _tree(place, present.commit, changes, env)
    made = await _commit(place, tree, present.commit, message)
    was = present.commit or "0" * len(made)
    flags = () if present.ref else ("--no-deref",)
    await write_ref(place, "update-ref", *TOLD, *flags, ref, made, was, ref=ref)
    await write_ref(place, "update-index", "-z", "--index-info", ref=INDEX, stdin=_lines(place, changes))
    return Committed(made, ref, tuple(changes), (*skipped, *dirty))


def _check(place: Worktree) -> None:
    if not place.has_git:
        raise Refused("there is no git repository to commit to; `git init` makes one")


async def _choose_paths(
    place: Worktree, before: str, after: str, paths: Collection[str] | None
) -> tuple[dict[str, PathStep], tuple[str, ...]]:
    """The differing paths that are asked for; those inside another repository are its own business."""
    steps = await difference.steps(place, before, after)
    if paths is not None:
        steps = {path: step for path, step in steps.items() if path in paths}
    inner = {path for path in steps if _is_inside_another(place, path)}
    return {path: step for path, step in steps.items() if path not in inner}, tuple(sorted(inner))


def _is_inside_another(place: Worktree, path: str) -> bool:
    parents = [str(parent) for parent in Path(path).parents if str(parent) != "."]
    return any(os.path.lexists(os.path.join(place.root, parent, ".git")) for parent in parents)


def _plain(place: Worktree) -> Git:
    """git as the user has configured it, filters included."""
    env = environment(plain=True, GIT_DIR=str(place.git_dir), GIT_WORK_TREE=place.root)
    return Git(place.root, env, place.settings)


async def _clean(place: Worktree, steps: dict[str, PathStep]) -> dict[str, tuple[Blob, Blob]]:
    """What the repository would hold for each path, before and after: raw bytes, passed through the user's filters."""
    git, found = _plain(place), {}
    for path, step in steps.items():
        pair = []
        for mode, name in ((step.old_mode, step.old), (step.new_mode, step.new)):
            if mode in (GONE, LINK):
                pair.append((mode, "" if mode == GONE else name))
                continue
            body = await place.view("cat-file", "blob", name)
            try:
                pair.append((mode, await git.line("hash-object", "-w", "--stdin", f"--path={path}", stdin=body or b"")))
            except GitFailed as error:
                raise Refused(f"nothing was committed: {path} does not pass its filter: {error.stderr}") from error
        found[path] = (pair[0], pair[1])
    return found


async def _blobs(place: Worktree, tree: str | None, paths: Collection[str]) -> dict[str, Blob]:
    """What a tree has at these paths."""
    found: dict[str, Blob] = dict.fromkeys(paths, (GONE, ""))
    if tree and paths:
        for line in await place.users.names("ls-tree", "-r", "-z", tree):
            facts, _, path = line.partition("\t")
            if path in found:
                mode, _, name = facts.split(" ")
                found[path] = (mode, name)
    return found


@contextlib.contextmanager
def _index(place: Worktree) -> Iterator[dict[str, str]]:
    place.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.home, prefix="commit-") as folder:
        yield {"GIT_INDEX_FILE": os.path.join(folder, "index")}


def _lines(place: Worktree, changes: dict[str, Blob]) -> bytes:
    zero = "0" * (40 if place.object_format == "sha1" else 64)
    gone = [f"0 {zero}\t{path}" for path, (mode, _) in changes.items() if mode == GONE]
    return join([*gone, *(f"{mode} {name}\t{path}" for path, (mode, name) in changes.items() if mode != GONE)])


async def _tree(place: Worktree, base: str | None, changes: dict[str, Blob], env: dict[str, str]) -> str:
    """The tree of a commit with some paths changed."""
    await place.users("read-tree", *([base] if base else ["--empty"]), env=env)
    if changes:
        await place.users("update-index", "-z", "--index-info", stdin=_lines(place, changes), env=env)
    return await place.users.line("write-tree", env=env)


async def _merge(place: Worktree, before: str, ours: str, after: str, ref: str) -> str:
    """The difference of two trees on top of a third; made of commits that nobody keeps, for an older git's sake."""
    if before == ours:
        return after
    base = loose_object.write_commit(place, before, [], b"base\n")
    sides = [loose_object.write_commit(place, tree, [base], b"side\n") for tree in (ours, after)]
    exit_code, answer, stderr = await place.users.run("-c", "merge.renames=false", "merge-tree", "--write-tree", *sides)
    if exit_code == 1:
        raise Refused(f"nothing was committed on {ref}: lines of the task were not committed before it")
    if exit_code:
        raise GitFailed(("merge-tree",), exit_code, stderr)
    return answer.decode().split("\n")[0]


async def _commit(place: Worktree, tree: str, parent: str | None, message: str) -> str:
    """A commit in the user's name, if git knows it."""
    env: dict[str, str] = {}
    for setting in ("name", "email"):
        exit_code, answer, _ = await _plain(place).run("config", "--get", f"user.{setting}")
        if exit_code == 0 and answer.strip():
            known = os.fsdecode(answer.strip())
            env |= {f"GIT_{who}_{setting.upper()}": known for who in ("AUTHOR", "COMMITTER")}
    above = ("-p", parent) if parent else ()
    return await place.users.line("commit-tree", tree, *above, stdin=os.fsencode(message.strip()) + b"\n", env=env)
