"""Checkpoints: what they hold, what they leave alone, and how they are found again."""

import asyncio
import fcntl
import os
import re
import shlex
from pathlib import Path

import pytest

from detent.agents.coding.workspace import Change, Repository, checkout
from detent.errors import Refused, Unknown
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, meddle, write


def project(tmp_path: Path) -> Path:
    root = init(tmp_path / "project")
    write(root, "a.txt", "one\ntwo\n")
    write(root, "src/b.py", "print(1)\n")
    write(root, ".gitignore", "*.log\n")
    world.commit(root)
    return root


async def test_a_checkpoint_touches_nothing_of_the_users(tmp_path: Path) -> None:
    root = project(tmp_path)
    for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"):
        write(root, f".git/hooks/{hook}", f"#!/bin/sh\ntouch '{tmp_path}/hook-ran'\n", 0o755)
    write(root, "a.txt", "stashed\n")
    git(root, "-c", "core.hooksPath=/dev/null", "stash")
    write(root, "a.txt", "staged\n")
    git(root, "-c", "core.hooksPath=/dev/null", "add", "a.txt")
    write(root, "new.txt", "new\n")
    (tmp_path / "hook-ran").unlink(missing_ok=True)
    before = world.picture(root), world.standing(root), git(root, "stash", "list"), git(root, "branch", "-a")
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1", "first")
    await repository.rollback(taken)
    assert (world.picture(root), world.standing(root), git(root, "stash", "list"), git(root, "branch", "-a")) == before
    assert not (tmp_path / "hook-ran").exists()
    assert git(root, "tag") == b""


async def test_an_id_has_seconds_and_a_number_and_a_beginning_is_enough(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root / "src")
    first = await repository.checkpoint("r1", "first\nline")
    second = await repository.checkpoint("r2")
    assert re.fullmatch(r"chk-\d{14}-1", first.id)
    assert first.ref == "refs/detent/ck/r1/1"
    assert (first.tree, second.seq) == (second.tree, 2)
    assert [item.id for item in await repository.checkpoints()] == [first.id, second.id]
    assert await repository.checkpoints("r1") == [first]
    assert await repository.resolve(first.id) == first
    assert await repository.resolve(second.id[:16], run="r2") == second
    with pytest.raises(Refused, match="is the beginning of 2 checkpoints"):
        await repository.resolve("chk-")
    with pytest.raises(Unknown, match="there is no checkpoint `chk-1999`"):
        await repository.resolve("chk-1999")
    with pytest.raises(Refused, match="cannot name a run"):
        await repository.checkpoint("../x")


