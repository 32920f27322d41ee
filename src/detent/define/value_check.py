"""What may stand behind a key: one check per kind of the grammar's table.

A check gives the value as the compiler wants it (durations in seconds, conditions as text), or MISSING after a note.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from detent.core.duration import seconds_of
from detent.core.machine_check import is_effect_name, is_variable
from detent.core.schema import TYPES, problems
from detent.define.compile_context import Page, kind_of
from detent.define.document import Route
from detent.define.grammar import ERROR_TYPES, ROOTS, Key
from detent.define.problem import cut
from detent.define.secret_input import spell_type

MISSING: Any = object()
NAME_MAX = 100
MAY_BE_EMPTY = (
    "template", "plain", "templates", "one", "many", "named", "branches", "schema", "inputs", "tools", "triggers",
)  # fmt: skip
AMOUNT_MAX = 1e9  # of seconds, this is more than thirty years

# What the engine does itself is not called as a tool.
INSTEAD = {
    "set": "type: set_variable",
    "log": "type: log",
    "choose": "type: conditional",
    "wait": "type: wait",
    "branches": "type: parallel",
    "child": "workflow: FILE",
    "workflow": "workflow: FILE",
}

Check = Callable[["Spot", Any], Any]


class Spot(NamedTuple):
    """Where a value stands: the file, the path in it, the key's entry in the table, and its name."""

    page: Page
    path: Route
    key: Key
    name: str

    def say(self, message: str, hint: str = "") -> Any:
        """Note an error; the value is then missing."""
        self.page.say(self.path, message, hint)
        return MISSING

    def note_mistyped(self, wanted: str, value: Any, hint: str = "") -> Any:
        """Note a value of the wrong kind."""
        return self.say(f"`{self.name}` must be {wanted}, not {kind_of(value)}", hint)


def check(page: Page, path: Route, value: Any, key: Key, name: str) -> Any:
    """The value of a key if it is what the table wants there; a part with a shape of its own is checked later."""
    if value is None and key.kind not in MAY_BE_EMPTY:
        page.say(path, f"`{name}` says nothing", key.hint)
        return MISSING
    checks = CHECKS.get(key.kind)
    return value if checks is None else checks(Spot(page, path, key, name), value)


