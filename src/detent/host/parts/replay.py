"""Reading a journal without holding it: always possible, also while another process writes."""

from collections.abc import Iterator

from detent.core.contract import Contract
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import JournalError, Refused, ReplayError, Unknown
from detent.host.parts.answer_signature import SignatureProof
from detent.host.parts.claim_check import ClaimTally, check_run
from detent.host.parts.journal_query import AnyJournal, Record
from detent.host.parts.loaded_run import Point, beginning, load, replay
from detent.host.reading import Deed, Proof

NO_DEEDS = ("ask", "wait")  # the engine's own


def find(journal: AnyJournal, name: str) -> Record:
    """A run by its id, an unambiguous beginning of it, or `last`."""
    if name == "last":
        newest = journal.newest()
        if newest is None:
            raise Unknown("there are no runs yet")
        return newest
    exact = journal.record(name)
    if exact is not None:
        return exact
    found = journal.find(name)
    top = [r for r in found if not r.summary.parent] or found
    if len(top) == 1:
        return top[0]
    if not top:
        raise Unknown(f"there is no run `{name}`; `detent list` shows them")
    raise Refused(f"`{name}` fits several runs: {', '.join(r.summary.run_id for r in top[:5])}")


def entries(journal: AnyJournal, run_id: str, after: int = 0, upto: int = 0) -> Iterator[Entry]:
    """A run's events with what each led to, from the first after `after`."""
    return Follower(journal, run_id, after).more(upto)


class Follower:
    """Reads on in a run's events; what it has folded it does not fold again."""

    def __init__(self, journal: AnyJournal, run_id: str, after: int = 0) -> None:
        record = journal.record(run_id)
        if record is None:
            raise Unknown(f"there is no run {run_id}")
        self._journal, self._no, self._after = journal, record.no, after
        self._point = _base(journal, record, after)

    @property
    def run(self) -> Run:
        """The run as of the last event read."""
        return self._point.run

    def more(self, upto: int = 0, journal: AnyJournal | None = None) -> Iterator[Entry]:
        """The events that have come since; through another connection to the same file if one is given."""
        for point in replay(journal or self._journal, self._no, self._point, upto):
            self._point = point
            if point.seq > self._after and point.event is not None:
                yield Entry(point.seq, point.event, point.taken, point.run)


def deeds(journal: AnyJournal, run_id: str, after: int = 0) -> list[Deed]:
    """What a run did to the outside world after one of its events; nothing takes that back, least of all a fork."""
    known: dict[str, Contract] = {}
    found: dict[str, Deed] = {}
    for entry in entries(journal, run_id):
        known.update((contract.id, contract) for contract in entry.run.contracts)
        for taken in entry.taken:
            contract = known.get(taken.subject)
            if taken.kind != "contract" or contract is None or contract.kind == "pure" or contract.effect in NO_DEEDS:
                continue
            deed: str = "done" if taken.target == Status.COMPLETED else contract.effect_state
            event = entry.event
            if isinstance(event, ContractMoved) and event.contract_id == contract.id and event.deed:
                deed = event.deed
            found.pop(contract.id, None)
            if deed != "none" and entry.seq > after:
                given = (contract.id, contract.effect, contract.kind, deed, contract.input)
                found[contract.id] = Deed(entry.seq, event.at, *given)
    return list(found.values())


def _base(journal: AnyJournal, record: Record, after: int) -> Point:
    """Where to begin folding: the snapshot if it is not past what is asked for."""
    if after and journal.snapshot(record.no, after) is not None:
        live = load(journal, record.summary.run_id, upto=after)
        return Point(live.run.seq, live.run, live.head, live.machine)
    return beginning(record.summary.run_id)


def verify(journal: AnyJournal, run_id: str, allowed_signers: str = "") -> Proof:
    """Replay a whole run from its first event; check every hash, what the list says of it, its keys and signatures."""
    with journal.one_moment():
        return _verify(journal, run_id, allowed_signers)


def _verify(journal: AnyJournal, run_id: str, allowed_signers: str) -> Proof:
    record = journal.record(run_id)
    if record is None:
        raise Unknown(f"there is no run {run_id}")
    point, tally, unsigned = beginning(run_id), ClaimTally(), ""
    signatures = SignatureProof(journal, allowed_signers)
    try:
        for after in replay(journal, record.no, point):
            if after.event is not None:
                tally.take(point.run, after.run, after.event)
                unsigned = unsigned or signatures.find_problem(point.run, after.seq, after.event)
            point = after
    except (JournalError, ReplayError) as error:
        return Proof(run_id, point.seq, point.head.hex(), str(error))
    said, run = record.summary, point.run
    problem = ""
    if (point.seq, point.head, run.state, run.status) != (said.seq, record.head, said.state, said.status):
        problem = f"the list says {said.status.value} in `{said.state}` at {said.seq}"
    problem = problem or check_run(journal, tally) or unsigned
    return Proof(run_id, point.seq, point.head.hex(), problem, signatures.count)