async def test_the_tree_id_changes_with_the_files_and_comes_back_with_them(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    before = await repository.tree_id()
    write(root, "noise.log", "ignored")
    assert await repository.tree_id() == before
    write(root, "a.txt", "one\ntwp\n")  # the same size, within the same second
    assert await repository.tree_id() != before
    write(root, "a.txt", "one\ntwo\n")
    assert await repository.tree_id() == before
    os.chmod(root / "a.txt", 0o700)
    assert await repository.tree_id() != before


async def test_a_difference_is_a_patch_and_a_list(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    first = await repository.checkpoint("r1")
    write(root, "a.txt", "one\nthree\nfour\n")
    write(root, "new\nname", b"\0binary")
    (root / "src/b.py").unlink()
    assert await repository.changes(first) == [
        Change("a.txt", "modified", 2, 1),
        Change("new\nname", "added", None, None),
        Change("src/b.py", "deleted", 0, 1),
    ]
    second = await repository.checkpoint("r1")
    assert [change.path for change in await repository.changes(first, second)] == ["a.txt", "new\nname", "src/b.py"]
    assert "+three" in await repository.diff(first.id, second.id)
    assert await repository.diff(second) == ""


async def test_ignored_oversize_and_special_files_stay_outside_and_are_named(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "noise.log", "ignored")
    write(root, "forced.log", "forced")
    git(root, "add", "-f", "forced.log")
    write(root, "big.bin", b"x" * 2000)
    write(root, "tracked.bin", b"y" * 2000)
    git(root, "add", "tracked.bin")
    write(root, "odd/.GIT/x", "no git can hold this")
    write(root, ".detent/code/plan.md", "ours")
    os.mkfifo(root / "pipe")
    repository = await Repository.open(root, cap_bytes=1000)
    taken = await repository.checkpoint("r1")
    held = git(root, "ls-tree", "-r", "--name-only", taken.tree).decode().split()
    assert held == [".gitignore", "a.txt", "forced.log", "src/b.py", "tracked.bin"]
    assert [(item.path, item.size) for item in taken.uncaptured] == [("big.bin", 2000), ("odd/.GIT/x", 20)]
    assert "larger than 1000 bytes" in taken.uncaptured[0].why


async def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    await repository.checkpoint("r1")
    lock = root / ".git/detent/lock"
    lock.write_text('{"pid": 4711, "host": "here", "since": 0, "doing": "rollback to chk-1"}')
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Refused, match=r"process 4711 on here is at work here \(rollback to chk-1\) since 1970"):
            await repository.checkpoint("r1")
    await repository.checkpoint("r1")


async def test_where_no_checkpoint_can_be_taken_that_is_said_before_anything_changes(tmp_path: Path) -> None:
    git(init(tmp_path / "p"), "init", "-q", "--bare", str(tmp_path / "bare"))
    with pytest.raises(Refused, match="bare repository"):
        await Repository.open(tmp_path / "bare")
    with pytest.raises(Refused, match="inside a git dir"):
        await Repository.open(tmp_path / "p/.git/objects")
    with pytest.raises(Refused, match="there is no folder"):
        await Repository.open(tmp_path / "nowhere")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/.git").write_text("gitdir: /nowhere\n")
    with pytest.raises(Refused, match="not take it for a repository"):
        await Repository.open(tmp_path / "odd")


async def test_pruning_lets_the_oldest_go(tmp_path: Path) -> None:
    root = project(tmp_path)
    init(root / "inner")
    write(root, "inner/x", "x")
    world.commit(root / "inner")
    repository = await Repository.open(root)
    taken = [await repository.checkpoint("r1") for _ in range(3)]
    other = await repository.checkpoint("r2")
    assert await repository.prune("r1", keep=1) == [item.id for item in taken[:2]]
    assert await repository.checkpoints() == [taken[2], other]
    await repository.prune("r1")
    await repository.prune("r2")
    assert git(root, "for-each-ref", "refs/detent") == b""
    assert git(root / "inner", "for-each-ref", "refs/detent") == b""


async def test_a_damaged_cache_costs_time_and_nothing_else(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    first = await repository.checkpoint("r1")
    view = root / ".git/detent/view"
    for damage in ("seen.json", "index", "users.paths", "config"):
        (view / damage).write_bytes(b"\x07rubbish")
        assert (await repository.checkpoint("r1")).tree == first.tree
    (view / "index.lock").write_bytes(b"")
    write(root, "a.txt", "else")
    assert (await repository.checkpoint("r1")).tree != first.tree


async def test_what_is_written_during_a_look_is_seen_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    write(tmp_path, "stamp", "")
    stamp = os.stat(root / "a.txt").st_mtime_ns
    os.utime(tmp_path / "stamp", ns=(stamp, stamp))
    file, reference = shlex.quote(str(root / "a.txt")), shlex.quote(str(tmp_path / "stamp"))
    deed = f"printf 'one\\ntwp\\n' > {file}; touch -r {reference} {file}"
    # The same size and the same time, after it was read: the user's index, with a file of its own, may be read before.
    meddle(tmp_path, monkeypatch, "write-tree", f'[ -n "$GIT_INDEX_FILE" ] || {{ {deed}; }}')
    before = await repository.tree_id()
    monkeypatch.undo()
    assert await repository.tree_id() != before


async def test_locks_that_a_killed_git_left_on_our_own_indexes_are_cleared_and_no_others(tmp_path: Path) -> None:
    root = world.init(tmp_path / "project")
    world.write(root, "a", "a")
    repository = await Repository.open(root)
    first = await repository.checkpoint("r1")
    home = root / ".git" / "detent"
    stale = [home / "plan.index.lock", home / "index.copy.lock", home / "view" / "index.lock"]
    stale.append(root / ".git" / "refs" / "detent" / "ck" / "r1" / "2.lock")
    for path in (*stale, home / "job.json.lock"):
        path.touch()
    world.write(root, "a", "b")
    second = await repository.checkpoint("r1")
    assert second.tree != first.tree
    assert [path for path in stale if path.exists()] == []
    assert (home / "job.json.lock").exists()  # a lease is held by it


async def test_trees_that_are_adjusted_at_once_do_not_meet(tmp_path: Path) -> None:
    """As those of tasks that are judged side by side are, over the same project."""
    repository = await Repository.open(project(tmp_path))
    taken = await repository.checkpoint("r1")
    known = await checkout.list_blobs(repository.place, taken.tree)
    wanted = [{f"new{number}": known["a.txt"], "src/b.py": None} for number in range(6)]
    trees = await asyncio.gather(*(checkout.adjust(repository.place, taken.tree, one) for one in wanted))
    for number, tree in enumerate(trees):
        expected = {**known, f"new{number}": known["a.txt"]}
        del expected["src/b.py"]
        assert await checkout.list_blobs(repository.place, tree) == expected
