"""What the agent does to a folder: look, which changes nothing, and remove, which cannot be undone."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent import Contract, Effect, EffectFailed, Outcome, PartialFailure, effect
from detent.kit.agent import Surroundings

DAY_S = 86_400
FILES_MAX = 1_000  # of one run; a question about more is read by nobody


@effect("tidy.look", kind="pure")
async def look(contract: Contract) -> dict[str, Any]:
    """The files of a folder that nobody has changed for some days, each as it is now."""
    folder, before = Path(contract.input["folder"]), time.time() - contract.input["days"] * DAY_S
    try:
        files = [_seen(path) for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    except OSError as error:
        raise EffectFailed(f"{folder} cannot be read: {error.strerror}") from None
    return {"files": [file for file in files if file["changed_at"] < before][:FILES_MAX]}


def _seen(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {"name": path.name, "bytes": found.st_size, "changed_at": found.st_mtime}


async def were_removed(contract: Contract) -> Outcome | None:
    """The probe: did this call happen? All files are gone, or none is; in between only a person can say."""
    files, left = contract.input["files"], _left(contract)
    if len(left) == len(files):
        raise EffectFailed("all files are still there")
    return None if left else Outcome({"removed": [file["name"] for file in files], "changed": []})


def _left(contract: Contract) -> list[dict[str, Any]]:
    folder = Path(contract.input["folder"])
    return [file for file in contract.input["files"] if (folder / file["name"]).exists()]


@effect("tidy.remove", kind="irreversible", settle_s=0, reconcile=were_removed)
async def remove(contract: Contract) -> dict[str, Any]:
    """Remove the files that are still as they were shown; one that was changed since is left alone."""
    folder, removed, changed = Path(contract.input["folder"]), list[str](), list[str]()
    for file in contract.input["files"]:
        path = folder / file["name"]
        try:
            is_same = path.exists() and _seen(path) == file
            if is_same:
                path.unlink()
        except OSError as error:
            failure = PartialFailure if removed else EffectFailed  # only the second says that nothing happened
            raise failure(f"{path} cannot be removed: {error.strerror}") from None
        (removed if is_same else changed).append(file["name"])
    return {"removed": removed, "changed": changed}


def open_effects(_: Surroundings) -> Mapping[str, Effect]:
    """The agent's effects for one host."""
    return {one.name: one for one in (look, remove)}
