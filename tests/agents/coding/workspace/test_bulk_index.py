"""The fast way of a first checkpoint finds the same as the slow one, and leaves an index that git believes."""

import os
import time
from pathlib import Path

import pytest

from detent.agents.coding.workspace import Repository, bulk_index
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, write


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_both_ways_make_the_same_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_format: str
) -> None:
    root = init(tmp_path / "project", f"--object-format={object_format}")
    write(root, ".gitattributes", "*.crlf text eol=crlf\n")
    for number in range(bulk_index.FILES_MIN):
        write(root, f"d{number % 3}/f{number}", f"{number}\n" * (number % 40), 0o755 if number % 7 == 0 else None)
    for name in (
        b"new\nline",
        b"\xff\xfe",
        b"\xf0\x9f\x98\x80",
        b"\xef\xbf\xbd",
        b"n" * 250,
        b"d1.x",
        b"x" * 200 + b"/" + b"y" * 250,
    ):
        write(root, name, name)
    for number in range(16):
        write(root, b"/".join([b"deep" * 60] * 16 + [b"n%d" % number]), b"a very long name")
    write(root, "lines.crlf", "one\r\ntwo\r\n")
    (root / "link").symlink_to("d1")
    world.commit(root)
    write(root, "d1/f1", "edited")
    write(root, "d1/untracked", "u")
    (root / "d2/f2").unlink()
    (root / ".git/index").rename(tmp_path / "index")  # nothing is known: git reads every file
    slow = await (await Repository.open(root)).tree_id()
    (tmp_path / "index").rename(root / ".git/index")
    git(root, "update-index", "--refresh", check=False)
    for cached in ("index", "seen.json"):
        (root / ".git/detent/view" / cached).unlink()
    repository = await Repository.open(root)
    assert await repository.tree_id() == slow
    (root / ".git/detent/view/index").unlink()  # and once more, with files that the user's index is sure of
    later = time.time() + 60
    os.utime(root / ".git/index", (later, later))
    assert await repository.tree_id() == slow
    env = {**world.ENV, "GIT_DIR": str(root / ".git/detent/view"), "GIT_OBJECT_DIRECTORY": str(root / ".git/objects")}
    monkeypatch.setattr(world, "ENV", {**env, "GIT_WORK_TREE": str(root)})
    assert git(root, "diff-files", "--name-only") == b""
    assert git(root, "update-index", "--refresh") == b""
    monkeypatch.undo()
    os.chmod(root / "d1/f4", 0o700)
    write(root, "d1/f1", "tidied")  # the same size, within the same second
    assert await repository.tree_id() != slow


ROT = "*.rot filter=rot\n*.uni working-tree-encoding=UTF-16LE\n"


@pytest.mark.parametrize("where", [".gitattributes", ".git/info/attributes", "home"])
async def test_a_file_that_was_converted_is_read_however_sure_the_users_index_is(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter keeps the number of bytes, so that only the attribute tells; line ends and idents change it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(world, "ENV", {**world.ENV, "XDG_CONFIG_HOME": str(tmp_path)})
    root = init(tmp_path / "project")
    place = tmp_path / "git" / "attributes" if where == "home" else root / where
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(ROT + "*.crlf text eol=crlf\n")
    git(root, "config", "filter.rot.clean", "tr a-z n-za-m")
    for number in range(bulk_index.FILES_MIN):
        write(root, f"d{number % 3}/f{number}", f"{number}\n")
    write(root, "abc.rot", "abc")
    write(root, "abc.crlf", "abc\r\n")
    write(root, "zwei.uni", "\u4e2d a".encode("utf-16-le"))  # six bytes, and in UTF-8 five
    world.commit(root)
    assert git(root, "cat-file", "blob", ":abc.rot") == b"nop"
    later = time.time() + 60
    os.utime(root / ".git/index", (later, later))
    repository = await Repository.open(root)
    taken = await repository.checkpoint("r")
    for name in ("abc.rot", "abc.crlf", "zwei.uni"):
        assert git(root, "cat-file", "blob", f"{taken.tree}:{name}") == (root / name).read_bytes()
        (root / name).write_bytes(b"changed")
    await repository.rollback(taken)
    assert (root / "abc.rot").read_bytes() == b"abc"
    assert (root / "abc.crlf").read_bytes() == b"abc\r\n"


async def test_a_file_that_the_users_index_only_assumes_to_be_unchanged_is_read(tmp_path: Path) -> None:
    root = init(tmp_path / "project")
    for number in range(bulk_index.FILES_MIN):
        write(root, f"d{number % 3}/f{number}", f"{number}\n")
    write(root, "assumed", "one")
    write(root, "skipped", "one")
    world.commit(root)
    git(root, "update-index", "--assume-unchanged", "assumed")
    git(root, "update-index", "--skip-worktree", "skipped")
    write(root, "assumed", "two")
    write(root, "skipped", "two")
    later = time.time() + 60
    os.utime(root / ".git/index", (later, later))
    taken = await (await Repository.open(root)).checkpoint("r")
    assert git(root, "cat-file", "blob", f"{taken.tree}:assumed") == b"two"
    assert git(root, "cat-file", "blob", f"{taken.tree}:skipped") == b"two"
