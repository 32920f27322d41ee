"""The way back: byte for byte, undoable, and never at the cost of a file nobody could see."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from detent.agents.coding.workspace import Repository, rollback
from detent.errors import Refused
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, meddle, picture, standing, write


def project(tmp_path: Path) -> Path:
    root = init(tmp_path / "project")
    write(root, "a.txt", "one\n")
    write(root, "src/b.py", "print(1)\n")
    write(root, ".gitignore", "*.log\n")
    world.commit(root)
    return root


async def there_and_back(root: Path, deeds: "list[tuple[str, ...]] | None" = None, **edits: str) -> rollback.Rollback:
    """Take a checkpoint, let a worker rage, roll back, undo, roll back: each time byte for byte."""
    repository = await Repository.open(root)
    before = picture(root), standing(root)
    taken = await repository.checkpoint("r1")
    write(root, "a.txt", "raged\n")
    write(root, "worker/made.txt", "made\n")
    for path, body in edits.items():
        write(root, path, body)
    for deed in deeds or []:
        git(root, *deed)
    raged = picture(root), standing(root)
    done = await repository.rollback(taken)
    assert (picture(root), standing(root)) == before
    undone = await repository.rollback(done.undo)
    assert (picture(root), standing(root)) == raged
    await repository.rollback(undone.undo.id)
    assert (picture(root), standing(root)) == before
    return done


async def test_dirty_staged_untracked_and_deleted_files_come_back(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "a.txt", "staged\n")
    git(root, "add", "a.txt")
    write(root, "a.txt", "and edited again\n")
    write(root, "untracked/u.txt", "u\n")
    (root / "src/b.py").unlink()
    done = await there_and_back(root, [("add", "-A"), ("rm", "-q", "-f", "untracked/u.txt")])
    assert not done.notes


@pytest.mark.parametrize(
    ("attributes", "settings"),
    [
        ("* text=auto\n", ("core.autocrlf", "true")),
        ("*.txt text eol=crlf\n", ("core.eol", "crlf")),
        ("*.txt ident\n", ("core.autocrlf", "input")),
        ("*.txt filter=lfs\n", ("filter.lfs.required", "true")),
        ("*.txt working-tree-encoding=UTF-16LE\n", ("core.safecrlf", "true")),
    ],
    ids=["autocrlf", "eol", "ident", "missing filter", "encoding"],
)
async def test_no_conversion_touches_a_byte(tmp_path: Path, attributes: str, settings: tuple[str, str]) -> None:
    root = project(tmp_path)
    write(root, ".gitattributes", attributes)
    git(root, "config", *settings)
    if "lfs" in attributes:
        git(root, "config", "filter.lfs.clean", "/nowhere/git-lfs clean")
        git(root, "config", "filter.lfs.smudge", "/nowhere/git-lfs smudge")
    write(root, "mixed.txt", b"unix\nwindows\r\nold\r$Id$\n")
    write(root, "other.txt", b"$Id: 1234 $\r\n")
    taken = await there_and_back(root, None, **{"mixed.txt": "else\r\n$Id$\n"})
    assert not taken.notes


async def test_permissions_and_their_change_alone_come_back(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "secret", "s", 0o600)
    write(root, "tool", "t", 0o755)
    os.chmod(root / "src", 0o700)
    before = picture(root)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    os.chmod(root / "secret", 0o644)
    os.chmod(root / "tool", 0o644)
    os.chmod(root / "src", 0o500)
    os.chmod(root / "a.txt", 0o440)
    await repository.rollback(taken)
    assert picture(root) == before


async def test_empty_folders_come_and_go(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "empty/deep").mkdir(parents=True)
    (root / "src/empty").mkdir()
    before = picture(root)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    shutil.rmtree(root / "empty")
    write(root, "src/empty/file", "x")
    (root / "workers/own").mkdir(parents=True)
    await repository.rollback(taken)
    assert picture(root) == before


async def test_odd_names_are_names(tmp_path: Path) -> None:
    root = project(tmp_path)
    for name in (
        b"new\nline",
        b"\xff\xfe\x80",
        b" lead",
        b"-dash",
        b":(glob)*",
        b"*",
        b"tab\t",
        b'"q"',
        b"\\back",
        b"git~1",
    ):
        write(root, name, name)
        write(root, b"in/" + name, name)
    shutil.copy(root / "a.txt", root / "A.TXT")
    await there_and_back(root, [("rm", "-rqf", "--ignore-unmatch", "in"), ("clean", "-qfd")])


async def test_files_folders_and_links_change_places(tmp_path: Path) -> None:
    root = project(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b.py").write_text("precious")
    write(root, "was/folder/x", "x")
    write(root, "file", "f")
    (root / "link").symlink_to("a.txt")
    repository = await Repository.open(root)
    before = picture(root)
    taken = await repository.checkpoint("r1")
    shutil.rmtree(root / "was")
    write(root, "was", "now a file")
    (root / "file").unlink()
    write(root, "file/in/folder", "f")
    (root / "link").unlink()
    write(root, "link/x", "x")
    shutil.rmtree(root / "src")
    (root / "src").symlink_to(tmp_path / "outside")
    done = await repository.rollback(taken)
    assert picture(root) == before
    assert (tmp_path / "outside/b.py").read_text() == "precious"
    await repository.rollback(done.undo)
    assert (root / "src").is_symlink()
    assert (tmp_path / "outside/b.py").read_text() == "precious"


async def test_a_workers_commits_and_branches_are_undone_and_kept(tmp_path: Path) -> None:
    root = project(tmp_path)
    done = await there_and_back(root, [("add", "-A"), ("commit", "-q", "-m", "w"), ("commit", "--amend", "-qm", "v")])
    assert git(root, "log", "-1", "--format=%s", f"refs/detent/heads/r1/{done.undo.seq}") == b"v\n"
    await there_and_back(root, [("checkout", "-q", "-b", "workers"), ("commit", "-qam", "w")])
    git(root, "checkout", "-q", "--detach")
    await there_and_back(root, [("checkout", "-q", "main"), ("commit", "-qam", "w")])


async def test_a_repository_without_commits(tmp_path: Path) -> None:
    root = init(tmp_path / "project")
    write(root, "a.txt", "first\n")
    await there_and_back(root, [("add", "-A"), ("commit", "-q", "-m", "the first")])
    git(root, "add", "a.txt")
    await there_and_back(root, [("commit", "-q", "-m", "the first")])


async def test_gc_takes_nothing_a_checkpoint_needs(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    write(root, "a.txt", "only staged\n")
    git(root, "add", "a.txt")
    write(root, "a.txt", "only on disk\n")
    before = picture(root), standing(root)
    taken = await repository.checkpoint("r1")
    git(root, "commit", "-qam", "w")
    git(root, "commit", "--amend", "-qm", "amended away")
    git(root, "reset", "-q", "--hard", "HEAD~1")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "gc", "-q", "--prune=now")
    await repository.rollback(taken)
    assert (picture(root), standing(root)) == before
    git(root, "commit", "-qm", "what was staged")
    assert git(root, "show", "HEAD:a.txt") == b"only staged\n"


def conflict(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "other")
    write(root, "a.txt", "other\n")
    git(root, "commit", "-qam", "other")
    git(root, "checkout", "-q", "main")
    write(root, "a.txt", "mine\n")
    git(root, "commit", "-qam", "mine")


async def test_a_merge_in_progress_comes_back_as_it_was(tmp_path: Path) -> None:
    root = project(tmp_path)
    conflict(root)
    git(root, "merge", "other", check=False)
    assert b"a.txt" in git(root, "ls-files", "-u")
    await there_and_back(root, [("add", "a.txt")])
    assert b"a.txt" in git(root, "ls-files", "-u")


async def test_a_merge_that_began_or_ended_since_leaves_head_and_index(tmp_path: Path) -> None:
    root = project(tmp_path)
    conflict(root)
    repository = await Repository.open(root)
    before = picture(root)
    taken = await repository.checkpoint("r1")
    git(root, "merge", "other", check=False)
    present = standing(root)
    done = await repository.rollback(taken)
    assert picture(root) == before
    assert standing(root) == present
    assert "only files were put back" in done.notes[0]
    git(root, "merge", "--abort")
    assert "only files were put back" in (await repository.rollback(done.undo)).notes[0]


async def test_what_the_checkpoint_could_not_see_is_never_deleted(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, ".env.log", "precious")
    write(root, "cache/.gitignore", "*\n")
    write(root, "cache/data", "precious too")
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    (root / ".gitignore").unlink()
    (root / "cache/.gitignore").unlink()
    done = await repository.rollback(taken)
    assert (root / ".env.log").read_text() == "precious"
    assert (root / "cache/data").read_text() == "precious too"
    assert "cache/data" in done.left
    git(root, "add", "-f", ".env.log")
    await repository.rollback(taken)
    assert (root / ".env.log").read_text() == "precious"


async def test_what_the_safety_checkpoint_cannot_see_is_rescued_before_it_is_overwritten(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "notes.tmp", "as it was")
    write(root, "wanted/file", "x")
    repository = await Repository.open(root)
    before = picture(root)
    taken = await repository.checkpoint("r1")
    write(root, ".gitignore", "*.log\n*.tmp\nwanted\n")
    write(root, "notes.tmp", "hidden and changed")
    write(root, "late.tmp", "hidden and new")
    shutil.rmtree(root / "wanted")
    write(root, "wanted", "a hidden file in the way of a folder")
    done = await repository.rollback(taken)
    assert picture(root) == before
    rescued = [git(root, "ls-tree", "-r", "--name-only", f"{ref}:worktree").decode().split() for ref in done.rescued]
    assert rescued[0] == ["notes.tmp", "wanted"]
    assert "late.tmp" in rescued[1]
    assert git(root, "show", f"{done.rescued[0]}:worktree/notes.tmp") == b"hidden and changed"


async def test_files_above_the_cap_are_never_touched_and_changes_are_said(tmp_path: Path) -> None:
    root = project(tmp_path)
    write(root, "big.bin", b"x" * 2000)
    repository = await Repository.open(root, cap_bytes=1000)
    taken = await repository.checkpoint("r1")
    write(root, "big.bin", b"y" * 2500)
    write(root, "new.bin", b"z" * 3000)
    done = await repository.rollback(taken)
    assert (root / "big.bin").read_bytes() == b"y" * 2500
    assert (root / "new.bin").exists()
    assert "`big.bin` changed since" in done.notes[0]
    write(root, "big.bin", "small now")
    await repository.rollback(taken)
    assert (root / "big.bin").read_text() == "small now"


async def test_a_file_that_changes_at_this_very_moment_stops_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    write(root, "a.txt", "raged\n")
    write(root, "src/b.py", "raged\n")
    typed = f"printf 'typed by a person\\n' > {shlex.quote(str(root / 'a.txt'))}"
    meddle(tmp_path, monkeypatch, "read-tree", typed)
    with pytest.raises(Refused, match="nothing was rolled back"):
        await repository.rollback(taken)
    monkeypatch.undo()
    assert (root / "a.txt").read_text() == "typed by a person\n"
    assert (root / "src/b.py").read_text() == "raged\n"
    await repository.rollback(taken)
    assert (root / "a.txt").read_text() == "one\n"


async def test_another_git_at_work_stops_it_before_anything_changes(tmp_path: Path) -> None:
    root = project(tmp_path)
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r1")
    write(root, "a.txt", "raged\n")
    write(root, ".git/index.lock", "")
    with pytest.raises(Refused, match="another git is at work"):
        await repository.rollback(taken)
    assert (root / "a.txt").read_text() == "raged\n"
    assert len(await repository.checkpoints()) == 1


async def test_no_folder_is_made_or_removed_through_a_link(tmp_path: Path) -> None:
    root = project(tmp_path)
    for name in ("empty", "other"):
        (tmp_path / "outside" / name).mkdir(parents=True)
    (root / "d").symlink_to(tmp_path / "outside")
    (root / "e/new").mkdir(parents=True)
    repository = await Repository.open(root)
    before = picture(root)
    taken = await repository.checkpoint("r1")
    (root / "d").unlink()
    (root / "d/empty").mkdir(parents=True)
    shutil.rmtree(root / "e")
    (root / "e").symlink_to(tmp_path / "outside")
    await repository.rollback(taken)
    assert picture(root) == before
    assert sorted(os.listdir(tmp_path / "outside")) == ["empty", "other"]


async def test_a_project_that_was_moved_keeps_its_checkpoints(tmp_path: Path) -> None:
    root = project(tmp_path)
    before = picture(root)
    taken = await (await Repository.open(root)).checkpoint("r1")
    write(root, "a.txt", "raged\n")
    moved = root.rename(tmp_path / "elsewhere")
    await (await Repository.open(moved)).rollback(taken.id)
    assert picture(moved) == before
