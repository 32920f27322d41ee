"""A checkpoint in the object store: one commit, one private ref.

The commit's tree holds `worktree/` (every captured file as raw bytes), `index/` and `index.raw` (the user's index, as a
tree so that gc keeps what is staged, and as the file it was), `nested-N.index` for repositories inside, and `meta.json`
with what git cannot hold. Its parent is the user's HEAD, so gc keeps that too.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from detent.agents.coding.workspace import file_listing, head, loose_object
from detent.agents.coding.workspace.head import Head
from detent.agents.coding.workspace.ref import write as write_ref
from detent.agents.coding.workspace.snapshot import Snapshot, Uncaptured
from detent.agents.coding.workspace.work_tree import Worktree
from detent.errors import Refused, Unknown

CHECKPOINTS = "refs/detent/ck"
PINS = "refs/detent/pins"
HEADS = "refs/detent/heads"
RESCUES = "refs/detent/rescue"
META_VERSION = 1
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Checkpoint:
    """A work tree as it was at one moment, for good."""

    id: str
    run: str
    seq: int
    label: str
    at: int
    ref: str
    commit: str
    tree: str
    uncaptured: tuple[Uncaptured, ...] = ()


@dataclass(frozen=True)
class Inner:
    """A repository inside the work tree at that moment."""

    head: Head
    raw_index: str
    excludes: str
    is_pinned: bool = False  # there was something to keep alive in it


@dataclass(frozen=True)
class CheckpointFacts:
    """All that a checkpoint knows."""

    checkpoint: Checkpoint
    worktree: str  # where it was then
    home: str  # which of the repository's work trees it was
    head: Head
    umask: int
    permissions: dict[str, int]
    bare: tuple[str, ...]
    nested: dict[str, Inner]
    hidden_ignores: dict[str, str]
    excludes: tuple[str, str]
    raw_index: str
    index_tree: str


def check_run(run: str) -> str:
    """The name of a run, if it can be part of a ref."""
    if not _RUN.fullmatch(run) or ".." in run or run.endswith((".lock", ".")):
        raise Refused(f"`{run}` cannot name a run's checkpoints; use letters, digits, `-`, `_` and single dots")
    return run


async def write(place: Worktree, run: str, label: str, found: Snapshot) -> Checkpoint:
    """Make a checkpoint of what was found."""
    check_run(run)
    at = int(time.time())
    present, taken = await asyncio.gather(head.read_head(place), _refs(place))
    seq = 1 + max((int(name.rpartition("/")[2]) for name in taken), default=0)
    name = f"chk-{time.strftime('%Y%m%d%H%M%S', time.gmtime(at))}-{seq}"
    inner = {path: await _inner(place, nested, run, seq) for path, nested in found.nested.items()}
    about = {
        "version": META_VERSION,
        "id": name,
        "run": run,
        "seq": seq,
        "label": label,
        "at": at,
        "worktree": place.root,
        "home": place.name,
        "head": present.pack(),
        "umask": found.umask,
        "permissions": found.permissions,
        "bare": found.bare,
        "uncaptured": [asdict(item) for item in found.uncaptured],
        "nested": [
            {
                "path": path,
                "head": item.head.pack(),
                "index": item.raw_index,
                "excludes": item.excludes,
                "pinned": item.is_pinned,
            }
            for path, item in inner.items()
        ],
        "hidden_ignores": found.hidden_ignores,
        "excludes": place.exclude_sources(),
        "tree": found.tree,
        "index": {"raw": found.raw_index, "tree": found.index_tree},
    }
    entries = [(loose_object.FOLDER, found.tree, "worktree")]
    if found.raw_index:
        entries += [(loose_object.FOLDER, found.index_tree, "index"), ("100644", found.raw_index, "index.raw")]
    kept = [item.raw_index for item in inner.values() if item.raw_index]
    entries += [("100644", blob, f"nested-{number}.index") for number, blob in enumerate(kept)]
    body = json.dumps(about, sort_keys=True).encode("ascii")
    commit = wrap(place, entries, body, f"{name} {_line(label)}", present.commit)
    ref = f"{CHECKPOINTS}/{run}/{seq}"
    await write_ref(place, "update-ref", ref, commit, "0" * len(commit), ref=ref)
    return Checkpoint(name, run, seq, label, at, ref, commit, found.tree, tuple(found.uncaptured))


def wrap(
    place: Worktree, entries: Iterable[loose_object.TreeEntry], about: bytes, message: str, parent: str | None
) -> str:
    """A commit of these entries and `meta.json`."""
    meta = loose_object.write_object(place, "blob", about)
    tree = loose_object.write_tree(place, [*entries, ("100644", meta, "meta.json")])
    return loose_object.write_commit(place, tree, [parent] if parent else [], os.fsencode(message) + b"\n")


async def _inner(outer: Worktree, nested: Worktree, run: str, seq: int) -> Inner:
    """A repository inside: its HEAD and index, pinned there so that its own gc keeps them."""
    present = await head.read_head(nested)
    raw = await head.raw_index(nested)
    blob = "" if raw is None else loose_object.write_object(outer, "blob", raw)
    entries = await file_listing.index_entries(nested) if raw is not None else []
    ref = f"{PINS}/{run}/{seq}"
    if entries:
        tree = await head.index_tree(nested, entries)
        above = ("-p", present.commit) if present.commit else ()
        pin = await nested.users.line("commit-tree", tree, *above, stdin=b"detent\n")
        await write_ref(nested, "update-ref", ref, pin, ref=ref)
    elif present.commit:
        await write_ref(nested, "update-ref", ref, present.commit, ref=ref)
    return Inner(present, blob, nested.exclude_sources()[0], bool(entries or present.commit))


def pin_of(checkpoint: Checkpoint) -> str:
    """The ref that keeps a repository inside alive for a checkpoint, in that repository."""
    return f"{PINS}/{checkpoint.run}/{checkpoint.seq}"


async def _refs(place: Worktree) -> list[str]:
    return (await place.users("for-each-ref", "--format=%(refname)", CHECKPOINTS)).decode().split()


async def every(place: Worktree, run: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a run, or of all, the oldest first."""
    under = f"{CHECKPOINTS}/{check_run(run)}/" if run is not None else f"{CHECKPOINTS}/"
    if place.has_git or place.git_dir.exists():
        listed = (await place.users("for-each-ref", "--format=%(objectname)", under)).decode().split()
    else:
        listed = []
    found = [facts.checkpoint for facts in await _load(place, listed)]
    return sorted(found, key=lambda item: item.seq)


