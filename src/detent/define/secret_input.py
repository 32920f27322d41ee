"""Secrets among a workflow's input: `token: secret`.

A run is given the value and no journal holds it. So a file may hand it to a call, whole, and do nothing else with it:
`{{ context.token }}` alone under `params` or `input` is short for `{secret: token}`, which the call reads when it is
made.
"""

import re
from typing import Any

from detent.core.schema import list_secret_inputs
from detent.define.compile_context import Page

SECRET = "secret"
SPELLED = {"type": "string", "format": "password", "writeOnly": True, "minLength": 1}
WHOLE = re.compile(r"\s*\{\{ *context\.([A-Za-z]\w*) *\}\}\s*", re.ASCII)
HANDED = ("params", "input")  # below these keys of an action stands what a call is given


def spell_type(schema: Any) -> Any:
    """A type as people write it, in the words of JSON Schema."""
    if schema == SECRET:
        return SPELLED
    if isinstance(schema, str):
        return {"type": schema}
    if isinstance(schema, dict) and schema.get("type") == SECRET:
        return {**schema, **SPELLED}
    return schema


def is_secret(value: Any) -> bool:
    """Whether a value stands for a secret."""
    return isinstance(value, dict) and SECRET in value and set(value) <= {SECRET, "prefix"}


def name_secrets(page: Page) -> None:
    """Put `{secret: NAME}` where a call is given a secret of the input, so that only the call reads it."""
    names = _find_names(page.value)
    if names:
        page.value = {key: one if key in HANDED else _name(one, names, False) for key, one in page.value.items()}


def _find_names(value: Any) -> frozenset[str]:
    """The secrets that a file declares, whatever else is wrong with it."""
    given = value.get("input") if isinstance(value, dict) else None
    if not isinstance(given, dict):
        return frozenset()
    properties = given.get("properties", given)
    if not isinstance(properties, dict):
        return frozenset()
    return frozenset(list_secret_inputs({"properties": {name: spell_type(one) for name, one in properties.items()}}))


def _name(value: Any, names: frozenset[str], is_handed: bool) -> Any:
    if isinstance(value, dict):
        return {key: _name(one, names, is_handed or key in HANDED) for key, one in value.items()}
    if isinstance(value, list):
        return [_name(one, names, is_handed) for one in value]
    whole = WHOLE.fullmatch(value) if is_handed and isinstance(value, str) else None
    return {SECRET: whole[1]} if whole is not None and whole[1] in names else value


def check_reads(page: Page, schema: dict[str, Any]) -> None:
    """Note every expression that reads a secret: what it gives would be journalled."""
    names = list_secret_inputs(schema)
    for name in names:
        if "default" in schema["properties"][name]:
            page.say(("input", name), f"the secret `{name}` has a default, which anybody could read", "leave it out")
    for reading in page.readings if names else ():
        for name in names:
            if any(f"{read}.".startswith(f"context.{name}.") for read in reading.reads):
                page.say(
                    reading.path,
                    f"`context.{name}` is a secret: only a call can be given it, as a whole",
                    f"write `{{{{ context.{name} }}}}` alone, or {{secret: {name}, prefix: …}}, under `params`",
                )
