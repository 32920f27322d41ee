"""Where anchors are kept: lines of a file, a ref of a git repository, or whoever takes them at an address."""

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from detent.errors import Refused
from detent.host.reading import AnchorLine
from detent.host.ssh_signature import check_signature, find_signer, make_signature

REF = "refs/detent/anchors"
NAME = "anchors.jsonl"
LINE_MAX = 64 * 1024
POST_S = 30.0
_encode = msgspec.json.Encoder(order="sorted").encode


def message_of(line: AnchorLine) -> bytes:
    """What is signed: the line without its signature."""
    return _encode(msgspec.structs.replace(line, signature=""))


def sign_line(line: AnchorLine, key: Path) -> AnchorLine:
    """A line with the signature of a key."""
    return msgspec.structs.replace(line, signature=make_signature(key, message_of(line)))


def find_author(line: AnchorLine, signers: Path | None) -> str:
    """Who has signed a line; empty for one that nobody has. A signature that is not of this line is refused."""
    if not line.signature:
        if signers is not None:
            raise Refused("it is not signed")
        return ""
    if signers is None:
        return check_signature(message_of(line), line.signature)
    return find_signer(message_of(line), line.signature, signers)


def publish(line: AnchorLine, target: str) -> str:
    """Keep a line where somebody else keeps it; where that is."""
    body = _encode(line)
    if target.startswith(("http://", "https://")):
        _post(target, body)
        return target
    if target == "git" or target.startswith("git:"):
        return _commit(_repository(target), body)
    _append(Path(target), body)
    return target


def read_lines(source: str) -> Iterator[AnchorLine]:
    """The anchors of a file or of a git repository, oldest first."""
    if source == "git" or source.startswith("git:"):
        text = _git(_repository(source), "cat-file", "blob", f"{REF}:{NAME}")
    else:
        try:
            text = Path(source).read_bytes()
        except OSError as error:
            raise Refused(f"cannot read {source}: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=AnchorLine)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise Refused(f"{source}, line {number}: this is not an anchor ({error})") from None


def _append(path: Path, body: bytes) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, body + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None


def _post(address: str, body: bytes) -> None:
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=POST_S) as answer:  # noqa: S310  # http and https only
            answer.read(LINE_MAX)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Refused(f"{address} did not take the anchor: {error}") from None


def _repository(target: str) -> str:
    return target.partition(":")[2] or "."


def _commit(folder: str, body: bytes) -> str:
    """One commit more on a ref of its own; nothing that is checked out changes."""
    known = _git(folder, "for-each-ref", "--format=%(objectname)", REF).decode().strip()
    before = _git(folder, "cat-file", "blob", f"{REF}:{NAME}") if known else b""
    blob = _git(folder, "hash-object", "-w", "--stdin", given=before + body + b"\n").decode().strip()
    tree = _git(folder, "mktree", given=f"100644 blob {blob}\t{NAME}\n".encode()).decode().strip()
    parent = ["-p", known] if known else []
    who = ["-c", "user.name=detent", "-c", "user.email=detent@localhost"]
    commit = _git(folder, *who, "commit-tree", tree, *parent, "-m", "anchor").decode().strip()
    _git(folder, "update-ref", REF, commit, known or "0" * len(commit))  # refused if somebody was quicker
    return f"{REF} {commit[:12]}"


def _git(folder: str, *words: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", folder, *words],  # noqa: S607
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise Refused("there is no git here") from None
    if done.returncode:
        raise Refused(f"git: {done.stderr.decode('utf-8', 'replace').strip() or done.returncode}")
    return done.stdout