def _text(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    if value == "":
        spot.page.say(spot.path, f"`{spot.name}` says nothing", spot.key.hint)
        return MISSING
    hint = "write it in quotes" if isinstance(value, (int, float)) else ""
    return spot.note_mistyped("a text", value, hint)


def _label(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return spot.page.as_written(spot.path)
    return spot.note_mistyped("a text", value)


def is_name(value: Any) -> bool:
    """Whether this can name a state, an action or an event."""
    return isinstance(value, str) and value.isidentifier() and len(value) <= NAME_MAX


def mend_name(value: str) -> str:
    """The nearest thing to a text that is a name."""
    name = re.sub(r"\W+", "_", value).strip("_")[:NAME_MAX]
    return name if name.isidentifier() else f"n{name}"[:NAME_MAX]


def check_name(page: Page, path: Route, value: Any, what: str, *, at_key: bool = False) -> bool:
    """Note a name that is none."""
    if is_name(value):
        return True
    hint = "a name is made of letters, digits and `_`, and does not begin with a digit"
    if isinstance(value, str) and value and "{{" not in value:
        hint += f", for example `{mend_name(value)}`"
    page.say(path, f"{what} {kind_of(value)} is not a name", hint, at_key=at_key)
    return False


def _name(spot: Spot, value: Any) -> Any:
    return value if check_name(spot.page, spot.path, value, f"`{spot.name}`:") else MISSING


def _variable(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and is_variable(value) and len(value) <= 4 * NAME_MAX:
        first, dot, _ = value.partition(".")
        if dot and first in ROOTS[3:]:
            return spot.say(f"`{first}` can be read and not set", "set a name of your own, `variables.…` or `state.…`")
        return value
    return spot.note_mistyped("names joined by dots, as in `state.count`", value)


def _state(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and (is_name(value) or (value == "*" and spot.key.kind == "states")):
        return value
    return spot.note_mistyped("the name of a state", value)


def _effect(spot: Spot, value: Any) -> Any:
    if not isinstance(value, str):
        return spot.note_mistyped("the name of a tool", value)
    if "{{" in value:
        return value if spot.page.template(spot.path, value) else MISSING
    if value in INSTEAD:
        return spot.say(f"`{value}` is not a tool", f"use `{INSTEAD[value]}`")
    if value != "ask" and not is_effect_name(value):
        return spot.note_mistyped("the name of a tool (letters, digits and `._:/@+-`)", value)
    if value in spot.page.tools:
        return value
    if spot.page.known_effects and value not in spot.page.known_effects and value != "ask":
        known = {*spot.page.known_effects, *spot.page.tools, "ask"}
        return spot.say(*spot.page.unknown("tool", value, sorted(known)))
    return value


def _choice(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and value in spot.key.choices:
        return value
    if isinstance(value, str) and value:
        spot.say(*spot.page.unknown(f"`{spot.name}`:", value, spot.key.choices))
        return MISSING
    return spot.note_mistyped(f"one of {', '.join(spot.key.choices)}", value)


def _error_type(spot: Spot, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return spot.note_mistyped("an error type", value)
    if value in ERROR_TYPES or value == "*":
        return value
    root, dot, child = value.partition(".")
    if dot and root in ERROR_TYPES and re.fullmatch(r"\w+(?:\.\w+)*", child, re.ASCII):
        spot.page.warn(
            spot.path, *spot.page.unknown("error type", value, [t for t in ERROR_TYPES if t.startswith(root)])
        )
        return value
    spot.say(*spot.page.unknown("error type", value, ERROR_TYPES))
    return MISSING


def _flag(spot: Spot, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    hint = "in YAML 1.2, `yes`, `no`, `on` and `off` are texts" if value in ("yes", "no", "on", "off") else ""
    return spot.note_mistyped("`true` or `false`", value, hint)


def _number(spot: Spot, value: Any) -> Any:
    """A number, or an expression over the file's variables that gives one when it is loaded."""
    if isinstance(value, str) and "{{" in value:
        value = spot.page.constant(spot.path, value)
        if value is None:
            return MISSING
    least = {"positive": 1, "count": 0, "amount": 0}.get(spot.key.kind, -AMOUNT_MAX)
    is_whole = spot.key.kind != "amount"
    fits = isinstance(value, int if is_whole else (int, float)) and not isinstance(value, bool)
    if fits and least <= value <= AMOUNT_MAX:
        return value
    bounds = f" of at least {least}" if least >= 0 else ""
    bounds = f"{bounds} and at most {AMOUNT_MAX:,.0f}" if fits and value > AMOUNT_MAX else bounds
    return spot.note_mistyped(f"a {'whole ' if is_whole else ''}number{bounds}", value)


def _duration(spot: Spot, value: Any) -> Any:
    """Seconds as a float; an expression stays text, for the places that can wait for its value."""
    if isinstance(value, str):
        if "{{" in value:
            return value if spot.page.template(spot.path, value) else MISSING
        seconds = seconds_of(value)
    else:
        seconds = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if seconds is None or not 0 <= seconds <= AMOUNT_MAX:
        wanted = "a number of seconds or a text such as `90s`, `15m`, `2h`, `7d`"
        return spot.note_mistyped(wanted, value)
    return seconds


def seconds(page: Page, path: Route, value: Any, name: str) -> float:
    """A checked duration as a number, in places where it must be known when the file is loaded; 0 after a note."""
    if not isinstance(value, str):
        return float(value or 0.0)
    found = page.constant(path, value)
    if found is None:
        return 0.0
    checked = _duration(Spot(page, path, Key("duration", ""), name), found)
    return checked if isinstance(checked, float) else 0.0


def _condition(spot: Spot, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str) or not value.strip():
        return spot.note_mistyped('an expression, as in "{{ result.check.success }}"', value)
    return value if spot.page.condition(spot.path, value) else MISSING


def _template(spot: Spot, value: Any) -> Any:
    return value if spot.page.template(spot.path, value) else MISSING


def _templates(spot: Spot, value: Any) -> Any:
    if value is None:
        return {}
    if isinstance(value, str) and value.strip().startswith("{{"):
        return _template(spot, value)
    if not isinstance(value, dict):
        return spot.note_mistyped("a mapping", value)
    return _template(spot, value)


def _items(spot: Spot, value: Any) -> Any:
    if isinstance(value, str) and "{{" in value:
        return _template(spot, value)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and spot.name == "for_each":
        return value
    return spot.note_mistyped('a list, or an expression that gives one, as in "{{ context.files }}"', value)


def _plain(spot: Spot, value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        return spot.note_mistyped("a mapping from names to values", value)
    good = {}
    for inner, held in value.items():
        if check_name(spot.page, (*spot.path, inner), inner, f"`{spot.name}`:", at_key=True):
            good[inner] = held
        if inner.startswith("_"):
            spot.page.say((*spot.path, inner), f"`{cut(inner)}` is private: a name may not start with `_`", at_key=True)
        if isinstance(held, str) and "{{" in held:
            spot.page.warn((*spot.path, inner), f"`{cut(inner)}` is kept as it is: expressions are not computed here")
    return good


def _names(spot: Spot, value: Any) -> Any:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        return spot.note_mistyped("a text or a list of texts", value)
    for index, inner in enumerate(given):
        if not isinstance(inner, str) or not inner.strip():
            return spot._replace(path=(*spot.path, index)).note_mistyped("a list of texts", inner)
        if "{{" in inner:
            return spot.say(f"`{cut(inner)}` is not computed here", "write the names themselves")
        if inner in given[:index]:
            spot.page.say((*spot.path, index), f"`{cut(inner)}` is there twice")
            return MISSING
    return tuple(given)


def numbers(spot: Spot, value: Any) -> Any:
    """A whole number or a list of them, as a list."""
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(one, int) and not isinstance(one, bool) for one in given):
        return spot.note_mistyped("a whole number or a list of them, as in `[0, 1]`", value)
    return given


def _schema(spot: Spot, value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        return spot.note_mistyped("a mapping from names to types", value)
    before = len(spot.page.problems)
    is_whole = "properties" in value or value.get("type") == "object"
    if spot.key.kind == "inputs":  # only a run is given secrets
        value = _spell_secrets(value, is_whole)
    found = value if is_whole else _object(value)
    _check_schema(spot.page, spot.path, found, is_short=not is_whole)
    return found if len(spot.page.problems) == before else MISSING


def _spell_secrets(value: dict[str, Any], is_whole: bool) -> dict[str, Any]:
    properties = value.get("properties") if is_whole else value
    if not isinstance(properties, dict):
        return value
    spelled = {name: spell_type(one) for name, one in properties.items()}
    return {**value, "properties": spelled} if is_whole else spelled


def _object(short: dict[str, Any]) -> dict[str, Any]:
    """`{order: integer}` as JSON Schema; what has no default must be given."""
    properties = {name: {"type": held} if isinstance(held, str) else held for name, held in short.items()}
    required = [name for name, held in properties.items() if not (isinstance(held, dict) and "default" in held)]
    return {"type": "object", "properties": properties, "required": required}


def _check_schema(page: Page, path: Route, schema: Any, is_short: bool = False) -> None:
    """Note a type that is none; what is not known of JSON Schema stays, for those who know it."""
    if not isinstance(schema, dict):
        page.say(path, f"a type or a mapping is needed, not {kind_of(schema)}", f"types: {', '.join(TYPES)}")
        return
    said = schema.get("type", "object")
    for one in said if isinstance(said, list) else [said]:
        if not isinstance(one, str) or one not in TYPES:
            page.say((*path, "type"), *page.unknown("type", cut(one), TYPES))
    for name, wanted in (("properties", dict), ("required", list), ("enum", list), ("items", dict)):
        if name in schema and not isinstance(schema[name], wanted):
            page.say((*path, name), f"`{name}` must be a {'mapping' if wanted is dict else 'list'}")
            return
    if not all(isinstance(name, str) for name in schema.get("required", ())):
        page.say((*path, "required"), "`required` must be a list of names")
    for problem in problems(schema, schema["default"], "the default") if "default" in schema else ():
        page.say((*path, "default"), problem)
    inside = path if is_short else (*path, "properties")  # the short form has no `properties` in the file
    for name, inner in schema.get("properties", {}).items():
        _check_schema(page, (*inside, name), inner)
    if "items" in schema:
        _check_schema(page, (*path, "items"), schema["items"])


def _join(spot: Spot, value: Any) -> Any:
    if value in ("all", "any"):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= AMOUNT_MAX:
        return value
    return spot.note_mistyped("`all`, `any`, or how many branches must succeed", value)


CHECKS: dict[str, Check] = {
    "text": _text,
    "label": _label,
    "name": _name,
    "variable": _variable,
    "state": _state,
    "states": _state,
    "effect": _effect,
    "choice": _choice,
    "error_type": _error_type,
    "flag": _flag,
    "count": _number,
    "positive": _number,
    "integer": _number,
    "amount": _number,
    "duration": _duration,
    "condition": _condition,
    "template": _template,
    "templates": _templates,
    "items": _items,
    "plain": _plain,
    "names": _names,
    "numbers": numbers,
    "schema": _schema,
    "inputs": _schema,
    "join": _join,
    "path": _text,
}
