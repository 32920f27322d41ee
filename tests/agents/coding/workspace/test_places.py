"""Repositories of every shape: inside one another, linked, with other hashes, and none at all."""

import os
import shutil
from pathlib import Path

import pytest

from detent.agents.coding.workspace import Repository
from detent.errors import Refused
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, picture, standing, write


def project(root: Path, *flags: str) -> Path:
    init(root, *flags)
    write(root, "a.txt", "one\n")
    write(root, ".gitignore", "*.log\n")
    world.commit(root)
    return root


async def test_a_submodule_goes_back_with_its_head_and_index(tmp_path: Path) -> None:
    library, root = project(tmp_path / "library"), project(tmp_path / "project")
    git(root, "submodule", "add", "-q", str(library), "lib")
    world.commit(root)
    inner = root / "lib"
    write(root, "lib/untracked", "u")
    write(root, "lib/a.txt", "dirty\n")
    before = picture(root), standing(root), standing(inner)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    assert (picture(root), standing(root), standing(inner)) == before
    world.commit(inner, "worker's")
    write(root, "lib/more", "m")
    git(root, "add", "lib")
    raged = picture(root), standing(root), standing(inner)
    done = await repository.rollback(taken)
    assert (picture(root), standing(root), standing(inner)) == before
    await repository.rollback(done.undo)
    assert (picture(root), standing(root), standing(inner)) == raged
    git(root, "submodule", "deinit", "-f", "lib")
    await repository.rollback(taken)
    assert picture(root) == before[0]


async def test_a_repository_inside_without_commits(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    inner = init(root / "deep/inner")
    write(inner, "x.txt", "x")
    write(inner, "y.log", "not ignored in there")
    write(inner, "z.o", "ignored in there")
    write(inner, ".git/info/exclude", "*.o\n")
    repository = await Repository.open(root)
    before = picture(root), standing(inner)
    taken = await repository.checkpoint("r1")
    git(inner, "add", "x.txt")
    git(inner, "commit", "-qm", "worker's")
    (inner / "y.log").unlink()
    await repository.rollback(taken)
    assert (picture(root), standing(inner)) == before


async def test_a_repository_made_since_goes_aside_and_comes_back(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    repository = await Repository.open(root)
    before = picture(root)
    taken = await repository.checkpoint("r1")
    clone = project(root / "vendor/clone")
    raged = picture(root), standing(clone)
    done = await repository.rollback(taken)
    assert picture(root) == before
    assert not (root / "vendor").exists()
    assert "`vendor/clone/.git` was in the way" in done.notes[0]
    await repository.rollback(done.undo)
    assert (picture(root), standing(clone)) == raged
    assert git(clone, "fsck", "--strict") == b""


async def test_the_files_of_a_deleted_repository_come_back(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    project(root / "inner")
    write(root, "inner/new", "n")
    before = picture(root)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    shutil.rmtree(root / "inner")
    done = await repository.rollback(taken)
    assert picture(root) == before
    assert "its git dir is gone: only files" in done.notes[0]


async def test_linked_work_trees_do_not_disturb_one_another(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", "-b", "side", str(linked))
    write(linked, "new", "n")
    there, here = await Repository.open(linked), await Repository.open(root)
    taken = await there.checkpoint("r1")
    before, other = (picture(linked), standing(linked)), (picture(root), standing(root))
    write(linked, "a.txt", "raged\n")
    git(linked, "commit", "-qam", "raged")
    with pytest.raises(Refused, match="is a checkpoint of"):
        await here.rollback(taken.id)
    await there.rollback(taken.id)
    assert (picture(linked), standing(linked)) == before
    assert (picture(root), standing(root)) == other


async def test_a_branch_that_is_checked_out_elsewhere_is_left(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    write(root, "a.txt", "raged\n")
    git(root, "commit", "-qam", "raged")
    git(root, "checkout", "-q", "-b", "side")
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    done = await repository.rollback(taken)
    assert (root / "a.txt").read_text() == "one\n"
    assert "checked out in" in done.notes[0]
    assert git(tmp_path / "linked", "status", "--porcelain") == b""


async def test_a_sha256_repository(tmp_path: Path) -> None:
    root = project(tmp_path / "project", "--object-format=sha256")
    repository = await Repository.open(root)
    before = picture(root), standing(root)
    taken = await repository.checkpoint("r1")
    assert len(taken.commit) == 64
    write(root, "new", "n")
    git(root, "rm", "-q", "a.txt")
    write(root, ".gitignore", "a.txt\n")
    write(root, "a.txt", "one\n")
    await repository.rollback(taken)
    assert (picture(root), standing(root)) == before


async def test_a_folder_without_git_has_a_store_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "folder"
    write(root, "a.txt", "one\r\n")
    write(root, ".gitignore", "*.log\n")
    write(root, "x.log", "ignored")
    (root / "empty").mkdir()
    repository = await Repository.open(root)
    assert not repository.has_git
    assert await repository.checkpoints() == []
    assert not (root / ".detent").exists()
    before = picture(root)
    taken = await repository.checkpoint("r1")
    assert not (root / ".git").exists()
    write(root, "a.txt", "raged")
    write(root, "b/c", "c")
    (root / "empty").rmdir()
    raged = picture(root)
    done = await repository.rollback(taken)
    assert picture(root) == before
    await (await Repository.open(root)).rollback(done.undo.id)
    assert picture(root) == raged


async def test_a_split_index_comes_back_whole(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    git(root, "config", "core.splitIndex", "true")
    git(root, "update-index", "--split-index")
    write(root, "staged", "s")
    git(root, "add", "staged")
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    staged = git(root, "ls-files", "-s")
    git(root, "commit", "-qm", "w")
    git(root, "rm", "-q", "--cached", "staged")
    await repository.rollback(taken)
    assert git(root, "ls-files", "-s") == staged
    assert git(root, "status", "--porcelain") == b"A  staged\n"


async def test_the_users_own_ignore_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path / "project")
    write(tmp_path, "config/git/ignore", "*.swp\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write(root, "a.swp", "precious")
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    assert b"swp" not in git(root, "ls-tree", "-r", taken.tree)
    write(tmp_path, "config/git/ignore", "")
    await repository.rollback(taken)
    assert (root / "a.swp").read_text() == "precious"


async def test_a_worker_without_write_permission_is_no_obstacle(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    write(root, "closed/x", "x")
    write(root, "closed/y", "y", 0o400)
    os.chmod(root / "closed", 0o500)
    before = picture(root)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    os.chmod(root / "closed", 0o700)
    (root / "closed/x").unlink()
    write(root, "closed/z", "z")
    os.chmod(root / "closed", 0o500)
    await repository.rollback(taken)
    assert picture(root) == before
