"""A model made of rules, for examples, tests and machines without any model: the same words get the same answer.

The rules are data (`rules.json`; DETENT_RULES names a file of the same form to use instead): the first rule whose
pattern is found in the user's last message, and whose tool is offered, gives the answer. After a tool's result it says
what came of it. It never invents: what no rule knows is answered with how to configure a real model.
"""

import functools
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from detent.effects.arguments import invalid
from detent.effects.llm.model import Hear, Message, Reply, Request, ToolCall

OWN_RULES = "DETENT_RULES"
TEXT_READ_MAX = 2000  # patterns are not run over more than that
RESULT_MAX = 1000
HOW = (
    "set DETENT_MODEL (openai:NAME or anthropic:NAME) with the provider's key, or DETENT_BASE_URL; see `detent doctor`"
)

_LINE = re.compile(r"^\[(?P<label>REJECTED ALREADY_DONE|[A-Z_]+)[^\]]*\]\s*(?P<rest>.*)$", re.MULTILINE)
_FIELD = re.compile(r"\{(?P<name>\w+)(?:\|(?P<default>[^}]*))?\}")
_CHINESE = re.compile("[\u4e00-\u9fff]")
LABELS = {
    "SUCCESS": "done",
    "FAILED": "failed",
    "REJECTED": "rejected",
    "REJECTED ALREADY_DONE": "already",
    "CANCELLED": "rejected",
    "WAITING": "unknown",
}


class AnswerRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to answer when a pattern is found."""

    when: str
    about: str = ""
    tool: list[str] = []  # the first of these that is offered
    arguments: dict[str, Any] = {}
    text: str = ""
    json: Any = None
    again: bool = False  # do what the message before asked for


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules, and the sentences for what none of them knows."""

    rules: list[AnswerRule]
    results: dict[str, dict[str, str]] = {}
    otherwise: dict[str, str] = {}


class Rules:
    """The model `builtin:rules`."""

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Apply the first rule that fits."""
        reply = _answer(_book(os.environ.get(OWN_RULES, "")), request)
        if reply.text:
            hear(reply.text)
        return reply


def _answer(book: Book, request: Request) -> Reply:
    said = [message for message in request.messages if message.role == "user"]
    asked = said[-1].text if said else ""
    language = "zh" if _CHINESE.search(asked) else "en"
    after = _after(request.messages)
    if after is not None and request.schema is None:
        kind, result = after
        text = book.results.get(language, {}).get(kind, "{result}")
        return _reply(text.replace("{result}", result[:RESULT_MAX]))
    offered = {tool.name for tool in request.tools}
    for rule, found in _matches(book, [message.text for message in said]):
        if request.schema is not None:
            if rule.json is not None:
                return _reply(msgspec.json.encode(_fill(rule.json, found)).decode())
        elif rule.tool:
            name = next((one for one in rule.tool if one in offered), "")
            if name:
                number = sum(len(message.tool_calls) for message in request.messages) + 1
                call = ToolCall(f"call_{number}", name, _fill(rule.arguments, found))
                return _reply(_fill(rule.text, found), call)
        elif rule.json is None:
            return _reply(_fill(rule.text, found))
    if request.schema is not None:
        return _reply(msgspec.json.encode(_smallest(request.schema)).decode())
    return _reply(book.otherwise.get(language, "{how}").replace("{how}", HOW))


def _matches(book: Book, texts: list[str]) -> list[tuple[AnswerRule, dict[str, str]]]:
    """The rules that fit the last text; one that says `again` stands for those of the text before it."""
    found: list[tuple[AnswerRule, dict[str, str]]] = []
    for rule in book.rules if texts else ():
        match = _pattern(rule.when).search(texts[-1][:TEXT_READ_MAX])
        if match and rule.again:
            found += _matches(book, texts[:-1])
        elif match:
            found.append((rule, {name: value.strip() for name, value in match.groupdict(default="").items()}))
    return found


def _after(messages: tuple[Message, ...]) -> tuple[str, str] | None:
    """What came of a tool, if that is the last thing that was said."""
    last = messages[-1] if messages else None
    if last is None or last.role == "assistant":
        return None
    lines = _LINE.findall(last.text)
    known = [(LABELS[label], rest) for label, rest in lines if label in LABELS]
    if known:
        kind = next((kind for kind, _ in known if kind != "done"), "done")
        return kind, "; ".join(rest for _, rest in known)
    return ("done", last.text) if last.role == "tool" else None


def _fill(value: Any, found: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _FIELD.sub(lambda field: found.get(field["name"]) or field["default"] or "", value)
    if isinstance(value, list):
        return [_fill(one, found) for one in value]
    return {name: _fill(one, found) for name, one in value.items()} if isinstance(value, dict) else value


def _reply(text: str, *calls: ToolCall) -> Reply:
    return Reply(text, calls, "rules", "tool_calls" if calls else "stop", 0, 0)


def _smallest(schema: Any, depth: int = 0) -> Any:
    """The plainest value a schema allows, as far as that can be told simply."""
    if not isinstance(schema, dict) or depth > 16:
        return None
    for known in ("const", "default"):
        if known in schema:
            return schema[known]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties: dict[str, Any] = schema.get("properties") or {}
        wanted: list[str] = schema.get("required") or list(properties)
        return {name: _smallest(properties.get(name), depth + 1) for name in wanted}
    if kind == "array":
        return [_smallest(schema.get("items"), depth + 1)] * int(schema.get("minItems", 0))
    if kind == "string":
        return " " * int(schema.get("minLength", 0))
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return False if kind == "boolean" else None


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _book(file: str) -> Book:
    if not file:
        return _builtin()
    try:
        book = msgspec.json.decode(Path(file).read_bytes(), type=Book)
        for rule in book.rules:
            _pattern(rule.when)
    except (OSError, msgspec.DecodeError, re.error) as error:
        example = '{"rules": [{"when": "PATTERN", "text": "ANSWER"}]}'
        raise invalid(f"{OWN_RULES}={file}: {error}; it is a JSON file like {example}") from error
    return book


@functools.cache
def _builtin() -> Book:
    return msgspec.json.decode(files(__package__).joinpath("rules.json").read_bytes(), type=Book)
