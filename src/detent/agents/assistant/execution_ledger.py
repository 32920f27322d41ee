"""Executions: the contracts of a turn as clients of the execution protocol know them, read from the journal.

A deed that is asked about first is one contract of the engine that waits before it acts; clients know it as two, the
tool call and the confirmation it waits for. Both are seen here, made of the same moves; nothing is stored twice.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from detent.agents.assistant.result_fact import ALREADY, UNKNOWN
from detent.agents.assistant.user_language import is_chinese
from detent.agents.assistant.wanted_call import split_name
from detent.core.contract import MOVES, Contract, Failure
from detent.core.events import ContractMoved
from detent.core.history import Consequence, Entry
from detent.core.question import Question
from detent.core.status import Status
from detent.errors import EventRefused, Refused

MOVES_KEPT = 50  # in the visible record; the journal keeps all
TOOL, ECS, RUNNER, REASONING, HUMAN = "tool_node", "ecs_node", "graph_runner", "reasoning", "human"
WRITERS = (TOOL, ECS, RUNNER, HUMAN)  # reasoning and everybody else may only read
CATEGORIES = {TOOL: "tool", ECS: "system", RUNNER: "system", REASONING: "agent", HUMAN: "human"}


class Move(msgspec.Struct, frozen=True):
    """One of the nine moves, by whom and when."""

    source: Status
    target: Status
    trigger: str
    actor: str
    at: float
    seq: int = 0


class Execution(msgspec.Struct, frozen=True):
    """One execution: what was wanted, how far it came, and what came of it."""

    id: str
    type: str  # tool_call or ecs_request
    detail: dict[str, Any]
    contract_id: str
    created_at: float
    irreversible: bool = False
    key: str = ""
    supersedes: str = ""
    status: Status = Status.PENDING
    moves: tuple[Move, ...] = ()
    result: Any = None
    error: str = ""
    question: Question | None = None  # what it asked when it last waited
    allowed_by: str = ""  # who said yes to it
    doubt: bool = False  # it waited because nobody knew whether it had happened
    expires_at: float = 0.0
    timeout_s: float = 0.0
    language: str = ""  # in which its question is put: `zh`, else English
    already_done: bool = False  # refused because an earlier one did the same; `result` is what that one gave

    def move(self, trigger: str, actor: str, at: float, seq: int = 0, **known: Any) -> "Execution":
        """The execution after one more move; only nodes that carry out, and people, may move one."""
        if actor not in WRITERS:
            raise Refused(f"`{actor}` may read executions, not move them; writers: {', '.join(WRITERS)}")
        target = MOVES.get((self.status, trigger))
        if target is None:
            accepts = [name for status, name in MOVES if status is self.status]
            raise EventRefused(self.status.value, trigger, accepts)
        moves = (*self.moves, Move(self.status, target, trigger, actor, at, seq))
        return msgspec.structs.replace(self, status=target, moves=moves, **known)

    @property
    def summary(self) -> str:
        """What it does, in two words: `service.method`, or the title of a form."""
        detail = self.detail
        if detail.get("service") and detail.get("method"):
            return f"{detail['service']}.{detail['method']}"
        if detail.get("title"):
            return str(detail["title"])
        if self.type != "ecs_request":
            return self.type
        return f"ecs:{detail['type']}" if detail.get("type") else self.type


class Created(msgspec.Struct, frozen=True):
    """A row of the trace that says that reasoning has made an execution."""

    execution: str
    at: float


Row = tuple[str, Created | Move]  # and which execution it is about


class Ledger:
    """Takes a turn's entries one after the other and keeps its executions; a projection of the run."""

    name: ClassVar[str] = "executions"
    version: ClassVar[int] = 2
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._executions: dict[str, Execution] = {}
        self._rows: list[Row] = []
        self._own: dict[str, str] = {}  # contract id → execution id
        self._guard: dict[str, str] = {}  # contract id → execution id of its confirmation
        self._seen: dict[str, Contract] = {}
        self._started: dict[str, Entry] = {}  # begun; the next entry says whether it asks first

    @property
    def executions(self) -> dict[str, Execution]:
        """The executions by their ids, in the order they were made."""
        return self._told[0]

    @property
    def rows(self) -> list[Row]:
        """What was made and what moved, in the order it happened."""
        return self._told[1]

    @property
    def _told(self) -> tuple[dict[str, Execution], list[Row]]:
        """What has begun and has not asked so far counts as begun, until the next entry says otherwise."""
        if not self._started:
            return self._executions, self._rows
        executions, rows = {**self._executions}, [*self._rows]
        for contract_id, entry in self._started.items():
            begun = self._begin(executions[self._own[contract_id]], entry)
            executions[begun.id] = begun
            rows.append((begun.id, begun.moves[-1]))
        return executions, rows

    def read(self, entries: Iterable[Entry]) -> "Ledger":
        """Take in more entries."""
        for entry in entries:
            self.take(entry)
        return self

    def take(self, entry: Entry) -> None:
        """Take in the next entry."""
        for contract in entry.run.contracts:
            if _is_execution(contract.id):
                self._seen[contract.id] = contract
                self._ask_anew(contract)
        asked = {taken.subject for taken in entry.taken if taken.kind == "contract" and taken.event == "suspend"}
        for contract_id in [one for one in self._started if one not in asked]:
            self._settle(contract_id, is_asked=False)
        for taken in entry.taken:
            if taken.kind == "contract" and _is_execution(taken.subject):
                self._take(entry, taken)

    def _take(self, entry: Entry, taken: Consequence) -> None:
        contract_id, trigger = taken.subject, taken.event
        if trigger == "start":
            self._create(entry, contract_id)
            self._started[contract_id] = entry
            return
        contract = self._seen.get(contract_id)
        reason = contract.question.reason if contract is not None and contract.question is not None else ""
        if contract_id in self._started:
            is_asked = trigger == "suspend" and reason == "approval" and contract_id.startswith("tools/")
            self._settle(contract_id, is_asked=is_asked)
            if is_asked:
                self._confirm(entry, contract_id)
                return
        guard = self._guard.get(contract_id)
        if guard is not None and self._executions[guard].status is Status.WAITING:
            self._take_answer(entry, taken, contract_id, guard)
        else:
            self._move(self._own[contract_id], entry, taken, reason)

    def _ask_anew(self, contract: Contract) -> None:
        """A confirmation may learn, after it was asked for, that the same was done before."""
        guard = self._executions.get(self._guard.get(contract.id, ""))
        if guard is None or guard.status is not Status.WAITING or contract.question in (None, guard.question):
            return
        text = contract.question.text if contract.question is not None else ""
        detail = {**guard.detail, "message": text, "title": text}
        self._put(msgspec.structs.replace(guard, question=contract.question, detail=detail))

    def _create(self, entry: Entry, contract_id: str) -> None:
        contract = self._seen.get(contract_id)
        is_tool = contract_id.startswith("tools/")
        call, form = _call_of(entry, contract_id), entry.run.context.get("form") or {}
        if is_tool:
            effect = contract.effect if contract else str(call.get("effect", ""))
            name = str(call.get("name") or effect)
            service, method = split_name(name)
            given = contract.input if contract else call.get("arguments", {})
            detail = {"service": service, "method": method, "args": given}
        else:
            detail = {**form, "request": "form"}
        self._add(
            contract_id,
            Execution(
                self._next_id(),
                "tool_call" if is_tool else "ecs_request",
                detail,
                contract_id,
                entry.event.at,
                bool(contract.is_irreversible if contract else call.get("irreversible")),
                contract.key if contract and is_tool else "",
                self._own.get(contract.supersedes, "") if contract else "",
                timeout_s=contract.timeout_s if contract else 0.0,
                language=_language(entry),
            ),
            self._own,
        )

    def _next_id(self) -> str:
        return f"{self.run_id}:{len(self._executions) + 1:03d}"

    def _add(self, contract_id: str, execution: Execution, by: dict[str, str]) -> None:
        self._put(execution)
        by[contract_id] = execution.id
        self._rows.append((execution.id, Created(execution.id, execution.created_at)))

    def _settle(self, contract_id: str, *, is_asked: bool) -> None:
        """It is known now whether a contract that has begun asks first; one that does has not begun for clients."""
        entry = self._started.pop(contract_id)
        if not is_asked:
            self._keep(self._begin(self._executions[self._own[contract_id]], entry))

    @staticmethod
    def _begin(execution: Execution, entry: Entry) -> Execution:
        actor = TOOL if execution.type == "tool_call" else ECS
        return execution.move("start", actor, entry.event.at, entry.seq)

    def _confirm(self, entry: Entry, contract_id: str) -> None:
        own, contract = self._executions[self._own[contract_id]], self._seen[contract_id]
        text = contract.question.text if contract.question else ""
        detail = {"type": "confirmation", "message": text, "title": text, "call": own.detail, "execution_id": own.id}
        guard = Execution(self._next_id(), "ecs_request", detail, contract_id, entry.event.at,
                          question=contract.question, expires_at=contract.expires_at,
                          language=_language(entry))  # fmt: skip
        self._add(contract_id, guard, self._guard)
        self._apply(guard.id, "start", ECS, entry)
        self._apply(guard.id, "suspend", ECS, entry)

    def _take_answer(self, entry: Entry, taken: Consequence, contract_id: str, guard: str) -> None:
        """The confirmation has come to its end, and with it the tool call begins, or ends before it began."""
        own, trigger = self._own[contract_id], taken.event
        if trigger != "resume":
            error = _error(entry, contract_id)
            self._apply(guard, trigger, RUNNER, entry, error=error)
            self._apply(own, "start", TOOL, entry)
            self._apply(own, "cancel", TOOL, entry, error=error)
            return
        self._apply(guard, "resume", RUNNER, entry)
        is_no = any(t.subject == contract_id and t.event == "reject" for t in entry.taken)
        if not is_no:
            self._apply(guard, "succeed", RUNNER, entry, result=_answer_in(entry))
            self._apply(own, "start", TOOL, entry, allowed_by=_speaker(entry))

    def _move(self, own: str, entry: Entry, taken: Consequence, reason: str) -> None:
        execution, trigger, known = self._executions[own], taken.event, dict[str, Any]()
        guard = self._guard.get(execution.contract_id)
        if trigger == "reject" and guard is not None and self._executions[guard].status is Status.RUNNING:
            error = _error(entry, execution.contract_id)
            self._apply(guard, "reject", RUNNER, entry, error=error)
            self._apply(own, "start", TOOL, entry)
        if trigger == "succeed":
            known["result"] = self._find_result(entry, execution.contract_id)
            if isinstance(known["result"], dict) and known["result"].get("success") is False:
                trigger, known["error"] = "fail", _error_in(known["result"])
        elif trigger in ("fail", "reject", "cancel", "timeout"):
            known["error"] = _error(entry, execution.contract_id)
            if trigger == "reject":
                known["result"] = _result(entry, execution.contract_id)
                failure = entry.event.error if isinstance(entry.event, ContractMoved) else None
                known["already_done"] = failure is not None and failure.type == ALREADY
        elif trigger == "suspend":
            contract = self._seen[execution.contract_id]
            known |= {"question": contract.question, "expires_at": contract.expires_at}
            known["doubt"] = execution.doubt or reason == "outcome_unknown"
        self._apply(own, trigger, _actor(execution, trigger, taken), entry, **known)

    def _find_result(self, entry: Entry, contract_id: str) -> Any:
        """What a call gave, or the same call before it whose result somebody took."""
        result = _result(entry, contract_id)
        contract, said = self._seen.get(contract_id), getattr(entry.event, "result", None)
        is_used = result is None and isinstance(said, dict) and said.get("outcome") == "use"
        if is_used and contract is not None and contract.question is not None:
            return contract.question.earlier.get("result")
        return result

    def _apply(self, id: str, trigger: str, actor: str, entry: Entry, **known: Any) -> None:
        self._keep(self._executions[id].move(trigger, actor, entry.event.at, entry.seq, **known))

    def _put(self, execution: Execution) -> None:
        self._executions = {**self._executions, execution.id: execution}  # others may be going through the old ones

    def _keep(self, moved: Execution) -> None:
        self._put(moved)
        self._rows.append((moved.id, moved.moves[-1]))


