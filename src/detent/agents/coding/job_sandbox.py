"""Where programs of a job run: a copy of the project that they see at the project's own path.

In a sandbox the folder is mounted over the project, so that neither the user's files nor `.git` nor our home can be
reached, and absolute paths (an editable install, a lock file) mean the copy. Dependencies are shown read-only. Outside
of the copy, only the user's home and the temporary folders can be written, and in them not the programs, packages and
settings that the checks use. Where there is no sandbox, programs run in the folder itself, and everybody is told so.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from detent.agents.coding.settings import CheckStep, Settings
from detent.effects import sandbox
from detent.effects.sandbox import SandboxWish

OWN = ("/tmp", "/dev/shm")  # noqa: S108  # of each sandbox
DEPTH_MAX = 3
INCLUDED_MAX = 2000
# What steers programs and lies in the user's home, which workers must be able to write for their own sake.
STEERING = (
    ".local", ".cargo", ".rustup", ".nvm", ".pyenv", ".rbenv", ".asdf", ".volta", ".bun", ".deno", "go", "bin", ".ssh",
    ".gnupg", ".gitconfig", ".npmrc", ".yarnrc", ".mypy.ini", ".pydistutils.cfg", ".pypirc", ".bashrc", ".bash_profile",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".config/git", ".config/pip", ".config/ruff", ".config/mypy",
    ".config/go", ".config/uv", ".config/systemd", ".config/autostart", ".config/fish", ".bash_login", ".bash_logout",
    ".bash_aliases", ".zlogin", ".xprofile", ".config/environment.d", ".pub-cache", ".yarn", ".m2", ".gradle", ".rvm",
    ".sdkman", ".nuget", ".dotnet", ".conda", "miniconda3", "miniforge3", "anaconda3", "mambaforge", ".ghcup", ".elan",
)  # fmt: skip


class Workplace(msgspec.Struct, frozen=True):
    """A folder that programs run in, and where they see it."""

    folder: str  # where it is
    seen: str  # where they see it
    wish: SandboxWish = SandboxWish()
    why_open: str = ""  # why there is no sandbox
    root: str = ""  # the project
    services: tuple[str, ...] = ()  # names of variables that programs find although they look like secrets

    @property
    def is_mounted(self) -> bool:
        """Whether it is seen in the project's place, and the project itself is not."""
        return self.folder != self.seen

    def locate(self, argv: list[str]) -> list[str]:
        """The command; where the copy cannot be mounted, paths that the settings mean from the project are found there.

        That is a program of the project's dependencies, and whatever lies beside the project.
        """
        if self.is_mounted or not self.root or self.root == self.folder:
            return argv
        program, *rest = argv
        is_path = "/" in program and not os.path.isabs(program)
        if is_path and not os.path.exists(os.path.join(self.folder, program)):
            program = os.path.normpath(os.path.join(self.root, program))
        beside = os.pardir + os.sep
        return [program, *(os.path.normpath(os.path.join(self.root, a)) if a.startswith(beside) else a for a in rest)]


def arrange(
    root: str,
    folder: str,
    chosen: Settings,
    hidden: Iterable[str] = (),
    *,
    is_check: bool = False,
    known: Collection[str] | None = None,
) -> Workplace:
    """How programs run in a copy of the project at `root`; `hidden` are folders that they must not see.

    A check can write nothing but the copy, and its temporary files and its home are its own: of the user's home it sees
    programs, packages and settings, and of these only what was `known` there before the worker began; None: all.
    """
    level = chosen.sandbox.level
    variables = tuple(name for name in chosen.workspace.services if not _is_path(name)) if is_check else ()
    if folder == root:
        return Workplace(folder, root, chosen.sandbox.wish, root=root, services=variables)
    if level == "off":
        return Workplace(folder, folder, chosen.sandbox.wish, "the settings say `off`", root, variables)
    problem = sandbox.find_problem(level or "folder")
    if problem:
        return Workplace(folder, folder, SandboxWish("off"), problem, root, variables)
    shown = [
        (os.path.realpath(os.path.join(root, name)), f"{root}/{name}") for name in find_shared(root, folder, chosen)
    ]
    packs = f"{folder}/.git/objects/pack"
    if os.path.isdir(packs):
        shown.append((packs, f"{root}/.git/objects/pack"))
    wish = chosen.sandbox.wish
    write = wish.write
    if not level and not is_check:
        write = (*write, *_list_writable())
    if is_check:
        write = (*write, *(os.path.expanduser(name) for name in chosen.workspace.services if _is_path(name)))
    kept = _list_kept(root, chosen.verify, ("/",) if level else _list_writable()) if level in ("", "home") else []
    wish = msgspec.structs.replace(
        wish,
        level=level or "folder",
        write=write,
        kept=tuple(place for place in kept if not is_check or known is None or place in known),
        emptied=tuple(place for place in _list_writable() if place not in OWN) if is_check and not level else (),
        mounts=((folder, root),),
        shown=tuple(shown),
        hidden=tuple(place for place in hidden if os.path.isdir(place)),
    )
    return Workplace(folder, root, wish, root=root, services=variables)


