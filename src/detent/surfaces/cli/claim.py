"""Claims that are not what the events say, for people."""

from detent.host.embedded.claim_check import Difference
from detent.surfaces.cli.text import visible
from detent.surfaces.language import _


def difference(one: Difference) -> str:
    """Where the claims and the events do not agree, in the reader's language."""
    claim = one.claim
    known = {"key": visible(claim.key), "name": visible(claim.contract_id), "run_id": visible(claim.run_id)}
    if one.kind == "missing":
        return _("{key} is held by {name} of run {run_id}, but its claim is gone: it could be done twice", **known)
    return _("{key} is claimed for {name} of run {run_id}, which does not hold it", **known)