_PLACE = re.compile(r"tools/steps\.(\d+)\.calls\.(\d+)\.")


def _call_of(entry: Entry, contract_id: str) -> dict[str, Any]:
    """The tool call that a contract carries out: the only one, or one of several steps."""
    context, place = entry.run.context, _PLACE.match(contract_id)
    if place is None:
        return context.get("call") or {}
    steps = context.get("steps") or []
    step, number = int(place[1]), int(place[2])
    is_there = step < len(steps) and number < len(steps[step])
    return steps[step][number] if is_there else {}


def _language(entry: Entry) -> str:
    return "zh" if is_chinese(entry.run.context.get("message")) else ""


def _is_execution(contract_id: str) -> bool:
    return contract_id.startswith(("tools/", "ask/"))


def _actor(execution: Execution, trigger: str, taken: Consequence) -> str:
    if execution.type == "tool_call":
        if execution.status is Status.WAITING and taken.actor not in ("engine", "timer", "recovery", "probe", "policy"):
            return HUMAN  # somebody said what became of it
        return TOOL
    return ECS if trigger in ("start", "suspend") else RUNNER


def _result(entry: Entry, contract_id: str) -> Any:
    event = entry.event
    if not isinstance(event, ContractMoved) or event.contract_id != contract_id:
        return None
    if event.trigger != "resume":
        return event.result
    return event.result.get("result") if isinstance(event.result, dict) else None