def list_known(root: str, chosen: Settings) -> tuple[str, ...]:
    """The programs, packages and settings that the checks see although they lie where a worker can write."""
    return tuple(_list_kept(root, chosen.verify, ("/",) if chosen.sandbox.level else _list_writable()))


def _is_path(service: str) -> bool:
    return service.startswith(("/", "~"))


def find_shared(root: str, folder: str, chosen: Settings) -> list[str]:
    """The folders of dependencies in the project that are no part of the copy."""
    names, found = set(chosen.workspace.shared), []
    rest = [("", 0)]
    while rest:
        inner, depth = rest.pop()
        try:
            with os.scandir(os.path.join(root, inner)) as entries:
                folders = sorted(entry.name for entry in entries if entry.is_dir())
        except OSError:
            continue
        for name in folders:
            path = f"{inner}/{name}" if inner else name
            if name in names:
                if not _has_files(os.path.join(folder, path)):
                    found.append(path)
            elif depth < DEPTH_MAX - 1 and not name.startswith(".") and not os.path.islink(os.path.join(root, path)):
                rest.append((path, depth + 1))
    return sorted(found)


def _has_files(folder: str) -> bool:
    return os.path.islink(folder) or (os.path.isdir(folder) and bool(os.listdir(folder)))


def include(root: str, folder: str, globs: Iterable[str]) -> int:
    """Copy the ignored files that the settings name; how many."""
    count = 0
    for glob in globs:
        for path in sorted(Path(root).glob(glob)):
            inner = path.relative_to(root)
            if inner.parts[0] in (".git", ".detent") or not path.is_file() or path.is_symlink():
                continue
            target = Path(folder) / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
            count += 1
            if count >= INCLUDED_MAX:
                return count
    return count


def _list_writable() -> list[str]:
    """The user's home and the temporary folders: agents keep their own state there."""
    places = (os.path.expanduser("~"), tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
    return [place for place in dict.fromkeys(map(os.path.realpath, places)) if os.path.isdir(place) and place != "/"]


def _list_kept(root: str, steps: Iterable[CheckStep], writable: Iterable[str]) -> list[str]:
    """Programs, packages and settings that take part in judging, where somebody could write them."""
    home = os.path.expanduser("~")
    places = [os.path.join(home, name) for name in STEERING]
    places += [place for place in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    places += [*list_installations(steps), sys.prefix, sys.base_prefix, str(Path(__file__).parents[3])]
    kept = [os.path.realpath(place) for place in places if os.path.exists(place)]
    own = os.path.realpath(root)
    return [
        place
        for place in dict.fromkeys(kept)
        if place != "/"
        and any(_lies_in(place, one) for one in writable)
        and not _lies_in(place, own)
        and not _lies_in(own, place)
        and not _lies_in(home, place)
    ]


def list_installations(steps: Iterable[CheckStep]) -> list[str]:
    """Where the programs of the checks are installed, and our own Python."""
    found = [shutil.which(program) for program in (sys.executable, *(step.argv[0] for step in steps))]
    absolute = [place for place in found if place and os.path.isabs(place)]
    prefixes = [_prefix_of(one) for place in absolute for one in (place, os.path.realpath(place))]
    return list(dict.fromkeys([*prefixes, os.path.expanduser("~/.local")]))


def _prefix_of(program: str) -> str:
    """The folder of an installation: of `/x/bin/python` it is `/x`."""
    folder = os.path.dirname(program)
    return os.path.dirname(folder) if os.path.basename(folder) in ("bin", "Scripts") else folder


def _lies_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)
