"""Marks of Markdown inside one line, on a terminal."""

import re

BOLD, DIM, ITALIC, UNDERLINE, CODE, HEAD, LINK, END = (
    "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[36m", "\x1b[1;35m", "\x1b[34m", "\x1b[0m",
)  # fmt: skip
_INLINE = re.compile(
    r"(?P<code>`+)(?P<coded>.+?)(?P=code)"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|\[(?P<words>[^\]]+)\]\((?P<address>[^()\s]+)\)"
)


def draw_inline(text: str) -> str:
    """The marks as they look."""

    def draw(found: re.Match[str]) -> str:
        if found["coded"] is not None:
            return f"{CODE}{found['coded']}{END}"
        if found["bold"] is not None:
            return f"{BOLD}{found['bold']}{END}"
        if found["slanted"] is not None:
            return f"{ITALIC}{found['slanted']}{END}"
        return f"{UNDERLINE}{found['words']}{END} {LINK}{found['address']}{END}"

    return _INLINE.sub(draw, text)


def strip_marks(text: str) -> str:
    """The words alone."""
    return _INLINE.sub(lambda m: m["coded"] or m["bold"] or m["slanted"] or f"{m['words']} {m['address']}", text)
