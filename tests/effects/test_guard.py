"""File effects keep off the home and off what decides about them, however a path is spelt or linked."""

import os
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.core import Contract, EffectFailed, progress
from detent.core.effect_type import Effect
from detent.effects.files import append, files, read, write
from detent.effects.notify import notify
from tests.effects.attempt import call

JOURNAL = b"the journal"
POLICY = "rules: []\n"


def project(place: Path) -> Path:
    """A folder with a home, a policy, a repository, and names that lead to them."""
    for name in (".detent/deep", ".git/hooks", "work", "UP"):
        (place / name).mkdir(parents=True)
    (place / ".detent" / "journal.db").write_bytes(JOURNAL)
    (place / ".git" / "config").write_text("[core]\n")
    (place / "detent.policy.yaml").write_text(POLICY)
    (place / "rules.yaml").write_text(POLICY)
    (place / "link").symlink_to(".detent")
    (place / "work" / "up").symlink_to("..")
    (place / "work" / "journal").symlink_to("../.detent/journal.db")
    (place / "work" / "policy").symlink_to("../detent.policy.yaml")
    os.link(place / ".detent" / "journal.db", place / "work" / "hard")
    os.link(place / "detent.policy.yaml", place / "work" / "hard.txt")
    return place


async def perform(place: Path, which: Effect, **given: Any) -> str:
    """Call an effect as a host would that has its home here; why it was refused, or nothing."""
    contract = Contract("work/do/1", "do", which.name, input=given, key="k")
    ground = progress.OffLimits(str(place / ".detent"), (str(place / "rules.yaml"),))
    token = progress.attempt.set(progress.Attempt(contract, "r", lambda *_: None, ground))
    try:
        await which.perform(contract)
    except EffectFailed as error:
        return str(error)
    finally:
        progress.attempt.reset(token)
    return ""


HOME_PATHS = (
    ".detent/journal.db", "./.detent/./journal.db", "work/../.detent/journal.db", "link/journal.db", "work/journal",
    "work/up/.detent/journal.db", "work/up/work/up/link/journal.db", ".detent//journal.db", ".detent/new",
    ".detent/deep/new", "link/deep/../journal.db",
)  # fmt: skip


@pytest.mark.parametrize("path", HOME_PATHS)
async def test_no_file_effect_reaches_into_the_home(tmp_path: Path, path: str) -> None:
    place = project(tmp_path)
    for spelt in (path, str(place / path)):
        where: dict[str, Any] = {"path": spelt, "root": str(place), "anywhere": True}
        for which, more in ((write, {"text": "x", "parents": True}), (append, {"text": "x"}), (read, {})):
            assert "home" in await perform(place, which, **where, **more)
        assert "home" in await perform(place, files, op="append", text="x", **where)
    assert "home" in await perform(place, notify, outbox=str(place / path), message="x")
    assert (place / ".detent" / "journal.db").read_bytes() == JOURNAL
    assert {entry.name for entry in (place / ".detent").rglob("*")} == {"journal.db", "deep"}


@pytest.mark.parametrize(
    "path",
    ["detent.policy.yaml", "DETENT.Policy.YAML", "work/detent.people.yaml", "work/policy", "rules.yaml", ".git/config",
     ".git/hooks/pre-commit", ".GIT/config", "work/up/.git/config", "detent.mcp.json"],
)  # fmt: skip
async def test_what_decides_about_effects_is_not_written_by_one(tmp_path: Path, path: str) -> None:
    place = project(tmp_path)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    for which in (write, append):
        assert await perform(place, which, path=path, root=str(place), text="x", parents=True) != ""
    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


async def test_another_name_of_a_guarded_file_is_found(tmp_path: Path) -> None:
    place = project(tmp_path)
    for name in ("work/hard", "work/hard.txt"):
        assert "another name" in await perform(place, append, path=name, root=str(place), text="x")
    assert "another name" in await perform(place, read, path="work/hard", root=str(place))
    assert await perform(place, write, path="work/hard", root=str(place), text="x") == "", (
        "the name is given to another file"
    )
    assert (place / ".detent" / "journal.db").read_bytes() == JOURNAL


async def test_settings_and_repositories_can_be_read(tmp_path: Path) -> None:
    place = project(tmp_path)
    for path in ("detent.policy.yaml", ".git/config", "rules.yaml"):
        assert await perform(place, read, path=path, root=str(place)) == ""


pieces = st.sampled_from([".", "..", ".detent", "link", "work", "up", "UP", "deep", "", ".git", "journal.db"])
names = st.one_of(pieces, st.text(string.ascii_letters + ". _-é", min_size=1, max_size=5))


@given(st.lists(names, min_size=1, max_size=8), st.booleans(), st.sampled_from(["write", "append"]))
async def test_no_spelling_of_a_path_changes_the_home_or_the_settings(
    parts: list[str], is_absolute: bool, op: str
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = project(Path(scratch).resolve() / "p")
        kept = [".detent/journal.db", "detent.policy.yaml", "rules.yaml", ".git/config"]
        before = [(place / name).read_bytes() for name in kept]
        path = "/".join([str(place), *parts]) if is_absolute else "/".join(parts)
        where: dict[str, Any] = {"path": path, "root": str(place), "anywhere": False, "parents": True}
        await perform(place, files, op=op, text="x", **where)
        assert [(place / name).read_bytes() for name in kept] == before
        found = {str(entry.relative_to(place)) for name in (".detent", ".git") for entry in (place / name).rglob("*")}
        assert found == {".detent/journal.db", ".detent/deep", ".git/hooks", ".git/config"}


async def test_a_link_that_comes_into_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = project(tmp_path)
    (place / "out").mkdir()
    resolve = Path.resolve

    def race(path: Path, strict: bool = False) -> Path:
        found = resolve(path, strict)
        if found.name == "journal.db" and (place / "out").is_dir() and not (place / "out").is_symlink():
            (place / "out").rmdir()
            (place / "out").symlink_to(".detent")  # between looking and writing
        return found

    monkeypatch.setattr(Path, "resolve", race)
    assert await perform(place, write, path="out/journal.db", root=str(place), text="x") != ""
    assert (place / ".detent" / "journal.db").read_bytes() == JOURNAL


async def test_a_host_tells_its_effects_where_its_home_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = await call(tmp_path, "files.write", {"path": ".detent/journal.db", "text": "gone"})
    assert "in the home" in done.error
    again = await call(tmp_path, "files.write", {"path": "kept.txt", "text": "here"})
    assert again.result["success"] is True
