"""What a turn does, told line by line: what came of each call, and with `/verbose` every move of every contract."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from detent.agents.assistant.commands.screen import Screen
from detent.agents.assistant.execution_ledger import Execution, Ledger, Move
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.status import Status
from detent.kit.language import _
from detent.kit.safe_text import brief, duration, status_word, visible

if TYPE_CHECKING:
    from detent.host.port import EntryStream

MARKS = {Status.COMPLETED: "✓", Status.FAILED: "✗", Status.REJECTED: "–", Status.CANCELLED: "–"}
COLOURS = {Status.COMPLETED: "green", Status.FAILED: "red", Status.REJECTED: "yellow", Status.CANCELLED: "yellow"}
SHORT_S = 1.0  # how long a call took is told only beyond that


class DeedLines:
    """Reads a turn's entries and tells each move once."""

    def __init__(self, screen: Screen, run_id: str) -> None:
        self._screen = screen
        self.ledger, self._told = Ledger(run_id), 0

    def skip(self, place: "EntryStream") -> None:
        """Take what has happened so far as told."""
        while entries := place.more():
            self.ledger.read(entries)
        self._told = len(self.ledger.rows)

    def tell(self, place: "EntryStream") -> None:
        """What is new; in verbose words, the moves of one execution stand in one line."""
        refused = list[str]()
        while entries := place.more():
            self.ledger.read(entries)
            refused += [line for entry in entries for line in render_refused(entry)]
        for line in refused:
            self._screen.note(line, "red")
        ledger = self.ledger
        rows = [(id, row) for id, row in ledger.rows[self._told :] if isinstance(row, Move)]
        self._told = len(ledger.rows)
        for id, group in groupby(rows, lambda one: one[0]):
            execution, moves = ledger.executions[id], [move for _id, move in group]
            if self._screen.is_verbose:
                self._screen.note(render_moves(execution, moves))
            elif execution.type == "tool_call" and moves[-1].target.is_terminal and execution.error != "superseded":
                self._screen.note(*render_deed(execution))
            self._follow(execution)

    def _follow(self, execution: Execution) -> None:
        if execution.type != "tool_call":
            return
        if execution.status is Status.RUNNING:
            self._screen.running.setdefault(execution.contract_id, visible(execution.summary))
        else:
            self._screen.running.pop(execution.contract_id, None)


def render_deed(execution: Execution) -> tuple[str, str]:
    """What came of a call, in one line, and its colour."""
    name, status = visible(execution.summary), execution.status
    given = brief(execution.detail.get("args"), 100) if execution.detail.get("args") else ""
    took_s = execution.moves[-1].at - execution.moves[0].at if execution.moves else 0.0
    took = f"  ({duration(took_s)})" if took_s >= SHORT_S else ""
    if execution.already_done:
        told = _("{name} was done before and is not done again; it gave: {result}", name=f"{name} {given}",
                 result=brief(execution.result, 200))  # fmt: skip
        return f"  = {told}", "yellow"
    said = brief(execution.error or bare_result(execution.result), 200)
    return f"  {MARKS.get(status, '·')} {name} {given}{took}{f'  {said}' if said else ''}", COLOURS.get(status, "dim")


def render_refused(entry: Entry) -> Iterator[str]:
    """Calls of an answer that could not be made, each in one line: nobody else would tell of them."""
    event, context = entry.event, entry.run.context
    if not isinstance(event, ContractMoved) or not event.contract_id.startswith("reasoning/think/"):
        return
    facts = context.get("executions") or []
    if event.trigger != "succeed" or event.raises not in ("AGAIN", "TOOL") or not facts:
        return
    made = [context["call"]] if context.get("call") else [call for step in context.get("steps") or () for call in step]
    number = made[0].get("round") if made else facts[-1].get("round")
    for one in facts:
        if one.get("type") == "tool_call" and one.get("round") == number:
            given = brief(one["arguments"], 100) if one["arguments"] else ""
            yield f"  ✗ {visible(one['view']['action_summary'])} {given}  {brief(one['view']['error_message'], 200)}"


def bare_result(result: Any) -> Any:
    """A result without the engine's mark of success; nothing as an empty text."""
    if isinstance(result, Mapping):
        rest = {name: value for name, value in result.items() if name not in ("success", "truncated")}
        if isinstance(rest.get("text"), str) and rest.keys() <= {"text", "structured", "content"}:  # of an MCP tool
            blocks = [block for block in rest.get("content") or () if block.get("type") != "text"]
            named = [f"[{block.get('mimeType') or block.get('type')}]" for block in blocks]
            return " ".join(filter(None, (rest["text"], *named))) or rest.get("structured", "")
        return next(iter(rest.values())) if len(rest) == 1 else rest
    return "" if result is None else result


def render_moves(execution: Execution, moves: Sequence[Move]) -> str:
    """What became of an execution, in one line, with its number and its statuses."""
    call = execution.detail.get("call")
    about = _("{name}, confirmation", name=f"{call['service']}.{call['method']}") if call else execution.summary
    name = f"{visible(about)} [{execution.id.rpartition(':')[2]}]"
    way = " → ".join(status_word(status) for status in (moves[0].source, *(move.target for move in moves)))
    more = ""
    if moves[0].trigger == "start" and execution.type == "tool_call":
        more += f"  {brief(execution.detail.get('args'), 200)}"
    if moves[-1].target.is_terminal and (execution.error or execution.result):
        more += f"  {brief(execution.error or execution.result, 300)}"
    return f"  {name}: {way}{more}"
