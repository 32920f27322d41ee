"""How hard the tests look for an exception to a law: DETENT_EXAMPLES=20 tries twenty times as many examples."""

import os

TIMES = int(os.environ.get("DETENT_EXAMPLES") or 1)


def examples(count: int) -> int:
    """How many examples to try where `count` are enough from day to day."""
    return count * TIMES
