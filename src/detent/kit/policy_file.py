"""Where a home is, and the policy that holds there."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detent.core.policy import Policy

HOME = ".detent"
HOME_VARIABLE = "DETENT_HOME"
POLICY_FILE = "detent.policy.yaml"
POLICY_VARIABLE = "DETENT_POLICY"


def policy_file(home: Path, named: str = "") -> Path | None:
    """The file: the one named, else $DETENT_POLICY, else `detent.policy.yaml` in the folder that holds the home."""
    given = named or os.environ.get(POLICY_VARIABLE, "")
    if given:
        return Path(given)
    folder = home.parent if home.name not in ("", "..") else home.resolve().parent
    beside = folder / POLICY_FILE
    return beside if beside.exists() or beside.is_symlink() else None


def guarded_files(home: Path, named: str = "") -> tuple[Path, ...]:
    """The files that effects must not change although they lie outside the home: the policy."""
    path = policy_file(home, named)
    return () if path is None else (path,)


def find_policy(home: Path, named: str = "") -> "Policy | None":
    """The policy of a home, None where there is none; one that cannot be read is an error, never no policy."""
    path = policy_file(home, named)
    if path is None:
        return None
    from detent.define.policy import load_policy

    return load_policy(path)
