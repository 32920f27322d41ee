"""The JSON Schema of `steps:` files, for editors: made from the table of keys, so that both say the same."""

from typing import Any

from detent.define.grammar import TRIGGER, Key
from detent.define.schema import DRAFT, KINDS, shape_schema
from detent.define.steps.key_table import MILLISECONDS_MAX, SHAPES

_TIME = {"type": "integer", "minimum": 1, "maximum": MILLISECONDS_MAX}
_PAUSE = {"type": "number", "minimum": 0, "maximum": MILLISECONDS_MAX}
_CONDITION = {"type": ["string", "boolean"]}
_TEXTS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_ARGUMENT = {"type": ["object", "null"], "properties": {"default": {}, "description": {"type": "string"}}}
SPECIAL: dict[str, dict[str, Any]] = {
    "timeout_ms": _TIME,
    "pause_ms": _PAUSE,
    "delay_ms": _PAUSE,
    "max_delay_ms": _PAUSE,
    "when": _CONDITION,
    "condition": _CONDITION,
    "env": _TEXTS,
    "args": {"type": "object", "additionalProperties": _ARGUMENT},
    "workflow_args": {"type": "object"},
    "approval": {"anyOf": [{"type": ["boolean", "string"]}, {"$ref": "#/$defs/approval"}]},
    "responseSchema": {"type": "object"},
    "items": {"type": "array"},
    "stdin": {},
    "defaults": {},
}


def steps_schema() -> dict[str, Any]:
    """The whole schema; every mapping of the grammar is one definition."""
    shapes = {
        name: {
            "type": "object",
            "properties": {key: _describe(key, entry) for key, entry in shape.items()},
            **({"required": needed} if (needed := [key for key, entry in shape.items() if entry.is_needed]) else {}),
        }
        for name, shape in SHAPES.items()
    }
    shapes["trigger"] = shape_schema("trigger", TRIGGER)
    whole = shapes.pop("file")
    return {"$schema": DRAFT, "title": "detent steps", **whole, "$defs": shapes}


def _describe(name: str, key: Key) -> dict[str, Any]:
    about = {"description": key.about}
    if name in SPECIAL:
        return {**SPECIAL[name], **about}
    match key.kind:
        case "choice":
            return {"enum": list(key.choices), **about}
        case "one":
            return {"$ref": f"#/$defs/{key.of}", **about}
        case "many":
            return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{key.of}"}, **about}
    return {**KINDS[key.kind], **about}
