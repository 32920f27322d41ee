"""What came of a call, as reasoning reads it: a fact with a label, never prose.

A line begins with a label only we write. What a tool gave stands behind it on the same line with its line ends shown,
so that no tool can write a line of its own.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from detent.agents.assistant.image import take_images
from detent.core.transition_choice import REJECTIONS
from detent.core.value import digest

TEXT_MAX = 8000
LABELS = {
    "completed": "SUCCESS",
    "failed": "FAILED",
    "rejected": "REJECTED",
    "cancelled": "CANCELLED",
    "waiting": "WAITING",
    "running": "IN_PROGRESS",
    "pending": "NOT_STARTED",
}
CONFIRMED, BY_POLICY, UNSURE = "human-confirmed", "allowed by policy", "outcome unknown"  # how it came to be done
NOTHING = "(it gave nothing back)"
ALREADY, DONE_BEFORE = "already_done", "REJECTED ALREADY_DONE"  # refused because it was done before, with what it gave
WARNING = "[WARNING] Something that cannot be undone has been done. Do not ask for it again."
UNKNOWN = "tool_failure.unknown_outcome"
CANCELLATIONS = ("cancelled", "timeout.approval", "timeout.event", UNKNOWN)


def status_of(outcome: Any) -> tuple[str, str]:
    """The status a result stands for, and the error message if there is one."""
    if not isinstance(outcome, Mapping) or outcome.get("success") is not False:
        return "completed", ""
    error, kind = outcome.get("error"), _kind(outcome)
    message = str(error.get("message") or kind) if isinstance(error, Mapping) else str(error or "it reported an error")
    if kind in REJECTIONS:
        return "rejected", message
    return ("cancelled" if kind in CANCELLATIONS else "failed"), message


def consequence(
    summary: str, status: str, *, irreversible: bool, was_suspended: bool, result: Any = None, error: str = ""
) -> dict[str, Any]:
    """The consequence view: all that reasoning is told of a contract."""
    return {
        "consequence_label": LABELS[status],
        "has_side_effects": irreversible and status == "completed",
        "was_suspended": was_suspended,
        "is_still_pending": status in ("pending", "running", "waiting"),
        "action_summary": summary,
        "result": result,
        "error_message": error or None,
    }


def how(allowed_by: str, *, is_doubtful: bool = False) -> str:
    """What a line says of a deed that waited: a rule's yes is nobody's, and a doubt is no confirmation."""
    if is_doubtful:
        return UNSURE
    return BY_POLICY if allowed_by.startswith("policy:") else CONFIRMED


def line(view: Mapping[str, Any], came_by: str = CONFIRMED, *, is_already: bool = False) -> str:
    """One line for the model: `[SUCCESS IRREVERSIBLE (human-confirmed)] email.send: …`."""
    label = view["consequence_label"]
    is_done = label == "SUCCESS"
    if view["has_side_effects"]:
        label += " IRREVERSIBLE"
    if view["was_suspended"] and is_done:
        label += f" ({came_by})"
    said = view["result"] if is_done else view["error_message"]
    told = NOTHING if is_done and said in (None, {}) else one_line(said)
    if is_already:
        label, told = DONE_BEFORE, f"{told}; it gave: {NOTHING if view['result'] is None else one_line(view['result'])}"
    return f"[{label}] {one_line(view['action_summary'])}: {told}"


def lines(facts: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of several facts, with a warning where something cannot be undone."""
    found = list(facts)
    said = [one["line"] for one in found]
    return [*said, WARNING] if any(one["view"]["has_side_effects"] for one in found) else said


def one_line(value: Any) -> str:
    """A value as text on one line; what would end the line is shown instead."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}… ({len(text) - TEXT_MAX} more characters)"
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def make_fact(call: Mapping[str, Any], outcomes: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """The fact of one call, from what its contract gave and what people said about it."""
    way = str(call.get("way", "use"))
    outcome = outcomes.get(way)
    status, error = status_of(outcome)
    said = answers.get(way)
    said = said if isinstance(said, Mapping) else {}
    arguments = call["arguments"]
    edited = said.get("args")
    bound = digest([call["effect"], arguments])
    was_asked = way != "use" or (said.get("call_hash") in (bound, "") and bool(said))
    is_theirs = said.get("call_hash", bound) == bound
    if isinstance(edited, dict) and is_theirs and status == "completed":
        arguments = edited
    result, images = take_images(_bare(outcome) if status == "completed" else _strip_failure(outcome))
    view = consequence(
        f"{call['service']}.{call['method']}",
        status,
        irreversible=bool(call.get("irreversible")),
        was_suspended=was_asked,
        result=result,
        error=error,
    )
    came_by = how(str(said.get("by") or ""), is_doubtful=is_theirs and said.get("outcome") == "happened")
    is_already = _kind(outcome) == ALREADY
    kept = ("id", "name", "service", "method", "said", "round", "place", "asked")
    made = {name: call[name] for name in kept if name in call}
    shown = {"images": images} if images else {}
    return {"said": "", **made, "arguments": arguments, "type": "tool_call", "view": view,
            "line": line(view, came_by, is_already=is_already), **shown}  # fmt: skip


def of_steps(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The facts of calls that were made in steps; one that was never reached is told as such."""
    came = {one["no"]: one for one in _each_outcome(given.get("came"))}
    error = given.get("error")
    for call in (call for step in given.get("steps") or () for call in step):
        found = came.get(call["no"])
        if found is None:
            why = f": {error['message']}" if isinstance(error, Mapping) and error.get("message") else ""
            failure = {"type": "cancelled", "message": f"it was not made{why}"}
            found = {"outcome": {"success": False, "error": failure}, "answer": None}
        yield make_fact(call, {call["way"]: found["outcome"]}, {call["way"]: found["answer"]})


def _each_outcome(came: Any) -> Iterator[Mapping[str, Any]]:
    """What the branches kept, whatever shape those have that did not come to their end."""
    for step in _items(came):
        for one in _items(step):
            kept = one.get("value") if isinstance(one, Mapping) else None
            if isinstance(kept, Mapping) and "no" in kept:
                yield kept


def _items(value: Any) -> list[Any]:
    found = value.get("items") if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _kind(outcome: Any) -> str:
    """The type of error in a result, if there is one."""
    error = outcome.get("error") if isinstance(outcome, Mapping) else None
    return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def _strip_failure(outcome: Any) -> Any:
    """What a call that did not succeed gave all the same, without what the engine says of it."""
    rest = {name: value for name, value in outcome.items() if name not in ("success", "error")} if outcome else {}
    return rest.get("result") if rest.keys() <= {"result"} else rest


def _bare(outcome: Any) -> Any:
    """A result as the tool gave it: the engine's mark of success is not part of it."""
    if not isinstance(outcome, Mapping) or outcome.get("success") is not True:
        return outcome
    rest = {name: value for name, value in outcome.items() if name != "success"}
    return rest["value"] if rest.keys() == {"value"} else rest
