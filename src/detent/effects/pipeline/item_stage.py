"""The stages that touch nothing: each takes items and its arguments, and gives items or a text for people."""

import functools
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from detent.core.expression.step_filter import dig, encode, text
from detent.effects.arguments import invalid
from detent.effects.pipeline.placeholder import fill_in

_PREDICATE = re.compile(r"([a-zA-Z0-9_.]+)\s*(==|=|!=|<=|>=|<|>)\s*(.+)\Z", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS = {"true": True, "false": False, "null": None}
SAMPLE = 20
COLUMN_MIN = 3


class StageInput(NamedTuple):
    """What a stage is given."""

    items: list[Any]
    words: list[str]
    options: dict[str, Any]

    def option(self, name: str) -> str:
        """An option that is a text, or nothing."""
        value = self.options.get(name)
        return value if isinstance(value, str) else ""


def where(given: StageInput) -> list[Any]:
    """The items of which a comparison holds."""
    found = _PREDICATE.match(given.words[0]) if given.words else None
    if found is None:
        raise invalid("`where` needs a comparison, as in `where size>10`")
    path, sign, raw = found.groups()
    wanted: Any = _WORDS[raw] if raw in _WORDS else float(raw) if _NUMBER.match(raw.strip()) else raw
    return [item for item in given.items if _compare(dig(item, path), sign, wanted)]


def _compare(left: Any, sign: str, right: Any) -> bool:
    """Numbers, and texts that are numbers, by value; anything else by text."""
    pair = _as_number(left), _as_number(right)
    is_numeric = None not in pair
    if sign in ("=", "==", "!="):
        if left is None or right is None:
            is_same = left is right
        else:
            is_same = pair[0] == pair[1] if is_numeric else left == right
        return is_same if sign != "!=" else not is_same
    if not is_numeric and not (isinstance(left, str) and isinstance(right, str)):
        return False
    a, b = pair if is_numeric else (left, right)
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign])


def _as_number(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return float(value)
    return float(value) if isinstance(value, str) and len(value) < 400 and _NUMBER.match(value.strip()) else None


def pick(given: StageInput) -> list[Any]:
    """Some fields of every item."""
    fields = [name.strip() for name in given.words[0].split(",") if name.strip()] if given.words else []
    if not fields:
        raise invalid("`pick` needs fields, as in `pick id,title`")
    return [
        {name: item[name] for name in fields if name in item} if isinstance(item, dict) else item
        for item in given.items
    ]


def head(given: StageInput) -> list[Any]:
    """The first items."""
    count = _as_number(given.options.get("n", 10))
    if count is None or count < 0:
        raise invalid("`head --n` must be a number of 0 or more")
    return given.items[: int(count)]


def map_items(given: StageInput) -> list[Any]:
    """Every item wrapped, unwrapped, or with further fields."""
    wrap, unwrap = given.option("wrap"), given.option("unwrap")
    if wrap and unwrap:
        raise invalid("`map` has `--wrap` or `--unwrap`, not both")
    if unwrap:
        return [item.get(unwrap) if isinstance(item, dict) else None for item in given.items]
    pairs = [word.partition("=")[::2] for word in given.words if "=" in word.lstrip("=")]
    made = []
    for item in given.items:
        one = {wrap: item} if wrap else item
        if pairs:
            one = dict(one) if isinstance(one, dict) else {"value": one}
            one.update({key.strip(): fill_in(value, item) for key, value in pairs})
        made.append(one)
    return made


def sort(given: StageInput) -> list[Any]:
    """The items in order, of one field or of themselves; those without it come last."""
    key, sign = given.option("key"), -1 if given.options.get("desc") else 1

    def order(left: Any, right: Any) -> int:
        a, b = (dig(one, key) if key else one for one in (left, right))
        return sign * _order(a, b)

    return sorted(given.items, key=functools.cmp_to_key(order))


def _order(a: Any, b: Any) -> int:
    if a is None or b is None:
        return (a is None) - (b is None)
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (a, b)):
        a, b = text(a), text(b)
    return int(a > b) - int(a < b)


def dedupe(given: StageInput) -> list[Any]:
    """The first of all items that are alike, in one field or as a whole."""
    key = given.option("key")
    seen: dict[str, Any] = {}
    for item in given.items:
        seen.setdefault(encode(dig(item, key) if key else item), item)
    return list(seen.values())


def group_by(given: StageInput) -> list[Any]:
    """The items that share the value of a field, together."""
    key = given.option("key").strip()
    if not key:
        raise invalid("`groupBy` needs `--key FIELD`")
    groups: dict[str, dict[str, Any]] = {}
    for item in given.items:
        value = dig(item, key)
        groups.setdefault(encode(value), {"key": value, "items": []})["items"].append(item)
    return [{**group, "count": len(group["items"])} for group in groups.values()]


def template(given: StageInput) -> list[Any]:
    """A text for every item."""
    wanted = given.option("text") or " ".join(given.words)
    if not wanted:
        raise invalid("`template` needs a text: `--text`, `--file`, or words")
    return [fill_in(wanted, item) for item in given.items]


def render_json(items: list[Any]) -> str:
    """The items as JSON for people."""
    return json.dumps(items, ensure_ascii=False, indent=2) + "\n"


def render_table(items: list[Any]) -> str:
    """The items as a table, or a line each where they are no mappings."""
    if not items:
        return "(no results)\n"
    if not all(isinstance(item, dict) for item in items[:SAMPLE]):
        return "".join(text(item) + "\n" for item in items)
    columns = list(dict.fromkeys(key for item in items[:SAMPLE] for key in item))
    rows = [columns] + [[text(item.get(name)) if isinstance(item, dict) else "" for name in columns] for item in items]
    rows = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(COLUMN_MIN, *(len(row[at]) for row in rows)) for at in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "".join(line + "\n" for line in lines)


PURE: dict[str, Callable[[StageInput], list[Any]]] = {
    "where": where,
    "pick": pick,
    "head": head,
    "map": map_items,
    "sort": sort,
    "dedupe": dedupe,
    "groupBy": group_by,
    "template": template,
}
RENDERED = {"json": render_json, "table": render_table}
