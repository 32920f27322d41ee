"""The one sanitiser: whatever a kernel says becomes plain JSON data that every journal, page and file can hold.

A lone surrogate (half a character) is replaced: it can be a Python string, but no encoded text. Numbers that JSON does
not have become texts, and what is nested too deep is cut.
"""

import math
from typing import Any

from detent.core.value import scrub

DEPTH_MAX = 48
WHOLE_MAX = 2**63


def plain(value: Any, depth: int = 0) -> Any:
    """Anything that came out of a JSON parser, as data that may be kept."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict | list) and depth >= DEPTH_MAX:
        return "..."
    if isinstance(value, dict):
        return {scrub(str(key)): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -WHOLE_MAX <= value < WHOLE_MAX:
        return scrub(hex(value))
    return value
