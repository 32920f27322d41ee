"""Optional parts of detent: which of its extras have packages that are not installed here."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, requires

from detent.kit.language import _

EVERYTHING = "all"  # the extra that is made of the others
REQUIREMENT = re.compile(r"^(?P<package>[\w.-]+)[^;]*;.*extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")


def find_missing_extras() -> dict[str, list[str]]:
    """The packages that are not here, by the extra that brings them."""
    missing: dict[str, list[str]] = {}
    for line in requires("detent") or ():
        found = REQUIREMENT.match(line)
        if found is None or found["extra"] == EVERYTHING or _is_installed(found["package"]):
            continue
        missing.setdefault(found["extra"], []).append(found["package"])
    return missing


def describe_missing() -> Iterator[tuple[str, str]]:
    """The extras that are not whole here, each with what it needs."""
    for extra, names in find_missing_extras().items():
        yield extra, _("needs {names}: pip install 'detent[{extra}]'", names=", ".join(names), extra=extra)


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
