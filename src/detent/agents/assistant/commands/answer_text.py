"""The words of an answer while they come: what a person is to read of it, whatever form the model gives it.

An answer is text, or one JSON object whose `response` is the text (with or without a Markdown fence around it). Text is
passed on as it comes; of an object only the response is, letter by letter. What is held back is at most what could
still be the beginning of an object, so that a brace or a backtick at the start stalls nothing.
"""

import json
import re

KEYS = ("response", "emotion", "memory_update", "tool_call", "ecs_request", "intent")
_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\r?\n", re.IGNORECASE)
_HELD_FENCE = re.compile(r"\s*(?:`{1,2}|```(?:j|js|jso|json)?[ \t]*\r?)?\Z", re.IGNORECASE)
_OPENING = re.compile(r'\s*\{\s*"(?P<key>[A-Za-z_]*)(?P<end>"?)')
_HELD_OPENING = re.compile(r"\s*(?:\{\s*)?\Z")
_RESPONSE = re.compile(r'"response"\s*:\s*"')
_LETTER = re.compile(r'\\u[0-9a-fA-F]{4}|\\[^u]|[^"\\]', re.DOTALL)


class AnswerText:
    """Takes the pieces of one answer, gives back what can be read of them now."""

    def __init__(self) -> None:
        self._raw = ""
        self._form = ""  # "", then `text` or `object`, once it is known
        self._at = 0  # how much of the text was given, or where in an object its response goes on
        self.shown = ""

    def add(self, piece: str) -> str:
        """What this piece adds to what a person reads."""
        self._raw += piece
        if not self._form:
            self._form = _find_form(self._raw)
        more = ""
        if self._form == "text":
            more, self._at = self._raw[self._at :], len(self._raw)
        elif self._form == "object":
            more = self._read_response()
        self.shown += more
        return more

    def rest(self, response: str) -> str:
        """What of the whole response was not shown yet; all of it where something else was shown."""
        shown = self.shown.strip()
        if response.strip().startswith(shown):
            return response.strip()[len(shown) :] if shown else response
        return "" if shown.endswith(response.strip()) else response

    def _read_response(self) -> str:
        if not self._at:
            found = _RESPONSE.search(self._raw)
            if found is None:
                return ""
            self._at = found.end()
        read = []
        while (letter := _LETTER.match(self._raw, self._at)) is not None:
            read.append(letter[0])
            self._at = letter.end()
        if read and re.fullmatch(r"\\u[dD][89abAB][0-9a-fA-F]{2}", read[-1]):  # half a character: its other half comes
            self._at -= len(read.pop())
        try:
            return str(json.loads('"' + "".join(read) + '"', strict=False))
        except ValueError:
            return ""  # no JSON after all: the whole is shown when it is there


def _find_form(raw: str) -> str:
    """`text` or `object`; empty as long as it could become either."""
    if _HELD_FENCE.match(raw):
        return ""
    fence = _FENCE.match(raw)
    inner = raw[fence.end() :] if fence else raw
    if _HELD_OPENING.match(inner):
        return ""
    opening = _OPENING.match(inner)
    if opening is None:
        return "text"
    if opening["end"]:
        return "object" if opening["key"] in KEYS else "text"
    is_open = opening.end() == len(inner) and any(key.startswith(opening["key"]) for key in KEYS)
    return "" if is_open else "text"
