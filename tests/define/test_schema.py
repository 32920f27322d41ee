"""The schema for editors says what the compiler does: the same keys, the same types, the same refusals."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from detent.define.document import read_document
from detent.define.grammar import SHAPES
from detent.define.schema import KINDS, schema
from tests.define.stage import FILES
from tests.define.test_problems import BROKEN

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
# What only the compiler can know: other parts of the file, expressions, other files.
BEYOND = tuple(
    """
a call|a quorum|an id twice|a key twice|a state twice|no initial|two initial|a join nobody|branches in|a wait|a match
half|an unknown target|an unknown source|leaving
a retry of|a condition with|a condition that imports|a condition of|a long
an unknown filter|a handler for|a fallback|another grammar|a circle|a child|for_each without|a side effect|a log of
an action without id|a variable that|for_each of|a timeout nobody|a tool with|a tool of|a private|a parallel state
for_each with|an input of|a variable of|approvers nobody|a branch of two|a branch that is called|two branches
""".strip()
    .replace("\n", "|")
    .split("|")
)
KNOWN = {
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "if",
    "then",
    "properties",
    "additionalProperties",
    "items",
}


def is_of(value: Any, type: str) -> bool:
    if isinstance(value, bool) and type in ("integer", "number"):
        return False
    return isinstance(value, TYPES[type])


def wrong(rule: Any, value: Any, whole: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a value, by the part of JSON Schema that the schema uses."""
    if rule is True or rule is False:
        if rule is False:
            yield "not allowed"
        return
    unknown = rule.keys() - KNOWN - CHECKS.keys()
    assert not unknown, f"the schema uses {unknown}"
    if "$ref" in rule:
        yield from wrong(whole["$defs"][rule["$ref"].removeprefix("#/$defs/")], value, whole)
    for name, check in CHECKS.items():
        if name in rule and not check(rule[name], value, whole):
            yield f"{name}: {json.dumps(value, default=str)[:60]}"
    if "if" in rule and not list(wrong(rule["if"], value, whole)):
        yield from wrong(rule["then"], value, whole)
    if isinstance(value, dict):
        known = rule.get("properties", {})
        for key, inner in value.items():
            if key in known or "additionalProperties" in rule:
                yield from (
                    f"{key}: {what}" for what in wrong(known.get(key, rule.get("additionalProperties")), inner, whole)
                )
    if isinstance(value, list) and "items" in rule:
        for inner in value:
            yield from wrong(rule["items"], inner, whole)


CHECKS: dict[str, Any] = {
    "type": lambda want, v, _: any(is_of(v, one) for one in (want if isinstance(want, list) else [want])),
    "enum": lambda want, v, _: any(v == one and type(v) is type(one) for one in want),
    "const": lambda want, v, _: v == want,
    "required": lambda want, v, _: not isinstance(v, dict) or all(key in v for key in want),
    "anyOf": lambda want, v, whole: any(not list(wrong(one, v, whole)) for one in want),
    "allOf": lambda want, v, whole: all(not list(wrong(one, v, whole)) for one in want),
    "pattern": lambda want, v, _: not isinstance(v, str) or re.search(want, v) is not None,
    "minimum": lambda want, v, _: not isinstance(v, (int, float)) or v >= want,
    "minLength": lambda want, v, _: not isinstance(v, str) or len(v) >= want,
    "maxLength": lambda want, v, _: not isinstance(v, str) or len(v) <= want,
    "minItems": lambda want, v, _: not isinstance(v, list) or len(v) >= want,
    "uniqueItems": lambda _want, v, _: not isinstance(v, list) or len({json.dumps(one) for one in v}) == len(v),
    "propertyNames": lambda want, v, whole: not isinstance(v, dict) or all(not list(wrong(want, k, whole)) for k in v),
    "minProperties": lambda want, v, _: not isinstance(v, dict) or len(v) >= want,
}


def problems(text: str) -> list[str]:
    whole = schema()
    return list(wrong(whole, read_document(text, "f").value, whole))


@pytest.mark.parametrize(
    "file", [file for file in sorted(FILES.glob("*.yaml")) if "seed_4" not in file.name], ids=lambda file: file.name
)
def test_a_good_file_fits_the_schema(file: Any) -> None:
    assert problems(file.read_text()) == []


def test_the_fourth_block_lacks_only_states() -> None:
    text = (FILES / "seed_4_handlers.yaml").read_text()
    (missing,) = problems(text)
    assert missing.startswith("required: ")


GRAMMAR = list(BROKEN)[list(BROKEN).index("no states") :]


@pytest.mark.parametrize("name", [name for name in GRAMMAR if not name.startswith(BEYOND)])
def test_what_the_compiler_refuses_an_editor_underlines(name: str) -> None:
    content = BROKEN[name][0]
    assert isinstance(content, str)
    assert problems(content), content


def test_every_key_of_the_grammar_is_in_the_schema_with_words() -> None:
    whole = schema()
    shapes = {"workflow": whole, **whole["$defs"]}
    for name, shape in SHAPES.items():
        assert shapes[name]["properties"].keys() == shape.keys()
        assert all(len(entry["description"]) > 5 for entry in shapes[name]["properties"].values())


def test_the_schema_is_plain_json_and_every_reference_leads_somewhere() -> None:
    whole = schema()
    text = json.dumps(whole)
    assert json.loads(text) == whole
    assert set(re.findall(r"#/\$defs/(\w+)", text)) <= whole["$defs"].keys()


def test_every_kind_of_the_table_has_a_schema() -> None:
    own = {"choice", "one", "many", "named"}
    assert {key.kind for shape in SHAPES.values() for key in shape.values()} - own == KINDS.keys()
