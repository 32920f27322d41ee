"""One look at a work tree: its files brought into the view's index, and what git cannot hold written down beside.

The view's persistent index is the stat cache: git itself finds what differs (`diff-files`, `ls-files -o` and `-i`, side
by side), and only that is read again. A change of permissions changes a file's ctime, so it is found the same way.
"""

import asyncio
import os
import stat
import time
from dataclasses import dataclass, field

from detent.agents.coding.workspace import bulk_index, file_listing, head, loose_object, scan_cache
from detent.agents.coding.workspace.file_listing import FileListing, Ground, IndexEntry, is_below, is_own
from detent.agents.coding.workspace.git_command import GitFailed, first_of, join
from detent.agents.coding.workspace.scan_cache import LastView
from detent.agents.coding.workspace.work_tree import Worktree

CAP_BYTES = 50 * 1024 * 1024
RECENT_S = 2
CLOCK_LAG_S = 0.1
HIDDEN_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True)
class Uncaptured:
    """A file that a checkpoint does not hold, and why; a rollback never touches it."""

    path: str
    why: str
    size: int = 0
    mtime_ns: int = 0


@dataclass
class Snapshot:
    """A work tree at one moment."""

    tree: str
    umask: int
    permissions: dict[str, int]  # of files and folders, where they are not the usual ones
    bare: list[str]  # folders that hold no captured file
    uncaptured: list[Uncaptured]
    nested: dict[str, Worktree]
    hidden_ignores: dict[str, str]  # ignore files in force that the tree does not hold
    raw_index: str = ""
    index_tree: str = ""


@dataclass
class _Look:
    """What is found out on the way."""

    place: Worktree
    seen: LastView
    cap_bytes: int
    ground: Ground
    begun: float
    umask: int
    is_warm: bool
    fresh: set[str] = field(default_factory=set)  # to be read again
    recent: set[str] = field(default_factory=set)  # of these, what git finds unchanged and was changed lately
    gone: set[str] = field(default_factory=set)  # to be taken out of the view
    bare: set[str] = field(default_factory=set)
    nested: dict[str, Worktree] = field(default_factory=dict)
    uncaptured: dict[str, Uncaptured] = field(default_factory=dict)
    users_paths: set[str] | None = None
    facts: dict[str, os.stat_result] = field(default_factory=dict)  # of the files to be read
    users_blobs: dict[str, str] = field(default_factory=dict)  # only if the user's index was read now
    is_reshaped: bool = False  # the set of paths in the view is another one now


