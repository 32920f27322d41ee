"""Objects that we write ourselves: git reads them, and would have written the same."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent.agents.coding.workspace import Repository, loose_object
from tests.agents.coding.workspace import world
from tests.agents.coding.workspace.world import git, init, write

NAMES = st.lists(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=6), unique=True)


@pytest.fixture(params=["sha1", "sha256"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return init(tmp_path / "project", f"--object-format={request.param}")


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=300), names=NAMES.filter(lambda names: not {".", "..", ".git"} & {*map(str.lower, names)})
)
async def test_git_would_have_written_the_same(root: Path, body: bytes, names: list[str]) -> None:
    place = (await Repository.open(root)).place
    blob = loose_object.write_object(place, "blob", body)
    assert blob == git(root, "hash-object", "--stdin", stdin=body).decode().strip()
    inner = loose_object.write_tree(place, [("100644", blob, "f")])
    kinds = [("100644", blob), ("100755", blob), (loose_object.FOLDER, inner)]
    entries = [(*kinds[number % 3], name) for number, name in enumerate(names)]
    lines = [
        f"{mode:0>6} {'tree' if mode == loose_object.FOLDER else 'blob'} {b}\t{name}\0" for mode, b, name in entries
    ]
    tree = loose_object.write_tree(place, entries)
    assert tree == git(root, "mktree", "-z", stdin="".join(lines).encode()).decode().strip()
    first = loose_object.write_commit(place, tree, [], b"one\n")
    second = loose_object.write_commit(place, inner, [first], b"two\n")
    git(root, "update-ref", "refs/heads/made", second)
    assert git(root, "log", "--format=%s %an", "made").decode().split("\n")[:2] == ["two detent", "one detent"]
    git(root, "fsck", "--no-dangling", "made")


async def test_a_checkpoint_is_whole_after_the_objects_of_the_last_one_were_deleted(tmp_path: Path) -> None:
    root = init(tmp_path / "project")
    write(root, "kept.txt", "committed\n")
    world.commit(root)
    write(root, "new.txt", "untracked\n")
    repository = await Repository.open(root)
    first = await repository.checkpoint("r1")
    git(root, "update-ref", "-d", first.ref)
    git(root, "prune", "--expire=now")
    again = await repository.checkpoint("r2")
    git(root, "fsck", "--strict", "--no-dangling", again.ref)
    write(root, "new.txt", "changed\n")
    await repository.rollback(again)
    assert (root / "new.txt").read_text() == "untracked\n"
