"""Finding the policy that holds for a journal: a file that was named, or the one beside its home."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detent.core.policy import Policy

FILE = "detent.policy.yaml"
VARIABLE = "DETENT_POLICY"


def policy_file(home: Path, named: str = "") -> Path | None:
    """The file: the one named, else $DETENT_POLICY, else `detent.policy.yaml` in the folder that holds the home."""
    given = named or os.environ.get(VARIABLE, "")
    if given:
        return Path(given)
    folder = home.parent if home.name not in ("", "..") else home.resolve().parent
    beside = folder / FILE
    return beside if beside.exists() or beside.is_symlink() else None


def find_policy(home: Path, named: str = "") -> "Policy | None":
    """The policy of a home, None where there is none; one that cannot be read is an error, never no policy."""
    path = policy_file(home, named)
    if path is None:
        return None
    from detent.define.policy import load_policy

    return load_policy(path)
