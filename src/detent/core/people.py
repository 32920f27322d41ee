"""People: who may do what, in which groups they are, for whom they may speak, and how each of them is recognised.

Pure data. Secrets are kept as slow salted hashes (`token`); nothing here reads a clock, a file or a random number.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal

import msgspec

from detent.core.policy import ROLE
from detent.core.value import digest

Role = Literal["viewer", "operator", "approver", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "approver", "admin")
# What each role may do besides its own. An admin is no approver: whoever makes the approvers must not be all of them.
INCLUDES: dict[str, frozenset[str]] = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "approver": frozenset({"viewer", "operator", "approver"}),
    "admin": frozenset({"viewer", "operator", "admin"}),
}
NAME = re.compile(r"\w[\w.@+-]{0,63}")
# Names with which events are signed that no person has caused.
TAKEN = frozenset({"agent", "reasoning", "human", "host", "timer", "parent", "policy", "journal", "evidence", "detent"})
SCRYPT = {"n": 2**14, "r": 8, "p": 1}
SALT_BYTES, KEY_BYTES = 16, 32
HASH = re.compile(r"scrypt:(\d{1,8}):(\d{1,3}):(\d{1,3}):([0-9a-f]{32,128}):([0-9a-f]{64})")
MEMORY_MAX = 64 * 1024 * 1024  # what one hash may take; a file that wants more is refused when it is read


class Person(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person."""

    name: str
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()
    speaks_for: tuple[str, ...] = ()
    os_user: str = ""
    proxy: str = ""  # the name that a trusted reverse proxy passes on
    token: str = ""  # a hash, see `hash_token`
    keys: tuple[str, ...] = ()  # SSH public keys

    def is_a(self, role: str) -> bool:
        """Whether what this role may do is theirs to do."""
        return any(role in INCLUDES.get(one, ()) for one in self.roles)

    @property
    def about(self) -> dict[str, Any]:
        """What may be told of them: everything but the token's hash."""
        told = msgspec.to_builtins(self)
        return {**told, "token": True} if told.pop("token", "") else told


class People(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """Everybody a home knows."""

    persons: tuple[Person, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The identity of this list of people."""
        return digest(msgspec.to_builtins(self))

    @cached_property
    def by_name(self) -> dict[str, Person]:
        """Everybody by name."""
        return {person.name: person for person in self.persons}

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Who is in which group; a role is a group too, unless a group has its name. None of them is empty."""
        found: dict[str, list[str]] = {}
        for person in self.persons:
            for group in dict.fromkeys(person.groups):
                found.setdefault(group, []).append(person.name)
        named: dict[str, tuple[str, ...]] = {role: self.holders(role) for role in ROLES if self.holders(role)}
        return {**named, **{group: tuple(names) for group, names in found.items()}}

    def holders(self, role: str) -> tuple[str, ...]:
        """Who may do what this role may."""
        return tuple(person.name for person in self.persons if person.is_a(role))

    def of_os_user(self, name: str) -> Person | None:
        """The person behind a user of this machine."""
        return next((person for person in self.persons if name and person.os_user == name), None)

    def of_proxy(self, name: str) -> Person | None:
        """The person behind a name that a trusted proxy passes on."""
        return next((person for person in self.persons if name and person.proxy == name), None)

    def of_token(self, token: str) -> Person | None:
        """The person whose token this is. It takes as long as a slow hash does, whether or not the name is known."""
        person = self.by_name.get(token.rpartition(".")[0])
        is_right = check_token(token, person.token if person is not None and person.token else NOBODY)
        return person if is_right else None

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """These names with the members of each known group, `role:NAME`, in its place."""
        found: list[str] = []
        for name in names:
            found += self.groups.get(name.removeprefix(ROLE), (name,)) if name.startswith(ROLE) else (name,)
        return tuple(dict.fromkeys(found))


def hash_token(token: str, salt: bytes) -> str:
    """A token as it is kept."""
    n, r, p = SCRYPT["n"], SCRYPT["r"], SCRYPT["p"]
    return f"scrypt:{n}:{r}:{p}:{salt.hex()}:{_scrypt(token, salt, n, r, p).hex()}"


def check_token(token: str, kept: str) -> bool:
    """Whether a token is the one that is kept."""
    found = HASH.fullmatch(kept)
    if found is None:
        return False
    n, r, p = (int(part) for part in found.groups()[:3])
    try:
        said = _scrypt(token, bytes.fromhex(found[4]), n, r, p)
    except (ValueError, MemoryError):
        return False
    return hmac.compare_digest(said, bytes.fromhex(found[5]))


def _scrypt(token: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(token.encode(), salt=salt, n=n, r=r, p=p, maxmem=MEMORY_MAX, dklen=KEY_BYTES)


NOBODY = f"scrypt:{SCRYPT['n']}:{SCRYPT['r']}:{SCRYPT['p']}:{'00' * SALT_BYTES}:{'00' * KEY_BYTES}"