def _answer_in(entry: Entry) -> Any:
    event = entry.event
    said = event.result if isinstance(event, ContractMoved) and isinstance(event.result, dict) else {}
    return {name: said[name] for name in ("approved", "comment", "data") if said.get(name) not in (None, "")}


def _speaker(entry: Entry) -> str:
    event = entry.event
    said = event.result if isinstance(event, ContractMoved) and isinstance(event.result, dict) else {}
    return str(said.get("by") or "")


def _error_in(result: dict[str, Any]) -> str:
    error = result.get("error")
    return str(error.get("message", error) if isinstance(error, dict) else error or "it reported an error")


def _error(entry: Entry, contract_id: str) -> str:
    event = entry.event
    failure: Failure | None = None
    if isinstance(event, ContractMoved) and event.contract_id == contract_id:
        failure = event.error
    answer = event.result if isinstance(event, ContractMoved) and isinstance(event.result, dict) else {}
    if failure is None and answer.get("approved") is True and answer.get("args") is not None:
        return "superseded"
    failure = failure or entry.run.error
    if failure is None or not failure.message:
        said = _answer_in(entry)
        no = f"{said.get('by') or 'somebody'} said no" if said.get("approved") is False else "it was ended"
        return str(said.get("comment") or (failure.type if failure else "")) or no
    return failure.message if failure.type != UNKNOWN else f"outcome unknown: {failure.message}"


def trace(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """The execution trace: one row for every execution made and every move, as `{node_id, timestamp, action, …}`."""
    for id, row in ledger.rows:
        execution = ledger.executions[id]
        about = {"contract_id": id, "irreversible": execution.irreversible}
        if isinstance(row, Created):
            yield {"node_id": REASONING, "timestamp": row.at, "action": f"create_contract:{id}", "result": None,
                   "metadata": about}  # fmt: skip
            continue
        is_last = row.target.is_terminal
        yield {
            "node_id": row.actor,
            "timestamp": row.at,
            "action": f"transition:{id}:{row.source.value}→{row.target.value}",
            "result": execution.result if is_last else None,
            "metadata": {**about, "trigger": row.trigger, "actor": row.actor},
        }