def umask_of() -> int:
    """The umask of this process, without setting it where that can be avoided."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o022)
        os.umask(mask)
        return mask


def usual(mode: int, umask: int) -> int:
    """The permissions a new file or folder of this kind gets."""
    return (0o777 if stat.S_ISDIR(mode) or mode & 0o100 else 0o666) & ~umask


async def take(place: Worktree, cap_bytes: int = CAP_BYTES) -> Snapshot:
    """Look at the work tree; the caller holds the lock."""
    place.make_view()
    try:
        return await _take(place, cap_bytes)
    except (GitFailed, BaseExceptionGroup) as failure:
        error = first_of(failure)
    if not isinstance(error, GitFailed) or "index" not in error.stderr or not (place.view_dir / "index").exists():
        raise error
    (place.view_dir / "index").unlink()  # only a cache, and git cannot read it
    return await _take(place, cap_bytes)


async def _take(place: Worktree, cap_bytes: int) -> Snapshot:
    seen = scan_cache.load(place.view_dir / "seen.json")
    umask = umask_of()
    signature = scan_cache.signature(place.view_dir / "index")
    is_warm = bool(signature) and seen.signature == signature and seen.umask == umask
    look = _Look(place, seen, cap_bytes, Ground(place.root), time.time(), umask, is_warm)
    if not is_warm:
        paths = await place.view.names("ls-files", "-z")
        look.seen.folders, look.seen.ignores = sorted(file_listing.folders_of(paths)), _ignores(paths)
        look.seen.permissions, look.seen.recent, look.seen.absent = {}, [], []
        look.is_reshaped = True
    entries = await _read_users_index(look)
    async with asyncio.TaskGroup() as tasks:
        if entries is not None:
            tasks.create_task(_store_users_index(look, entries))
        if is_warm:
            tasks.create_task(
                _check_objects(place, [seen.tree, *([] if entries else [seen.users.tree, seen.users.raw])])
            )
        await _compare(look)
        _classify(look)
        tree = await _update(look)
    await _remember(look, tree)
    folders, hidden = _folders(look)
    users = seen.users
    return Snapshot(
        tree,
        umask,
        seen.permissions | folders,
        sorted(look.bare),
        sorted(look.uncaptured.values(), key=lambda item: item.path),
        dict(sorted(look.nested.items())),
        hidden,
        users.raw,
        users.tree,
    )


async def _check_objects(place: Worktree, names: list[str]) -> None:
    """What the last look has written must still be there: somebody may have deleted its refs and let git clean up."""
    packed = [name for name in names if name and not loose_object.is_there(place, name)]
    asked = "".join(f"{name}\n" for name in packed).encode()
    told = await place.view("cat-file", "--batch-check=%(objectname)", stdin=asked) if asked else b""
    if b" missing\n" in told:
        raise GitFailed(("cat-file",), 1, b"objects of the view's index are gone")


async def _compare(look: _Look) -> None:
    """Let git find what differs from the view."""
    place, view = look.place, look.place.view
    async with asyncio.TaskGroup() as tasks:
        changed = tasks.create_task(view.names("diff-files", "-z", "--name-only", "--no-renames"))
        new = tasks.create_task(file_listing.list_untracked(view, place.root))
        hidden = tasks.create_task(view.names("ls-files", "-z", "-i", "-c", "--exclude-standard"))
    replaced = [path for path in changed.result() if look.ground.is_folder(path)]
    found = await file_listing.list_untracked_in(view, place.root, replaced, new.result())
    repositories = found.repositories | file_listing.repositories_among(
        place.root, {*look.seen.folders, *look.seen.users.gitlinks, *found.bare, *look.seen.nested, *replaced}
    )
    ignored = await file_listing.find_ignored(view, sorted(repositories))
    inner = await _inside(look, repositories - (ignored - set(look.seen.users.gitlinks)))
    nested = set(look.nested)
    look.fresh |= {*changed.result(), *look.seen.users.outside, *look.seen.recent}
    look.recent = set(look.seen.recent).difference(changed.result())
    look.fresh |= {path for path in found.files if not is_below(path, nested)} if nested else found.files
    look.bare |= {path for path in found.bare if not is_below(path, nested)}
    stale = {path for path in hidden.result() if not is_below(path, nested)}
    if stale:
        look.gone |= stale - _users_paths(look)
    if inner:
        held = {path for path in await view.names("ls-files", "-z") if is_below(path, nested)}
        wanted = set().union(*(area.files for area in inner))
        outer = {path for path in _users_paths(look) if is_below(path, nested)}
        look.gone |= held - wanted - outer
        look.fresh |= (wanted | outer) - held
        look.bare |= set().union(*(area.bare for area in inner))
    look.fresh -= look.gone
    # What differs from the view or changed lately is in it: only these can bring paths that are not.
    look.is_reshaped |= bool(found.files or look.seen.users.outside or inner)


async def _inside(look: _Look, repositories: set[str]) -> list[FileListing]:
    """The lists of all repositories inside, and of those inside these."""
    found = []
    while repositories:
        path = min(repositories)
        repositories.discard(path)
        if is_own(path):
            continue
        area = await file_listing.inside(look.place, path)
        if area is None:
            look.uncaptured[path] = Uncaptured(path, "a repository that git cannot read")
            continue
        look.nested[path] = area[0]
        found.append(area[1])
        repositories |= area[1].repositories
    return found


async def _read_users_index(look: _Look) -> list[IndexEntry] | None:
    """The entries of the user's index; nothing if its file is the one we know."""
    place, users = look.place, look.seen.users
    if not place.has_git or (look.is_warm and scan_cache.signature(place.git_dir / "index") == users.signature):
        return None
    users.signature = scan_cache.signature(place.git_dir / "index")
    entries, held = await asyncio.gather(file_listing.index_entries(place), place.view.names("ls-files", "-z"))
    look.users_paths = {path for mode, _, _, path in entries if mode != "160000" and not is_own(path)}
    look.users_blobs = {path: name for mode, name, stage, path in entries if mode[0] == "1" and stage == "0"}
    users.gitlinks = sorted({path for mode, _, _, path in entries if mode == "160000"})
    users.outside = sorted(look.users_paths.difference(held))
    (place.view_dir / "users.paths").write_bytes(join(look.users_paths))
    return entries


