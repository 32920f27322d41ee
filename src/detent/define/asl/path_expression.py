"""Reference paths and intrinsic functions of Amazon States Language, as expressions.

Paths that lead to one value are known, slices, and `[*]` with a name behind it; what searches (`..`, filters) is told.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\d*:-?\d*)\]|\['([^']+)'\]|\[\"([^\"]+)\"\]")
WHOLE, PLAIN = re.compile(r"\{\{ (.*) \}\}", re.DOTALL), re.compile(r"[\w.\[\]']+")
CALL = re.compile(r"States\.(\w+)\((.*)\)\s*$", re.DOTALL)
EACH = re.compile(r"(\$[^*]*)\[\*\]((?:\.[A-Za-z]\w*)*)")


def _refuse(what: str) -> str:
    raise NotCarried(f"{what} has no counterpart")


FUNCTIONS: dict[str, Callable[..., str]] = {
    "JsonToString": lambda value: f"({value}) | tojson",
    "StringToJson": lambda value: f"({value}) | fromjson",
    "Array": lambda *values: f"[{', '.join(values)}]",
    "ArrayLength": lambda value: f"({value}) | length",
    "ArrayGetItem": lambda value, index: f"({value})[{index}]",
    "ArrayUnique": lambda value: f"({value}) | unique",
    "ArrayContains": lambda value, item: f"({item}) in ({value})",
    "MathAdd": lambda one, other: f"({one}) + ({other})",
    "StringSplit": lambda value, at: f"({value}) | split({at})",
    "Hash": lambda value, kind: f"({value}) | sha256" if "SHA-256" in kind else _refuse(f"the hash {kind}"),
}
GLOBALS = {"$$.Execution.Id": "run.id", "$$.Execution.Name": "run.id", "$$.State.Name": "run.state"}


class NotCarried(Exception):
    """Something that has no counterpart; the message says what."""


class Paths:
    """Turns paths into expressions; `root` is what `$` stands for.

    `parts` are templates that stand under a first name instead: what a Map selects for its items, or the result of an
    earlier task of it. Without a root there is nothing else.
    """

    def __init__(self, root: str, parts: Mapping[str, Any] | None = None) -> None:
        self.root, self.parts = root, parts

    def whole(self) -> Any:
        """The document itself, as a template."""
        if self.parts is None:
            return brace(self.root)
        if self.root:
            raise NotCarried("the whole document of an item, with results in it, cannot be handed on")
        return dict(self.parts)

    def expression(self, path: str, root: str = "") -> str:
        """A path or an intrinsic function as an expression, without braces."""
        path = path.strip()
        if path.startswith("States."):
            return self._function(path, root)
        if path.startswith("$$.Map.Item.Value"):
            return "item" + self._steps(path.removeprefix("$$.Map.Item.Value"), path)
        if path == "$$.Map.Item.Index":
            return "branch.index"
        if path.startswith("$$.Execution.Input"):
            return "context" + self._steps(path.removeprefix("$$.Execution.Input"), path)
        if path in GLOBALS:
            return GLOBALS[path]
        if not path.startswith("$") or path.startswith("$$"):
            raise NotCarried(f"`{path}` has no counterpart")
        if each := EACH.fullmatch(path):
            inner = f" | map(attribute='{each[2][1:]}')" if each[2] else ""
            return f"({self.expression(each[1], root)}{inner})"
        if self.parts is not None and not root:
            return self._part(path[1:], path)
        return (root or self.root) + self._steps(path[1:], path)

    def _part(self, rest: str, whole: str) -> str:
        """A path that begins with one of the parts, or leads past them."""
        found = STEP.match(rest)
        name = (found[1] or found[3] or found[4]) if found is not None else ""
        if found is not None and self.parts is not None and name in self.parts:
            value, inner = self.parts[name], rest[found.end() :]
            template = WHOLE.fullmatch(value) if isinstance(value, str) else None
            if template is not None:
                said = template[1] if PLAIN.fullmatch(template[1]) else f"({template[1]})"
                return said + self._steps(inner, whole)
            if not inner and not isinstance(value, dict | list):
                return json.dumps(value, ensure_ascii=False)
        elif self.root and rest:
            return self.root + self._steps(rest, whole)
        raise NotCarried(f"`{whole}` is nothing that can be named here")

    def _steps(self, rest: str, whole: str) -> str:
        made, place = "", 0
        while place < len(rest):
            found = STEP.match(rest, place)
            if found is None:
                raise NotCarried(f"`{whole}` leads to more than one value, or to none that can be named")
            name, index, quoted = found[1], found[2], found[3] or found[4]
            made += (
                f".{name}" if name and not name.startswith("_") else f"[{index}]" if index else f"['{name or quoted}']"
            )
            place = found.end()
        return made

    def _function(self, text: str, root: str) -> str:
        found = CALL.match(text)
        if found is None:
            raise NotCarried(f"`{text}` cannot be read")
        values = [self._argument(one, root) for one in split_arguments(found[2])]
        if found[1] == "Format":
            return _format(values)
        if found[1] not in FUNCTIONS:
            raise NotCarried(f"the function `States.{found[1]}` has no counterpart")
        try:
            return FUNCTIONS[found[1]](*values)
        except TypeError:
            raise NotCarried(f"`{text}` has the wrong number of arguments") from None

    def _argument(self, text: str, root: str) -> str:
        return self.expression(text, root) if text.startswith(("$", "States.")) else text

    def template(self, value: Any, leave_out: Callable[[str, str], None], root: str = "") -> Any:
        """A payload template: keys that end in `.$` hold paths; one that has no counterpart is told and left out."""
        if isinstance(value, list):
            return [self.template(one, leave_out, root) for one in value]
        if not isinstance(value, dict):
            return value
        made: dict[str, Any] = {}
        for key, inner in value.items():
            if not key.endswith(".$") or not isinstance(inner, str):
                made[key] = self.template(inner, leave_out, root)
                continue
            try:
                is_whole = inner.strip() == "$" and not root
                made[key[:-2]] = self.whole() if is_whole else brace(self.expression(inner, root))
            except NotCarried as error:
                leave_out(key, str(error))
        return made


def brace(expression: str) -> str:
    """An expression as it stands in a file."""
    return "{{ " + expression + " }}"


def split_arguments(text: str) -> list[str]:
    """The arguments of a function, as they are written."""
    found, depth, quote, start = [], 0, "", 0
    for place, ch in enumerate(text):
        if quote:
            quote = "" if ch == quote and text[place - 1] != "\\" else quote
        elif ch in "'\"":
            quote = ch
        elif ch in "([":
            depth += 1
        elif ch in ")]":
            depth -= 1
        elif ch == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*found, last] if last else found


def _format(values: list[str]) -> str:
    """`States.Format('a {} b', x)` as pieces of text put together."""
    if not values:
        raise NotCarried("`States.Format` needs a text")
    parts, rest = re.sub(r"\\([{}])", r"\1", values[0].strip("'\"")).split("{}"), values[1:]
    if len(parts) != len(rest) + 1:
        raise NotCarried("`States.Format` has another number of values than of places")
    made = [f"'{parts[0]}'"] if parts[0] else []
    for value, part in zip(rest, parts[1:], strict=True):
        made += [f"({value})", *([f"'{part}'"] if part else [])]
    return " ~ ".join(made) if len(made) > 1 else f"({made[0]}) | string"
