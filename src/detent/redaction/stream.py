"""Redaction of a text that comes in pieces: what may be the beginning of a secret is held back until more is known."""

import re
from bisect import bisect_left

from detent.redaction.redactor import HIDDEN, Redactor

HELD_MAX = 8192  # characters held back; what goes on for longer is hidden if it has begun like a token
KEY_MAX = 16384  # characters of a private key whose end does not come
_END_ROOM = 80  # characters in which the end of a private key may stand
_RUN = re.compile(r"[A-Za-z0-9_.-]*")
_MARKS = ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA", "AIza", "eyJ")
_PARTS = sorted({mark[:length] for mark in _MARKS for length in range(1, len(mark))}, key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9_-])(?:(?:{'|'.join(map(re.escape, _MARKS))})[A-Za-z0-9_.-]*|{'|'.join(map(re.escape, _PARTS))})\Z"
)
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_PART = re.compile(r"-{1,5}(?:B(?:E(?:G(?:I(?:N(?: [A-Z0-9 ]{0,54}-{0,5})?)?)?)?)?)?\Z")


class RedactionStream:
    """One text, piece by piece; `finish` gives what is still held back when it has ended."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._is_in_token = False  # one that was longer than what is held back
        self._key_left = 0  # characters of a private key that are still swallowed
        self._key_tail = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; what can be shown now."""
        text = self._held + self._skip(piece)
        shown = ""
        while (key := _KEY.search(text)) is not None:
            shown += self._redactor.hide_free(text[: key.start()]) + HIDDEN
            self._key_left, self._key_tail = KEY_MAX, ""
            text = self._skip(text[key.end() :])
        place = self._hold(text)
        if len(text) - place > HELD_MAX:
            self._is_in_token = _TOKEN.search(text) is not None
            place = len(text)
        self._held = text[place:]
        return shown + self._redactor.hide_free(text[:place])

    def finish(self) -> str:
        """Nothing more will come: what is left, without secrets."""
        held, self._held = self._held, ""
        return self._redactor.hide_free(held)

    def _skip(self, piece: str) -> str:
        """The piece without the rest of what is being swallowed."""
        if self._key_left:
            known = self._key_tail + piece
            end = _KEY_END.search(known)
            if end is not None:
                self._key_left = 0
                return known[end.end() :]
            self._key_left = max(0, self._key_left - len(piece))
            self._key_tail = known[-_END_ROOM:]
            return ""
        if self._is_in_token:
            rest = piece[_RUN.match(piece).end() :]  # type: ignore[union-attr]  # it matches nothing at least
            self._is_in_token = not rest
            return rest
        return piece

    def _hold(self, text: str) -> int:
        """Where what must be held back begins."""
        place = min(self._secret_begun(text), _start(_TOKEN, text), _start(_KEY_PART, text))
        if place == len(text):
            return place
        for start, end in self._redactor.find_free_spans(text):
            if start < place < end:
                return start  # a secret is shown or held back as a whole
        return place

    def _secret_begun(self, text: str) -> int:
        forms = self._redactor.forms
        for place in range(max(0, len(text) - self._redactor.longest + 1), len(text)):
            tail = text[place:]
            at = bisect_left(forms, tail)
            if any(form != tail and form.startswith(tail) for form in forms[at : at + 2]):
                return place
        return len(text)


def _start(shape: re.Pattern[str], text: str) -> int:
    begin = max(0, len(text) - HELD_MAX - 1)
    found = shape.search(text, begin)
    return len(text) if found is None else found.start()
