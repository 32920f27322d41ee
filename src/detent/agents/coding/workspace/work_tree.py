"""Where things are: the work tree, the git dir it uses, and the thin view through which detent looks at it.

The view is a git dir of our own (HEAD, index, config, attributes) over the project's object store. Its attributes
switch off every conversion, so a blob is the file's raw bytes, and its index is our stat cache: the user's is not
touched.
A folder without git gets the same view over an object store of its own, `.detent/store`.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from detent.agents.coding.workspace.git_command import Git, environment
from detent.errors import Refused

OWN_FOLDER = ".detent"
ATTRIBUTES = "* -text -ident -filter !eol !working-tree-encoding\n"
CONFIG = """[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	autocrlf = false
	safecrlf = false
	attributesFile = /dev/null
	hooksPath = /dev/null
	logAllRefUpdates = false
	looseCompression = 1
	sparseCheckout = false
[checkout]
	workers = 0
[gc]
	auto = 0
"""
SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


@dataclass(frozen=True)
class Worktree:
    """One work tree and the git dirs around it."""

    root: str
    git_dir: Path  # the user's; in a folder without git, our own store
    common_dir: Path
    object_format: str
    has_git: bool
    excludes_file: str
    own: Path | None = None  # of a copy of the work tree: our folder for it, outside of the user's git dir

    @property
    def home(self) -> Path:
        """Our own folder inside the git dir, one for each linked work tree."""
        return self.own or self.git_dir / "detent"

    @property
    def has_list(self) -> bool:
        """Whether some files are kept although a rule ignores them: the user's index, or a copy's list, says which."""
        return self.has_git or self.own is not None

    @property
    def name(self) -> str:
        """Which of the repository's work trees this is; it stays the same when the project is moved elsewhere."""
        return os.path.relpath(os.path.realpath(self.git_dir), self.common_dir)

    @property
    def view_dir(self) -> Path:
        """The thin git dir."""
        return self.home / "view"

    @property
    def hash_name(self) -> str:
        """The hash function of its object ids, as hashlib names it."""
        return self.object_format

    @property
    def hash_bytes(self) -> int:
        """How long an object id is."""
        return 32 if self.object_format == "sha256" else 20

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings each git call gets on top of the constant ones."""
        return (*Git.settings, f"core.excludesFile={self.excludes_file}") if self.excludes_file else Git.settings

    @property
    def view(self) -> Git:
        """git through the view."""
        return self._git(self.view_dir)

    @property
    def users(self) -> Git:
        """git with the user's own git dir: refs, HEAD and index."""
        return self._git(self.git_dir)

    @property
    def plain(self) -> Git:
        """git as the user has set it up: for questions about their attributes, nothing else."""
        env = environment(plain=True, GIT_DIR=str(self.git_dir), GIT_WORK_TREE=self.root)
        del env["GIT_ATTR_NOSYSTEM"]
        return Git(self.root, env, self.settings)

    def scratch(self, git_dir: Path, work_tree: Path) -> Git:
        """git over the same objects with another git dir and another work tree."""
        return Git(str(work_tree), self._environment(git_dir, str(work_tree)), self.settings)

    def _git(self, git_dir: Path) -> Git:
        return Git(self.root, self._environment(git_dir, self.root), self.settings)

    def _environment(self, git_dir: Path, work_tree: str) -> dict[str, str]:
        objects = str(self.common_dir / "objects")
        return environment(GIT_DIR=str(git_dir), GIT_WORK_TREE=work_tree, GIT_OBJECT_DIRECTORY=objects)

    def exclude_sources(self) -> tuple[str, str]:
        """The texts of the ignore rules outside the tree: of the repository and of the user."""
        return text_of(self.common_dir / "info" / "exclude"), text_of(Path(self.excludes_file or os.devnull))

    def make_view(self) -> None:
        """Make the view, or repair what is missing of it, and bring its ignore rules up to date."""
        make_git_dir(self.view_dir, self.object_format)
        rules = f"{self.exclude_sources()[0]}\n/{OWN_FOLDER}/\n"
        write_if_changed(self.view_dir / "info" / "exclude", rules)
        for folder in (self.home, self.view_dir):  # we hold our own lock: git's were left by one that was killed
            for path in folder.glob("*index*.lock"):
                path.unlink(missing_ok=True)


def make_git_dir(path: Path, object_format: str) -> None:
    """A minimal git dir without any conversion; objects come from elsewhere."""
    for folder in ("refs", "info"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    is_sha256 = object_format == "sha256"
    write_if_changed(path / "config", CONFIG.format(version=int(is_sha256)) + SHA256 * is_sha256)
    write_if_changed(path / "info" / "attributes", ATTRIBUTES)
    write_if_changed(path / "HEAD", "ref: refs/heads/view\n")


def text_of(path: Path) -> str:
    """A small text file, or nothing if there is none."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def write_if_changed(path: Path, text: str) -> None:
    """Write a file whole or not at all, and only if it says something else."""
    body = text.encode("utf-8", "surrogateescape")
    try:
        if path.read_bytes() == body:
            return
    except FileNotFoundError:
        pass
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(body)
    fresh.replace(path)


async def find(path: str | os.PathLike[str]) -> Worktree:
    """The work tree that holds this folder; Refused if there is none that checkpoints can work on."""
    start = os.path.realpath(path)
    if not os.path.isdir(start):
        raise Refused(f"there is no folder {start}")
    ask = Git(start, environment(plain=True))
    exit_code, answer, stderr = await ask.run("rev-parse", "--is-bare-repository", "--is-inside-work-tree")
    if exit_code:
        return await _without_git(start, stderr)
    is_bare, is_inside = (word == "true" for word in answer.decode().split())
    if is_bare:
        raise Refused(f"{start} is a bare repository: it has no work tree to take checkpoints of")
    if not is_inside:
        raise Refused(f"{start} lies inside a git dir; give the work tree instead")
    root = await ask.line("rev-parse", "--show-toplevel")
    git_dir = Path(await ask.line("rev-parse", "--absolute-git-dir"))
    common = Path(start, await ask.line("rev-parse", "--git-common-dir"))
    object_format = await ask.line("rev-parse", "--show-object-format")
    return Worktree(root, git_dir, Path(os.path.realpath(common)), object_format, True, await _excludes_file(ask))


async def find_nested(outer: Worktree, root: str) -> Worktree | None:
    """A repository inside the work tree, asked without any trust in it; nothing if git does not see one there."""
    git_dir = git_dir_of(root)
    if git_dir is None:
        return None
    ask = Git(root, environment(GIT_DIR=str(git_dir), GIT_WORK_TREE=root))
    exit_code, answer, _ = await ask.run("rev-parse", "--show-object-format", "--git-common-dir")
    if exit_code:
        return None
    object_format, _, common = os.fsdecode(answer).removesuffix("\n").partition("\n")
    return Worktree(root, git_dir, Path(os.path.realpath(Path(root, common))), object_format, True, outer.excludes_file)


def git_dir_of(folder: str) -> Path | None:
    """The git dir of a repository whose work tree is this very folder."""
    dot_git = Path(folder, ".git")
    if not dot_git.exists():
        return None
    if dot_git.is_file():
        text = text_of(dot_git)
        if not text.startswith("gitdir:"):
            return None
        dot_git = Path(os.path.realpath(Path(folder, text.removeprefix("gitdir:").strip())))
    is_linked = (dot_git / "commondir").exists()
    is_whole = (dot_git / "HEAD").exists() and (is_linked or (dot_git / "objects").is_dir())
    return dot_git if is_whole else None


async def _excludes_file(ask: Git) -> str:
    exit_code, answer, _ = await ask.run("config", "--type=path", "--get", "core.excludesFile")
    if exit_code == 0:
        named = os.fsdecode(answer.removesuffix(b"\n"))
        return os.path.join(ask.cwd, named) if named else os.devnull
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(config, "git", "ignore")


async def _without_git(start: str, stderr: bytes) -> Worktree:
    text = stderr.decode("utf-8", "replace")
    if "not a git repository" not in text:
        raise Refused(f"git does not want to work in {start}: {text.strip()}")
    if os.path.lexists(os.path.join(start, ".git")):
        raise Refused(f"{start}/.git is there, but git does not take it for a repository; repair or remove it first")
    store = Path(start, OWN_FOLDER, "store")
    ask = Git(start, environment(plain=True))
    return Worktree(start, store, Path(os.path.realpath(store)), "sha1", False, await _excludes_file(ask))


def make_store(place: Worktree) -> None:
    """The object store of a folder without git."""
    if place.own is not None:
        return  # a copy uses the store of what it is a copy of
    place.git_dir.parent.mkdir(mode=0o700, exist_ok=True)  # it may become a home
    make_git_dir(place.git_dir, place.object_format)
    (place.git_dir / "objects").mkdir(exist_ok=True)
    write_if_changed(place.git_dir / ".gitignore", "*\n")
