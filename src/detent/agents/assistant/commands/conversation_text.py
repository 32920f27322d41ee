"""Conversations of a home: listed with their first words, and one of them as a Markdown text."""

from collections.abc import Iterator
from typing import NamedTuple

from detent.agents.assistant.commands.call_line import bare_result
from detent.agents.assistant.conversation import ledger_of
from detent.core.status import Status
from detent.host.reading import Query, Summary
from detent.kit.safe_text import as_json
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.run_driver import readable

TURNS_MAX = 1000
SESSIONS_MAX = 30
LABELS = {Status.COMPLETED: "done", Status.FAILED: "failed", Status.REJECTED: "rejected", Status.CANCELLED: "cancelled"}


class Conversation(NamedTuple):
    """One conversation in a list."""

    name: str
    title: str
    turns: int
    updated_at: float


def list_sessions(caller: Caller, limit: int = SESSIONS_MAX) -> list[Conversation]:
    """The conversations of a home, the latest first."""
    if not caller.has_journal():
        return []
    turns: dict[str, list[Summary]] = {}
    for turn in caller.reader.list(Query(agent="assistant", limit=TURNS_MAX)).runs:
        if turn.session:
            turns.setdefault(turn.session, []).append(turn)
    found = []
    for name, of_it in list(turns.items())[:limit]:
        first = readable(caller, of_it[-1].run_id)
        title = str(first.context.get("message") or "") if first is not None else ""
        found.append(Conversation(name, title, len(of_it), max(turn.updated_at for turn in of_it)))
    return sorted(found, key=lambda one: -one.updated_at)


def render_transcript(caller: Caller, session: str) -> str:
    """Everything that was said and done in a conversation."""
    turns = list(reversed(caller.reader.session(session, TURNS_MAX))) if caller.has_journal() else []
    return "\n".join([f"# {session}", "", *(line for turn in turns for line in _render_turn(caller, turn.run_id))])


def _render_turn(caller: Caller, run_id: str) -> Iterator[str]:
    run = readable(caller, run_id)
    if run is None or not run.context.get("message"):
        return
    yield from ("## You", "", str(run.context["message"]), "")
    for execution in ledger_of(caller.reader, run_id).executions.values():
        if execution.type == "tool_call" and execution.error != "superseded":
            came = LABELS.get(execution.status, execution.status.value)
            said = execution.error or bare_result(execution.result)
            given = as_json(execution.detail.get("args"))
            yield f"- `{execution.summary}` {given}: {came}: {said if isinstance(said, str) else as_json(said)}"
    if run.context.get("response"):
        yield from ("", "## Assistant", "", str(run.context["response"]), "")
    if run.ended not in (None, Status.COMPLETED):
        yield f"*({run.error.message if run.error is not None and run.error.message else run.status.value})*"
        yield ""
