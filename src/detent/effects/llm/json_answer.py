"""The one-JSON-object form of an answer, for models without tool calls and clients that speak it.

    {"response": "…",
     "emotion": {"primary", "category", "confidence", "indicators"},
     "memory_update": {"should_store", "entries": [{"category", "key", "value"}]},
     "tool_call": {"name", "method", "arguments"},        optional; `method` is `name` when left out
     "ecs_request": {…}}                                  optional; a form

A Markdown fence around the object is accepted. An answer that is no such object is the response text as it stands:
a model's words are never an error, and never more than words.
"""

import re
from typing import Any

import msgspec

from detent.core.value import scrub

ENTRIES_MAX = 100
_FENCE = re.compile(r"\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(?P<inside>.*?)\r?\n?[ \t]*```\s*", re.DOTALL)


class DecodedAnswer(msgspec.Struct, frozen=True):
    """What an answer in this form says; parts that are missing or misshapen are None or empty."""

    response: str = ""
    emotion: dict[str, Any] | None = None
    memories: tuple[dict[str, str], ...] = ()  # category, key, value; empty unless `should_store`
    tool_call: dict[str, Any] | None = None  # name, method, arguments
    ecs_request: dict[str, Any] | None = None
    is_object: bool = False


def decode_json(text: str) -> Any:
    """The JSON value of an answer, with or without a fence around it; None when it is no JSON."""
    fenced = _FENCE.fullmatch(text)
    try:
        return msgspec.json.decode(scrub(fenced["inside"] if fenced else text))
    except (msgspec.DecodeError, RecursionError):
        return None


def read_answer(text: str) -> DecodedAnswer:
    """Read an answer."""
    value = decode_json(text)
    if not isinstance(value, dict) or not value.keys() & {"response", "tool_call", "ecs_request"}:
        return DecodedAnswer(text)
    response = value.get("response")
    return DecodedAnswer(
        response if isinstance(response, str) else "",
        _emotion(value.get("emotion")),
        _memories(value.get("memory_update")),
        _tool_call(value.get("tool_call")),
        value["ecs_request"] if isinstance(value.get("ecs_request"), dict) and value["ecs_request"] else None,
        is_object=True,
    )


def _emotion(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or not isinstance(value.get("primary"), str):
        return None
    confidence, indicators = value.get("confidence"), value.get("indicators")
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    return {
        "primary": value["primary"],
        "category": value["category"] if isinstance(value.get("category"), str) else "",
        "confidence": min(max(float(confidence), 0.0), 1.0) if is_number and confidence is not None else 0.0,
        "indicators": [one for one in indicators if isinstance(one, str)] if isinstance(indicators, list) else [],
    }


def _memories(value: Any) -> tuple[dict[str, str], ...]:
    if not isinstance(value, dict) or value.get("should_store") is not True:
        return ()
    entries = value.get("entries")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    wanted = ("category", "key", "value")
    whole = [entry for entry in found if all(isinstance(entry.get(name), str) for name in wanted)]
    return tuple({name: entry[name] for name in wanted} for entry in whole[:ENTRIES_MAX])


def _tool_call(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    arguments, method = value.get("arguments"), value.get("method")
    return {
        "name": value["name"],
        "method": method if isinstance(method, str) and method else value["name"],
        "arguments": arguments if isinstance(arguments, dict) else {},
    }
