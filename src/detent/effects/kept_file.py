"""The effect `files.keep`: files are kept with the run, by their content, for people to fetch later.

    path      a file, a pattern such as out/*.csv, or a list of them, below `root`
    root      a folder; the current one by default
    name      what to call it, where `path` names one file; else each has its path below `root`
    optional  true: no file need be there

A file is read once, through folders that are opened one in the other: links are refused wherever they stand below
`root`, and so is everything that is no ordinary file. The result is `{artefacts: [{name, digest, size}], bytes}`.
Keeping the same content again keeps nothing more, so the effect is idempotent.
"""

import os
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from detent.core import progress
from detent.core.artefact import KEEP, ArtefactStore
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, effect
from detent.effects import protected_path
from detent.effects.arguments import Arguments, invalid
from detent.effects.thread import perform_in_thread

KNOWN = "path! root name optional"
FILE_BYTES_MAX = 256 * 1024 * 1024
RUN_BYTES_MAX = 1024 * 1024 * 1024
FILES_MAX = 200  # of one call
NAME_MAX = 300
PIECE = 1024 * 1024
WILD = frozenset("*?[")


@effect(KEEP, kind="idempotent", settle_s=0.0, is_local=True, takes=KNOWN)
async def keep(contract: Contract) -> Outcome:
    """Keep files with the run, by their content."""
    given = Arguments(KEEP, contract.input, KNOWN)
    about = progress.attempt.get()
    if about is None or about.store is None:
        raise invalid(f"`{KEEP}` works only in a run of a home, which keeps the files")
    work = partial(_keep_all, given, about.store, about.run_id)
    return Outcome(await perform_in_thread(KEEP, work, Outcome))


def _keep_all(given: Arguments, store: ArtefactStore, run_id: str) -> dict[str, Any]:
    root = Path(given.text("root", "."))
    if "\0" in str(root) or not root.is_dir():
        raise invalid(f"`root` of `{KEEP}`: there is no folder {str(root)!r}")
    root = root.resolve()
    names = _find_names(given, root)
    name = given.text("name", "")
    if name and len(names) > 1:
        raise invalid(f"`name` is for one file, and `path` names {len(names)}")
    for one in [name] if name else names:
        _check_name(one)
    kept, size = [], 0
    left = RUN_BYTES_MAX - store.measure(run_id)
    for one in names:
        digest, count = store.keep(run_id, _read(root, one, left - size))
        size += count
        kept.append({"name": name or one, "digest": digest, "size": count})
    return {"artefacts": kept, "bytes": size, "success": True}


def _find_names(given: Arguments, root: Path) -> list[str]:
    """The files that are meant, each by its path below the root, in order and once."""
    asked = given.any("path")
    wanted = asked if isinstance(asked, list) else [asked]
    found: dict[str, None] = {}
    for one in wanted:
        pure = PurePosixPath(one) if isinstance(one, str) and one and "\0" not in one else None
        if pure is None or pure.is_absolute() or ".." in pure.parts:
            raise invalid(f"`path` of `{KEEP}` names files below `root`, such as out/report.pdf or out/*.csv")
        if WILD.isdisjoint(one):
            found[str(pure)] = None
            continue
        for path in sorted(root.glob(one)):
            if path.is_symlink() or not path.is_dir():
                found[path.relative_to(root).as_posix()] = None
            if len(found) > FILES_MAX:
                raise invalid(f"{one!r} names more than {FILES_MAX} files, too many for one call")
    if not found and not given.flag("optional"):
        raise EffectFailed(f"there is no file {', '.join(map(repr, wanted))}", type="tool_failure.not_found")
    if given.flag("optional"):
        found = {name: None for name in found if os.path.lexists(root / name)}
    return list(found)


def _check_name(name: str) -> None:
    """Refuse what could be taken for another name, or that no file can have elsewhere."""
    is_odd = any(unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") for ch in name)
    parts = name.split("/")
    if is_odd or len(name) > NAME_MAX or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise invalid(f"{name!r} cannot be the name of an artefact")


def _read(root: Path, name: str, left: int) -> Iterator[bytes]:
    """The content of a file below the root, as it is now; no link is followed on the way."""
    path, size = root / name, 0
    try:
        with (
            protected_path.open_folder(path, is_writing=False) as folder,
            protected_path.open_file(folder, path.name, os.O_RDONLY, is_writing=False) as fd,
        ):
            while piece := os.read(fd, PIECE):
                size += len(piece)
                if size > FILE_BYTES_MAX:
                    raise invalid(f"{name!r} is larger than {FILE_BYTES_MAX:,} bytes, too large to be kept")
                if size > left:
                    raise invalid(f"with {name!r} the run would keep more than {RUN_BYTES_MAX:,} bytes")
                yield piece
    except FileNotFoundError as error:
        raise EffectFailed(f"there is no file {name!r}", type="tool_failure.not_found") from error
    except OSError as error:
        if path.is_symlink() or any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root)):
            raise invalid(f"{name!r} is a link or behind one, and links are not kept") from error
        raise EffectFailed(f"{name!r} cannot be read: {error.strerror}") from error
