"""A real repository to play in, and two ways to look at it that share nothing with the code under test."""

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_AUTHOR_NAME": "someone",
    "GIT_AUTHOR_EMAIL": "someone@example.org",
    "GIT_COMMITTER_NAME": "someone",
    "GIT_COMMITTER_EMAIL": "someone@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}

Look = tuple[str, int, str]  # kind, permissions, digest of the contents or the link's target
Picture = dict[bytes, Look]


def git(root: Path | bytes, *argv: str, check: bool = True, stdin: bytes = b"") -> bytes:
    """Run git in a folder as a user would; what it wrote."""
    command = ["git", "-c", "protocol.file.allow=always", *argv]
    done = subprocess.run(command, cwd=root, env=ENV, input=stdin, capture_output=True, check=False)
    assert not check or done.returncode == 0, (argv, done.stderr.decode())
    return done.stdout


def init(root: Path, *flags: str) -> Path:
    """A new repository."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main", *flags)
    return root


def write(root: Path, path: str | bytes, body: str | bytes, mode: int | None = None) -> None:
    """Write a file, with the folders above it."""
    full = os.path.join(os.fsencode(root), os.fsencode(path))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(body.encode() if isinstance(body, str) else body)
    if mode is not None:
        os.chmod(full, mode)


def commit(root: Path, message: str = "work") -> str:
    """Commit everything that is there."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").decode().strip()


def look(path: bytes) -> Look:
    """What is at a path, without following a link."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return "link", 0, os.fsdecode(os.readlink(path))
    if stat.S_ISDIR(found.st_mode):
        return "folder", stat.S_IMODE(found.st_mode), ""
    with open(path, "rb") as file:
        return "file", stat.S_IMODE(found.st_mode), hashlib.sha256(file.read()).hexdigest()


def picture(root: Path) -> Picture:
    """Every file, link and folder in a work tree, ignored ones too; git dirs and our own folder left out."""
    found: Picture = {}
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        for name in list(folders):
            if name == b".git" or (folder == top and name == b".detent"):
                folders.remove(name)
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if name != b".git":
                found[os.path.relpath(path, top)] = look(path)
    return found


def visible(root: Path, cap_bytes: int, within: bytes = b"") -> Picture:
    """What the user's git calls tracked or untracked and not ignored, repositories inside included."""
    top = os.path.join(os.fsencode(root), within)
    entries = git(top, "ls-files", "-z", "-s").split(b"\0")[:-1]
    tracked = {entry.partition(b"\t")[2] for entry in entries if not entry.startswith(b"160000")}
    inner = {entry.partition(b"\t")[2] for entry in entries if entry.startswith(b"160000")}
    others = git(top, "ls-files", "-z", "-o", "--exclude-standard").split(b"\0")[:-1]
    inner |= {name[:-1] for name in others if name.endswith(b"/")}
    around = {name for name in parents(tracked) if os.path.exists(os.path.join(top, name, b".git"))}
    inner |= around - ignored(top, around)
    found: Picture = {}
    for name in tracked | {name for name in others if not name.endswith(b"/")}:
        path = os.path.join(top, name)
        is_linked = any(os.path.islink(os.path.join(top, parent)) for parent in parents({name}))
        if is_linked or not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
            continue
        if name not in tracked and os.lstat(path).st_size > cap_bytes:
            continue
        found[os.path.join(within, name)] = look(path)
    for name in inner:
        if os.path.exists(os.path.join(top, name, b".git")):
            found |= visible(root, cap_bytes, os.path.join(within, name))
    return found


def ignored(root: Path | bytes, names: set[bytes]) -> set[bytes]:
    """Those of the names that the rules in force hide."""
    names = {
        name for name in names if not any(os.path.islink(os.path.join(os.fsencode(root), up)) for up in parents({name}))
    }
    asked = b"".join(name + b"\0" for name in names)
    return set(git(root, "check-ignore", "--no-index", "-z", "--stdin", check=False, stdin=asked).split(b"\0"))


def parents(names: set[bytes]) -> set[bytes]:
    """Every folder above these names."""
    found = set()
    for name in names:
        while b"/" in name:
            name = name.rpartition(b"/")[0]  # noqa: PLW2901
            found.add(name)
    return found


def standing(root: Path) -> tuple[bytes, bytes, bytes]:
    """HEAD, the commit it stands for, and the index file."""
    git_dir = Path(os.fsdecode(git(root, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")))
    index = git_dir / "index"
    return (
        (git_dir / "HEAD").read_bytes(),
        git(root, "rev-parse", "-q", "--verify", "HEAD", check=False),
        index.read_bytes() if index.exists() else b"",
    )


def kept_blobs(root: Path) -> set[str]:
    """Every object that some ref keeps alive."""
    return {line.split(b" ")[0].decode() for line in git(root, "rev-list", "--objects", "--all").splitlines()}


def blob(path: bytes) -> str:
    """The name git gives to the contents of a file or link."""
    if os.path.islink(path):
        body = os.fsencode(os.readlink(path))
    else:
        with open(path, "rb") as file:
            body = file.read()
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def meddle(folder: Path, monkeypatch: pytest.MonkeyPatch, word: str, deed: str) -> None:
    """Put a git before the real one on the PATH that first does something to the world whenever `word` is asked."""
    real = shutil.which("git")
    assert real is not None
    program = folder / "meddling" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nfor word in "$@"; do [ "$word" != {word} ] || {{ {deed}; }}; done\nexec {shlex.quote(real)} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
