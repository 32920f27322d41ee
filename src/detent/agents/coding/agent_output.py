"""What agents print while they work, read line by line: their words, session, cost and end. Pure functions.

A line that is no JSON object, an unknown type or a missing field is nothing to stumble over: agents change their output
between versions, and whether the work was any good is decided elsewhere.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

TEXT_MAX = 512 * 1024


class Said(msgspec.Struct, frozen=True):
    """What an agent has said and used so far."""

    text: str = ""  # its last word: the answer, or the plan
    session: str = ""
    cost_usd: float = 0.0
    tokens: int = 0
    error: str = ""
    data: dict[str, Any] = {}  # its result in the form that was asked for, where it can keep to one


# What was said, with one line more; and how that line is shown to whoever looks on, empty when it is not.
Reader = Callable[[Said, str], tuple[Said, str]]


def read(reader: Reader, lines: Iterable[str]) -> Said:
    """Everything that some lines say."""
    said = Said()
    for line in lines:
        said, _ = reader(said, line)
    return said


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line) if line.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _inner(value: Any, *names: str) -> dict[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else 0.0


def _sum(found: dict[str, Any], names: str) -> int:
    return int(sum(_number(found.get(name)) for name in names.split()))


def _result(text: str) -> dict[str, Any]:
    """The result an agent was asked for as JSON, if its last word is that."""
    value = _object(text.strip())
    return value if value.get("status") in ("done", "question", "blocked") else {}


def plain(said: Said, line: str) -> tuple[Said, str]:
    """An agent that prints text."""
    return replace(said, text=f"{said.text}{line}\n"[-TEXT_MAX:]), line


def claude(said: Said, line: str) -> tuple[Said, str]:
    """`claude -p --output-format stream-json`: system, assistant, user, and one result at the end."""
    found = _object(line)
    kind = found.get("type")
    said = replace(said, session=_text(found.get("session_id")) or said.session)
    if kind == "assistant":
        parts = _inner(found, "message").get("content")
        shown = [_claude_part(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        words = "\n".join(part for part in shown if part)
        return replace(said, text=words or said.text), words
    if kind != "result":
        return said, ""
    text = _text(found.get("result"))
    wrong = found.get("is_error") is True or str(found.get("subtype", "")).startswith("error")
    problem = text or ", ".join(str(item) for item in found.get("errors") or []) or _text(found.get("subtype"))
    used = "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens"
    structured = _inner(found, "structured_output")
    news = "" if text == said.text else text  # what it has just said is shown once
    said = replace(
        said,
        text=text or said.text,
        cost_usd=_number(found.get("total_cost_usd")),
        tokens=_sum(_inner(found, "usage"), used),
        error=problem if wrong else "",
        data=structured or _result(text),
    )
    return said, news


def _claude_part(part: dict[str, Any]) -> str:
    if part.get("type") == "text":
        return _text(part.get("text"))
    if part.get("type") != "tool_use":
        return ""
    given = _inner(part, "input")
    what = given.get("file_path") or given.get("command") or given.get("pattern") or ""
    return f"[{part.get('name')}] {what}".rstrip()


def codex(said: Said, line: str) -> tuple[Said, str]:
    """`codex exec --json`: thread.started, turn.*, item.*, error."""
    found = _object(line)
    kind = found.get("type")
    if kind == "thread.started":
        return replace(said, session=_text(found.get("thread_id"))), ""
    if kind == "turn.completed":
        return replace(
            said, tokens=said.tokens + _sum(_inner(found, "usage"), "input_tokens output_tokens"), error=""
        ), ""
    if kind in ("turn.failed", "error"):
        problem = _text(_inner(found, "error").get("message")) or _text(found.get("message")) or str(kind)
        return replace(said, error=problem), problem
    item = _inner(found, "item")
    if kind == "item.completed" and item.get("type") == "agent_message":
        text = _text(item.get("text"))
        return replace(said, text=text, data=_result(text)), text
    if kind == "item.started" and item.get("type") == "command_execution":
        return said, f"[command] {item.get('command')}"
    if kind == "item.completed" and item.get("type") == "file_change":
        changes = item.get("changes")
        paths = [str(one.get("path")) for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
        return said, f"[files] {', '.join(paths)}"
    return said, ""


def gemini(said: Said, line: str) -> tuple[Said, str]:
    """`gemini -o stream-json`: init, message (in pieces), tool_use, tool_result, error, result."""
    found = _object(line)
    kind = found.get("type")
    if kind == "init":
        return replace(said, session=_text(found.get("session_id"))), ""
    if kind == "message" and found.get("role") == "assistant":
        text = _text(found.get("content"))
        whole = said.text + text if found.get("delta") else text
        return replace(said, text=whole[-TEXT_MAX:], data=_result(whole)), text
    if kind == "tool_use":
        # What it says after a tool is a new answer.
        return replace(said, text=""), f"[{found.get('tool_name')}]"
    if kind == "error" and found.get("severity") != "warning":
        problem = _text(found.get("message"))
        return replace(said, error=problem), problem
    if kind == "result":
        stats = _inner(found, "stats")
        tokens = int(_number(stats.get("total_tokens"))) or _sum(stats, "input_tokens output_tokens")
        is_fine = found.get("status") == "success"
        problem = "" if is_fine else _text(_inner(found, "error").get("message")) or said.error or "it did not succeed"
        return replace(said, tokens=tokens, error=problem), problem
    return said, ""


def opencode(said: Said, line: str) -> tuple[Said, str]:
    """`opencode run --format json`: step_start, text, tool_use, step_finish, error; each with its session."""
    found = _object(line)
    kind, part = found.get("type"), _inner(found, "part")
    said = replace(said, session=_text(found.get("sessionID")) or said.session)
    if kind == "text":
        text = _text(part.get("text"))
        return replace(said, text=text, data=_result(text)), text
    if kind == "tool_use":
        return said, f"[{part.get('tool')}] {_text(_inner(part, 'state').get('title'))}".rstrip()
    if kind == "step_finish":
        tokens = _inner(part, "tokens")
        count = _sum(tokens, "input output reasoning") + _sum(_inner(tokens, "cache"), "read write")
        return replace(said, cost_usd=said.cost_usd + _number(part.get("cost")), tokens=said.tokens + count), ""
    if kind == "error":
        wrong = _inner(found, "error")
        problem = _text(_inner(wrong, "data").get("message")) or _text(wrong.get("name")) or "error"
        return replace(said, error=problem), problem
    return said, ""


_AIDER_COST = re.compile(r"Cost: \$(?P<message>[\d.,]+) message, \$(?P<session>[\d.,]+) session")
_AIDER_TOKENS = re.compile(r"Tokens: (?P<sent>[\d.,]+k?) sent,.*?(?P<received>[\d.,]+k?) received")
_AIDER_TROUBLE = re.compile(r"litellm\.\w*(Error|Exception)|^Invalid|^Error: |API key|^Can't initialize prompt toolkit")


def aider(said: Said, line: str) -> tuple[Said, str]:
    """`aider --message-file`: text, and a line about tokens and cost after every answer."""
    tokens, cost = _AIDER_TOKENS.search(line), _AIDER_COST.search(line)
    if tokens:
        said = replace(said, tokens=said.tokens + _thousands(tokens["sent"]) + _thousands(tokens["received"]), error="")
    if cost:
        said = replace(said, cost_usd=max(said.cost_usd, _thousands(cost["session"], 1e6) / 1e6))
    elif _AIDER_TROUBLE.search(line):
        said = replace(said, error=line.strip()[:500])
    if tokens:
        return said, line
    return plain(said, line)


def _thousands(text: str, factor: float = 1.0) -> int:
    """`1,234`, `2.1k` or `0.0042` as a number, times a factor."""
    try:
        bare = text.rstrip(".").replace(",", "")
        return round(float(bare.removesuffix("k")) * (1000 if bare.endswith("k") else 1) * factor)
    except ValueError:
        return 0
