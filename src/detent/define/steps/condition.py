"""Conditions: `== != < <= > >= && || ! ( )` over references and plain values, as expressions of the machine."""

import re
from typing import NamedTuple

from detent.define.steps.reference import REFERENCE, StepScope, quote

_TOKEN = re.compile(
    r"\s*(?:(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()])"
    rf"|(?P<reference>{REFERENCE.pattern})"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*))",
    re.DOTALL,
)
_WORDS = {"true": "true", "false": "false", "null": "none"}
_ORDER = ("<", "<=", ">", ">=")
LENGTH_MAX = 2_000
DEPTH_MAX = 20


class BadCondition(ValueError):
    """A condition that cannot be understood."""


class _Token(NamedTuple):
    kind: str
    value: str


def translate(condition: str | bool, scope: StepScope) -> str:
    """The condition of the machine that says the same; raises BadCondition."""
    if isinstance(condition, bool):
        return f"{{{{ {str(condition).lower()} }}}}"
    if len(condition) > LENGTH_MAX:
        raise BadCondition(f"a condition of more than {LENGTH_MAX:,} characters")
    reader = _Reader(list(_tokens(condition.strip())), scope)
    made = reader.either(0)
    if reader.at < len(reader.tokens):
        raise BadCondition(f"`{reader.tokens[reader.at].value}` is not expected here")
    return f"{{{{ {_truth(made)} }}}}"


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadCondition(f"`{text[at:].strip()[:20]}` cannot stand in a condition")
        kind = next(name for name, value in match.groupdict().items() if value is not None)
        found.append(_Token(kind, match.group(kind)))
        at = match.end()
    return found


def _truth(expression: str) -> str:
    return f"({expression} | step_true)"


class _Reader:
    """The tokens of a condition, read by what binds least."""

    def __init__(self, tokens: list[_Token], scope: StepScope) -> None:
        self.tokens, self.scope, self.at = tokens, scope, 0

    def _take(self, *signs: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at] in [_Token("sign", sign) for sign in signs]:
            self.at += 1
            return self.tokens[self.at - 1].value
        return ""

    def either(self, depth: int) -> str:
        """One or the other."""
        made = self._both(depth)
        while self._take("||"):
            made = f"({_truth(made)} or {_truth(self._both(depth))})"
        return made

    def _both(self, depth: int) -> str:
        made = self._comparison(depth)
        while self._take("&&"):
            made = f"({_truth(made)} and {_truth(self._comparison(depth))})"
        return made

    def _comparison(self, depth: int) -> str:
        begun = self.at
        left = self._single(depth, is_right=False)
        has_left, middle = self._presence(begun), self.at + 1
        sign = self._take("==", "!=", *_ORDER)
        if not sign:
            return left
        right = self._single(depth, is_right=True)
        if sign in _ORDER:
            return f"({left} | step_compare({quote(sign)}, {right}))"
        has_right = self._presence(middle)
        if "none" not in (left, right) and (has_left == "true" or has_right == "true"):
            return f"({left} {sign} {right})"
        # What is not there is not null, and equals only what is not there either.
        same = f"({left} == {right} and {has_left} == {has_right})"
        return same if sign == "==" else f"(not {same})"

    def _presence(self, begun: int) -> str:
        """Whether there is a value where the part read since then stands; only a reference may lead nowhere."""
        kind, value = self.tokens[begun]
        if kind != "reference" or self.at != begun + 1:
            return "true"
        step, _, path = value[1:].partition(".")
        return self.scope.sources[step].has(path)

    def _single(self, depth: int, is_right: bool) -> str:
        if depth > DEPTH_MAX:
            raise BadCondition(f"nested more than {DEPTH_MAX} deep")
        if self._take("!"):
            return f"(not {_truth(self._single(depth + 1, is_right))})"
        if self._take("("):
            made = self.either(depth + 1)
            if not self._take(")"):
                raise BadCondition("a `)` is missing")
            return made
        return self._value(is_right)

    def _value(self, is_right: bool) -> str:
        if self.at >= len(self.tokens):
            raise BadCondition("something is missing at its end")
        kind, value = self.tokens[self.at]
        self.at += 1
        match kind:
            case "reference":
                return self._reference(value)
            case "number":
                return f"({value})"
            case "text":
                return quote(re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL))
            case "word" if value in _WORDS:
                return _WORDS[value]
            case "word" if is_right:  # a bare word stands for itself there
                return quote(value)
            case "word":
                raise BadCondition(f"`{value}` is not a step; a reference is written `$STEP.json`, a text in quotes")
        raise BadCondition(f"`{value}` is not expected here")

    def _reference(self, text: str) -> str:
        step, _, path = text[1:].partition(".")
        if step not in self.scope.sources:
            raise BadCondition(f"no step `{step}` comes before this one")
        return self.scope.sources[step].read(path)
