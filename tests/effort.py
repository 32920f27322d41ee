"""How hard the tests try: how many examples a law is tried on, and how long anybody waits for what must come.

`DETENT_EXAMPLES=20` tries twenty times as many examples. No test measures time: waiting ends only against hanging,
and a busy machine takes its time.
"""

import os

PATIENCE_S = 120.0
TIMES = int(os.environ.get("DETENT_EXAMPLES") or 1)


def examples(count: int) -> int:
    """How many examples to try where `count` are enough from day to day."""
    return count * TIMES
