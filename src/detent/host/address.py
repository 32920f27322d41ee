"""Where a home's journal is: in the home itself, or in a database at which the home points.

A home that is given as `postgresql://…` is a small folder here that holds the address, and what belongs to this machine
alone: its people, its tokens, the logs of its programs. The address never holds a password.
"""

import hashlib
import os
import re
import socket
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit

from detent.errors import JournalError, Refused

SCHEMES = ("postgresql://", "postgres://")
POINTER = "database"  # the file with the address
PLACE_VARIABLE = "DETENT_PLACE"
NAME_MAX = 40
ADDRESS_MAX = 2000
SECRET = {"password", "sslpassword"}  # of a server, and of the key of a certificate


def is_address(home: str) -> bool:
    """Whether a home is named by the address of a database; Refused where it is the address of something else."""
    if home.startswith(SCHEMES):
        return True
    if re.match(r"[A-Za-z][\w+.-]*://", home):  # not repeated: it may hold a password
        raise Refused("a home is a folder, or a database: write postgresql://HOST/DATABASE")
    return False


def find_home(home: str) -> Path:
    """The folder of a home; for a database, the one here that points at it, made if need be."""
    if not is_address(home):
        return Path(home)
    parts = _check(home)
    name = re.sub(r"[^\w.-]", "_", parts.path.strip("/"))[:NAME_MAX] or "database"
    folder = Path(f".detent-{name}-{hashlib.sha256(home.encode()).hexdigest()[:8]}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        pointer = folder / POINTER
        if not pointer.exists():
            pointer.write_text(f"{home}\n", encoding="utf-8")
    except OSError as error:
        raise Refused(f"{folder} cannot be a home: {error.strerror or error}") from None
    return folder


def find_place(name: str = "") -> str:
    """Where this process works on files: as it was named, else this folder of this machine."""
    return name or os.environ.get(PLACE_VARIABLE, "") or f"{socket.gethostname()}:{os.path.realpath('.')}"


def find_address(home: Path) -> str:
    """The address of the database at which a home points; empty: its journal is in the home."""
    try:
        address = (home / POINTER).read_text(encoding="utf-8")[:ADDRESS_MAX].strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise JournalError(f"cannot read {home / POINTER}: {error}") from None
    if not is_address(address):
        raise JournalError(f"{home / POINTER} does not hold the address of a database")
    _check(address)
    return address


def _check(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        has_password = parts.password is not None or not SECRET.isdisjoint(parse_qs(parts.query))
    except ValueError:
        raise Refused("this is not the address of a database; write postgresql://HOST/DATABASE") from None
    if has_password:
        raise Refused(
            "an address with a password is seen in the list of processes; give the password in PGPASSWORD,"
            " in a password file or in a service file"
        )
    return parts
