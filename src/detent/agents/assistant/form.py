"""Forms and displays: what the assistant may put before a person, checked before anybody sees it.

A form has fields of eleven types and is answered against the JSON Schema made of them; a display (a table, or a drawing
in letters) needs no answer. A model writes these: whatever in one makes no sense is dropped or refused with a sentence.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from detent.core.effect_type import EffectFailed
from detent.core.question import Question

FIELD_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "textarea": {"type": "string"},
    "select": {"type": "string"},
    "radio": {"type": "string"},
    "multiselect": {"type": "array", "items": {"type": "string"}},
    "checkbox": {"type": "array", "items": {"type": "string"}},
    "number": {"type": "number"},
    "slider": {"type": "number"},
    "date": {"type": "string", "minLength": 10, "maxLength": 10},
    "datetime": {"type": "string", "minLength": 16, "maxLength": 40},
    "boolean": {"type": "boolean"},
}
DAYS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "2026-01-31"),
    "datetime": (datetime.fromisoformat, "2026-01-31T10:00"),
}
NUMBER_MAX = 1e12
ROUNDING = 1e-6  # of a step: 0.3 is three steps of 0.1
STYLES = ("primary", "default", "secondary", "danger")
ACTIONS = ("approve", "edit", "reject")
DISPLAYS = ("table", "ascii")
DISPLAY = "visual_display"
FIELDS_MAX, OPTIONS_MAX, TEXT_MAX, ROWS_MAX = 50, 200, 2000, 500
# Intents whose answers go to long-term memory, and as what.
LASTING = {"collect_preference": "preference", "collect_plan": "plan"}
DEFAULT_ACTIONS = (
    {"id": "approve", "label": "OK", "style": "primary"},
    {"id": "edit", "label": "Edit", "style": "default"},
    {"id": "reject", "label": "Cancel", "style": "secondary"},
)


def clean_request(given: dict[str, Any], ttl_s: float = 0.0) -> dict[str, Any]:
    """A request in the one form everything else reads; raises EffectFailed where nothing can be made of it.

    `ttl_s` is how long a form stands that says nothing about it; 0: until somebody answers.
    """
    if str(given.get("type")) == DISPLAY or "displays" in given:
        return _display(given)
    fields = [_field(one) for one in _list(given.get("fields"))[:FIELDS_MAX]]
    names = [field["name"] for field in fields]
    if len(set(names)) < len(names):
        raise EffectFailed("two fields of the form have one name", "validation_error")
    context = given.get("context")
    form: dict[str, Any] = {
        "type": "form",
        "title": _text(given.get("title") or given.get("message") or "A question"),
        "description": _text(given.get("description") or given.get("message") or ""),
        "fields": fields,
        "actions": [_action(one) for one in _list(given.get("actions"))[:3]] or [dict(one) for one in DEFAULT_ACTIONS],
        "context": context if isinstance(context, dict) else {},
    }
    ttl = given.get("ttl_seconds", ttl_s)
    if isinstance(ttl, int | float) and not isinstance(ttl, bool) and 0 < ttl < 1e9:
        form["ttl_seconds"] = ttl  # the contract waits as long as the form stands
    return form


def _field(given: Any) -> dict[str, Any]:
    kind = str(given.get("type", "text")) if isinstance(given, dict) else ""
    name = given.get("name") if isinstance(given, dict) else None
    if kind not in FIELD_TYPES or not isinstance(name, str) or not name.strip():
        known = ", ".join(FIELD_TYPES)
        raise EffectFailed(f"a field of the form needs a name and one of the types {known}", "validation_error")
    field: dict[str, Any] = {"name": name[:100], "type": kind, "label": _text(given.get("label") or name)}
    field["required"] = given.get("required") is True
    for key in ("placeholder", "default", "min", "max", "step"):
        if given.get(key) is not None:
            field[key] = given[key]
    options = [_option(one) for one in _list(given.get("options"))[:OPTIONS_MAX]]
    if options:
        field["options"] = options
    elif kind in ("select", "radio", "multiselect"):
        raise EffectFailed(f"the field `{name[:100]}` is a {kind} and has no options", "validation_error")
    return field


def _option(given: Any) -> dict[str, str]:
    if isinstance(given, dict):
        value = str(given.get("value", given.get("label", "")))
        return {"value": value[:200], "label": _text(given.get("label", value))}
    return {"value": str(given)[:200], "label": _text(given)}


def _action(given: Any) -> dict[str, str]:
    given = given if isinstance(given, dict) else {"id": given}
    id = str(given.get("id", given.get("action", "")))
    if id not in ACTIONS:
        raise EffectFailed(f"a form's actions are {', '.join(ACTIONS)}", "validation_error")
    style = given.get("style")
    return {"id": id, "label": _text(given.get("label", id)), "style": style if style in STYLES else "default"}


def _display(given: dict[str, Any]) -> dict[str, Any]:
    shown = []
    for one in _list(given.get("displays"))[:20]:
        data = one.get("data") if isinstance(one, dict) and isinstance(one.get("data"), dict) else one
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "table" and isinstance(data, dict):
            rows = [[_text(cell) for cell in _list(row)] for row in _list(data.get("rows"))[:ROWS_MAX]]
            table = {"headers": [_text(h) for h in _list(data.get("headers"))], "rows": rows,
                     "alignment": [str(a) for a in _list(data.get("alignment"))],
                     "caption": _text(data.get("caption", ""))}  # fmt: skip
            shown.append({"type": "table", "data": table})
        elif kind == "ascii" and isinstance(data, dict):
            content = str(data.get("content", ""))[: TEXT_MAX * 10]
            shown.append({"type": "ascii", "data": {"content": content, "title": _text(data.get("title", ""))}})
        else:
            raise EffectFailed(f"a display is one of {', '.join(DISPLAYS)}", "validation_error")
    context = given.get("context")
    return {
        "type": DISPLAY,
        "title": _text(given.get("title") or ""),
        "displays": shown,
        "context": context if isinstance(context, dict) else {},
    }


def schema(form: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema an answer must fit."""
    properties = {field["name"]: _schema(field) for field in form["fields"]}
    required = [field["name"] for field in form["fields"] if field["required"]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(field: dict[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    found: dict[str, Any] = {**FIELD_TYPES[kind], "title": field["label"], "format": kind}
    options = [option["value"] for option in field.get("options", ())]
    if kind in ("multiselect", "checkbox"):
        if not options:  # a lone checkbox is ticked or not
            found = {"type": "boolean", "title": field["label"], "format": kind}
        else:
            found["items"] = {"type": "string", "enum": options}
            found |= {"minItems": 1} if field["required"] else {}
    elif options and kind in ("select", "radio"):
        found["enum"] = options
    elif kind in ("number", "slider"):
        bounds = {"minimum": field.get("min"), "maximum": field.get("max")}
        found |= {name: value for name, value in bounds.items() if isinstance(value, int | float)}
    elif kind in ("text", "textarea") and field["required"]:
        found["minLength"] = 1
    return found


def misfits(form: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer that fits the schema: a day that is none, a step between two, only blanks."""
    found = []
    for field in form["fields"]:
        wrong = _misfit(field, data[field["name"]]) if field["name"] in data else ""
        if wrong:
            found.append(f"data.{field['name']} {wrong}")
    return found


def _misfit(field: Mapping[str, Any], value: Any) -> str:
    kind = field["type"]
    if kind in DAYS and isinstance(value, str):
        read, example = DAYS[kind]
        try:
            read(value)
        except ValueError:
            return f"must be a {kind} such as {example}"
    if kind in ("text", "textarea") and field["required"] and isinstance(value, str) and not value.strip():
        return "must not be blank"
    if kind in ("number", "slider"):
        step, low, wanted = (_number(one) for one in (field.get("step"), field.get("min", 0), value))
        if step > 0 and abs(math.remainder(wanted - low, step)) > step * ROUNDING:
            return f"must be {low:g} and whole steps of {step:g}"
    return ""


def _number(value: Any) -> float:
    """A number of a size that can be counted in steps; 0 for what is none."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and -NUMBER_MAX < value < NUMBER_MAX
    return float(value) if is_one else 0.0


def question(form: dict[str, Any], wrong: Sequence[str] = ()) -> Question:
    """The form as the question a contract waits with; `wrong` is why it is asked again."""
    text = form["title"] if not form["description"] else f"{form['title']}: {form['description']}"
    text = "\n".join([text, *wrong])
    return Question(text, "form", schema(form), expires_s=float(form.get("ttl_seconds", 0)), data={"form": form})


def render_form(form: dict[str, Any], data: dict[str, Any]) -> str:
    """A filled-in form as the message it stands for."""
    labels = {field["name"]: field["label"] for field in form["fields"]}
    lines = [f"{labels.get(name, name)}: {_render_value(value)}" for name, value in data.items()]
    return "\n".join([f"[{form['title']}]", *lines])


def _render_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return str(value if value is not None else "")[:TEXT_MAX]
