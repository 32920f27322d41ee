"""What went wrong, in one line for a person or one object for a machine; never a traceback for a user's mistake."""

import os
import sys
from typing import Any

from detent.define.problem import BrokenDefinition
from detent.errors import (
    DefinitionError,
    DetentError,
    EventRefused,
    JournalError,
    MaybeDone,
    NoAnswer,
    NotPermitted,
    NotWaiting,
    Refused,
    ReplayError,
    Unknown,
)
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.safe_text import near, silence, visible
from detent.kit.terminal.caller import Caller, emit, show_line
from detent.kit.terminal.exit_code import DEBUG, FAILED, INTERRUPTED, MISTAKE

TYPES: list[tuple[type[BaseException], str, int]] = [
    (DefinitionError, "definition_error", MISTAKE),
    (EventRefused, "event_refused", MISTAKE),
    (NotWaiting, "not_waiting", MISTAKE),
    (NotPermitted, "not_permitted", MISTAKE),
    (Unknown, "unknown", MISTAKE),
    (Refused, "refused", MISTAKE),
    (ReplayError, "replay_error", FAILED),
    (JournalError, "journal_error", FAILED),
    (MaybeDone, "maybe_done", FAILED),
    (NoAnswer, "no_answer", FAILED),
    (DetentError, "error", FAILED),
    (OSError, "os_error", MISTAKE),
]
EMPTY: dict[str, Any] = {
    "ok": False,
    "run_id": None,
    "machine": None,
    "state": None,
    "status": None,
    "waiting": [],
    "output": None,
    "error": None,
    "checkpoint": None,
    "cost": 0.0,
}


def failure(kind: str, message: str, **known: Any) -> None:
    """The envelope of something that did not work."""
    emit({**EMPTY, **known, "ok": False, "error": {"type": kind, "message": message}})


def report_error(error: BaseException, is_json: bool) -> int:
    """Say what happened; returns the exit code."""
    error = _cause(error)
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(error)
    for kind, name, code in TYPES:
        if isinstance(error, kind):
            message = _os_message(error) if isinstance(error, OSError) else str(error)
            if is_json:
                failure(name, message, **_problems(error))
            elif isinstance(error, NoAnswer):
                _tell_silence(error)
            else:
                lines = message.split("\n") if isinstance(error, BrokenDefinition) else [message]
                for line in lines:
                    show_line(_("Error: {message}", message=visible(near(translate_error(line)))), "red")
            return code
    message = f"{type(error).__name__}: {error}"
    if is_json:
        failure("internal_error", message)
    else:
        show_line(_("Unexpected: {message}", message=visible(message)), "red")
    if not os.environ.get(DEBUG):
        show_line(
            _("This is a bug in detent; {name}=1 shows where. Everything acknowledged is in the journal.", name=DEBUG)
        )
    return FAILED


def _tell_silence(error: NoAnswer) -> None:
    """Who holds the journal and does not answer, what became of the command, and how to go on."""
    about, way = silence(error.pid, error.command, error.since)
    show_line(_("Error: {message}", message=about), "red")
    if isinstance(error, MaybeDone):
        show_line(_maybe_done(error.run_id))
    elif error.is_change:
        show_line(_("Nothing was done."))
    if way:
        show_line(way)


def _maybe_done(run_id: str) -> str:
    words = ("show", run_id) if run_id else ("list",)
    command = Caller.current.command(*words) if Caller.current else f"detent {' '.join(words)}"
    return _("It may have been done; see: {command}", command=command)


def _problems(error: BaseException) -> dict[str, Any]:
    """Every problem of a definition file, for editors and scripts."""
    if not isinstance(error, BrokenDefinition):
        return {}
    return {"problems": [problem._asdict() for problem in error.problems]}


def report_interrupt(is_json: bool) -> int:
    """Ctrl-C: nothing is lost, and how to go on."""
    caller = Caller.current
    run_id = caller.interrupted if caller is not None else ""
    again = (caller.go_on if caller is not None else ()) or ("resume", run_id)
    if caller is not None and caller.given_up:
        message = _maybe_done(run_id) if caller.given_up == "perhaps" else _("Withdrawn: nothing was done.")
    elif caller is None or not run_id:
        message = _("interrupted")
    elif caller.is_driven_elsewhere:
        message = _(
            "The run goes on in another process; see it with: {command}", command=caller.command("watch", run_id)
        )
    else:
        message = _("The run is safe. Go on with: {command}", command=caller.command(*again))
    if is_json:
        failure("interrupted", message, run_id=run_id or None)
    else:
        show_line(message)
    sys.stdout.flush()
    return INTERRUPTED


def _cause(error: BaseException) -> BaseException:
    """A group of one is that one."""
    while isinstance(error, BaseExceptionGroup):
        known = error.subgroup(DetentError)
        error = (known or error).exceptions[0]
    return error


def _os_message(error: OSError) -> str:
    words = error.strerror or str(error)
    return f"{error.filename}: {words}" if error.filename else words
