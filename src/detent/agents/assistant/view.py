"""Views of executions, with exactly the fields clients read: snapshot, consequence, timeline, topology, state.

Three levels of what is kept, and who may see each: the *result* (everybody), the *transitions* (for diagnosis), and the
*request* with its arguments and keys (the system itself, and whoever approves the call).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from detent.agents.assistant import fact
from detent.agents.assistant.execution import CATEGORIES, MOVES_KEPT, Execution, Ledger, Move, trace
from detent.core.contract import CONTRACT
from detent.core.run import Run
from detent.core.status import Status

Audience = Literal["person", "diagnosis", "system"]
STATUS_WORDS = {
    Status.PENDING: "待执行", Status.RUNNING: "执行中", Status.WAITING: "等待确认", Status.COMPLETED: "已完成",
    Status.FAILED: "失败", Status.REJECTED: "已拒绝", Status.CANCELLED: "已取消",
}  # fmt: skip
TYPE_WORDS = {"tool_call": "工具调用", "ecs_request": "人工交互"}
YES_NO = {True: "是", False: "否"}
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
    total = round((entered_at - execution.created_at) * 1000) if status.is_terminal else None
    has_side_effects = execution.irreversible and status is Status.COMPLETED
    if human:
        return {
            "行动": execution.summary,
            "类型": TYPE_WORDS[execution.type],
            "当前状态": STATUS_WORDS[status],
            "是否已结束": YES_NO[status.is_terminal],
            "是否需要关注": YES_NO[status is Status.WAITING],
            "是否不可逆": YES_NO[execution.irreversible],
            "是否已产生影响": YES_NO[has_side_effects],
            "结果": execution.result,
            "错误信息": execution.error or None,
        }
    return {
        "execution_id": execution.id,
        "action_type": execution.type,
        "action_summary": execution.summary,
        "current_status": status.value,
        "is_terminal": status.is_terminal,
        "is_stable": is_stable(status),
        "is_resumable": status is Status.WAITING,
        "has_side_effects": has_side_effects,
        "irreversible": execution.irreversible,
        "idempotency_key": execution.key or None,
        "entered_at": entered_at,
        "duration_in_state_ms": round(max(0.0, now - entered_at) * 1000),
        "total_duration_ms": total,
        "transition_count": len(moves),
        "last_trigger": moves[-1].trigger if moves else None,
        "last_actor": moves[-1].actor if moves else None,
        "result": execution.result,
        "error_message": execution.error or None,
    }


def consequence(execution: Execution, ledger: Ledger) -> dict[str, Any]:
    """What reasoning is told of an execution."""
    return fact.consequence(
        execution.summary,
        execution.status.value,
        irreversible=execution.irreversible,
        was_suspended=was_suspended(execution, ledger),
        result=execution.result,
        error=execution.error,
    )


def consequence_lines(ledger: Ledger) -> list[str]:
    """The lines of all tool calls, with the warning where it is due."""
    found = []
    for execution in ledger.executions.values():
        if execution.type == "tool_call":
            view = consequence(execution, ledger)
            came_by = fact.how(execution.allowed_by, is_doubtful=execution.doubt)
            found.append({"view": view, "line": fact.line(view, came_by, is_already=execution.already_done)})
    return fact.lines(found)


def transition(execution: Execution, move: Move, *, human: bool = False) -> dict[str, Any]:
    """One move as a record."""
    if human:
        return {
            "行动": execution.summary,
            "原状态": STATUS_WORDS[move.source],
            "新状态": STATUS_WORDS[move.target],
            "时间": move.at,
        }
    return {
        "execution_id": execution.id,
        "from_status": move.source.value,
        "to_status": move.target.value,
        "trigger": move.trigger,
        "actor": move.actor,
        "actor_category": CATEGORIES.get(move.actor, "system"),
        "timestamp": move.at,
    }


def state_change(execution: Execution, move: Move) -> dict[str, Any]:
    """One move as it is told while it happens."""
    ended, waits = move.target.is_terminal, move.target is Status.WAITING
    return {
        "execution_id": execution.id,
        "action_summary": execution.summary,
        "from_status": move.source.value,
        "to_status": move.target.value,
        "trigger": move.trigger,
        "actor_category": CATEGORIES.get(move.actor, "system"),
        "is_terminal": ended,
        "is_resumable": waits,
        "has_side_effects": execution.irreversible and move.target is Status.COMPLETED,
        "timestamp": move.at,
        "human": {
            "行动": execution.summary,
            "原状态": STATUS_WORDS[move.source],
            "新状态": STATUS_WORDS[move.target],
            "是否已结束": YES_NO[ended],
            "是否需要关注": YES_NO[waits],
            "是否不可逆": YES_NO[execution.irreversible],
        },
    }


def timeline(session: str, ledgers: Iterable[Ledger], now: float, *, human: bool = False) -> dict[str, Any]:
    """Everything a session has done: contracts by when they came where they are, transitions by time."""
    executions = [execution for ledger in ledgers for execution in ledger.executions.values()]
    executions.sort(key=lambda e: e.moves[-1].at if e.moves else e.created_at)
    moves = [(move, e) for e in executions for move in e.moves[-MOVES_KEPT:]]
    moves.sort(key=lambda pair: (pair[0].at, pair[0].seq))
    contracts = [snapshot(e, now, human=human) for e in executions]
    transitions = [transition(e, move, human=human) for move, e in moves]
    if human:
        return {"会话": session, "行动列表": contracts, "状态变化": transitions}
    return {"session_id": session, "contracts": contracts, "transitions": transitions}


def topology() -> dict[str, Any]:
    """The law of every execution: seven nodes, nine edges."""
    nodes = [
        {"id": status.value, "label": STATUS_WORDS[status], "is_terminal": status.is_terminal,
         "is_stable": is_stable(status), "is_initial": status is Status.PENDING}
        for status in Status
    ]  # fmt: skip
    edges = [{"from": row.source, "to": row.target, "trigger": row.on} for row in CONTRACT.transitions]
    return {"nodes": nodes, "edges": edges}


def view_for(execution: Execution, audience: Audience, now: float) -> dict[str, Any]:
    """An execution at the levels this audience may see."""
    shown = snapshot(execution, now)
    result = {name: shown[name] for name in ("execution_id", "action_summary", "current_status", "is_terminal",
                                             "has_side_effects", "result", "error_message")}  # fmt: skip
    if audience == "person":
        return result
    kept = [transition(execution, move) for move in execution.moves[-MOVES_KEPT:]]
    diagnosis = {**{k: v for k, v in shown.items() if k != "idempotency_key"}, "transitions": kept}
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
        "pending_tool_calls": [context["call"]] if context.get("call") else [],
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
    said.append({"role": "user", "content": str(context.get("message", ""))})
    facts = [one["line"] for one in context.get("executions") or ()]
    if facts:
        said.append({"role": "system", "content": "\n".join(facts)})
    if context.get("response"):
        said.append({"role": "assistant", "content": context["response"]})
    return said
