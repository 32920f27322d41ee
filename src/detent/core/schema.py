"""Checking a form's data against the part of JSON Schema that forms use; every problem at once.

Regular expressions are left out on purpose: a hostile pattern can take for ever. A keyword that makes no sense is
ignored, as the specification says: a schema may come from an effect, and a bad one must not stop a run.
"""

from collections.abc import Mapping
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def problems(schema: Any, value: Any, where: str = "data") -> list[str]:
    """What is wrong with `value`, as sentences; empty when it fits."""
    if not isinstance(schema, dict):
        return []
    wanted = schema.get("type")
    types = [name for name in _list([wanted] if isinstance(wanted, str) else wanted) if isinstance(name, str)]
    if types and not any(_is(value, name) for name in types):
        return [f"{where} must be {' or '.join(types)}, not {_name(value)}"]
    found = []
    choices = _list(schema.get("enum"))
    if "const" in schema and not _same(value, schema["const"]):
        found.append(f"{where} must be {schema['const']!r}")
    if choices and not any(_same(value, choice) for choice in choices):
        found.append(f"{where} must be one of {', '.join(map(repr, choices))}")
    if isinstance(value, str):
        found += _bounds(schema, len(value), where, ("minLength", "maxLength"), " characters")
    elif isinstance(value, list):
        found += _bounds(schema, len(value), where, ("minItems", "maxItems"), " items")
        for index, item in enumerate(value):
            found += problems(schema.get("items"), item, f"{where}[{index}]")
    elif isinstance(value, dict):
        found += _object(schema, value, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _bounds(schema, value, where, ("minimum", "maximum"), "")
    return found


def with_defaults(schema: Any, value: Any) -> Any:
    """The value with the defaults of its missing properties, at any depth; nothing is changed in place."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    filled = dict(value)
    for name, inner in properties.items():
        if name in filled:
            filled[name] = with_defaults(inner, filled[name])
        elif isinstance(inner, dict) and "default" in inner:
            filled[name] = inner["default"]
    return filled


def list_secret_inputs(schema: Any) -> tuple[str, ...]:
    """The properties whose values nobody may read again (`writeOnly`): a run is given them, no journal holds them."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ()
    return tuple(name for name, one in properties.items() if isinstance(one, dict) and one.get("writeOnly") is True)


def leave_out_secrets(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what is left of an input when its secrets are taken out."""
    hidden = list_secret_inputs(schema)
    if not hidden:
        return dict(schema)
    properties = {name: one for name, one in schema["properties"].items() if name not in hidden}
    required = [name for name in _list(schema.get("required")) if name not in hidden]
    return {**schema, "properties": properties, "required": required}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _same(value: Any, other: Any) -> bool:
    """JSON's idea of equal: 1 is 1.0, but not true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES.get(name, (object,)))


def _name(value: Any) -> str:
    return next((name for name in TYPES if _is(value, name)), type(value).__name__)


def _bounds(schema: dict[str, Any], size: float, where: str, keys: tuple[str, str], unit: str) -> list[str]:
    low, high = (schema.get(key) for key in keys)
    if isinstance(low, int | float) and size < low:
        return [f"{where} must be at least {low}{unit}"]
    if isinstance(high, int | float) and size > high:
        return [f"{where} must be at most {high}{unit}"]
    return []


def _object(schema: dict[str, Any], value: dict[str, Any], where: str) -> list[str]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
    found = [f"{where}.{name} is missing" for name in required if name not in value]
    for name, inner in value.items():
        if name in properties:
            found += problems(properties[name], inner, f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}.{name} is not expected; known: {', '.join(properties) or 'nothing'}")
    return found
