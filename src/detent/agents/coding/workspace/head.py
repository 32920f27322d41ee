"""HEAD, its branch, operations in progress and the index: read for a checkpoint, put back by a rollback.

They are put back with compare-and-swap, the index through git's own `index.lock`. A merge or rebase that began or ended
since the checkpoint makes them stay as they are: then only files go back.
"""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detent.agents.coding.workspace.git_command import GitFailed
from detent.agents.coding.workspace.ref import INDEX, LOCK_POLL_S, LOCK_WAIT_S, note
from detent.agents.coding.workspace.ref import write as write_ref
from detent.agents.coding.workspace.work_tree import Worktree, text_of
from detent.errors import Refused

OPERATIONS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
)
TOLD, BEFORE = ("-m", "detent: rollback"), ("-m", "detent: before a rollback")  # in the reflog


@dataclass(frozen=True)
class Head:
    """Where HEAD points: a branch (perhaps without a commit yet) or a commit; and what git is in the middle of."""

    ref: str | None
    commit: str | None
    operations: dict[str, str]

    def pack(self) -> dict[str, Any]:
        """As JSON."""
        return {"ref": self.ref, "commit": self.commit, "operations": self.operations}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> "Head":
        """From JSON."""
        return cls(packed["ref"], packed["commit"], packed["operations"])


async def read_head(place: Worktree) -> Head:
    """The present HEAD of a work tree."""
    if not place.has_git:
        return Head(None, None, {})
    text = text_of(place.git_dir / "HEAD").strip()
    ref = text.removeprefix("ref:").strip() if text.startswith("ref:") else None
    return Head(ref, await commit_of(place, "HEAD"), operations(place))


async def commit_of(place: Worktree, name: str) -> str | None:
    """The commit a ref points to, if it does."""
    exit_code, answer, _ = await place.users.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return answer.decode().strip() if exit_code == 0 else None


def operations(place: Worktree) -> dict[str, str]:
    """The operations in progress, each with a digest of how far it is."""
    found = {}
    for name in OPERATIONS:
        path = place.git_dir / name
        if path.is_dir():
            digest = hashlib.sha256()
            for file in sorted(path.iterdir()):
                if file.is_file():
                    digest.update(os.fsencode(file.name) + b"\0" + file.read_bytes() + b"\0")
            found[name] = digest.hexdigest()
        elif path.exists():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


async def restore_head(place: Worktree, target: Head, keep_ref: str, who: str) -> list[str]:
    """Put HEAD and its branch back; what was newer is kept under `keep_ref`. What had to be left, as sentences."""
    present = await read_head(place)
    if (present.ref, present.commit) == (target.ref, target.commit):
        return []
    if present.commit is not None:
        await write_ref(place, "update-ref", *BEFORE, keep_ref, present.commit, ref=keep_ref)
    try:
        if target.ref is None:
            if target.commit is not None:
                await _point(place, "HEAD", target.commit, present.commit, deref=False)
            return []
        note = await _restore_branch(place, target, keep_ref, who)
        if note:
            return [note]
        if present.ref != target.ref:
            await write_ref(place, "symbolic-ref", *TOLD, "HEAD", target.ref, ref="HEAD")
    except GitFailed as error:
        return [f"{who}: HEAD was left as it is, because git refused to move it ({error.stderr})"]
    return []


async def _restore_branch(place: Worktree, target: Head, keep_ref: str, who: str) -> str:
    ref = target.ref or ""
    now = await commit_of(place, ref)
    if now == target.commit:
        return ""
    elsewhere = await _find_other_checkout(place, ref)
    if elsewhere:
        return f"{who}: HEAD was left as it is, because its branch is now checked out in {elsewhere}"
    if now is not None:
        await write_ref(place, "update-ref", *BEFORE, f"{keep_ref}-branch", now, ref=keep_ref)
    if target.commit is None:
        if now is not None:
            await write_ref(place, "update-ref", "-d", ref, now, ref=ref)
    else:
        await _point(place, ref, target.commit, now, deref=True)
    return ""


