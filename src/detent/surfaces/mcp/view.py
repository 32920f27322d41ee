"""Views of runs for MCP clients, read from the journal: reading needs nobody's leave and disturbs nobody."""

from pathlib import Path
from typing import Any

import msgspec

from detent.core.contract import Contract
from detent.core.status import Status
from detent.errors import Refused, Unknown
from detent.host.reading import Query
from detent.surfaces.cli.caller import Caller
from detent.surfaces.cli.story import record_of
from detent.surfaces.cli.view import RunReport as View
from detent.surfaces.mcp.result import Events, Line, Lines, Question, Questions, Standing

LIST_MAX = 200
EVENTS_MAX = 200


class Reader:
    """The journal of a home, as clients may see it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def _caller(self) -> Caller:
        return Caller(str(self.home), is_json=True)

    def find(self, name: str) -> str:
        """The id of a run by its beginning, or `last`."""
        caller = self._caller()
        try:
            return caller.find(name).run_id
        finally:
            caller.close()

    def standing(self, name: str) -> Standing:
        """Where a run stands."""
        caller = self._caller()
        try:
            return self._standing(caller, caller.find(name).run_id)
        finally:
            caller.close()

    def _standing(self, caller: Caller, run_id: str) -> Standing:
        view = View(caller, run_id)
        told = view.envelope(ok=True)
        return Standing(
            run_id=run_id,
            machine=told["machine"],
            state=told["state"],
            status=told["status"],
            waiting=[self._question(caller, one) for one in told["waiting"]],
            accepts=told["accepts"],
            output=told["output"],
            error=told["error"],
            alarms=told["alarms"],
            checkpoint=told["checkpoint"],
            cost_usd=told["cost"],
        )

    def _question(self, caller: Caller, told: dict[str, Any]) -> Question:
        contract = caller.reader.standing(told["run_id"]).run.contract(told["contract_id"])
        known = {name: told[name] for name in Question.model_fields if name in told}
        if told["reason"] != "outcome_unknown":
            known.pop("data", None)  # what an author shows to people is not for agents
        return Question(**known, irreversible=contract is not None and contract.is_irreversible)

    def runs(self, status: str, limit: int) -> Lines:
        """The runs, newest first."""
        caller = self._caller()
        try:
            wanted = [Status(status)] if status else []
            query = Query(tuple(wanted), limit=min(limit, LIST_MAX))
            summaries = caller.reader.list(query).runs if caller.has_journal() else []
            names = ("run_id", "state", "started_at", "updated_at")
            found = [
                Line(
                    machine=one.name,
                    status=one.status.value,
                    alarms=list(one.alarms),
                    **{name: getattr(one, name) for name in names},
                )
                for one in summaries
            ]
            return Lines(runs=found)
        except ValueError:
            raise Refused(f"`{status}` is no status; one of {', '.join(one.value for one in Status)}") from None
        finally:
            caller.close()

    def events(self, name: str, after: int, limit: int) -> Events:
        """The events of a run after one of them."""
        caller = self._caller()
        try:
            run_id = caller.find(name).run_id
            found: list[dict[str, Any]] = []
            last, most = after, max(1, min(limit, EVENTS_MAX))
            for entry in caller.reader.entries(run_id, after):
                if len(found) == most:
                    return Events(run_id=run_id, events=found, last=last, has_more=True)
                found.append(record_of(entry))
                last = entry.seq
            return Events(run_id=run_id, events=found, last=last)
        finally:
            caller.close()

    def questions(self) -> Questions:
        """Everything that waits for a person, in every run."""
        caller = self._caller()
        try:
            found: list[Question] = []
            query = Query((Status.WAITING,), limit=LIST_MAX)
            summaries = caller.reader.list(query).runs if caller.has_journal() else []
            for summary in summaries:
                run = caller.reader.standing(summary.run_id).run
                told = View(caller, run.id).questions if not run.parent else []
                found += [self._question(caller, one) for one in told]
            return Questions(questions=found)
        finally:
            caller.close()

    def asking(self, name: str, contract_id: str) -> tuple[str, Contract]:
        """The one open question that is meant: its run, which may be a child of the named one, and its contract."""
        standing = self.standing(name)
        fitting = [one for one in standing.waiting if contract_id in ("", one.contract_id)]
        if len(fitting) != 1:
            known = ", ".join(one.contract_id for one in standing.waiting) or "none"
            raise Refused(f"say which question of run {standing.run_id} is meant; open now: {known}")
        caller = self._caller()
        try:
            contract = caller.reader.standing(fitting[0].run_id).run.contract(fitting[0].contract_id)
        finally:
            caller.close()
        if contract is None:
            raise Unknown(f"there is no open contract {contract_id}")
        return fitting[0].run_id, contract

    def trace(self, name: str) -> list[dict[str, Any]]:
        """Every event of a run."""
        caller = self._caller()
        try:
            return [record_of(entry) for entry in caller.reader.entries(caller.find(name).run_id)]
        finally:
            caller.close()

    def contract(self, name: str, contract_id: str) -> dict[str, Any]:
        """A contract as it was last seen open, with the status it has now, and the events that moved it."""
        caller = self._caller()
        try:
            found: Contract | None = None
            moves: list[dict[str, Any]] = []
            status = ""
            for entry in caller.reader.entries(caller.find(name).run_id):
                found = entry.run.contract(contract_id) or found
                own = [one for one in entry.taken if one.kind == "contract" and one.subject == contract_id]
                status = own[-1].target if own else status
                if getattr(entry.event, "contract_id", "") == contract_id:
                    moves.append(record_of(entry))
        finally:
            caller.close()
        if found is None:
            raise Unknown(f"there is no contract {contract_id} in run {name}")
        return {"contract": {**msgspec.to_builtins(found), "status": status}, "events": moves}
