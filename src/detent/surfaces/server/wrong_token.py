"""Wrong tokens, as the audit hears of them: who was named, from which address, how many; never the token itself.

Guessing must not fill the journal. One address and name is written down once in ten minutes, with what came in between
as a number, and all of them together sixty times an hour.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from detent.surfaces.server.rate_limit import Pace

EACH_S = 600.0
HOURLY_MAX = 60
SENDERS_MAX = 1_000


class WrongTokens:
    """Counts wrong tokens, and says when there is a sentence to write down."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._each = Pace(1 / EACH_S, 1, SENDERS_MAX, clock)
        self._all = Pace(HOURLY_MAX / 3600, HOURLY_MAX, now=clock)
        self._unsaid: OrderedDict[tuple[str, str], int] = OrderedDict()  # not written down since the last sentence

    def describe(self, address: str, name: str) -> str:
        """Count one that was sent from an address in the name of a person, or of nobody; what to write down, if any."""
        sender = address, name
        count = self._unsaid.pop(sender, 0) + 1
        if self._each.take(sender) or self._all.take(""):
            self._unsaid[sender] = count
            if len(self._unsaid) > SENDERS_MAX:
                self._unsaid.popitem(last=False)
            return ""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        whose = f" of `{name}`" if name else ""
        return f"wrong token{whose} from {address or 'an unknown address'}, {count} until {at}"