async def _store_users_index(look: _Look, entries: list[IndexEntry]) -> None:
    """Keep the user's index, as the file it is and as a tree."""
    place, users = look.place, look.seen.users
    raw = await head.raw_index(place)
    users.raw = "" if raw is None else loose_object.write_object(place, "blob", raw)
    users.tree = "" if raw is None else await head.index_tree(place, entries)


def _users_paths(look: _Look) -> set[str]:
    if look.users_paths is None:
        try:
            saved = (look.place.view_dir / "users.paths").read_bytes() if look.place.has_list else b""
        except FileNotFoundError:
            saved = b""
        look.users_paths = set(os.fsdecode(saved).split("\0")[:-1])
    return look.users_paths


def _classify(look: _Look) -> None:
    """Part what is to be read into what git can hold and what it cannot."""
    seen, keep = look.seen, look.facts
    recent = []
    for path in look.fresh:
        found = None if is_own(path) else look.ground.stat(path)
        why = "" if found is None else _obstacle(look, path, found)
        if found is None or stat.S_ISDIR(found.st_mode) or why:
            look.gone.add(path)
            if found is not None and why:
                look.uncaptured[path] = Uncaptured(path, why, found.st_size, found.st_mtime_ns)
            continue
        keep[path] = found
        seen.permissions.pop(path, None)
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) != usual(found.st_mode, look.umask):
            seen.permissions[path] = stat.S_IMODE(found.st_mode)
        if found.st_ctime >= int(look.begun) - RECENT_S:
            recent.append(path)
    look.fresh = set(keep)
    seen.recent = sorted(recent)
    for path in look.gone:
        seen.permissions.pop(path, None)


