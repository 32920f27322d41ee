"""Tool mode: `--envelope lobster` speaks the protocol of hosts that call the original program for `steps:` files.

One JSON object on stdout, whatever happens. A mistake of the caller is a `parse_error` with exit code 2 and changes
nothing; a run that failed is a `runtime_error` with 1.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple

import click

from detent.core.status import Status
from detent.define import load
from detent.errors import DefinitionError, DetentError, NotPermitted, NotWaiting, Refused, Unknown
from detent.kit.language import _
from detent.kit.terminal import interrupt
from detent.kit.terminal.caller import Caller, user
from detent.kit.terminal.exit_code import FAILED, INTERRUPTED, MISTAKE
from detent.kit.terminal.option import parse_json, parse_object, work_begins
from detent.kit.terminal.run_driver import drive
from detent.kit.terminal.run_view import RunReport
from detent.surfaces.cli.gate_token import OpenGate, find_gate, issue_token, use_up

PROTOCOL = 1
INITIATED_BY, APPROVED_BY = "LOBSTER_APPROVAL_INITIATED_BY", "LOBSTER_APPROVAL_APPROVED_BY"
SHOWN = ("items", "preview", "initiatedBy", "requiredApprover", "requireDifferentApprover")
DECISIONS = {"yes": True, "y": True, "no": False, "n": False}
OUTCOMES = ["happened", "not_happened", "give_up"]
DOUBT = {
    "type": "object",
    "properties": {"outcome": {"type": "string", "enum": OUTCOMES}, "result": {}},
    "required": ["outcome"],
}
STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


class GateDecision(NamedTuple):
    """What `resume` was told; texts as they were given."""

    token: str
    id: str
    approve: str | None
    response: str | None
    is_cancel: bool


def run_in_envelope(caller: Caller, file: str, arguments: str, run_id: str, is_dry: bool, by: str) -> int:
    """Start a run, stay with it, and tell in one object where it stands."""
    by = _claim(INITIATED_BY, by)

    def work() -> int:
        values = parse_object(arguments, "--args-json")
        definition = load(file, warn=False)
        work_begins()
        if is_dry:
            return _rehearse(caller, definition, values, by)
        return _drive(_start(caller, definition, values, run_id, by))

    return _speak(caller, work)


def resume_in_envelope(caller: Caller, decision: GateDecision, by: str) -> int:
    """Answer an open question, stay with the run, and tell where it stands."""
    return _speak(caller, lambda: _drive(_resume(caller, decision, _claim(APPROVED_BY, by), by)))


def _claim(variable: str, by: str) -> str:
    """Who the caller says they are, unless they have said so to us."""
    return os.environ.get(variable, "").strip() or by if by == user() else by


def _speak(caller: Caller, work: Callable[[], int]) -> int:
    """Do it; whatever goes wrong is told in the envelope."""
    caller.is_json = True  # nothing beside the answer
    stopped: list[int] = []
    try:
        with _heed(stopped):
            return work()
    except KeyboardInterrupt:
        _emit_error("runtime_error", _("stopped; the run goes on with `detent resume`"))
        return 128 + stopped[0] if stopped else INTERRUPTED
    except (DefinitionError, Refused, Unknown, click.UsageError) as error:
        message = error.format_message() if isinstance(error, click.UsageError) else str(error)
        _emit_error("parse_error", message)
        return MISTAKE
    except (DetentError, OSError) as error:
        _emit_error("runtime_error", str(error))
        return FAILED


@contextmanager
def _heed(stopped: list[int]) -> Iterator[None]:
    """A signal that ends us puts the work down like Ctrl-C does; the exit code says which it was."""

    def note(number: int, _frame: object) -> None:
        stopped.append(number)
        signal.raise_signal(signal.SIGINT)

    before = {one: signal.signal(one, note) for one in STOPPING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _drive(main: Coroutine[Any, Any, int]) -> int:
    return interrupt.run(main)


async def _start(caller: Caller, definition: Any, values: dict[str, Any], run_id: str, by: str) -> int:
    async with caller.host() as host:
        begun = await host.start(definition.machine, values, run_id=run_id, by=by, source=definition.source)
        caller.interrupted = begun.id
        caller.reader.know(definition.machine)
        await drive(caller, host, begun.id)
        return _tell(caller, begun.id)


def _rehearse(caller: Caller, definition: Any, values: dict[str, Any], by: str) -> int:
    """The plan for people on stderr; nothing is touched."""
    from detent.surfaces.cli.dry_run import show_rehearsal

    caller.is_json = False
    with redirect_stdout(sys.stderr):
        show_rehearsal(caller, definition, values, "", by)
    _emit_status("ok", [])
    return 0


async def _resume(caller: Caller, decision: GateDecision, by: str, plain_by: str) -> int:
    gate = _find(caller, decision)
    said = _read_decision(decision)
    head, question = gate.head, None
    report = RunReport(caller, gate.head)
    question = next((q for q in report.questions if q["contract_id"] == gate.contract_id), None)
    if question is None:
        use_up(caller.home, gate)
        raise NotWaiting("this token is used up: its question has been answered")
    async with caller.host() as host:
        if said is None:
            await host.cancel(head, by=by, reason="")
        else:
            answer = _check_answer(question, said, by, plain_by)
            answer |= {"channel": "envelope", "call_hash": question["call_hash"], **({"by": by} if by else {})}
            try:
                await host.answer(question["run_id"], question["contract_id"], answer)
            except NotPermitted:
                # Only a yes is for certain people. A no of anybody else ends the run, as --cancel does.
                if answer.get("approved") is not False:
                    raise
                await host.cancel(head, by=by, reason=f"{by or 'somebody'} said no")
        use_up(caller.home, gate)
        await host.recover(head)
        await drive(caller, host, head, report.run.seq)
        return _tell(caller, head)


def _find(caller: Caller, decision: GateDecision) -> OpenGate:
    if bool(decision.token) == bool(decision.id):
        raise click.UsageError(_("resume takes exactly one of --token and --id"))
    gate = find_gate(caller.home, decision.token or decision.id)
    if gate is None:
        raise Unknown("there is no such token or id, or it is used up")
    return gate


def _read_decision(decision: GateDecision) -> dict[str, Any] | None:
    """What is answered; None: the run is to be cancelled."""
    ways = [decision.approve is not None, decision.response is not None, decision.is_cancel]
    if sum(ways) != 1:
        raise click.UsageError(_("resume takes exactly one of --approve yes|no, --response-json and --cancel"))
    if decision.is_cancel:
        return None
    if decision.response is not None:
        return {"data": parse_json(decision.response, "--response-json")}
    word = str(decision.approve).strip().lower()
    if word not in DECISIONS:
        raise click.UsageError(_("--approve must be yes or no"))
    return {"approved": DECISIONS[word]}


def _check_answer(question: dict[str, Any], said: dict[str, Any], by: str, plain_by: str) -> dict[str, Any]:
    """The answer as the host wants it; refused where it is not what was asked."""
    is_form = question["reason"] in ("form", "outcome_unknown")
    if is_form and "data" not in said:
        raise click.UsageError(_("this question wants --response-json"))
    if not is_form and "data" in said:
        raise click.UsageError(_("this question wants --approve yes or no"))
    if question["reason"] == "outcome_unknown":
        data = said["data"]
        if not isinstance(data, dict) or data.get("outcome") not in OUTCOMES:
            raise click.UsageError(_("--response-json must say the outcome: happened, not_happened or give_up"))
        return {"outcome": data["outcome"], **({"result": data["result"]} if "result" in data else {})}
    if said.get("approved") and by:  # where people are known, the system says who it is, and the host checks
        _check_identity(_request(question), by, is_claimed=by != plain_by or bool(os.environ.get(APPROVED_BY)))
    return said if "data" not in said else {"approved": True, **said}


def _check_identity(request: dict[str, Any], by: str, *, is_claimed: bool) -> None:
    """Who may say yes, as the question itself says; the host checks once more what the file says."""
    wanted, is_different = request.get("requiredApprover"), request.get("requireDifferentApprover")
    if (wanted or is_different) and not is_claimed:
        raise Refused(f"this approval needs to know who gives it; set {APPROVED_BY}, or give --by")
    if wanted and by != wanted:
        raise Refused(f"only {wanted} may approve this, not {by}")
    if is_different and by == request.get("initiatedBy"):
        raise Refused(f"{by} wants this done, so somebody else must approve it")


def _request(question: dict[str, Any]) -> dict[str, Any]:
    """What an approval shows: of a question by itself it is its input, of a call it stands beside the question."""
    call = question["call"]
    base = {"items": [], **question.get("data", {})}
    shown = {**base, **(call["input"] if call["effect"] == "ask" else {})}
    initiator = os.environ.get(INITIATED_BY, "").strip()
    return {"initiatedBy": initiator, **shown} if initiator else shown


def _tell(caller: Caller, run_id: str) -> int:
    """Where a run stands, as one object."""
    report = RunReport(caller, run_id)
    run = report.run
    if run.ended in (Status.CANCELLED, Status.REJECTED):
        _emit_status("cancelled", [])
    elif run.ended is Status.COMPLETED:
        _emit_status("ok", run.output if isinstance(run.output, list) else [run.output])
    elif run.ended is not None:
        message = (run.error.message or run.error.type) if run.error is not None else "the run failed"
        _emit_error("runtime_error", message)
        return FAILED
    elif report.questions:
        _ask(caller, run_id, report.questions[0])
    else:
        _emit_error("runtime_error", f"run {run_id} waits for a signal, which this protocol cannot say")
        return FAILED
    return 0


def _ask(caller: Caller, head: str, question: dict[str, Any]) -> None:
    token, id = issue_token(caller.home, OpenGate(head, question["run_id"], question["contract_id"]))
    if question["reason"] == "approval":
        shown = _request(question)
        request = {"type": "approval_request", "prompt": question["question"]}
        request |= {name: shown[name] for name in SHOWN if shown.get(name) or name == "items"}
        _emit_status("needs_approval", [], approval={**request, "resumeToken": token, "approvalId": id})
        return
    given = question["call"]["input"] if question["call"]["effect"] == "ask" else {}
    is_doubt = question["reason"] == "outcome_unknown"
    asked = {
        "type": "input_request",
        "prompt": question["question"],
        "responseSchema": DOUBT if is_doubt else question.get("schema", {}),
        **({"defaults": given["defaults"]} if given.get("defaults") is not None else {}),
        **({"subject": question["call"] if is_doubt else given["subject"]} if is_doubt or "subject" in given else {}),
        "resumeToken": token,
    }
    _emit_status("needs_input", [], input=asked)


def _emit_status(
    status: str, output: list[Any], approval: dict[str, Any] | None = None, input: dict[str, Any] | None = None
) -> None:
    _emit({"ok": True, "status": status, "output": output, "requiresApproval": approval, "requiresInput": input})


def _emit_error(kind: str, message: str) -> None:
    _emit({"ok": False, "error": {"type": kind, "message": message}})


def _emit(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"protocolVersion": PROTOCOL, **said}, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()
