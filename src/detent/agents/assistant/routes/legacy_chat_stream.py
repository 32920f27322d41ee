"""A turn of the assistant told as Server-Sent Events, in the order clients of the execution protocol expect.

A tool turn: emotion, text, tool_result, execution_state twice, text, emotion, done. A form, or a deed that is asked
about first: emotion, text, ecs, execution_state twice, done. A resumed one: execution_state twice, then as it goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from detent.agents.assistant import Execution, Ledger
from detent.agents.assistant.execution_ledger import Created, Move
from detent.agents.assistant.form import DISPLAY
from detent.agents.assistant.question_form import form_of, is_asked
from detent.agents.assistant.result_fact import one_line
from detent.agents.assistant.view import state_change
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.run import Run
from detent.core.status import Status
from detent.kit.http.context import ServerContext
from detent.kit.http.sse import BEAT, message


class TurnMessages:
    """Turns the entries of one turn into messages."""

    def __init__(self, run_id: str, session: str, after: int) -> None:
        self.session, self._after = session, after
        self.ledger = Ledger(run_id)
        self._told = 0
        self._late: dict[str, list[bytes]] = {}  # states of an execution, told after its result or its question
        self._thoughts = 0

    def more(self, found: Sequence[Entry]) -> Iterator[bytes]:
        """The messages of further entries."""
        known = []
        for entry in found:
            self.ledger.read([entry])
            known.append((entry, len(self.ledger.rows)))
        for entry, rows in known:  # all of them are known by now: what a rule answered at once is put to nobody
            if entry.seq > self._after:
                yield from self._tell_thought(entry)
            yield from self._moves(rows)

    def _tell_thought(self, entry: Entry) -> Iterator[bytes]:
        event, context = entry.event, entry.run.context
        if not isinstance(event, ContractMoved) or event.trigger != "succeed":
            return
        if event.contract_id.startswith(("reasoning/keep/", "reasoning/store/")):
            yield _memory(event.result)
        if not event.contract_id.startswith("reasoning/think/"):
            return
        self._thoughts += 1
        said = _text(str(context.get("response") or ""))
        felt = context.get("detected") or {}
        feeling = message("emotion", {"type": "emotion", "payload": {
            name: felt.get(name) for name in ("primary", "category", "confidence")}})  # fmt: skip
        if event.raises == "END":
            yield said
            yield feeling
        elif event.raises in ("TOOL", "ASK") and self._thoughts == 1:
            yield feeling
            yield said
        form = context.get("form") or {}
        if event.raises == "ASK" and form.get("type") == DISPLAY:
            payload = {"type": "ecs", "payload": form, "session_id": self.session}
            yield message("ecs", payload)

    def _moves(self, until: int) -> Iterator[bytes]:
        rows, self._told = self.ledger.rows[self._told : until], until
        for id, row in rows:
            execution = self.ledger.executions[id]
            if isinstance(row, Created) or not isinstance(row, Move) or row.seq <= self._after:
                continue
            if row.trigger == "suspend":
                yield from self._tell_question(execution, row)
            elif execution.type == "tool_call":
                self._late.setdefault(id, []).append(message("execution_state", state_change(execution, row)))
                if row.target.is_terminal:
                    result = execution.result if execution.error == "" else execution.error
                    if execution.already_done:
                        result = f"{result}; it gave: {one_line(execution.result)}"
                    yield message("tool_result", {"type": "tool_result", "payload": {"result": result}})
                    yield from self._late.pop(id, ())
            elif row.trigger == "start" and execution.detail.get("type") != DISPLAY:
                self._late.setdefault(id, []).append(message("execution_state", state_change(execution, row)))
            else:
                yield message("execution_state", state_change(execution, row))

    def _tell_question(self, execution: Execution, row: Move) -> Iterator[bytes]:
        if is_asked(execution):
            yield message("ecs", {"type": "ecs", "payload": form_of(execution), "session_id": self.session})
        yield from self._late.pop(execution.id, ())
        yield message("execution_state", state_change(execution, row))

    def end(self, run: Run) -> Iterator[bytes]:
        """The last messages: what was held back, what went wrong, and that it is done."""
        for held in self._late.values():
            yield from held
        self._late.clear()
        if run.ended not in (None, Status.COMPLETED):
            problem = (
                run.error.message if run.error and run.error.message else str(run.ended.value if run.ended else "")
            )
            yield message("error", {"type": "error", "payload": {"message": problem}})
        yield message("done", {"type": "done"})


def _memory(kept: Any) -> bytes:
    """What was remembered, by the model's wish or from a form; facts of what was done are no news to anybody."""
    entries = kept.get("entries") if isinstance(kept, dict) else None
    told = [entry for entry in entries or () if entry.get("category") != "execution"]
    if not told:
        return b""
    return message("memory_saved", {"type": "memory_saved", "payload": {"count": len(told), "entries": told}})


def _text(content: str) -> bytes:
    return message("text", {"type": "text", "payload": {"content": content}}) if content else b""


async def stream_turn(
    room: ServerContext, run_id: str, session: str, status: str, after: int = 0
) -> AsyncIterator[bytes]:
    """The whole stream of a turn until it has ended or waits, with a sign of life while its model takes long."""
    yield message("status", {"status": status, "session_id": session})
    teller = TurnMessages(run_id, session, after)
    async with asyncio.TaskGroup() as tasks:
        settled = tasks.create_task(room.host.settled(run_id))
        try:
            async for found in _news(room, run_id, settled):
                told = b"".join(teller.more(found))
                yield told or (b"" if found else BEAT)
        finally:
            settled.cancel()
    if settled.done() and not settled.cancelled():
        for chunk in teller.end(settled.result()):
            yield chunk


async def _news(room: ServerContext, run_id: str, settled: "asyncio.Task[Run]") -> AsyncIterator[Sequence[Entry]]:
    """The entries of a turn as they come, until it has settled; none of them when there are none for long."""
    with room.reader.following(run_id) as place:
        is_last = False
        while not is_last:
            is_last = settled.done() or room.is_closing
            while found := await room.ask(place.more):
                yield found
            if is_last:
                return
            moved = asyncio.ensure_future(place.wait())
            done, _ = await asyncio.wait(
                [settled, moved],
                timeout=room.heartbeat_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            moved.cancel()
            if not done:
                yield ()
