"""Mappings checked against the grammar's table: what is left are the keys whose values are what the grammar wants."""

from collections.abc import Set
from typing import Any

from detent.define.compile_context import Page, kind_of
from detent.define.document import Route
from detent.define.grammar import SHAPES, TYPED, Key, Shape
from detent.define.value_check import MISSING, check


class Fields:
    """The keys of one mapping whose values are what the grammar wants; the others are left out."""

    __slots__ = ("page", "path", "said", "type", "values")

    def __init__(self, page: Page, path: Route, values: dict[str, Any], type: str, said: Set[str]) -> None:
        self.page, self.path, self.values, self.type = page, path, values, type
        self.said = said  # the keys that are there, whatever stands behind them

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self.values.get(key, default)

    def at(self, *keys: str | int) -> Route:
        """The path of something inside."""
        return (*self.path, *keys)

    def say(self, key: str, message: str, hint: str = "") -> None:
        """Note an error at a key's value, or at the mapping where there is no such key."""
        self.page.say(self.at(key), message, hint)


def fields(
    page: Page, path: Route, value: Any, shape: str | Shape, what: str, type: str = "", *, is_foreign: bool = False
) -> Fields | None:
    """Check a mapping against a table, by default one of the grammar's; None where it is no mapping at all.

    A foreign file comes from elsewhere and runs unchanged: unknown keys are ignored with a warning, and so is a null.
    """
    table = SHAPES[shape] if isinstance(shape, str) else shape
    if value is None and not is_foreign:
        value = {}
    if not isinstance(value, dict):
        page.say(path, f"{what} must be a mapping, not {kind_of(value)}", f"known keys: {_list_keys(table)}")
        return None
    if not type and isinstance(shape, str) and shape in TYPED:
        said, default = TYPED[shape]
        type = _type(value.get(said, default), table[said])
    good: dict[str, Any] = {}
    for name, inner in value.items():
        key = table.get(name)
        if is_foreign and (key is None or inner is None):
            if key is None:
                page.warn((*path, name), *page.unknown(f"key of {what}, which is ignored:", name, table), at_key=True)
        elif key is not None and (not key.types or not type or type in key.types):
            checked = check(page, (*path, name), inner, key, name)
            if checked is not MISSING:
                good[name] = checked
        elif key is None:
            known = [one for one, entry in table.items() if entry.fits(type)]
            page.say((*path, name), *page.unknown(f"key of {what}:", name, known), at_key=True)
        else:
            wanted = " or ".join(f"`{one}`" for one in key.types)
            page.say((*path, name), f"`{name}` belongs to {wanted}, and {what} is `{type}`", at_key=True)
    for name in NEEDED[shape] if isinstance(shape, str) else _list_needed(shape):
        if name not in value or (is_foreign and value[name] is None):
            page.say(path, f"{what} needs `{name}`", table[name].hint)
    return Fields(page, path, good, type, value.keys())


def _list_needed(table: Shape) -> tuple[str, ...]:
    return tuple(name for name, key in table.items() if key.is_needed)


NEEDED = {name: _list_needed(table) for name, table in SHAPES.items()}


def _type(said: Any, key: Key) -> str:
    return said if isinstance(said, str) and said in key.choices else ""


def _list_keys(table: dict[str, Key]) -> str:
    return ", ".join(table)
