"""How hard the tests try: how many examples a law is tried on, and how long anybody waits for what must come.

`DETENT_EXAMPLES=20` tries twenty times as many examples, and 0.1 a tenth of them. No test measures time: waiting ends
only against hanging, and a busy machine takes its time.
"""

import os

PATIENCE_S = 120.0
_SHARE = float(os.environ.get("DETENT_EXAMPLES") or 1)
TIMES = max(1, int(_SHARE))


def examples(count: int) -> int:
    """How many examples to try where `count` are enough from day to day."""
    return max(1, int(count * _SHARE))
