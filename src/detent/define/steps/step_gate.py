"""Gates: what a step asks a person, and who may answer."""

from typing import Any

from msgspec.structs import replace

from detent.core.expression.step_filter import IDENTITY
from detent.core.machine import Action
from detent.core.question import Question
from detent.core.schema import TYPES
from detent.define.compile_context import Page, kind_of
from detent.define.document import Route
from detent.define.key_check import Fields
from detent.define.machine_builder import lean
from detent.define.problem import cut
from detent.define.steps.key_table import APPROVAL, INPUT, read_fields
from detent.define.steps.reference import EITHER, escape, path_of

PLAIN = (True, "required")
DEPTH_MAX = 20


def read_approval(given: Fields, id: str) -> dict[str, Any] | None:
    """What an approval shows and who may give it; None where the step asks for none."""
    said = given.get("approval")
    if said is None or said is False or (isinstance(said, str) and not said.strip()):
        return None
    base = {"prompt": f"Approve {id}?"}
    if said in PLAIN:
        return base
    if isinstance(said, str):
        _warn_of_names(given, "approval")
        return {"prompt": said}
    policy = read_fields(given.page, given.at("approval"), said, APPROVAL, "`approval`")
    if policy is None:
        return None
    shown = {name: policy[name] for name in ("prompt", "items", "preview") if name in policy}
    if "items" in shown and not isinstance(shown["items"], list):
        given.page.warn(policy.at("items"), f"`items` is no list, but {kind_of(shown.pop('items'))}, and is not shown")
    _warn_of_names(policy, "prompt")
    return base | shown | {new: policy[old] for old, new in IDENTITY.items() if policy.get(old)}


def _warn_of_names(given: Fields, key: str) -> None:
    """The original shows a question as it is written, and so do we: whoever hopes for more is told."""
    if found := EITHER.search(str(given.get(key, ""))):
        hint = "give what it is about in `stdin`, or let the output of a step carry the question"
        given.page.warn(given.at(key), f"`{found[0]}` stays as it is in a question", hint)


def approval_question(config: dict[str, Any], text: str = "") -> Question:
    """The question of an approval; its text is the file's, or an expression."""
    who = config.get("requiredApprover", "")
    return lean(
        Question,
        text=text or escape(config["prompt"]),
        approvers=(who,) if who else (),
        separate=bool(config.get("requireDifferentApprover", False)),
        data=config,
    )


def ask_approval(name: str, config: dict[str, Any], value: str, when: str = "") -> Action:
    """A question about a value, which may carry the request itself; `value` is an expression."""
    shown = f"({value} | step_request({path_of('variables.gates', name)}, true))"
    question = approval_question(config, f"{{{{ {shown}.prompt }}}}")
    if value != "none":
        who, is_other = f"{shown}.requiredApprover", f"{shown}.requireDifferentApprover"
        terms = f"{{'approvers': [{who} | step_text] if {who} else [], 'separate': {is_other} or false}}"
        question = replace(question, terms=f"{{{{ {terms} }}}}")
    return lean(Action, id=name, effect="ask", input=f"{{{{ {shown} }}}}", ask=question, when=when)


def read_input(given: Fields) -> dict[str, Any] | None:
    """What an input step asks: prompt, schema and defaults; None after a note."""
    asked = read_fields(given.page, given.at("input"), given["input"], INPUT, "`input`")
    if asked is None or "prompt" not in asked or "responseSchema" not in asked:
        return None
    _warn_of_names(asked, "prompt")
    check_schema(given.page, asked.at("responseSchema"), asked["responseSchema"])
    return asked.values


def ask_input(name: str, asked: dict[str, Any], when: str = "") -> Action:
    """The question of an input step; what it is about is kept before it."""
    shown: dict[str, Any] = {"subject": f"{{{{ {path_of('result', name + '__subject')}.value }}}}"}
    if "defaults" in asked:
        shown["defaults"] = f"{{{{ {path_of('variables.gates', name)}.defaults }}}}"
    question = lean(Question, text=escape(asked["prompt"]), reason="form", schema=asked["responseSchema"])
    return lean(Action, id=name, effect="ask", input=shown, ask=question, when=when)


def keep_value(name: str, value: Any, when: str = "") -> Action:
    """Keep a value as a result of its own."""
    return lean(Action, id=name, effect="keep", input={"value": value}, when=when)


def check_schema(page: Page, path: Route, schema: Any, depth: int = 0) -> None:
    """Note what is no JSON Schema."""
    if not isinstance(schema, dict):
        if not (depth and isinstance(schema, bool)):
            page.say(path, f"a JSON Schema is a mapping, not {kind_of(schema)}")
        return
    said = schema.get("type", [])
    for one in said if isinstance(said, list) else [said]:
        if not isinstance(one, str) or one not in TYPES:
            page.say((*path, "type"), *page.unknown("type", cut(one), TYPES))
    shapes = {"properties": dict, "required": list, "enum": list, "anyOf": list, "oneOf": list, "allOf": list}
    for name, kind in shapes.items():
        if name in schema and not isinstance(schema[name], kind):
            page.say((*path, name), f"`{name}` must be a {'mapping' if kind is dict else 'list'}")
            return
    if depth < DEPTH_MAX:
        for name, inner in schema.get("properties", {}).items():
            check_schema(page, (*path, "properties", name), inner, depth + 1)
        if "items" in schema and not isinstance(schema["items"], list):
            check_schema(page, (*path, "items"), schema["items"], depth + 1)
