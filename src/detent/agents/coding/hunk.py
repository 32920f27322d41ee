"""A difference as people look at it: file by file, hunk by hunk, each with a name that stands for its contents."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from detent.core.value import digest

HUNKS_MAX = 2000
NAME_CHARS = 8
_FILE = re.compile(r"^diff --git ", re.MULTILINE)
_HUNK = re.compile(r"^@@ ", re.MULTILINE)
_PATH = re.compile(r"^(?:\+\+\+ b/|--- a/)(.*)$", re.MULTILINE)
_GIT = re.compile(r"^diff --git (?:\"?a/.*?\"?) \"?b/(.*?)\"?$", re.MULTILINE)


class Hunk(msgspec.Struct, frozen=True):
    """One place in a file; a change without lines (a mode, a binary file) is one, too."""

    id: str
    path: str
    text: str

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return sum(line.startswith("+") for line in self.text.splitlines()[1:])

    @property
    def removed(self) -> int:
        """How many lines it takes away."""
        return sum(line.startswith("-") for line in self.text.splitlines()[1:])


def split_patch(patch: str) -> list[Hunk]:
    """The hunks of a patch, in its order."""
    found: list[Hunk] = []
    for text in _pieces(patch, _FILE):
        path = _find_path(text)
        head, *bodies = _pieces_with_head(text)
        for body in bodies or [head]:
            found.append(Hunk(digest([path, body])[:NAME_CHARS], path, body))
    return found[:HUNKS_MAX]


def _find_path(text: str) -> str:
    head = text.partition("\n@@ ")[0]
    named = [path.strip('"').removesuffix("\t") for path in _PATH.findall(head)]
    if named:
        return str(named[-1])
    found = _GIT.search(head)
    return str(found.group(1)) if found else "?"


def _pieces(text: str, begins: re.Pattern[str]) -> Iterator[str]:
    starts = [found.start() for found in begins.finditer(text)]
    for number, start in enumerate(starts):
        yield text[start : starts[number + 1] if number + 1 < len(starts) else len(text)]


def _pieces_with_head(text: str) -> list[str]:
    first = _HUNK.search(text)
    return [text[: first.start()], *_pieces(text, _HUNK)] if first else [text]


def digest_of(hunks: Iterable[Hunk]) -> str:
    """What somebody has seen who has seen all of them."""
    return digest([[hunk.path, hunk.id] for hunk in hunks])[:16]
