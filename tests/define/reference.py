"""The reference of workflow files as Markdown, made from the grammar's table so that both say the same."""

from detent.core.expression.filter import TESTS
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
    "tool": "A tool",
    "probe": "`probe` of a tool",
    "group": "`group`",
    "trigger": "A trigger",
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
    "inputs": "JSON Schema, or names with types or `secret`",
    "join": "`all`, `any` or a number",
    "path": "file",
    "awaits": "event, or list of events",
    "branches": "mapping by name, or list whose items have `id` (or `name`)",
    "approval": "true, or a mapping (below)",
    "one": "mapping (below)",
    "many": "list (below)",
    "named": "mapping by name (below)",
    "tools": "mapping by name (below)",
    "triggers": "mapping by name (below)",
}

# By the name of the filter: how it is called, and what it gives.
FILTER_WORDS = {
    "default": (
        "default(other)",
        "the value, or `other` where it is null; `default(other, true)`: also where it is empty",
    ),
    "d": ("d(other)", "the same"),
    "length": ("length", "how many items, letters or keys"),
    "count": ("count", "the same"),
    "lower": ("lower", "the text in small letters"),
    "upper": ("upper", "the text in capitals"),
    "trim": ("trim", "the text without blanks around it"),
    "title": ("title", "the text with a capital for every word"),
    "capitalize": ("capitalize", "the text with a capital at its beginning"),
    "join": ("join(between)", "the items as one text"),
    "split": ("split(at)", "the parts of a text; without `at`, its words"),
    "replace": ("replace(old, new)", "the text with another in the place of each `old`"),
    "truncate": ("truncate(length)", "the text, cut to a length"),
    "round": ("round(digits)", "the number, rounded; `round(0, 'floor')` and `'ceil'` down and up"),
    "int": ("int(other)", "a whole number, or `other` (0) if it is not one"),
    "float": ("float(other)", "a number, or `other` (0.0) if it is not one"),
    "string": ("string", "the value as a text"),
    "abs": ("abs", "the number without its sign"),
    "first": ("first", "the first item"),
    "last": ("last", "the last item"),
    "min": ("min", "the smallest item"),
    "max": ("max", "the largest item"),
    "sum": ("sum(attribute=name)", "the items added up, or what each has under a name"),
    "sort": ("sort(attribute=name)", "the items in order; `sort(true)` backwards"),
    "unique": ("unique", "each item once"),
    "reverse": ("reverse", "the items or letters backwards"),
    "keys": ("keys", "the keys of a mapping"),
    "values": ("values", "its values"),
    "items": ("items", "its pairs, each a list of two"),
    "list": ("list", "the items of a list, the letters of a text, the keys of a mapping"),
    "tojson": ("tojson", "the value as JSON"),
    "fromjson": ("fromjson", "the value of a JSON text; an error if it is not JSON"),
    "map": ("map(attribute=name)", "what each item has under a name"),
    "selectattr": (
        "selectattr(name, test, value)",
        "the items whose `name` passes a test, as in `selectattr('age', 'gt', 17)`",
    ),
    "rejectattr": ("rejectattr(name, test, value)", "the others"),
    "get": ("get(key, other)", "what a mapping has under a key, or `other`"),
    "sha256": ("sha256", "the hash of a text"),
}


def reference() -> str:
    """Every shape of the grammar with its keys, the error types, and what an expression can read."""
    parts = [f"## {TITLES[name]}\n\n{_table(shape)}" for name, shape in SHAPES.items()]
    errors = ", ".join(f"`{name}`" for name in ERROR_TYPES)
    roots = ", ".join(f"`{name}`" for name in ROOTS)
    parts.append(f"## Error types\n\nA handler that names a type takes its dotted children too: {errors}.\n")
    parts.append(f"## What an expression can read\n\n{roots}.\n")
    filters = "\n".join(f"| `{call}` | {about} |" for call, about in FILTER_WORDS.values())
    tests = ", ".join(f"`{name}`" for name in TESTS)
    parts.append(f"## Filters\n\n| filter | what it gives |\n|---|---|\n{filters}\n\nTests, after `is`: {tests}.\n")
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
