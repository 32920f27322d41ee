"""The tool calls of one answer: found in it, checked against what was offered, and put in an order.

The model proposes; a call is made only if the tool was offered and the arguments fit. Whatever is not made is told to
the model with the reason, so that none is dropped in silence.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from detent.agents.assistant import result_fact
from detent.agents.assistant.legacy_idempotency_key import STYLE, old_hash
from detent.agents.assistant.machine import CALLS_MAX
from detent.agents.assistant.user_language import pick
from detent.core.effect_type import Declared
from detent.core.expression import compile_template
from detent.core.schema import problems
from detent.core.value import canonical
from detent.effects.llm import DecodedAnswer
from detent.errors import DetentError

CONTROLS = ("irreversible", "_irreversible", "_repeat")
IDENTICAL_MAX = 3  # the same call so often in a row is made; one more ends the turn


class WantedCall(NamedTuple):
    """A call as the model wrote it; `names` are the tools it may mean, the likeliest first."""

    id: str
    names: tuple[str, ...]
    arguments: dict[str, Any]
    problem: str = ""  # why it cannot be made, known before anything was looked up


def find_calls(answer: Mapping[str, Any], said: DecodedAnswer) -> list[WantedCall]:
    """The tool calls of an answer: the protocol's own, else the one in the JSON object."""
    found, seen = list[WantedCall](), set[str]()
    for one in answer.get("tool_calls") or ():
        id = str(one["id"])
        while id in seen:  # results are told by this name, so that two calls cannot share it
            id += "_"
        seen.add(id)
        problem = str(one.get("problem") or "")
        if len(found) >= CALLS_MAX:
            problem = f"at most {CALLS_MAX} calls are made for one answer; ask for it again"
        found.append(WantedCall(id, (str(one["name"]),), dict(one.get("arguments") or {}), problem))
    if not found and said.tool_call is not None:
        name, method = said.tool_call["name"], said.tool_call["method"]
        found.append(WantedCall("", (f"{name}.{method}", name), dict(said.tool_call["arguments"])))
    return found


def is_over_limit(done: Sequence[Mapping[str, Any]], wanted: Sequence[WantedCall], at: int, limit: int) -> bool:
    """Whether one of these calls was made so often in a row that it is not made again.

    A row is broken by an answer of the model that does not ask for it: who reads, changes and reads again may go on.
    """
    call = wanted[at]
    count = 1 + sum(_is_same(call, other.names[0], other.arguments) for other in wanted[:at])
    rounds: dict[Any, list[Mapping[str, Any]]] = {}
    for number, one in enumerate(done):
        rounds.setdefault(one.get("round", f"old {number}"), []).append(one)
    for facts in reversed(rounds.values()):
        same = sum(one.get("type") == "tool_call" and _is_same(call, one["name"], one.get("asked", one["arguments"]))
                   for one in facts)  # fmt: skip
        if not same:
            break
        count += same
    return count > limit


def _is_same(call: WantedCall, name: str, arguments: Any) -> bool:
    return name in call.names and canonical(arguments) == canonical(call.arguments)


def prepare(wanted: WantedCall, tools: Sequence[Mapping[str, Any]], message: str) -> dict[str, Any] | str:
    """The call as the machine carries it out, or what is wrong with it."""
    offered = {tool["name"]: tool for tool in tools}
    tool = next((offered[name] for name in wanted.names if name in offered), None)
    if tool is None:
        return f"there is no such tool; offered: {', '.join(offered) or 'none'}"
    if wanted.problem:
        return wanted.problem
    schema, arguments = tool.get("schema") or {}, dict(wanted.arguments)
    marks = {name: arguments.pop(name, None) for name in CONTROLS if name not in (schema.get("properties") or ())}
    if wrong := problems(schema, arguments, "arguments"):
        return "; ".join(wrong[:5])
    is_marked = bool(marks.get("irreversible") or marks.get("_irreversible"))  # may only make it stricter
    is_irreversible = is_marked or _kind(tool, arguments) == "irreversible"
    try:
        key = _key(tool, arguments) if is_irreversible else ""
    except DetentError as error:
        return f"its key cannot be made: {error}"
    service, method = split_name(tool["name"])
    call = {
        "id": wanted.id,
        "name": tool["name"],
        "service": service,
        "method": method,
        "effect": tool.get("effect") or tool["name"],
        "arguments": arguments,
        "irreversible": is_irreversible,
        "way": ("keyed" if key else "call") if is_irreversible else "use",
        "key": key,
        "repeat": str(marks.get("_repeat") or "")[:500],
    }
    if wanted.arguments != arguments:
        call["asked"] = wanted.arguments
    return {**call, "question": _question(call, message)}


def arrange(calls: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The steps in which calls are made, in the model's order: harmless neighbours together, every deed alone."""
    steps: list[list[dict[str, Any]]] = []
    for call in calls:
        if steps and not call["irreversible"] and not steps[-1][0]["irreversible"]:
            steps[-1].append(call)
        else:
            steps.append([call])
    return steps


def split_name(name: str) -> tuple[str, str]:
    """A tool's service and method; one without a dot is both."""
    service, dot, method = name.partition(".")
    return (service, method) if dot and service and method else (name, name)


def _kind(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """The kind of a call with these arguments; the engine finds the same when it makes the contract."""
    said = {name: tool[name] for name in ("kind", "kind_by", "kinds") if name in tool}
    return Declared(**said).kind_of(arguments)


def _question(call: Mapping[str, Any], message: str) -> str:
    name, reason = f"{call['service']}.{call['method']}", result_fact.one_line(call["repeat"])
    asked = pick(message, f"May {name} do this? It cannot be undone.", f"可以执行 {name} 吗？此操作不可撤销。")
    if not call["repeat"]:
        return asked
    again = f" It was done before; the reason given for doing it again: {reason}"
    return asked + pick(message, again, f"以前已经执行过；再次执行的理由：{reason}")


def _key(tool: Mapping[str, Any], arguments: dict[str, Any]) -> str:
    """A tool's own idea of what makes two calls the same; empty: all of its arguments."""
    if tool.get("key"):
        value = compile_template(str(tool["key"]))({"args": arguments})
        return value if isinstance(value, str) else result_fact.one_line(value)
    return old_hash(arguments) if tool.get("key_style") == STYLE else ""
