"""Optional parts of detent: which of its extras have packages that are not installed here."""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires

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


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
