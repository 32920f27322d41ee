"""Who holds a home's journal, and whether they answer."""

import asyncio
from pathlib import Path

from detent.host.embedded.handover_client import is_answering
from detent.host.embedded.lock import holder, is_held
from detent.host.reading import Checkup

PING_S = 2.0


def checkup(home: Path) -> Checkup:
    """Ask the process that writes the journal of a home whether it is alive to what it is told; not in a loop."""
    if not is_held(home):
        return Checkup(False, holder(home), False)
    return Checkup(True, holder(home), asyncio.run(is_answering(home, PING_S)))
