"""Asking at a terminal for what a run must be given and was not."""

import os
import sys
from typing import Any

import click

from detent.core.schema import list_secret_inputs, problems
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.option import parse_json

KINDS = {"integer": int, "number": float, "string": str}


def list_missing(schema: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """What must be given, has no default, and is not there."""
    known, hidden = schema.get("properties", {}), list_secret_inputs(schema)
    return [
        name
        for name in schema.get("required", ())
        if name not in values and "default" not in known.get(name, {}) and not (name in hidden and name in os.environ)
    ]


def can_ask() -> bool:
    """Whether somebody sits at a keyboard."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_missing(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values with what somebody has typed for each that was missing."""
    properties = schema.get("properties", {})
    asked = {name: _ask(name, properties.get(name, {})) for name in list_missing(schema, values)}
    return {**values, **asked}


def _ask(name: str, schema: dict[str, Any]) -> Any:
    about = f"{name} ({schema['description']})" if schema.get("description") else name
    while True:
        value = _ask_once(visible(about), schema)
        wrong = problems(schema, value, name)
        if not wrong:
            return value
        click.echo(visible("; ".join(wrong)), err=True)


def _ask_once(about: str, schema: dict[str, Any]) -> Any:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        by_text = {str(choice): choice for choice in choices}
        return by_text[click.prompt(about, type=click.Choice(list(by_text)), err=True)]
    kind = schema.get("type")
    if kind == "boolean":
        return click.confirm(about, err=True)
    if isinstance(kind, str) and kind in KINDS:
        return click.prompt(about, type=KINDS[kind], err=True, hide_input=schema.get("writeOnly") is True)
    while True:
        try:
            return parse_json(click.prompt(_("{name}, as JSON", name=about), err=True), about)
        except click.UsageError as error:
            click.echo(visible(error.format_message()), err=True)