def _obstacle(look: _Look, path: str, found: os.stat_result) -> str:
    if ".git" in (low := path.lower()) and ".git" in low.split("/"):
        return "git cannot hold this name"
    if stat.S_ISLNK(found.st_mode):
        return "git cannot hold a link of this name" if path.rpartition("/")[2] == ".gitmodules" else ""
    if stat.S_ISDIR(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    if found.st_size > look.cap_bytes and path not in _users_paths(look):
        return f"larger than {look.cap_bytes} bytes"
    if found.st_mode & 0o444 != 0o444 and not os.access(os.path.join(look.place.root, path), os.R_OK):
        return "not readable"
    return ""


async def _update(look: _Look) -> str:
    """Bring the view's index up to date; the tree it then makes."""
    view, seen = look.place.view, look.seen
    gone, look.gone = look.gone, look.gone - set(seen.absent if look.is_warm else ())
    seen.absent = sorted(gone)
    if look.gone:
        zero = "0" * 40 if look.place.object_format == "sha1" else "0" * 64
        lines = join(f"0 {zero}\t{path}" for path in sorted(look.gone))
        await view("update-index", "-z", "--index-info", stdin=lines)
    if look.is_warm and look.fresh and look.fresh <= look.recent:
        look.fresh -= await asyncio.to_thread(bulk_index.find_held, look.place, look.facts)
    if look.fresh:
        await bulk_index.read(look.place, sorted(look.fresh), look.users_blobs, look.facts)
    if look.is_warm and not look.gone and not look.fresh and seen.tree:
        return seen.tree
    return await view.line("write-tree")


async def _remember(look: _Look, tree: str) -> None:
    place, seen = look.place, look.seen
    known = {*seen.folders}
    if look.gone or look.is_reshaped:
        paths = await place.view.names("ls-files", "-z")
        folders = file_listing.folders_of(paths)
        seen.folders = sorted(folders)
        look.bare = (look.bare | await _find_emptied(look, known - folders)) - folders
        seen.ignores = _ignores(paths)
        held = set(paths)
        outside = _users_paths(look) - held if place.has_list else set()
        seen.users.outside = sorted(outside)
        if not look.is_warm:
            _scan_permissions(look, [path for path in paths if path not in look.fresh])
    seen.tree, seen.umask, seen.nested = tree, look.umask, sorted(look.nested)
    # A file is surely unchanged if its time is older than the index's. So the index gets the time at which this look
    # began, a little before (the clock of files lags): whatever was written while we looked is compared next time.
    since = look.begun - CLOCK_LAG_S
    if (place.view_dir / "index").exists():
        os.utime(place.view_dir / "index", (since, since))
    seen.signature = scan_cache.signature(place.view_dir / "index")
    scan_cache.save(place.view_dir / "seen.json", seen)


async def _find_emptied(look: _Look, folders: set[str]) -> set[str]:
    """Those of the folders that are still there and visible, though nothing in them is captured any more."""
    there = sorted(path for path in folders if look.ground.is_folder(path))
    found: set[str] = set()
    for owner, git in (("", look.place.view), *((path, inner.users) for path, inner in look.nested.items())):
        start = len(owner) + 1 if owner else 0
        mine = {path for path in there if _owner(path, look.nested) == owner}
        hidden = await file_listing.find_ignored(git, [path[start:] for path in sorted(mine)])
        found |= mine - {f"{owner}/{path}" if owner else path for path in hidden}
    return found - set(look.nested)


def _owner(path: str, nested: dict[str, Worktree]) -> str:
    return next((parent for parent in file_listing.parents(path) if parent in nested), "")


def _scan_permissions(look: _Look, paths: list[str]) -> None:
    """The permissions of files that were not read: only when there is no last look to go on."""
    seen, root = look.seen, look.place.root
    for path in paths:
        try:
            found = os.lstat(f"{root}/{path}")
        except OSError:
            continue
        mode = found.st_mode
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) != usual(mode, look.umask):
            seen.permissions[path] = stat.S_IMODE(mode)
        if found.st_ctime >= int(look.begun) - RECENT_S:
            seen.recent.append(path)


def _folders(look: _Look) -> tuple[dict[str, int], dict[str, str]]:
    """Unusual permissions of folders, and ignore files in them that the view does not hold."""
    root, normal = look.place.root, usual(stat.S_IFDIR, look.umask)
    permissions, hidden, held = {}, {}, set(look.seen.ignores)
    for folder in (*look.seen.folders, *look.bare):
        try:
            mode = stat.S_IMODE(os.lstat(f"{root}/{folder}").st_mode)
        except OSError:
            continue
        if mode != normal:
            permissions[folder] = mode
    for folder in ("", *look.seen.folders, *look.bare):
        path = f"{folder}/.gitignore" if folder else ".gitignore"
        if path not in held:
            text = _ignore_text(os.path.join(root, path))
            if text is not None:
                hidden[path] = text
    return permissions, hidden


def _ignore_text(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read(HIDDEN_BYTES_MAX).decode("utf-8", "surrogateescape")


def _ignores(paths: list[str]) -> list[str]:
    return [path for path in paths if path.endswith(".gitignore") and path.rpartition("/")[2] == ".gitignore"]
