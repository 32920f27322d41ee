"""How much room a text takes: in pixels of a proportional font, or in columns of a terminal.

Nobody can know the reader's font, so the table is a little wider than the usual system fonts.
"""

import unicodedata

HIDING = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
REPLACEMENT = "\ufffd"

# Advance widths in thousandths of the font size, grouped: most letters of one group differ by little.
_GROUPS = {
    260: "ijlI.,:;'|!`",
    350: 'frt()[]{}/\\-" ',
    480: "*^",
    530: "szckJ?",
    580: "abdeghnopquvxyFLT0123456789_$#~",
    640: "ABEKPSVXYZ&R<>=+",
    720: "CDGHNOQUw",
    860: "mMW@%",
}
_EM = {letter: width for width, letters in _GROUPS.items() for letter in letters}
_BOLD = 1.1
_OTHER = 620


def clean(text: str) -> str:
    """The text on one line, without anything that could move the cursor, turn the writing around or break XML."""
    if text.isascii() and text.isprintable():
        return text
    spaced = " ".join(text.split())
    return "".join(REPLACEMENT if unicodedata.category(ch) in HIDING else ch for ch in spaced)


def columns(text: str) -> int:
    """The width in terminal columns: wide characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(_cells(ch) for ch in text)


def pixels(text: str, size: int, *, bold: bool = False) -> int:
    """The width in pixels of a text in the given font size, rounded up."""
    thousandths = sum(_advance(ch) for ch in text)
    return -int(-thousandths * size * (_BOLD if bold else 1.0) // 1000)


def shorten(text: str, limit: int) -> str:
    """The text cut to so many columns, with an ellipsis where something is left out."""
    text = clean(text)
    if columns(text) <= limit:
        return text
    kept, used = "", 0
    for ch in text:
        used += _cells(ch)
        if used > limit - 1:
            break
        kept += ch
    return kept.rstrip() + "…"


def _cells(ch: str) -> int:
    if unicodedata.combining(ch) or unicodedata.category(ch) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


def _advance(ch: str) -> int:
    known = _EM.get(ch)
    if known is not None:
        return known
    cells = _cells(ch)
    return 1000 if cells == 2 else _OTHER * cells
