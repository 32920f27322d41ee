"""Beginning a turn: its run's name and input, made of the message, the session's past and the tools on offer."""

import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detent.agents.assistant import result_fact
from detent.agents.assistant.compaction import measure
from detent.agents.assistant.execution_ledger import Ledger
from detent.agents.assistant.view import consequence, dialogue
from detent.core.effect_type import Effect
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import Refused

HISTORY_MAX, HISTORY_TEXT_MAX = 40, 100_000  # of a history that a client sends, which nobody summarises
MESSAGE_MAX = 200_000
COMPACT_AT = 60_000  # characters of a session's own history; then the oldest part is summarised
HISTORY_CHARACTERS_MAX = 1_000_000  # beyond that even a history without a summary is cut
ROLES = ("user", "assistant")
SETTINGS: dict[str, Any] = {"intent": "model", "emotion_threshold": 0.5}
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}\Z")
_TOOL_KEYS = ("key", "key_style", "schema", "description", "kind")


def new_session() -> str:
    """A name for a conversation nobody has named."""
    return secrets.token_hex(4)


def check_session(name: str) -> str:
    """The session's name, if it can be one."""
    if not _SESSION.match(name):
        raise Refused(f"{name[:80]!r} is not a session: letters, digits, `-` and `_`, at most 60")
    return name


def new_turn(session: str) -> str:
    """The id of the next run of a session: in the order of time, and alone."""
    return f"{session}-{time.time_ns() // 1_000_000:011x}{secrets.token_hex(2)}"


def turn_input(
    message: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    history: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
    images: Sequence[Mapping[str, Any]] = (),
    facts: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The input of a turn's run; `facts` are of earlier turns that could not keep them, and are kept by this one.

    Without a message the turn only summarises what was said so far.
    """
    if len(message) > MESSAGE_MAX:
        raise Refused(f"the message has {len(message):,} characters; at most {MESSAGE_MAX:,} are taken")
    told = bound_history(history, HISTORY_CHARACTERS_MAX)
    is_long = measure(told) > int((settings or {}).get("compact_at") or COMPACT_AT)
    return {
        "message": message,
        "history": told,
        **({"must_compact": True} if is_long or not message else {}),
        "tools": [dict(tool) for tool in tools],
        "settings": {**SETTINGS, **(settings or {})},
        "images": [dict(image) for image in images],
        "executions": [],
        "call": {},
        "form": {},
        "turn": 0,
        "facts": [dict(one) for one in facts],
    }


def bound_history(history: Sequence[Mapping[str, Any]], room: int) -> list[dict[str, str]]:
    """The latest of what was said, as much as there is room for."""
    kept: list[dict[str, str]] = []
    left = room
    for one in reversed(history):
        content = str(one.get("content", ""))
        left -= len(content)
        if left < 0:
            break
        kept.append({"role": str(one.get("role", "user")), "content": content})
    return kept[::-1]


def from_client(history: Any) -> list[dict[str, str]]:
    """A history that somebody outside sends: people and the assistant speak in it, nobody else."""
    given = history if isinstance(history, list) else []
    found = [{"role": one["role"], "content": str(one.get("content", ""))} for one in given
             if isinstance(one, dict) and one.get("role") in ROLES]  # fmt: skip
    return bound_history(found[-HISTORY_MAX:], HISTORY_TEXT_MAX)


def past(runs: Sequence[Run]) -> list[dict[str, str]]:
    """The dialogue of a session, given its latest turns (newest first): what was answered late comes last."""
    if not runs:
        return []
    newest, *older = runs
    said = dialogue(newest)
    for run in reversed(older):
        if run.at > newest.started_at and run.context.get("response"):
            facts = "\n".join(one["line"] for one in run.context.get("executions") or ())
            said += [{"role": "system", "content": facts}] if facts else []
            said.append({"role": "assistant", "content": run.context["response"]})
    return bound_history(said, HISTORY_CHARACTERS_MAX)


def find_cancelled_calls(run: Run, ledger: Ledger) -> list[dict[str, Any]]:
    """The facts of the calls that a turn had under way when it was cancelled from outside: no node came after them."""
    if run.ended is not Status.CANCELLED or run.state != "tools":
        return []
    calls = [one for one in ledger.executions.values() if one.type == "tool_call" and one.created_at >= run.entered_at]
    views = [(one, consequence(one, ledger)) for one in calls]
    return [{"category": "execution", "key": view["action_summary"], "value": result_fact.line(view), "source": one.id}
            for one, view in views]  # fmt: skip


def tool_of(effect: Effect, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An effect as the model is offered it; settings may only make it stricter."""
    given = {name: value for name, value in (settings or {}).items() if name in _TOOL_KEYS}
    about: dict[str, Any] = {"name": effect.name, "description": effect.about, "schema": effect.schema}
    if given.get("kind") == "irreversible":
        return {**about, **given}
    declared = effect.declared
    by_argument = {"kind_by": declared.kind_by, "kinds": declared.kinds} if declared.kind_by else {}
    return {**about, **given, "kind": declared.kind, **by_argument}


def offer_tools(effects: Iterable[Effect], settings: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """These effects as tools; the assistant's own are never among them."""
    known = settings or {}
    return [tool_of(effect, known.get(effect.name)) for effect in effects if not effect.name.startswith("assistant.")]
