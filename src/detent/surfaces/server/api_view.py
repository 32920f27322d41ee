"""Views of runs, contracts and events in the shapes of the API; pure functions of what the core holds."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core import contract as core
from detent.core.events import ContractMoved, Event, Signalled, Started
from detent.core.history import Entry
from detent.core.identity import Identity
from detent.core.people import People
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import NotPermitted
from detent.host.people import check_role
from detent.host.permission import add_permission
from detent.host.reading import Summary
from detent.host.standing import Can, Standing, question_of
from detent.kit.html_sanitiser import harmless
from detent.surfaces.server import shape
from detent.surfaces.server.branch_progress import sum_lanes

FOLD_BYTES = 64 * 1024  # a part of an event larger than this is folded away where many events are shown
KINDS: dict[type[Event], str] = {Started: "started", Signalled: "signalled", ContractMoved: "moved"}
FOLDABLE = ("input", "data", "result", "patch", "fork", "question")


def line(summary: Summary) -> shape.RunLine:
    """A run in a list."""
    return shape.RunLine(
        run_id=summary.run_id,
        machine=summary.name,
        digest=summary.machine,
        state=summary.state,
        status=summary.status.value,
        seq=summary.seq,
        no=summary.no,
        started_at=summary.started_at,
        updated_at=summary.updated_at,
        wake_at=summary.wake_at or None,
        waiting=list(summary.waiting),
        by=summary.by,
        session=summary.session,
        parent=summary.parent,
        source=summary.source,
        cost_usd=summary.cost_usd,
        checkpoint=summary.checkpoint,
        error=None if summary.error is None else shape.Failed(summary.error["type"], summary.error["message"]),
        failed=summary.failed,
        alarms=list(summary.alarms),
    )


def describe_failure(error: core.Failure | None) -> shape.Failed | None:
    """An error as data."""
    return None if error is None else shape.Failed(error.type, error.message, error.data)


def contract(one: core.Contract) -> shape.ContractView:
    """A contract."""
    return shape.ContractView(
        id=one.id,
        action=one.action,
        effect=one.effect,
        status=one.status.value,
        deed=one.effect_state,
        kind=one.kind,
        attempt=one.attempt,
        input=one.input,
        key=one.key,
        call_hash=one.call_hash,
        lane=one.lane,
        created_at=one.created_at,
        moved_at=one.moved_at,
        due_at=one.due_at or None,
        expires_at=one.expires_at or None,
        question=question_of(one) if one.status is Status.WAITING and one.question else None,
        answers=[msgspec.to_builtins(answer) for answer in one.answers],
        supersedes=one.supersedes,
        rule=one.rule,
        result=one.result,
        error=describe_failure(one.error),
    )


def run_view(
    standing: Standing, why: Iterable[Entry] = (), who: Identity | None = None, people: People | None = None
) -> shape.RunView:
    """Where a run stands, or stood when it had fewer events; its questions as one person may answer them."""
    run, machine = standing.run, standing.machine
    questions = standing.questions
    if who is not None and questions:
        questions = [add_permission(one, machine, run, who, people) for one in questions]
    return shape.RunView(
        run_id=run.id,
        machine=machine.name,
        title=machine.title,
        digest=run.machine,
        state=run.state,
        status=run.status.value,
        paused=run.is_held and run.ended is None,
        seq=run.seq,
        last=standing.last,
        at=run.at,
        started_at=run.started_at,
        entered_at=run.entered_at,
        wake_at=run.wake_at or None,
        by=run.by,
        session=run.session,
        parent=run.parent,
        source=run.source,
        context=run.context,
        variables=run.variables,
        output=run.output,
        error=describe_failure(run.error),
        alarms=list(run.alarms),
        usage=run.usage,
        cost_usd=run.usage.get("cost_usd", 0.0),
        checkpoint=standing.checkpoint,
        accepts=list(standing.accepts),
        contracts=[contract(one) for one in run.contracts],
        waiting=questions,
        children=standing.children,
        can=standing.can if who is None or people is None else _limit(standing.can, who, people),
        why=list(view_entries(why)),
        failed=sum(one.failed for one in standing.tolerated),
        lanes=sum_lanes(machine, run),
    )


def _limit(can: Can, who: Identity, people: People) -> Can:
    """What can be done, of which this person's roles leave nothing or all."""
    try:
        check_role(people, "signal", who)
    except NotPermitted:
        return Can([], answer=can.answer, cancel=False, pause=False, resume=False, retry=False)
    return can


