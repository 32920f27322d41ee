"""The lives of a run's contracts: each with all its moves. A projection of the run."""

from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.status import Status
from detent.surfaces.server import api_view, shape


class ContractLives:
    """Every contract a run has made, in the order they were made."""

    name: ClassVar[str] = "lives"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.contracts: dict[str, Contract] = {}
        self._moves: dict[str, list[shape.MoveView]] = {}

    def take(self, entry: Entry) -> None:
        """Take in what one event did to contracts."""
        known = self.contracts
        known.update((one.id, one) for one in entry.run.contracts)
        for taken in entry.taken:
            if taken.kind != "contract":
                continue
            move = shape.MoveView(entry.seq, entry.event.at, taken.event, Status(taken.target).value, taken.actor)
            self._moves.setdefault(taken.subject, []).append(move)
            if taken.subject not in known:
                known[taken.subject] = Contract(taken.subject, taken.subject.split("/")[-2:][0], "")
            known[taken.subject] = _end_contract(known[taken.subject], Status(taken.target), entry)

    def page(self, after: int, upto: int) -> list[shape.Life]:
        """Some of them, with all their moves."""
        found = list(self.contracts.values())[after:upto]  # at once: whoever folds may move on in another thread
        return [shape.Life(api_view.contract(one), [*self._moves.get(one.id, ())]) for one in found]

    def dump(self) -> bytes:
        """Everything, for the next process."""
        return msgspec.json.encode((list(self.contracts.values()), self._moves))

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "ContractLives":
        """What another process has dumped."""
        lives = cls(run_id)
        found, lives._moves = msgspec.json.decode(body, type=tuple[list[Contract], dict[str, list[shape.MoveView]]])
        lives.contracts = {one.id: one for one in found}
        return lives


def _end_contract(contract: Contract, status: Status, entry: Entry) -> Contract:
    """A contract as its last move left it: ended ones are no longer in the run."""
    if not status.is_terminal:
        return contract
    event = entry.event
    is_own = isinstance(event, ContractMoved) and event.contract_id == contract.id
    result = event.result if is_own and isinstance(event, ContractMoved) and event.trigger != "resume" else None
    error = event.error if is_own and isinstance(event, ContractMoved) else None
    deed: Any = "done" if status is Status.COMPLETED else contract.effect_state
    return replace(
        contract,
        status=status,
        moved_at=event.at,
        result=result,
        error=error,
        effect_state=deed,
        expires_at=0.0,
        due_at=0.0,
    )
