"""Claims that are not what the events say, for people."""

from detent.host.reading import KeyTrouble
from detent.kit.language import _
from detent.kit.safe_text import visible


def difference(one: KeyTrouble) -> str:
    """Where the claims and the events do not agree, in the reader's language."""
    known = {"key": visible(one.key), "name": visible(one.contract_id), "run_id": visible(one.run_id)}
    if one.kind == "missing":
        return _("{key} is held by {name} of run {run_id}, but its claim is gone: it could be done twice", **known)
    return _("{key} is claimed for {name} of run {run_id}, which does not hold it", **known)
