"""`{{ field | filter }}` in the text of a stage, filled in from an item."""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

from detent.core.expression.step_filter import dig, text
from detent.effects.arguments import invalid

_PLACE = re.compile(r"\{\{\s*([^}]+?)\s*\}\}")


def fill_in(template: str, item: Any) -> str:
    """The text with every place filled in; what is not there is nothing."""
    return _PLACE.sub(lambda found: _value(found.group(1), item), template)


def _value(expression: str, item: Any) -> str:
    path, *filters = [part.strip() for part in expression.split("|")]
    value = item if path in ("", ".") else dig(item, path)
    for one in filters:
        try:
            name, *arguments = shlex.split(one)
        except ValueError:
            name, arguments = one, []
        if name not in FILTERS:
            raise invalid(f"there is no filter `{name[:40]}`; known: {', '.join(FILTERS)}")
        value = FILTERS[name](value, *arguments[:2])
    return text(value)


def _truncate(value: Any, length: str = "80", *_: str) -> str:
    said, most = text(value), int(length) if length.isdecimal() else 80
    return f"{said[:most]}..." if len(said) > most else said


def _round(value: Any, digits: str = "0", *_: str) -> Any:
    try:
        number = round(float(text(value)), int(digits) if digits.isdecimal() else 0)
    except ValueError:
        return value
    return int(number) if number == int(number) else number


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": lambda value, *_: text(value).upper(),
    "lower": lambda value, *_: text(value).lower(),
    "trim": lambda value, *_: text(value).strip(),
    "truncate": _truncate,
    "replace": lambda value, old="", new="", *_: text(value).replace(old, new) if old else text(value),
    "split": lambda value, by=",", *_: text(value).split(by or None),
    "first": lambda value, *_: (value[0] if value else None) if isinstance(value, list) else value,
    "last": lambda value, *_: (value[-1] if value else None) if isinstance(value, list) else value,
    "length": lambda value, *_: len(value) if isinstance(value, (list, str)) else 0,
    "join": lambda value, by=", ", *_: by.join(map(text, value)) if isinstance(value, list) else text(value),
    "json": lambda value, *_: json.dumps(value, ensure_ascii=False, indent=2),
    "string": lambda value, *_: text(value),
    "default": lambda value, other="", *_: other if value in (None, "") else value,
    "round": _round,
}
