"""The ids of runs: made by hosts, or by whoever starts a run."""

import secrets

from detent.errors import Refused

LENGTH_MAX = 100


def new_run_id() -> str:
    """Short enough to type, random enough to be alone."""
    return secrets.token_hex(6)


def is_made_id(run_id: str) -> bool:
    """Whether an id looks like one that `new_run_id` made: then nobody else has had it."""
    return len(run_id) == 12 and not set(run_id) - set("0123456789abcdef")


def check_run_id(run_id: str) -> None:
    """Refuse what cannot be a run's id."""
    if not all(ch.isalnum() or ch in "-_.~" for ch in run_id) or len(run_id) > LENGTH_MAX:
        raise Refused(f"{run_id!r} is not a run id: letters, digits, `-`, `_`, `.`, at most {LENGTH_MAX}")
