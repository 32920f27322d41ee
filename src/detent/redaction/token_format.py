"""Tokens and keys that are known by how they look, whoever they belong to.

Every expression begins with a fixed text, takes a run of characters that none of its own beginnings can interrupt, and
never goes back: the time grows with the length of the text alone.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple


class TokenFormat(NamedTuple):
    """One kind of token: what its texts contain, and what is to be hidden."""

    mark: str
    shape: re.Pattern[str]
    needs_digit: bool = False  # ordinary words with dashes have none


_START, _RUN = r"(?<![A-Za-z0-9_-])", r"[A-Za-z0-9_-]"

FORMATS = (
    TokenFormat("sk-", re.compile(rf"{_START}sk-{_RUN}{{16,}}"), needs_digit=True),
    *(TokenFormat(f"gh{kind}_", re.compile(rf"{_START}gh{kind}_[A-Za-z0-9]{{20,}}")) for kind in "pousr"),
    TokenFormat("github_pat_", re.compile(rf"{_START}github_pat_[A-Za-z0-9_]{{20,}}")),
    TokenFormat("glpat-", re.compile(rf"{_START}glpat-{_RUN}{{16,}}")),
    TokenFormat("xox", re.compile(rf"{_START}xox[abeoprs]-{_RUN}{{11,}}")),
    TokenFormat("AKIA", re.compile(r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    TokenFormat("ASIA", re.compile(r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    TokenFormat("AIza", re.compile(rf"{_START}AIza{_RUN}{{35}}")),
    TokenFormat("eyJ", re.compile(r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
)
PEM = TokenFormat(
    "PRIVATE KEY-----",
    # Up to its end, or 16 KiB when that is missing: half a key is a key.
    re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^-]{0,16384}(?:-(?!----)[^-]{0,16384}){0,8}"
               r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"),
)  # fmt: skip
MARKS = tuple(kind.mark.encode() for kind in (*FORMATS, PEM))


def may_find_token(text: bytes) -> bool:
    """Whether the text, or its JSON, is worth a closer look."""
    for mark in MARKS:  # noqa: SIM110  # asked of every result: a generator would cost more than the search
        if mark in text:
            return True
    return False


def find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Where in a text the tokens are."""
    for kind in (*FORMATS, PEM):
        if kind.mark not in text:
            continue
        for found in kind.shape.finditer(text):
            if not kind.needs_digit or any(letter.isdigit() for letter in found[0]):
                yield found.span()
