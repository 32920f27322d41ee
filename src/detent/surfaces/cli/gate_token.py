"""Tokens for open questions: random, kept hashed in the home, and good for one answer.

A token holds nothing; what it is for is in a file named after its hash. Whoever reads the home cannot make one.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import NamedTuple

FOLDER = "gates"
TOKEN_MAX = 200


class OpenGate(NamedTuple):
    """An open question: the run that was begun, the run and the contract that ask."""

    head: str
    run_id: str
    contract_id: str
    files: tuple[str, ...] = ()


def issue_token(home: Path, gate: OpenGate) -> tuple[str, str]:
    """A new token and a short id for a question, both kept only as hashes."""
    token, id = secrets.token_hex(32), secrets.token_hex(5)
    names = (_hash(token), _hash(id))
    folder = home / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in names:
        _write(folder / name, json.dumps([*gate[:3], names]))
    return token, id


def find_gate(home: Path, token: str) -> OpenGate | None:
    """The question a token or an id is for; None where there is no such token, or it is used up."""
    path = home / FOLDER / _hash(token[:TOKEN_MAX])
    try:
        head, run_id, contract_id, files = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return OpenGate(head, run_id, contract_id, tuple(files))


def use_up(home: Path, gate: OpenGate) -> None:
    """Forget the tokens of a question that has its answer."""
    for name in gate.files:
        (home / FOLDER / name).unlink(missing_ok=True)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
