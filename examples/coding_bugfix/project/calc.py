"""A calculator with a bug in it."""


def add(a: int, b: int) -> int:
    """The sum."""
    return a - b
