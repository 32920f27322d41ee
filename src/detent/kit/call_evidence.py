"""What is known of a call that somebody is asked about, as rows of a label and its value.

Of a doubt that is why nobody knows, what came back all the same, and until when the call may still land. Of a deed that
was done before it is when, by whom and with which result.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detent.kit.language import _
from detent.kit.safe_text import as_json, brief, clock, visible, when

LINES_MAX = 20  # of a result
Rows = Iterator[tuple[str, str]]  # a label and its value; a value that goes on has no label of its own


def explain_doubt(question: Mapping[str, Any], command: Callable[..., str]) -> Rows:
    """What is known of a call that is in doubt, or of the same call made before; `command` writes one to paste."""
    if question["reason"] == "outcome_unknown":
        yield from _doubt(question.get("data", {}))
        yield from _tell_left_out(question.get("data", {}), command, str(question.get("run_id", "")))
    if question.get("earlier"):
        yield from _earlier(question["earlier"])
        yield from _tell_left_out(question["earlier"], command, str(question["earlier"].get("run_id", "")))


def lines_of(label: str, lines: list[str]) -> Rows:
    """A value of several lines under one label."""
    for number, line in enumerate(lines):
        yield "" if number else label, line


def _doubt(data: dict[str, Any]) -> Rows:
    """Why nobody knows whether it happened, and until when nobody can."""
    yield _("cause"), cause_of(data)
    if data.get("result") is not None:
        yield from _result(_("came back"), data["result"])
    if until := landing(data):
        yield _("may land"), until


def cause_of(data: dict[str, Any]) -> str:
    """Why a call is in doubt, on one line."""
    cause = data.get("cause")
    if not isinstance(cause, dict):
        return _("the process that made the call ended before an answer came")
    return brief(f"{cause.get('type', '')}: {cause.get('message', '')}", 500)


def landing(data: dict[str, Any]) -> str:
    """Until when a call may still land; nothing when nobody has said so."""
    until = data.get("lands_until")
    if not isinstance(until, int | float):
        return ""
    if until <= time.time():
        return _("since {clock} it can no longer be under way", clock=clock(until))
    return _(
        'until {clock} ({when}); "it did not happen" is accepted only after that', clock=clock(until), when=when(until)
    )


def _earlier(earlier: dict[str, Any]) -> Rows:
    """The same deed as it was done before, or may have been."""
    at, where = float(earlier.get("at") or 0.0), visible(str(earlier.get("contract_id", "")))
    told = {"clock": clock(at), "when": when(at), "name": where, "run_id": visible(str(earlier.get("run_id", "")))}
    if isinstance(earlier.get("until"), int | float):  # not a deed, but a time of which the journal knows nothing
        gap = {"since": clock(at), "until": clock(float(earlier["until"])), "run_id": told["run_id"]}
        yield _("before"), _("perhaps done between {since} and {until}; run {run_id} has the restore on record", **gap)
        return
    if earlier.get("status") == "completed":
        yield _("before"), _("done at {clock} ({when}) by {name} of run {run_id}", **told)
    else:
        yield _("before"), _("perhaps done at {clock} ({when}) by {name} of run {run_id}", **told)
    if earlier.get("by"):
        yield "", _("that run was started by {name}", name=visible(str(earlier["by"])))
    if earlier.get("approved_by"):
        yield "", _("it was approved by {name}", name=visible(str(earlier["approved_by"])))
    error = earlier.get("error")
    if isinstance(error, dict):
        yield _("error"), brief(f"{error.get('type', '')}: {error.get('message', '')}", 500)
    if earlier.get("result") is not None:
        yield from _result(_("result"), earlier["result"])


def _tell_left_out(data: dict[str, Any], command: Callable[..., str], run_id: str) -> Rows:
    """Where a result is that is too long to be shown with a question."""
    if data.get("is_shortened"):
        yield _("result"), _("too long to show here: {command}", command=command("log", run_id or "RUN", "--json"))


def _result(label: str, result: Any) -> Rows:
    """What a call gave; of a program, its exit code and its output as it wrote them."""
    if not isinstance(result, dict) or not ({"stdout", "stderr"} & result.keys()):
        yield from lines_of(label, _cut(as_json(result, indent=2).split("\n")))
        return
    rest = {name: value for name, value in result.items() if name not in ("stdout", "stderr")}
    yield label, brief(rest, 500)
    for name in ("stdout", "stderr"):
        if result.get(name):
            yield from lines_of(f"  {name}", _cut([visible(line) for line in str(result[name]).rstrip().split("\n")]))


def _cut(lines: list[str]) -> list[str]:
    """The last lines of many: what a program says at its end tells most."""
    if len(lines) <= LINES_MAX:
        return lines
    return [_("… {count} lines before; --json shows all", count=len(lines) - LINES_MAX), *lines[-LINES_MAX:]]
