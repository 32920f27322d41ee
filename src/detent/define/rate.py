"""Rates as people write them: `10/min`, `5/s`, `100/h`, `3/90s`."""

from detent.core.duration import seconds_of
from detent.define.key_check import Fields
from detent.define.problem import cut

UNITS = {"s": "1s", "sec": "1s", "m": "1m", "min": "1m", "h": "1h", "hour": "1h", "d": "1d", "day": "1d"}
RATE_MAX = 1_000


def read_rate(given: Fields) -> tuple[int, float]:
    """How many in which time; nothing where the file says nothing of it, or after a note."""
    if "rate" not in given:
        return 0, 0.0
    count, _, per = str(given["rate"]).replace(" ", "").partition("/")
    rate = int(count) if count.isascii() and count.isdecimal() and len(count) < 10 else 0
    per_s = seconds_of(UNITS.get(per, per)) or 0.0
    if not 0 < rate <= RATE_MAX or not per_s:
        given.say("rate", f"`{cut(given['rate'])}` is not a rate", "write one such as 10/min, 5/s, 100/h or 3/90s")
        return 0, 0.0
    return rate, per_s
