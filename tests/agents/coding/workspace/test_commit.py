"""Commits of a task: its own lines and no others, on a branch of its own or in place."""

from pathlib import Path

import pytest

from detent.agents.coding.workspace import Repository
from detent.errors import Refused
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, picture, standing, write

LINES = [f"line {number}\n" for number in range(20)]


def project(tmp_path: Path) -> Path:
    root = init(tmp_path / "project")
    write(root, "long.txt", "".join(LINES))
    write(root, "other.txt", "other\n")
    world.commit(root)
    return root


def edited(**changes: str) -> str:
    found = list(LINES)
    for number, text in changes.items():
        found[int(number[1:])] = text
    return "".join(found)


def shown(root: Path, name: str) -> str:
    return git(root, "show", name).decode()


async def test_a_branch_gets_the_tasks_own_lines_only(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "long.txt", edited(n2="mine, not committed\n"))
    write(root, "mine.txt", "untracked\n")
    git(root, "add", "other.txt")
    repository = await Repository.open(root)
    before = await repository.checkpoint("r1")
    write(root, "long.txt", edited(n2="mine, not committed\n", n15="the task's\n"))
    write(root, "new/made.txt", "made\n")
    (root / "other.txt").unlink()
    was, after = (picture(root), standing(root)), await repository.tree_id()
    done = await repository.commit_on_branch("r1", before.tree, after, "feat: one")
    assert done.paths == ("long.txt", "new/made.txt", "other.txt")
    assert (picture(root), standing(root)) == was
    assert shown(root, "detent/r1:long.txt") == edited(n15="the task's\n")
    assert git(root, "ls-tree", "-r", "--name-only", "detent/r1").split() == [b"long.txt", b"new/made.txt"]
    assert git(root, "log", "--format=%s", "detent/r1").split(b"\n")[0] == b"feat: one"
    again = await repository.commit_on_branch("r1", before.tree, after, "feat: one")
    assert again.id == ""
    write(root, "new/made.txt", "more\n")
    second = await repository.commit_on_branch("r1", after, await repository.tree_id(), "feat: two")
    assert git(root, "rev-list", "--count", "main..detent/r1").strip() == b"2"
    assert second.paths == ("new/made.txt",)


async def test_lines_that_nobody_committed_are_in_the_way(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "long.txt", edited(n2="mine\n"))
    repository = await Repository.open(root)
    before = await repository.checkpoint("r1")
    write(root, "long.txt", edited(n2="mine, and changed by the task\n"))
    with pytest.raises(Refused, match="nothing was committed"):
        await repository.commit_on_branch("r1", before.tree, await repository.tree_id(), "feat")
    assert git(root, "for-each-ref", "refs/heads/detent") == b""


async def test_in_place_takes_what_was_clean_and_leaves_the_rest(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "long.txt", edited(n2="mine\n"))
    write(root, "staged.txt", "staged\n")
    git(root, "add", "staged.txt")
    repository = await Repository.open(root)
    before = await repository.checkpoint("r1")
    write(root, "long.txt", edited(n2="mine\n", n15="the task's\n"))
    write(root, "other.txt", "changed\n")
    write(root, "made.txt", "made\n")
    write(root, "made.log", "litter\n")
    files, after = picture(root), await repository.tree_id()
    wanted = {"long.txt", "other.txt", "made.txt"}
    done = await repository.commit_in_place(before, after, "feat: one", wanted)
    assert (done.paths, done.skipped, done.ref) == (("made.txt", "other.txt"), ("long.txt",), "refs/heads/main")
    assert picture(root) == files
    assert git(root, "show", "--name-only", "--format=%s", "HEAD").split() == [
        b"feat:",
        b"one",
        b"made.txt",
        b"other.txt",
    ]
    assert sorted(git(root, "status", "--porcelain").splitlines()) == [b" M long.txt", b"?? made.log", b"A  staged.txt"]
    assert (await repository.commit_in_place(before, after, "feat: one", wanted)).id == ""
    await repository.rollback(before)
    assert git(root, "log", "--format=%s").split() == [b"work"]


async def test_line_ends_are_those_of_the_repository(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, ".gitattributes", "*.txt text eol=crlf\n")
    world.commit(root)
    write(root, "other.txt", "other\r\n")
    git(root, "add", "other.txt")
    repository = await Repository.open(root)
    before = await repository.checkpoint("r1")
    write(root, "other.txt", "other\r\nmore\r\n")
    after = await repository.tree_id()
    await repository.commit_on_branch("r1", before.tree, after, "feat")
    assert shown(root, "detent/r1:other.txt") == "other\nmore\n"
    await repository.commit_in_place(before, after, "feat")
    assert shown(root, "HEAD:other.txt") == "other\nmore\n"


async def test_first_commits_detached_heads_and_merges(tmp_path: Path) -> None:
    root = init(tmp_path / "young")
    repository = await Repository.open(root)
    before = await repository.checkpoint("r1")
    write(root, "a.txt", "a\n")
    after = await repository.tree_id()
    await repository.commit_on_branch("r1", before.tree, after, "feat")
    assert shown(root, "detent/r1:a.txt") == "a\n"
    await repository.commit_in_place(before, after, "feat")
    assert shown(root, "main:a.txt") == "a\n"
    git(root, "checkout", "-q", "--detach")
    before = await repository.checkpoint("r1")
    write(root, "a.txt", "b\n")
    done = await repository.commit_in_place(before, await repository.tree_id(), "feat")
    assert (done.ref, shown(root, "HEAD:a.txt"), shown(root, "main:a.txt")) == ("HEAD", "b\n", "a\n")
    write(root, ".git/MERGE_HEAD", git(root, "rev-parse", "main"))
    with pytest.raises(Refused, match="MERGE_HEAD"):
        await repository.commit_in_place(before, await repository.tree_id(), "feat")


async def test_without_git_there_is_nothing_to_commit_to(tmp_path: Path) -> None:
    repository = await Repository.open(tmp_path)
    tree = await repository.tree_id()
    with pytest.raises(Refused, match="git init"):
        await repository.commit_on_branch("r1", tree, tree, "feat")


async def test_old_runs_are_let_go_of_and_the_latest_kept(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    taken = [await repository.checkpoint(f"r{number}") for number in range(5)]
    month = taken[-1].at + 30 * 86_400
    assert await repository.retain(runs=3, days=14, now=taken[-1].at) == []
    assert await repository.retain(runs=3, days=14, now=month, spare={"r0"}) == [taken[1].id]
    assert await repository.retain(runs=3, days=14, now=month) == [taken[0].id]
    assert [item.id for item in await repository.checkpoints()] == [item.id for item in taken[2:]]
