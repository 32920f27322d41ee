"""The secrets of this process: variables of its environment that a definition names or whose name looks like one."""

import os
import re
from functools import lru_cache

from detent.redaction.redactor import Redactor

GIVEN_MAX = 500
AMBIENT_MIN = 16  # characters of a variable that nobody declared
_LOOKS_SECRET = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|PRIVATE|SECRET|SIGNING|ENCRYPTION|MASTER|AUTH)?_?KEY|[A-Z]*TOKEN|[A-Z]*SECRET|[A-Z]*PASSWORD|"
    r"PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?|AUTH|COOKIE|BEARER|JWT|DSN)S?(?:_|$)|APIKEY|SECRET|PASSWORD|TOKEN"
)
# Such a variable says where a secret is, or for whom, not what it is.
_NAMES_A_PLACE = re.compile(
    r"(?:_|^)(?:FILE|PATH|DIR|FOLDER|SOCK|SOCKET|URL|URI|HOST|ENDPOINT|NAME|ID|TYPE|LENGTH|TTL)$"
)
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})

_declared: set[str] = set()  # names that a definition of this process has used as a secret
_given: dict[str, None] = {}  # values that runs of this process were given, the latest of them
_seen: dict[object, object] = {}  # the environment for which `_found` was made
_found = Redactor()


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret, as far as a name can say."""
    name = name.upper()
    return name not in _NO_SECRETS and bool(_LOOKS_SECRET.search(name)) and not _NAMES_A_PLACE.search(name)


def declare_variable(name: str) -> None:
    """A definition uses this variable as a secret: from now on it is one, whatever its name looks like."""
    if name not in _declared:
        _declared.add(name)
        _seen.clear()


def declare_value(value: str) -> None:
    """A run was given this as a secret; it is hidden like a variable that a definition names."""
    if len(value) >= AMBIENT_MIN and value not in _given:
        if len(_given) >= GIVEN_MAX:
            del _given[next(iter(_given))]
        _given[value] = None
        _seen.clear()


def ambient_values() -> frozenset[str]:
    """What the variables that look like secrets hold now, and what runs were given as secrets."""
    return frozenset(_given) | frozenset(
        value
        for name, value in os.environ.items()
        if len(value) >= AMBIENT_MIN and (name in _declared or looks_secret(name)) and not _is_place(value)
    )


def _is_place(value: str) -> bool:
    return value.startswith(("/", "~/", "./")) and os.path.exists(os.path.expanduser(value))


def ambient_redactor() -> Redactor:
    """Hides the secrets of the environment as it is now, and tokens of known formats."""
    global _found  # noqa: PLW0603  # programs change their environment while they run, and tell nobody
    now = getattr(os.environ, "_data", os.environ)  # its own dictionary: reading it through costs a tenth
    if now != _seen:
        _found = Redactor(ambient=ambient_values())
        _seen.clear()
        _seen.update(now)
    return _found


def declared_redactor(values: frozenset[str]) -> Redactor:
    """The same, and these secrets, which a definition names."""
    return _with_declared(values, ambient_values()) if values else ambient_redactor()


@lru_cache(maxsize=32)
def _with_declared(values: frozenset[str], ambient: frozenset[str]) -> Redactor:
    return Redactor(values, ambient)
