"""Views of runs for MCP clients: reading needs nobody's leave and disturbs nobody."""

from typing import Any

import msgspec

from detent.core.contract import Contract
from detent.core.status import Status
from detent.errors import Refused, Unknown
from detent.host.port import Reader
from detent.host.reading import OpenQuestion, Query
from detent.host.system_run import HOUSEKEEPING
from detent.kit.agent import Agent, RunDocument, agent_of
from detent.kit.event_record import record_of
from detent.kit.safe_text import clock, visible
from detent.kit.terminal.run_story import consequences, headline
from detent.surfaces.mcp.tool_result import Documents, Events, Line, Lines, MadeDocument, Question, Questions, Standing

LIST_MAX = 200
EVENTS_MAX = 200


def _load_documents(agent: Agent) -> dict[str, RunDocument]:
    found: dict[str, RunDocument] = agent.load("documents") or {}
    return found


class ClientView:
    """The journal of a home, as clients may see it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def find(self, name: str) -> str:
        """The id of a run by its beginning, or `last`."""
        return self._reader.find(name).run_id

    def standing(self, name: str) -> Standing:
        """Where a run stands."""
        now = self._reader.standing(self.find(name))
        run = now.run
        is_wrong = run.error is not None and run.ended is not Status.COMPLETED
        return Standing(
            run_id=run.id,
            machine=now.machine.name,
            state=run.state,
            status=run.status.value,
            waiting=self._questions(run.id),
            accepts=list(now.accepts),
            output=run.output,
            error=msgspec.to_builtins(run.error) if is_wrong else None,
            failed=sum(one.failed for one in now.tolerated),
            alarms=list(run.alarms),
            checkpoint=now.checkpoint,
            cost_usd=None if run.usage.get("unpriced_calls") else run.usage.get("cost_usd", 0.0),
        )

    def _questions(self, run_id: str) -> list[Question]:
        return [self._question(asker, one) for asker, one in self._reader.questions(run_id)]

    def _question(self, run_id: str, asked: OpenQuestion) -> Question:
        contract = self._reader.standing(run_id).run.contract(asked.contract_id)
        told = {"run_id": run_id, **msgspec.to_builtins(asked)}
        known = {name: told[name] for name in Question.model_fields if name in told}
        if asked.reason != "outcome_unknown":
            known.pop("data", None)  # what an author shows to people is not for agents
        return Question(**known, irreversible=contract is not None and contract.is_irreversible)

    def runs(self, status: str, limit: int) -> Lines:
        """The runs, newest first."""
        try:
            wanted = (Status(status),) if status else ()
        except ValueError:
            raise Refused(f"`{status}` is not a status; one of {', '.join(one.value for one in Status)}") from None
        found = self._reader.list(Query(wanted, without=HOUSEKEEPING, limit=min(limit, LIST_MAX))).runs
        return Lines(
            runs=[
                Line(
                    run_id=one.run_id,
                    machine=one.name,
                    state=one.state,
                    status=one.status.value,
                    started_at=one.started_at,
                    updated_at=one.updated_at,
                    failed=one.failed,
                    alarms=list(one.alarms),
                )
                for one in found
            ]
        )

    def events(self, name: str, after: int, limit: int) -> Events:
        """The events of a run after one of them."""
        run_id = self.find(name)
        found: list[dict[str, Any]] = []
        last, most = after, max(1, min(limit, EVENTS_MAX))
        for entry in self._reader.entries(run_id, after):
            if len(found) == most:
                return Events(run_id=run_id, events=found, last=last, has_more=True)
            found.append(record_of(entry))
            last = entry.seq
        return Events(run_id=run_id, events=found, last=last)

    def questions(self) -> Questions:
        """Everything that waits for a person, in every run."""
        waiting = self._reader.list(Query((Status.WAITING,), limit=LIST_MAX)).runs
        return Questions(questions=[one for run in waiting if not run.parent for one in self._questions(run.run_id)])

    def asking(self, name: str, contract_id: str) -> tuple[str, Contract]:
        """The one open question that is meant: its run, which may be a child of the named one, and its contract."""
        run_id = self.find(name)
        asked = self._reader.questions(run_id)
        fitting = [(asker, one) for asker, one in asked if contract_id in ("", one.contract_id)]
        if len(fitting) != 1:
            known = ", ".join(one.contract_id for _, one in asked) or "none"
            raise Refused(f"say which question of run {run_id} is meant; open now: {known}")
        ((asker, question),) = fitting
        contract = self._reader.standing(asker).run.contract(question.contract_id)
        if contract is None:
            raise Unknown(f"there is no open contract {contract_id}")
        return asker, contract

    def trace(self, name: str) -> list[dict[str, Any]]:
        """Every event of a run."""
        return [record_of(entry) for entry in self._reader.entries(self.find(name))]

    def log(self, name: str) -> str:
        """What `detent log` prints of a run."""
        lines: list[str] = []
        for entry in self._reader.entries(self.find(name)):
            lines.append(f"{entry.seq:>5}  {clock(entry.event.at)}  {headline(entry.event)}")
            lines += [f"{'':>7}{line}" for line in consequences(entry)]
        return visible("\n".join(lines), keep="\n") + "\n"

    def documents(self) -> Documents:
        """What the latest runs have made, for other programs to read."""
        latest = self._reader.list(Query(without=HOUSEKEEPING, limit=LIST_MAX)).runs if self._reader.has_runs() else []
        found = []
        for one in latest:
            agent = agent_of(one.source, one.parent)
            for name, made in (_load_documents(agent) if agent is not None else {}).items():
                uri = f"detent://runs/{one.run_id}/documents/{name}"
                found.append(
                    MadeDocument(uri=uri, run_id=one.run_id, agent=agent.name if agent else "", mime=made.mime)
                )
        return Documents(documents=found)

    def document(self, name: str, document: str) -> str:
        """One of them."""
        summary = self._reader.find(name)
        agent = agent_of(summary.source, summary.parent)
        known = _load_documents(agent) if agent is not None else {}
        if document not in known:
            raise Unknown(f"run {summary.run_id} has no document {document}; it has {', '.join(known) or 'none'}")
        return known[document].write(self._reader, summary.run_id)

    def contract(self, name: str, contract_id: str) -> dict[str, Any]:
        """A contract as it was last seen open, with the status it has now, and the events that moved it."""
        found: Contract | None = None
        moves: list[dict[str, Any]] = []
        status = ""
        for entry in self._reader.entries(self.find(name)):
            found = entry.run.contract(contract_id) or found
            own = [one for one in entry.taken if one.kind == "contract" and one.subject == contract_id]
            status = own[-1].target if own else status
            if getattr(entry.event, "contract_id", "") == contract_id:
                moves.append(record_of(entry))
        if found is None:
            raise Unknown(f"there is no contract {contract_id} in run {name}")
        return {"contract": {**msgspec.to_builtins(found), "status": status}, "events": moves}