def view_entries(
    entries: Iterable[Entry], before: Run | None = None, *, is_whole: bool = False
) -> Iterator[shape.LogEntry]:
    """Entries with what each changed; the run before the first, if it is known."""
    for entry in entries:
        yield log_entry(entry, before, is_whole=is_whole)
        before = entry.run


def log_entry(entry: Entry, before: Run | None, *, is_whole: bool = False) -> shape.LogEntry:
    """One event with what it led to; large parts are folded away unless the whole is wanted."""
    event: dict[str, Any] = msgspec.to_builtins(entry.event)
    if "result" in event:
        event["result"] = harmless(event["result"])
    if "fork" in event and not is_whole:
        event["fork"] = {key: value for key, value in event["fork"].items() if key != "run"}
    changed = delta(before, entry.run) if before is not None else delta(Run(id=entry.run.id), entry.run)
    taken = msgspec.convert(msgspec.to_builtins(entry.taken), list[shape.Taken])
    found: list[str] = []
    if not is_whole:
        event, found = _fold_away(event)
        changed, taken, found = _lighter(changed, taken, found)
    return shape.LogEntry(
        seq=entry.seq,
        at=entry.event.at,
        kind=KINDS[type(entry.event)],  # type: ignore[arg-type]  # one of the three
        event=event,
        taken=taken,
        state=entry.run.state,
        status=entry.run.status.value,
        delta=changed,
        folded=found,
    )


def _fold_away(event: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    if len(msgspec.json.encode(event)) <= FOLD_BYTES:
        return event, []
    large = [name for name in FOLDABLE if name in event and len(msgspec.json.encode(event[name])) > FOLD_BYTES // 8]
    return {name: value for name, value in event.items() if name not in large}, [f"event.{name}" for name in large]


def _lighter(
    changed: shape.Delta, taken: list[shape.Taken], found: list[str]
) -> tuple[shape.Delta, list[shape.Taken], list[str]]:
    if len(msgspec.json.encode(changed)) > FOLD_BYTES:
        contracts = [replace(one, input={}, result=None, answers=[], question=None) for one in changed.contracts]
        changed = replace(changed, context={}, variables={}, output=None, contracts=contracts)
        found = [*found, "delta"]
    if len(msgspec.json.encode(taken)) > FOLD_BYTES:
        taken = [replace(one, value=None, values={}) for one in taken]
        found = [*found, "taken"]
    return changed, taken, found


def delta(before: Run, after: Run) -> shape.Delta:
    """What is different between two moments of a run."""
    held, was = {c.id: c for c in after.contracts}, {c.id: c for c in before.contracts}
    return shape.Delta(
        state=after.state if after.state != before.state else None,
        status=after.status.value if after.status is not before.status else None,
        context=_list_changed(before.context, after.context),
        variables=_list_changed(before.variables, after.variables),
        dropped=[key for key in before.context if key not in after.context],
        contracts=[contract(one) for key, one in held.items() if was.get(key) is not one and was.get(key) != one],
        closed=[key for key in was if key not in held],
        error=describe_failure(after.error) if after.error != before.error else None,
        paused=after.is_held if after.is_held != before.is_held else None,
        output=after.output if after.ended is not None and before.ended is None else None,
        usage=after.usage if after.usage != before.usage else {},
        alarms=list(after.alarms) if after.alarms != before.alarms else [],
    )


def _list_changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    if before is after:
        return {}
    return {key: value for key, value in after.items() if key not in before or before[key] != value}