async def _point(place: Worktree, ref: str, commit: str, before: str | None, *, deref: bool) -> None:
    flags = [] if deref else ["--no-deref"]
    was = before or "0" * len(commit)
    if ref == "HEAD" and before is None:  # an unborn HEAD has no value to compare with
        await write_ref(place, "update-ref", *flags, *TOLD, ref, commit, ref=ref)
    else:
        await write_ref(place, "update-ref", *flags, *TOLD, ref, commit, was, ref=ref)


async def _find_other_checkout(place: Worktree, ref: str) -> str:
    """The git dir of another work tree of this repository that has the branch checked out."""
    for git_dir in (place.common_dir, *(place.common_dir / "worktrees").glob("*")):
        if git_dir == place.git_dir or text_of(git_dir / "HEAD").strip() != f"ref: {ref}":
            continue
        env = {"GIT_DIR": str(git_dir)}
        is_bare = (
            await place.users.line("rev-parse", "--is-bare-repository", env=env) if git_dir == place.common_dir else ""
        )
        if is_bare != "true":
            return text_of(git_dir / "gitdir").strip().removesuffix("/.git") or str(git_dir.parent)
    return ""


def check_index_lock(place: Worktree) -> None:
    """Refuse while another git is at work on the index; a lock that a killed rollback left behind is removed."""
    lock = place.git_dir / "index.lock"
    if not place.has_git or not os.path.lexists(lock):
        return
    ours = place.home / "index.new"
    is_linked = ours.exists() and os.path.samestat(os.lstat(ours), os.lstat(lock))
    if is_linked or note(place, INDEX).exists():
        lock.unlink()
        return
    raise Refused(f"another git is at work in {place.root} (or died and left {lock}); nothing was changed")


async def restore_index(place: Worktree, raw: bytes | None, who: str) -> list[str]:
    """Put the index file back, through its lock; what had to be left, as sentences."""
    index, lock, fresh = place.git_dir / "index", place.git_dir / "index.lock", place.home / "index.new"
    present = index.read_bytes() if index.exists() else None
    if present == raw:
        return []
    fresh.parent.mkdir(parents=True, exist_ok=True)
    fresh.unlink(missing_ok=True)
    fresh.write_bytes(raw or b"")
    for _ in range(int(LOCK_WAIT_S / LOCK_POLL_S)):
        try:
            os.link(fresh, lock)  # a lock with its content at once: after a crash we know it for ours
            break
        except FileExistsError:
            await asyncio.sleep(LOCK_POLL_S)
    else:
        return [f"{who}: the index was left as it is, because another git held its lock"]
    if raw is None:
        index.unlink(missing_ok=True)
        lock.unlink()
    else:
        lock.replace(index)
    fresh.unlink(missing_ok=True)
    return []


async def raw_index(place: Worktree) -> bytes | None:
    """The user's index file, whole: one that is split is joined first."""
    path = place.git_dir / "index"
    if not place.has_git or not path.exists():
        return None
    raw = path.read_bytes()
    if b"link" not in raw or not list(place.git_dir.glob("sharedindex.*")):
        return raw
    copy = place.home / "index.whole"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(raw)
    try:
        await place.users("update-index", "--no-split-index", env={"GIT_INDEX_FILE": str(copy)})
        return copy.read_bytes()
    finally:
        copy.unlink(missing_ok=True)


async def index_tree(place: Worktree, entries: Sequence[tuple[str, str, str, str]]) -> str:
    """A tree that keeps alive what the index names: its contents, or during a merge its blobs one beside another."""
    copy: Path = place.home / "index.copy"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(await raw_index(place) or b"")
    try:
        return await place.users.line("write-tree", "--missing-ok", env={"GIT_INDEX_FILE": str(copy)})
    except GitFailed:
        blobs = sorted({blob for mode, blob, _, _ in entries if mode != "160000"})
        lines = "".join(f"100644 blob {blob}\t{blob}\n" for blob in blobs)
        return await place.users.line("mktree", "--missing", stdin=lines.encode())
    finally:
        copy.unlink(missing_ok=True)
