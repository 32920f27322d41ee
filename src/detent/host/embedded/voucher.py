"""A voucher: the word of a server that another process of this home may believe.

A server that does not hold the journal has asked its callers who they are and hands their verbs over. It signs the
identity with a key that lies in the home, for its own process number, which the kernel tells the other side.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from detent.core.identity import Identity
from detent.errors import JournalError, NotPermitted

FILE = "voucher.key"
KEY_BYTES = 32


def vouch(home: Path, who: Identity) -> dict[str, Any]:
    """An identity that this process stands for, as it is handed over."""
    return {"identity": msgspec.to_builtins(who), "seal": _seal(home, who, os.getpid())}


def check_voucher(home: Path, given: Any, pid: int) -> Identity:
    """The identity that the process of that number stands for."""
    try:
        who = msgspec.convert(given["identity"], Identity)
        seal = str(given["seal"])
    except (KeyError, TypeError, msgspec.ValidationError):
        raise NotPermitted("this voucher cannot be read") from None
    if who.known == "detent" or not hmac.compare_digest(seal, _seal(home, who, pid)):
        raise NotPermitted("this voucher was not made by a detent of this home")
    return who


def _seal(home: Path, who: Identity, pid: int) -> str:
    told = msgspec.json.encode([who.name, who.known, who.spoken_by, pid])
    return hmac.new(_key(home), told, hashlib.sha256).hexdigest()


def _key(home: Path) -> bytes:
    """The key of a home; made when it is first needed."""
    path = home / FILE
    try:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            new = path.with_name(f"{FILE}-{os.getpid()}-{secrets.token_hex(4)}")
            file = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, secrets.token_bytes(KEY_BYTES))
            finally:
                os.close(file)
            try:
                os.link(new, path)  # whoever is first wins
            except FileExistsError:
                pass
            finally:
                new.unlink()
            return path.read_bytes()
    except OSError as error:
        raise JournalError(f"cannot use {path}: {error.strerror}") from None
