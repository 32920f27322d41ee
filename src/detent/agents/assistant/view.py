"""Views of executions, with exactly the fields clients read: snapshot, consequence, timeline, topology, state.

Three levels of what is kept, and who may see each: the *result* (everybody), the *transitions* (for diagnosis), and the
*request* with its arguments and keys (the system itself, and whoever approves the call).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from detent.agents.assistant import execution_wording, result_fact
from detent.agents.assistant.execution_ledger import CATEGORIES, MOVES_KEPT, Execution, Ledger, Move, trace
from detent.core.contract import CONTRACT
from detent.core.run import Run
from detent.core.status import Status

Audience = Literal["person", "diagnosis", "system"]
TURN = {Status.COMPLETED: "idle", Status.WAITING: "suspended", Status.FAILED: "error"}


def is_stable(status: Status) -> bool:
    """Whether nothing moves by itself: ended, or waiting for somebody."""
    return status.is_terminal or status is Status.WAITING


def was_suspended(execution: Execution, ledger: Ledger) -> bool:
    """Whether it ever waited, itself or its confirmation."""
    own = any(move.target is Status.WAITING for move in execution.moves)
    return own or (execution.type == "tool_call" and guard_of(execution, ledger) is not None)


def guard_of(execution: Execution, ledger: Ledger) -> Execution | None:
    """The confirmation of a tool call, if it needed one."""
    for other in ledger.executions.values():
        if other.contract_id == execution.contract_id and other.type == "ecs_request" and other.id != execution.id:
            return other
    return None


def snapshot(execution: Execution, now: float, *, human: bool = False) -> dict[str, Any]:
    """Where one execution stands."""
    moves, status = execution.moves, execution.status
    entered_at = moves[-1].at if moves else execution.created_at
    shown = {
        "execution_id": execution.id,
        "action_type": execution.type,
        "action_summary": execution.summary,
        "current_status": status.value,
        "is_terminal": status.is_terminal,
        "is_stable": is_stable(status),
        "is_resumable": status is Status.WAITING,
        "has_side_effects": has_side_effects(execution, status),
        "irreversible": execution.irreversible,
        "idempotency_key": execution.key or None,
        "timeout_seconds": execution.timeout_s or None,
        "entered_at": entered_at,
        "duration_in_state_ms": round(max(0.0, now - entered_at) * 1000),
        "total_duration_ms": total_duration_ms(execution),
        "transition_count": len(moves),
        "last_trigger": moves[-1].trigger if moves else None,
        "last_actor": moves[-1].actor if moves else None,
        "result": execution.result,
        "error_message": execution.error or None,
    }
    return execution_wording.word_snapshot(shown) if human else shown


def has_side_effects(execution: Execution, status: Status) -> bool:
    """Whether the world has felt it for good."""
    return execution.irreversible and status is Status.COMPLETED


def total_duration_ms(execution: Execution) -> int | None:
    """How long it took, once it has ended."""
    if not execution.status.is_terminal or not execution.moves:
        return None
    return round((execution.moves[-1].at - execution.created_at) * 1000)


def consequence(execution: Execution, ledger: Ledger, *, human: bool = False) -> dict[str, Any]:
    """What reasoning is told of an execution."""
    view = result_fact.consequence(
        execution.summary,
        execution.status.value,
        irreversible=execution.irreversible,
        was_suspended=was_suspended(execution, ledger),
        result=execution.result,
        error=execution.error,
    ) | {
        "execution_id": execution.id,
        "action_type": execution.type,
        "total_duration_ms": total_duration_ms(execution),
    }
    return execution_wording.word_consequence_view(view) if human else view


def consequence_lines(ledger: Ledger) -> list[str]:
    """The lines of all tool calls, with the warning where it is due."""
    found = []
    for execution in ledger.executions.values():
        if execution.type == "tool_call":
            view = consequence(execution, ledger)
            came_by = result_fact.how(execution.allowed_by, is_doubtful=execution.doubt)
            found.append({"view": view, "line": result_fact.line(view, came_by, is_already=execution.already_done)})
    return result_fact.lines(found)


def transition(execution: Execution, number: int) -> dict[str, Any]:
    """One move as a record; `number` counts the moves of an execution from 0."""
    move = execution.moves[number]
    return {
        "execution_id": execution.id,
        "sequence_number": number,
        "from_status": move.source.value,
        "to_status": move.target.value,
        "trigger": move.trigger,
        "actor": move.actor,
        "actor_category": CATEGORIES.get(move.actor, "system"),
        "timestamp": move.at,
        "is_terminal_transition": move.target.is_terminal,
    }


def transitions(execution: Execution) -> list[dict[str, Any]]:
    """The latest moves of an execution as records."""
    first = max(0, len(execution.moves) - MOVES_KEPT)
    return [transition(execution, number) for number in range(first, len(execution.moves))]


def state_change(execution: Execution, move: Move) -> dict[str, Any]:
    """One move as it is told while it happens."""
    is_felt = has_side_effects(execution, move.target)
    return {
        "execution_id": execution.id,
        "action_summary": execution.summary,
        "from_status": move.source.value,
        "to_status": move.target.value,
        "trigger": move.trigger,
        "actor_category": CATEGORIES.get(move.actor, "system"),
        "is_terminal": move.target.is_terminal,
        "is_resumable": move.target is Status.WAITING,
        "has_side_effects": is_felt,
        "timestamp": move.at,
        "human": execution_wording.word_change(execution.summary, move.source, move.target, has_side_effects=is_felt),
    }


def timeline(session: str, ledgers: Iterable[Ledger], now: float, *, human: bool = False) -> dict[str, Any]:
    """Everything a session has done: contracts by when they last moved, transitions by time; nothing is zeros."""
    executions = [execution for ledger in ledgers for execution in ledger.executions.values()]
    executions.sort(key=lambda e: e.moves[-1].at if e.moves else e.created_at)
    moves = [(e.moves[row["sequence_number"]], row) for e in executions for row in transitions(e)]
    moves.sort(key=lambda pair: (pair[0].at, pair[0].seq))
    ended = [e for e in executions if e.status.is_terminal]
    is_over = bool(executions) and len(ended) == len(executions)
    told = {
        "session_id": session,
        "contracts": [snapshot(e, now) for e in executions],
        "transitions": [row for _move, row in moves],
        "total_contracts": len(executions),
        "terminal_contracts": len(ended),
        "active_contracts": len(executions) - len(ended),
        "has_suspended": any(e.status is Status.WAITING for e in executions),
        "has_irreversible_completed": any(has_side_effects(e, e.status) for e in executions),
        "started_at": min((e.created_at for e in executions), default=None),
        "ended_at": max(e.moves[-1].at for e in ended) if is_over else None,
    }
    return execution_wording.word_timeline(told) if human else told


def topology() -> dict[str, Any]:
    """The law of every execution: seven nodes, nine edges, and every other pair with the reason why it is forbidden."""
    pairs = {(row.source, row.target) for row in CONTRACT.transitions}
    nodes = [
        {"status": status.value, "is_terminal": status.is_terminal, "is_initial": status is Status.PENDING,
         "is_stable": is_stable(status), "is_resumable": status is Status.WAITING}
        for status in Status
    ]  # fmt: skip
    edges = [{"from_status": row.source, "to_status": row.target, "trigger": row.on} for row in CONTRACT.transitions]
    forbidden = [
        {"from_status": source.value, "to_status": target.value, "reason": _explain_forbidden(source, target)}
        for source in Status for target in Status
        if source is not target and (source.value, target.value) not in pairs
    ]  # fmt: skip
    return {
        "nodes": nodes,
        "edges": edges,
        "forbidden_transitions": forbidden,
        "terminal_statuses": [status.value for status in Status if status.is_terminal],
        "resumable_statuses": [Status.WAITING.value],
        "initial_status": Status.PENDING.value,
    }


def _explain_forbidden(source: Status, target: Status) -> str:
    if source.is_terminal:
        return f"{source.value} is an end and is never left"
    if target is Status.PENDING:
        return "nothing goes back to its beginning"
    if source is Status.PENDING:
        return "it has to be started first"
    return "what waits has to be resumed first"


def view_for(execution: Execution, audience: Audience, now: float) -> dict[str, Any]:
    """An execution at the levels this audience may see."""
    shown = snapshot(execution, now)
    result = {name: shown[name] for name in ("execution_id", "action_summary", "current_status", "is_terminal",
                                             "has_side_effects", "result", "error_message")}  # fmt: skip
    if audience == "person":
        return result
    diagnosis = {**{k: v for k, v in shown.items() if k != "idempotency_key"}, "transitions": transitions(execution)}
    if audience == "diagnosis":
        return diagnosis
    request = {"action_detail": execution.detail, "idempotency_key": execution.key, "supersedes": execution.supersedes}
    return {**diagnosis, **request}


def graph_state(run: Run, ledger: Ledger) -> dict[str, Any]:
    """The whole state of a turn under the names clients know; every field is derived."""
    context = run.context
    executions = list(ledger.executions.values())
    form: Mapping[str, Any] = context.get("form") or {}
    done = context.get("executions") or []
    return {
        "conversation_id": run.session or run.id,
        "status": TURN.get(run.status, "error" if run.ended else "processing"),
        "semantic_input": {
            "text": context.get("message", ""), "images": context.get("images") or [],
            "intent": (context.get("intent") or {}).get("intent_type"), "files": [], "raw_event": None,
            "image_action": context.get("image_action"),
        },
        "emotional_context": context.get("emotion") or {},
        "working_memory": {
            "short_term_context": context.get("working") or {},
            "current_goals": [],
            "retrieved_memories": [{k: m[k] for k in ("id", "content", "type", "confidence")}
                                   for m in context.get("memories") or ()],
        },
        "dialogue_history": dialogue(run),
        "execution_trace": list(trace(ledger)),
        "ecs_request": {"type": form.get("type"), "message": form.get("title"), "options": form.get("actions", []),
                        "context_data": form.get("context", {})} if form else None,
        "ecs_full_request": dict(form) or None,
        "last_human_input": context.get("message", ""),
        "observation": context.get("observation") or "",
        "pending_tool_calls": [context["call"]] if context.get("call") else [
            call for step in context.get("steps") or () for call in step],
        "response": context.get("response") or "",
        "detected_emotion": context.get("detected"),
        "memories_to_store": context.get("to_store") or [],
        "tool_call_history": [{"service": d["service"], "method": d["method"]} for d in done if d.get("service")],
        "pending_executions": [e.id for e in executions if not e.status.is_terminal],
        "completed_executions": [e.id for e in executions if e.status.is_terminal],
        "intent_result": context.get("intent") or {},
    }  # fmt: skip


def dialogue(run: Run) -> list[dict[str, str]]:
    """What was said up to and in this turn; facts of what was done stand between as lines of ours."""
    context = run.context
    said = [{"role": one["role"], "content": one["content"]} for one in context.get("history") or ()]
    if context.get("message"):
        said.append({"role": "user", "content": str(context["message"])})
    facts = [one["line"] for one in context.get("executions") or ()]
    if facts:
        said.append({"role": "system", "content": "\n".join(facts)})
    if context.get("response"):
        said.append({"role": "assistant", "content": context["response"]})
    return said