async def resolve(place: Worktree, name: str, run: str | None = None) -> Checkpoint:
    """The checkpoint of this id, or the only one whose id begins so."""
    found = await every(place, run)
    exact = [item for item in found if name in (item.id, item.ref, item.commit)]
    near = exact or [item for item in found if item.id.startswith(name)]
    if not near:
        if not found:
            raise Unknown("there is no checkpoint here; none was taken yet")
        raise Unknown(f"there is no checkpoint `{name}` here; the latest is {found[-1].id}")
    if len(near) > 1:
        names = ", ".join(item.id for item in near[:8])
        raise Refused(f"`{name}` is the beginning of {len(near)} checkpoints: {names}")
    return near[0]


async def facts(place: Worktree, checkpoint: Checkpoint) -> CheckpointFacts:
    """All that is known of a checkpoint."""
    return (await _load(place, [checkpoint.commit]))[0]


async def _load(place: Worktree, commits: list[str]) -> list[CheckpointFacts]:
    asked = "".join(f"{commit}:meta.json\n" for commit in commits).encode()
    rest = await place.users("cat-file", "--batch", stdin=asked) if commits else b""
    found = []
    for commit in commits:
        header, _, rest = rest.partition(b"\n")
        if header.endswith(b" missing"):
            raise Refused(f"checkpoint {commit} is damaged: it has no meta.json")
        size = int(header.rpartition(b" ")[2])
        found.append(_facts(commit, json.loads(rest[:size])))
        rest = rest[size + 1 :]
    return found


def _facts(commit: str, about: dict[str, Any]) -> CheckpointFacts:
    uncaptured = tuple(Uncaptured(**item) for item in about["uncaptured"])
    ref = f"{CHECKPOINTS}/{about['run']}/{about['seq']}"
    checkpoint = Checkpoint(
        about["id"], about["run"], about["seq"], about["label"], about["at"], ref, commit, about["tree"], uncaptured
    )
    nested = {
        item["path"]: Inner(Head.unpack(item["head"]), item["index"], item["excludes"], item["pinned"])
        for item in about["nested"]
    }
    return CheckpointFacts(
        checkpoint,
        about["worktree"],
        about["home"],
        Head.unpack(about["head"]),
        about["umask"],
        about["permissions"],
        tuple(about["bare"]),
        nested,
        about["hidden_ignores"],
        (about["excludes"][0], about["excludes"][1]),
        about["index"]["raw"],
        about["index"]["tree"],
    )


def _line(label: str) -> str:
    return " ".join(label.split()) or "checkpoint"
