"""The JSON Schema of workflow files, for editors: made from the grammar's table, so that both say the same."""

from typing import Any

from detent.core.schema import TYPES
from detent.define.grammar import ERROR_TYPES, SHAPES, Key, Shape
from detent.define.secret_input import SECRET

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "detent workflow"

_EXPRESSION = {"type": "string", "pattern": r"\{\{"}
_PROPERTY = {"type": ["object", "array", "string", "boolean"]}
_NAME = {"type": "string", "pattern": r"^[^\W\d]\w*$", "maxLength": 100}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "uniqueItems": True}
_ACTIONS = {"type": "array", "items": {"$ref": "#/$defs/action"}}
_BRANCH = {
    "anyOf": [
        _ACTIONS,
        {
            "type": "object",
            "properties": {
                "id": {**_NAME, "description": "The branch's name, where branches are a list."},
                "name": {**_NAME, "description": "The same as `id`."},
                "actions": {**_ACTIONS, "description": "What the branch does, in this order."},
            },
            "required": ["actions"],
        },
        {"$ref": "#/$defs/nested"},
    ]
}

KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "label": {"type": ["string", "number"]},
    "name": _NAME,
    "variable": {"type": "string", "pattern": r"^[^\W\d_]\w*(\.[^\W\d_]\w*)*$"},
    "state": _NAME,
    "states": {"anyOf": [_NAME, {"const": "*"}]},
    "effect": {"type": "string", "minLength": 1},
    "error_type": {"anyOf": [{"enum": ["*", *ERROR_TYPES]}, {"type": "string", "pattern": r"^[a-z_]+\.\w+$"}]},
    "flag": {"type": "boolean"},
    "count": {"anyOf": [{"type": "integer", "minimum": 0}, _EXPRESSION]},
    "positive": {"anyOf": [{"type": "integer", "minimum": 1}, _EXPRESSION]},
    "integer": {"anyOf": [{"type": "integer"}, _EXPRESSION]},
    "amount": {"anyOf": [{"type": "number", "minimum": 0}, _EXPRESSION]},
    "duration": {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": r"^(\s*\d+(\.\d+)?\s*(ms|min|[smhdw]))+\s*$"},
            _EXPRESSION,
        ]
    },
    "condition": {"type": ["string", "boolean"]},
    "template": {},
    "templates": {"anyOf": [{"type": ["object", "null"]}, _EXPRESSION]},
    "items": {"anyOf": [{"type": "array"}, _EXPRESSION, {"$ref": "#/$defs/action"}]},
    "plain": {"type": ["object", "null"]},
    "names": {"anyOf": [{"type": "string", "minLength": 1}, _TEXTS]},
    "numbers": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}, "minItems": 1}]},
    "schema": {
        "type": ["object", "null"],
        "additionalProperties": {"anyOf": [{"enum": list(TYPES)}, _PROPERTY]},
    },
    "inputs": {
        "type": ["object", "null"],
        "additionalProperties": {"anyOf": [{"enum": [*TYPES, SECRET]}, _PROPERTY]},
    },
    "join": {"anyOf": [{"enum": ["all", "any"]}, {"type": "integer", "minimum": 1}]},
    "path": {"type": "string", "pattern": r"\.ya?ml$"},
    "awaits": {
        "anyOf": [
            _NAME,
            {"$ref": "#/$defs/await"},
            {"type": "array", "items": {"anyOf": [_NAME, {"$ref": "#/$defs/await"}]}, "minItems": 1},
        ]
    },
    "branches": {
        "anyOf": [
            {"type": "object", "additionalProperties": _BRANCH},
            {"type": "array", "items": _BRANCH, "minItems": 1},
        ]
    },
    "approval": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/approval"}]},
    "tools": {
        "type": ["object", "null"],
        "propertyNames": _NAME,
        "additionalProperties": {"$ref": "#/$defs/tool"},
    },
    "triggers": {
        "type": ["object", "null"],
        "propertyNames": _NAME,
        "additionalProperties": {"$ref": "#/$defs/trigger"},
    },
}


def schema() -> dict[str, Any]:
    """The whole schema; every shape of the grammar is one definition."""
    shapes = {name: shape_schema(name, shape) for name, shape in SHAPES.items()}
    whole = shapes.pop("workflow")
    return {"$schema": DRAFT, "title": TITLE, **whole, "$defs": shapes}


def shape_schema(name: str, shape: Shape) -> dict[str, Any]:
    """The schema of one shape."""
    made: dict[str, Any] = {
        "type": "object",
        "properties": {key: _key(entry) for key, entry in shape.items()},
        "additionalProperties": False,
    }
    needed = [key for key, entry in shape.items() if entry.is_needed]
    if needed:
        made["required"] = needed
    if name in ("state", "limits"):
        made["type"] = ["object", "null"]
    if name == "action":
        made["anyOf"] = [{"required": [key]} for key in ("type", "tool", "python", "workflow", "for_each", "items")]
    said = {"state": "type", "action": "type", "step": "action", "handler": "action", "rule": "decision"}.get(name)
    if said:
        made["allOf"] = [_only(said, type, shape) for type in shape[said].choices]
    return made


def _only(said: str, type: str, shape: Shape) -> dict[str, Any]:
    """What a mapping of one type may not have."""
    strange = {key: False for key, entry in shape.items() if not entry.fits(type)}
    return {"if": {"properties": {said: {"const": type}}, "required": [said]}, "then": {"properties": strange}}


def _key(key: Key) -> dict[str, Any]:
    about = {"description": key.about}
    match key.kind:
        case "choice":
            return {"enum": list(key.choices), **about}
        case "one":
            return {"$ref": f"#/$defs/{key.of}", **about}
        case "many":
            return {"type": ["array", "null"], "items": {"$ref": f"#/$defs/{key.of}"}, **about}
        case "named":
            inner = {"$ref": f"#/$defs/{key.of}"}
            names = {"propertyNames": _NAME, "minProperties": 1}
            return {"type": "object", "additionalProperties": inner, **names, **about}
    return {**KINDS[key.kind], **about}
