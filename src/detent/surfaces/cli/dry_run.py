"""What `detent run --dry-run` shows: every state, call, question and sleep of a rehearsal, and nothing touched."""

from collections import ChainMap
from typing import Any

from detent.define import Definition
from detent.effects import Known
from detent.kit.language import _
from detent.kit.safe_text import as_json, duration, status_word, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.run_view import CODES, COLOURS
from detent.testing import Beat, read_tools, rehearse


def show_rehearsal(caller: Caller, definition: Definition, values: dict[str, Any], answers: str, by: str) -> int:
    """Rehearse a machine under the policy that holds here, and show it; returns the exit code the run would have."""
    machine, policy = definition.machine, caller.policy()
    known = ChainMap(dict(definition.effects), Known())  # type: ignore[arg-type]  # only read
    tools = read_tools(answers) if answers else {}
    rehearsal = rehearse(machine, tools, values, policy=policy, known=known, by=by)
    run = rehearsal.run
    if caller.is_json:
        error = {"type": run.error.type, "message": run.error.message} if run.error else None
        steps = [beat._asdict() for beat in rehearsal.beats]
        said = {"machine": machine.name, "state": run.state, "status": run.status.value, "output": run.output}
        emit({"ok": CODES[run.status] in (0, 3), "dry_run": True, **said, "steps": steps, "error": error})
        return CODES[run.status]
    for beat in rehearsal.beats:
        caller.say(_line(beat))
    if run.error is not None:
        caller.say(visible(f"  {run.error.type}: {run.error.message}"))
    status, state = status_word(run.status), visible(run.state)
    told = _("dry run: {status} in `{state}`; nothing was touched", status=status, state=state)
    caller.say(told, COLOURS.get(run.status, ""))
    return CODES[run.status]


def _line(beat: Beat) -> str:  # noqa: PLR0911  # one for each kind
    name = visible(beat.name)
    match beat.kind:
        case "state":
            return _("in `{name}`", name=name)
        case "rule":
            return _rule_line(name, beat.detail)
        case "call":
            return _("  would call {name} {value}", name=name, value=as_json(beat.detail))
        case "ask":
            return _("  would ask at {name}: {question}", name=name, question=visible(beat.detail))
        case "sleep":
            return _("  would sleep for {time}", time=duration(beat.detail))
        case "wait":
            return _("  would wait for a signal: {events}", events=visible(", ".join(beat.detail)))
        case "again":
            return _("  and so on: it would sleep here again")
    problem = visible(beat.detail)
    if beat.kind == "left":
        return _("  would leave out {name}: {problem}", name=name, problem=problem)
    return _("  would need an answer at {name}: {problem}", name=name, problem=problem)


def _rule_line(name: str, said: dict[str, Any]) -> str:
    rule, message = visible(str(said["rule"])), visible(str(said.get("message", "")))
    match said["decision"]:
        case "allow":
            return _("  the policy's rule `{rule}` would allow {name}", rule=rule, name=name)
        case "ask":
            return _("  the policy's rule `{rule}` would ask before {name}", rule=rule, name=name)
    why = f": {message}" if message else ""
    call = f"{name} {as_json(said['input'])}"
    return _("  the policy's rule `{rule}` would deny {call}{why}", rule=rule, call=call, why=why)
