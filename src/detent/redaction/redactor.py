"""The redactor: takes secrets out of texts and values.

Whole secrets, plain or encoded, are hidden wherever they stand. Parts of declared secrets and tokens of known formats
are hidden in free text alone: what a later step reads as data must not change under it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from detent.redaction.matcher import Matcher, Pattern, merge_spans
from detent.redaction.secret_encoding import WRAPPED_MIN, encoded_forms, quoted_forms
from detent.redaction.token_format import find_tokens, may_find_token

HIDDEN = "•••"
DECLARED_MIN = 4  # characters: hiding shorter values would damage ordinary text
PART_MIN = 8  # characters of a declared secret that are hidden in free text
PART_VARIETY = 4  # different characters that such a part must have: rules of dashes are nobody's secret
PARTS_OF = 4096  # characters of a secret whose parts are looked for
STREAMED_MAX = 4096  # characters of a form that is found across the borders of a text's pieces
WRAPPED_PART_MIN = 24  # characters of base64 or hex in one line
FREE_TEXT = frozenset({"stdout", "stderr"})  # fields of a result that hold what a program printed
FREE_OUTPUTS = ("stream", "error")  # a cell's outputs that are text for people
_encode = msgspec.json.Encoder().encode


class Redactor:
    """Knows some secrets; `declared` are named in a definition, `ambient` are only taken for secrets."""

    def __init__(self, declared: Iterable[str] = (), ambient: Iterable[str] = ()) -> None:
        own = frozenset(value for value in declared if len(value) >= DECLARED_MIN)
        forms = {form for value in {*own, *ambient} for form in quoted_forms(value)}
        codes = {form for value in {*own, *ambient} for form in encoded_forms(value)}
        whole = [Pattern(_raw(form)) for form in forms]
        whole += [Pattern(_raw(code), WRAPPED_PART_MIN, is_wrapped=True) if len(code) > WRAPPED_MIN else
                  Pattern(_raw(code)) for code in codes]  # fmt: skip
        parts = [Pattern(_raw(value[:PARTS_OF]), PART_MIN) for value in own
                 if len(value) > PART_MIN and len(set(value)) >= PART_VARIETY]  # fmt: skip
        self._whole, self._parts = Matcher(whole), Matcher(parts)
        # What stands in JSON is escaped once more.
        self._encoded = Matcher(
            Pattern(inner, pattern.part_min, pattern.is_wrapped)
            for pattern in (*whole, *parts)
            for inner in {pattern.code, _encode(pattern.code.decode("utf-8", "replace"))[1:-1]}
        )
        self.forms = sorted(form for form in {*forms, *codes} if len(form) <= STREAMED_MAX)
        self.longest = max(map(len, self.forms), default=0)

    def may_find(self, json: bytes) -> bool:
        """Whether a value, as JSON, is worth a closer look; if not, there is nothing to hide in it."""
        return may_find_token(json) or self._encoded.may_find(json)

    def hide_whole(self, text: str) -> str:
        """A text that is read as data, without any whole secret."""
        return _cut(text, self._spans(self._whole, text))

    def hide_free(self, text: str) -> str:
        """A text that people read, without secrets, without parts of declared ones, without tokens of known formats."""
        return _cut(text, self.find_free_spans(text))

    def find_free_spans(self, text: str) -> list[tuple[int, int]]:
        """What `hide_free` hides: in order, and apart from each other."""
        parts = [span for span in self._spans(self._parts, text) if len(set(text[slice(*span)])) >= PART_VARIETY]
        return merge_spans([*self._spans(self._whole, text), *parts, *find_tokens(text)])

    def hide_in(self, value: Any, *, is_free: bool = False) -> Any:
        """A JSON value without secrets; `is_free`: every text in it is for people alone."""
        if isinstance(value, str):
            return self.hide_free(value) if is_free else self.hide_whole(value)
        if isinstance(value, dict):
            is_free = is_free or value.get("output_type") in FREE_OUTPUTS
            return {
                (self.hide_in(name, is_free=is_free) if isinstance(name, str) else name): self.hide_in(
                    inner, is_free=is_free or name in FREE_TEXT
                )
                for name, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.hide_in(inner, is_free=is_free) for inner in value]
        return value

    def hide_json(self, json: bytes) -> bytes:
        """JSON that is shown to people and programs outside, without secrets and tokens anywhere in it."""
        if not self.may_find(json):
            return json
        return _encode(self.hide_in(msgspec.json.decode(json), is_free=True))

    def _spans(self, matcher: Matcher, text: str) -> list[tuple[int, int]]:
        raw = _raw(text)
        if not matcher.may_find(raw):
            return []
        spans = matcher.find_spans(raw)
        return spans if len(raw) == len(text) else [_in_characters(raw, span) for span in spans]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_characters(raw: bytes, span: tuple[int, int]) -> tuple[int, int]:
    """A span of bytes as one of characters: those it touches."""
    start, end = span
    while start and raw[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    before = len(raw[:start].decode("utf-8", "surrogatepass"))
    return before, before + len(raw[start:end].decode("utf-8", "surrogatepass"))


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    if not spans:
        return text
    kept, done = [], 0
    for start, end in spans:
        kept += [text[done:start], HIDDEN]
        done = end
    return "".join([*kept, text[done:]])
