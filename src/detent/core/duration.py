"""Lengths of time as people write them: `90s`, `15m`, `1h30m`, `7d`."""

import re

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
TEXT_MAX = 100
_WHOLE = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*(?:ms|min|[smhdw])){1,6}\s*", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhdw])", re.ASCII)


def seconds_of(text: str) -> float | None:
    """The seconds that a text means, or None."""
    if len(text) >= TEXT_MAX or not _WHOLE.fullmatch(text):
        return None
    return sum(float(count) * UNITS[unit] for count, unit in _PART.findall(text))
