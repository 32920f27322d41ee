"""The reference of workflow files as Markdown, made from the grammar's table so that both say the same."""

from detent.define.grammar import ERROR_TYPES, ROOTS, SHAPES, Key

BEGIN, END = "<!-- made from the grammar, do not edit -->", "<!-- made from the grammar, to here -->"

TITLES = {
    "workflow": "The file",
    "nested": "A branch with states of its own",
    "state": "A state",
    "action": "An action",
    "transition": "A transition",
    "step": "A step of `on_transition`",
    "handler": "An error handler",
    "retry": "`retry` of an action",
    "approval": "`approval` of an action",
    "limits": "`limits`",
    "await": "An event under `for`",
}
WORDS = {
    "text": "text",
    "label": "text or number",
    "name": "name",
    "variable": "names joined by dots",
    "state": "state",
    "states": "state or `*`",
    "effect": "tool, or expression",
    "error_type": "error type or `*`",
    "flag": "true or false",
    "count": "whole number, 0 or more",
    "positive": "whole number, 1 or more",
    "integer": "whole number",
    "amount": "number, 0 or more",
    "duration": "seconds, or `90s`, `15m`, `2h`, `7d`",
    "condition": "expression, yes or no",
    "template": "any value, with expressions",
    "templates": "mapping, with expressions",
    "items": "list, or expression",
    "plain": "mapping",
    "names": "text or list of texts",
    "numbers": "whole number or list of them",
    "schema": "JSON Schema, or names with types",
    "join": "`all`, `any` or a number",
    "path": "file",
    "awaits": "event, or list of events",
    "branches": "mapping by name, or list whose items have `id` (or `name`)",
    "approval": "true, or a mapping (below)",
    "one": "mapping (below)",
    "many": "list (below)",
    "named": "mapping by name (below)",
}


def reference() -> str:
    """Every shape of the grammar with its keys, the error types, and what an expression can read."""
    parts = [f"## {TITLES[name]}\n\n{_table(shape)}" for name, shape in SHAPES.items()]
    errors = ", ".join(f"`{name}`" for name in ERROR_TYPES)
    roots = ", ".join(f"`{name}`" for name in ROOTS)
    parts.append(f"## Error types\n\nA handler that names a type takes its dotted children too: {errors}.\n")
    parts.append(f"## What an expression can read\n\n{roots}.\n")
    return "\n".join(parts)


def renewed(page: str) -> str:
    """A page with the part between the two marks made anew."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{rest.partition(END)[2]}"


def _table(shape: dict[str, Key]) -> str:
    rows = [f"| `{name}` | {_kind(key)} | {_about(key)} |" for name, key in shape.items()]
    return "\n".join(["| key | value | meaning |", "|---|---|---|", *rows, ""])


def _kind(key: Key) -> str:
    return ", ".join(f"`{one}`" for one in key.choices) if key.kind == "choice" else WORDS[key.kind]


def _about(key: Key) -> str:
    needed = "**Required.** " if key.is_needed else ""
    only = f" Only for {', '.join(f'`{one}`' for one in key.types)}." if key.types else ""
    return f"{needed}{key.about}{only}".replace("|", "\\|")
