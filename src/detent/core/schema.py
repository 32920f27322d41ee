"""Checking a form's data against the part of JSON Schema that forms use; every problem at once.

Regular expressions are left out on purpose: a hostile pattern can take for ever.
"""

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


def problems(schema: dict[str, Any], value: Any, where: str = "data") -> list[str]:
    """What is wrong with `value`, as sentences; empty when it fits."""
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if names and not any(_is(value, name) for name in names):
        return [f"{where} must be {' or '.join(names)}, not {_name(value)}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{where} must be {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} must be one of {', '.join(map(repr, schema['enum']))}")
    if isinstance(value, str):
        found += _bounds(schema, len(value), where, ("minLength", "maxLength"), "characters")
    elif isinstance(value, list):
        found += _bounds(schema, len(value), where, ("minItems", "maxItems"), "items")
        found += [p for i, v in enumerate(value) for p in problems(schema.get("items") or {}, v, f"{where}[{i}]")]
    elif isinstance(value, dict):
        found += _object(schema, value, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found += _bounds(schema, value, where, ("minimum", "maximum"), "")
    return found


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
    unit = f" {unit}" if unit else ""
    if isinstance(low, (int, float)) and size < low:
        return [f"{where} must be at least {low}{unit}"]
    if isinstance(high, (int, float)) and size > high:
        return [f"{where} must be at most {high}{unit}"]
    return []


def _object(schema: dict[str, Any], value: dict[str, Any], where: str) -> list[str]:
    properties = schema.get("properties") or {}
    found = [f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, inner in value.items():
        if name in properties:
            found += problems(properties[name], inner, f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}.{name} is not expected; known: {', '.join(properties) or 'nothing'}")
    return found
