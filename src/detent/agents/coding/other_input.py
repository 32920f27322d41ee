"""Tests that were mended, asked with other input: does the new source do anything else there than the old one did?

Whoever answers the examples of the tests leaves the rest as it was, gives the same answer to everything, or fails with
all that is no example. However that is written, it shows when the same calls are made with other values.
"""

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from detent.agents.coding.changed_expectation import (
    EQUAL,
    Function,
    expects_error,
    get_called,
    list_claims,
    list_functions,
)

TRIES = 16  # the first is as it stands
TELLING_MIN = 3  # answers to other input that say something
SLOW = ("sleep", "wait", "join", "settimeout")
MARK = "detent-values"
MISSING = {"!AttributeError", "!NameError", "!NotImplementedError", "!TypeError"}  # it was not there at all
_TOLD = re.compile(rf"{MARK} ([\w!.,=-]+)")
CONSTANT = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
HELPER = (
    """
def _detent_other(value, number, place, told):
    def other(value, place):
        shift = (1, -1, 2, -3, 5, 7, -6, 11, value, 100, 10, 13)[(number + 5 * place) % 12]
        if isinstance(value, (bool, type(None))) or value in ("", b"", 0, 1, -1):
            return value
        if isinstance(value, (int, float)):
            return value + shift  # or twice as much
        if isinstance(value, str):
            turned = value.translate({code: (code - 96) % 26 + 97 for code in range(97, 123)})
            more = "".join(str((int(one) + 1) % 10) if one in "0123456789" else one for one in value)
            ways = (value + " more", value.swapcase(), value[::-1], turned, more, value * 2, value[1:], value[:-1])
            return ways[(number + place) % 8]
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            kept = list(value[:-1] if number == 4 else value)
            return type(value)([other(one, place + at) for at, one in enumerate(kept)])
        if type(value) is dict:
            return {key: other(one, place + at) for at, (key, one) in enumerate(value.items())}
        return value
    try:
        is_meant = number and (number < ALL or place % 4 == number % 4)  # all of them, later one by one
        new = other(value, place) if is_meant else value
        if not number or new != value:
            told.append(value)
        return new
    except Exception:
        return value


def _detent_echoes(value, told):
    parts = [one for item in told for one in (item if isinstance(item, (list, tuple)) else [item])]
    if isinstance(value, (list, tuple)):
        return len(value) > 1 and all(one in parts for one in value)
    heard = ["".join(filter(str.isalnum, one.casefold())) for one in parts if isinstance(one, str)]
    said = "".join(filter(str.isalnum, value.casefold())) if isinstance(value, str) else ""
    return any(said[at:at + 4] in one for one in heard for at in range(len(said) - 3))


def _detent_tell(attempt):
    import hashlib
    said = []
    for number in range(TRIES):
        told = []
        try:
            value = attempt(number, told)
            kind = ".plain" if isinstance(value, bool) or value in (1, -1) or not value else ""
            kind = ".plain" if str(value).endswith(" was raised") else kind
            kind = ".small" if kind and type(value) in (int, float) else kind
            kind = ".echo" if not number and _detent_echoes(value, told) else kind
            word = hashlib.sha256(repr(value).encode()).hexdigest()[:12] + kind
        except Exception as error:
            word = "!" + type(error).__name__
        said.append(word + ("" if told or not number else "=same"))
    raise AssertionError("MARK " + ",".join(said))
""".replace("TRIES", str(TRIES))
    .replace("ALL", str(TRIES // 2))
    .replace("MARK", MARK)
)


class OtherAnswers(msgspec.Struct, frozen=True):
    """What a test got for its own input, and for other input: words that are equal where the answers are."""

    own: str
    others: dict[int, str]  # by the number of the try, where the input was another one


def turn_tests(text: str, names: Collection[str]) -> tuple[str, set[str]]:
    """A file of tests in which these functions tell what they get for other input; and those of them that can."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text, set()
    turned = {name for name, function in list_functions(tree.body) if name in names and _turn(function)}
    return (f"{ast.unparse(ast.fix_missing_locations(tree))}\n{HELPER}", turned) if turned else (text, turned)


def _turn(function: Function) -> bool:
    """Change a test into one that tries other values; whether it is one that can be."""
    if isinstance(function, ast.AsyncFunctionDef) or any(isinstance(n, ast.Yield) for n in ast.walk(function)):
        return False
    claims = [claim for claim in list_claims(function.body) if claim in function.body]
    claims += [item for item in function.body if isinstance(item, ast.With) and expects_error(item)]
    found = next(((claim, asked) for claim in reversed(claims) if (asked := _find_asked(claim)) is not None), None)
    if found is None:
        return False
    claim, asked = found
    wrapper = _Wrapper({arg.arg for arg in function.args.args} - {"self", "cls"})
    body: list[ast.stmt] = []
    for item in function.body[: function.body.index(claim)]:
        is_slow = isinstance(item, ast.Expr) and isinstance(item.value, ast.Call) and get_called(item.value) in SLOW
        if isinstance(item, ast.Assign | ast.Expr) and not is_slow:
            item.value = wrapper.change(item.value)
        if not isinstance(item, ast.Assert):
            body.append(item)
    body += _give(wrapper.change(asked), is_raised=isinstance(claim, ast.With))
    if not wrapper.places:
        return False
    frame = ast.parse("def _detent_attempt(_detent_number, _detent_told): pass\n_detent_tell(_detent_attempt)")
    for inner in frame.body[:1]:
        inner.body = body  # type: ignore[attr-defined]  # it is that function
    function.body = frame.body
    return True


def _give(asked: ast.expr, *, is_raised: bool) -> list[ast.stmt]:
    """Give what was asked for; where a failure is what a test wants, that is an answer as well."""
    if not is_raised:
        return [ast.Return(asked)]
    text = "try:\n    return VALUE\nexcept Exception as error:\n    return type(error).__name__ + ' was raised'"
    return ast.parse(text.replace("VALUE", ast.unparse(ast.fix_missing_locations(asked)))).body


def _find_asked(claim: ast.stmt) -> ast.expr | None:
    """What a claim is about: the side of it that is worked out."""
    sides: Sequence[ast.expr] = ()
    match claim:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right])):
            sides = (left, right)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[left, right, *_])) if name in EQUAL:
            sides = (left, right)
        case (
            ast.Assert(test=ast.Call() as asked)
            | ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as asked))
        ):
            return asked
        case ast.With(body=[ast.Expr(value=ast.Call() as asked)]):
            return asked
    worked = [side for side in sides if any(isinstance(inner, ast.Call | ast.Name) for inner in ast.walk(side))]
    called = [side for side in worked if any(isinstance(inner, ast.Call) for inner in ast.walk(side))]
    return next(iter(called or worked), None)


class _Wrapper(ast.NodeTransformer):
    """Puts other values in place of constants and of a test's parameters."""

    def __init__(self, parameters: set[str]) -> None:
        self._parameters, self.places = parameters, 0

    def change(self, node: ast.expr) -> ast.expr:
        """An expression with calls that give something else in place of its values."""
        changed: ast.expr = self.visit(node)
        return changed

    def visit(self, node: ast.AST) -> Any:
        """Wrap what is a value as a whole; look further into everything else, but for names and keys."""
        if isinstance(node, ast.keyword | ast.Starred | ast.Subscript):
            node.value = self.change(node.value)
            return node
        if isinstance(node, ast.JoinedStr | ast.Lambda):
            return node
        is_constant = isinstance(node, ast.expr) and all(isinstance(inner, CONSTANT) for inner in ast.walk(node))
        if isinstance(node, ast.expr) and (is_constant or getattr(node, "id", "") in self._parameters):
            self.places += 1
            place, number, told = ast.Constant(self.places), *(ast.Name(f"_detent_{n}") for n in ("number", "told"))
            return ast.Call(ast.Name("_detent_other"), [node, number, place, told], [])
        return super().generic_visit(node)


def read_answers(message: str) -> OtherAnswers | None:
    """What such a test has told; None: it did not get there."""
    found = _TOLD.findall(message)
    words = found[-1].split(",") if found else []
    if len(words) != TRIES:
        return None
    return OtherAnswers(words[0], {number: word for number, word in enumerate(words) if number and "=" not in word})


def list_fitted(old: Mapping[str, OtherAnswers], new: Mapping[str, OtherAnswers]) -> tuple[list[str], int]:
    """The tests whose answers look made for their own input, and how many tests told enough to say."""
    fitted, told = list[str](), 0
    for test in sorted(new):
        verdict = _is_fitted(old.get(test), new[test])
        told += verdict is not None
        fitted += [test] if verdict else []
    return fitted, told


def _is_fitted(old: OtherAnswers | None, new: OtherAnswers) -> bool | None:
    """Whether nothing but the answer to the test's own input is new; None: nobody can tell."""
    if new.own.startswith("!"):
        return None
    own, _, kind = new.own.partition(".")
    given, was = _list_values(new), _list_values(old) if old else {}
    if len(given) < TELLING_MIN:
        return True if len(was) >= TELLING_MIN and not given else None
    changed = {word for number, word in given.items() if was.get(number) != word}
    if not changed or (kind == "echo" and changed == {own}):
        return True
    is_known = len(was) >= TELLING_MIN or old is None or old.own in MISSING
    is_telling = not kind or (kind == "small" and len(set(was.values())) >= TELLING_MIN)
    return is_known and is_telling and len(set(given.values())) == 1


def _list_values(told: OtherAnswers) -> dict[int, str]:
    """The answers that are no failures."""
    return {number: word.partition(".")[0] for number, word in told.others.items() if not word.startswith("!")}
