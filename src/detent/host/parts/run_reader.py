"""Reading a journal, whatever keeps it: from any thread, beside whoever writes, and from memory where that is ours."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from detent.core.artefact import ArtefactStore
from detent.core.history import Entry
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, JournalError, Unknown
from detent.host.artefact_list import KeptFile, KeptFiles
from detent.host.parts import family, retention
from detent.host.parts import replay as reader
from detent.host.parts.anchor import check_anchor, read_head
from detent.host.parts.claim_check import differences
from detent.host.parts.following import Following, Watching
from detent.host.parts.fork_origin import find_failed
from detent.host.parts.journal_query import Record
from detent.host.parts.journal_tail import Tail
from detent.host.parts.listing import Listing
from detent.host.parts.loaded_run import LoadedRun, ResidentRun, load, seq_at
from detent.host.parts.projector import Projector, RunMemory
from detent.host.parts.restore_gap import open_gap
from detent.host.parts.transcript import transcript
from detent.host.people import has_people
from detent.host.projection import P, Why
from detent.host.reading import (
    AnchorLine,
    AnchorProof,
    Deed,
    Family,
    JournalHead,
    KeyTrouble,
    Member,
    Note,
    OpenGap,
    OpenQuestion,
    Proof,
    Query,
    Step,
    StoreCheck,
    Summary,
    SummaryPage,
    Unserved,
)
from detent.host.standing import Standing

AT_ONCE = 500  # events in one message about all runs
EVERY = 2**31
DEPTH_MAX = 8  # of children that are asked for their questions


Q = ParamSpec("Q")
R = TypeVar("R")


class RunReader(ABC):
    """The reading half of the port; who keeps the journal says how to come by a connection and by news."""

    artefact_store: ArtefactStore
    has_workers = False
    is_told = False  # something else in this process rings for whoever follows

    def __init__(self, home: Path, *, is_inline: bool = False) -> None:
        self.home = home
        self.tail = Tail()
        self.memory: RunMemory | None = None  # of this process, while it holds the journal
        self._is_inline = is_inline  # read in the loop itself: a simulation has no threads
        self._projector = Projector(self)
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False

    def close(self) -> None:
        """Let go; whoever follows comes to an end."""
        self._is_closed = True
        if self._polling is not None:
            self._polling.cancel()
        self.tail.ring_all()

    @abstractmethod
    def journal(self) -> AbstractContextManager[Listing]:
        """A connection of one's own while the block goes on."""

    @abstractmethod
    def has_runs(self) -> bool:
        """Whether anything was ever written here."""

    @abstractmethod
    def check(self) -> StoreCheck:
        """Whether the store itself is sound."""

    @abstractmethod
    async def _poll(self) -> None:
        """Ring for whoever follows when another process has written, as long as somebody does."""

    # one run

    def find(self, name: str) -> Summary:
        """A run by its id, an unambiguous beginning of it, or `last`."""
        with self.journal() as journal:
            return reader.find(journal, name).summary

    def find_all(self, prefix: str) -> Sequence[Summary]:
        """The runs whose id begins like this, newest first; at most ten."""
        with self.journal() as journal:
            return [record.summary for record in journal.find(prefix)]

    def summary(self, run_id: str) -> Summary | None:
        """The line of a run in the list; None when there is none."""
        with self.journal() as journal:
            record = journal.record(run_id)
        return None if record is None else record.summary

    def standing(self, run_id: str) -> Standing:
        """Where a run stands: from memory where this process drives it, else folded from the latest snapshot."""
        kept = self.find_resident(run_id)
        if kept is not None:
            return _standing_of(kept, self.home)
        with self.journal() as journal:
            return _standing(load(journal, run_id), self.home)

    def find_resident(self, run_id: str) -> ResidentRun | None:
        """A run as it is on disk; None when it is not in memory."""
        if self.memory is None:
            return None
        watched = self.tail.runs.get(run_id)  # also when it has ended, and so is not driven any more
        return self.memory.find_resident(run_id) or (None if watched is None else watched.kept)

    def at_hand(self, run_id: str) -> tuple[Standing, tuple[Entry, ...]] | None:
        """Where a run stands and why, if memory has both: nothing is read and nothing folded."""
        kept = self.find_resident(run_id)
        why = None if kept is None else self._projector.at_hand(run_id, Why, kept.run.seq)
        return None if kept is None or why is None else (_standing_of(kept, self.home), tuple(why.entries))

    def attend(self) -> None:
        """Keep in memory what moved lately, as long as this process holds the journal: people will look at it."""
        self.tail.is_attentive = True

    def at(self, run_id: str, seq: int) -> Standing:
        """The run as it was after one of its events."""
        with self.journal() as journal:
            record = _record(journal, run_id)
            _check_seq(record, seq)
            return _standing(load(journal, run_id, upto=seq), self.home, record.summary.seq)

    def seq_at(self, run_id: str, at: str, loop: str = "") -> int:
        """The event that a number, the beginning of a checkpoint or a loop with failures names; else the latest."""
        with self.journal() as journal:
            if loop:
                return int(find_failed(journal, run_id, loop).begins_as["seq"])
            return seq_at(journal, _record(journal, run_id), at)

    def why(self, run_id: str, seq: int = 0) -> tuple[Entry, ...]:
        """The entries that led into the state the run is in, or was in after an event."""
        if not seq:
            return tuple(self.project(run_id, Why).entries)
        made = Why(run_id)
        for entry in self.entries(run_id, max(0, seq - Why.reach), seq):
            made.take(entry)
        return tuple(made.entries)

    def entries(self, run_id: str, after: int = 0, upto: int = 0) -> Iterator[Entry]:
        """A run's events with what each led to, from the first after `after`."""
        with self.journal() as journal:
            yield from reader.entries(journal, run_id, after, upto)

    def project(self, run_id: str, projection: type[P]) -> P:
        """What a projection makes of a run; what it has taken before it does not take again."""
        return self._projector.project(run_id, projection)

    def project_part(self, run_id: str, projection: type[P], seconds: float | None) -> tuple[P, int]:
        """What a projection makes of a run in a time (None: in any), and up to which event; the next goes on there."""
        return self._projector.project_part(run_id, projection, seconds)

    def deeds(self, run_id: str, after: int = 0) -> Sequence[Deed]:
        """What a run did to the outside world after one of its events."""
        with self.journal() as journal:
            return reader.deeds(journal, run_id, after)

    def artefacts(self, run_id: str) -> Sequence[KeptFile]:
        """The files that a run has kept."""
        return tuple(self.project(run_id, KeptFiles).files.values())

    def read_artefact(self, run_id: str, digest: str) -> Iterator[bytes]:
        """The content of a file that a run has kept, piece by piece."""
        return self.artefact_store.read(run_id, digest)

    def notes(self, run_id: str) -> Sequence[Note]:
        """The messages a run has sent to whoever started it."""
        with self.journal() as journal:
            return journal.notes(run_id)

    def questions(self, run_id: str) -> Sequence[tuple[str, OpenQuestion]]:
        """What a run and its children wait for people to say, each with the run that asks."""
        return self._questions(self.standing(run_id), DEPTH_MAX)

    def _questions(self, standing: Standing, depth: int) -> "Sequence[tuple[str, OpenQuestion]]":
        found = [(standing.run.id, question) for question in standing.questions]
        for child in standing.children if depth else ():
            try:
                found += self._questions(self.standing(child), depth - 1)
            except DetentError:
                continue  # a child that is gone or damaged asks nothing
        return found

    def identity(self) -> tuple[str, int]:
        """Which journal this is: its id, and its epoch, one more with every restore."""
        with self.journal() as journal:
            found = journal.identity()
        if found is None:
            raise JournalError("this journal is of an older version and has no id yet; any change gives it one")
        return found.journal_id, found.epoch

    def verify(self, run_id: str, allowed_signers: str = "") -> Proof:
        """Replay a run from its first event and check every hash and signature."""
        with self.journal() as journal:
            return reader.verify(journal, run_id, allowed_signers)

    def transcript(self, run_ids: Iterable[str]) -> Generator[str, None, None]:
        """Runs as lines of JSON that anybody can verify without detent."""
        with self.journal() as journal:
            yield from transcript(journal, [_record(journal, run_id) for run_id in run_ids])

    # many runs

    def list(self, query: Query = Query()) -> SummaryPage:  # noqa: B008  # frozen
        """One page of runs, newest first."""
        with self.journal() as journal:
            journal.damaged.clear()
            found = journal.search(query)
            return SummaryPage(
                [record.summary for record in found.records], found.next, tuple(journal.damaged.values())
            )

    def waiting(self, limit: int = EVERY) -> Sequence[Summary]:
        """Runs with a question for people, oldest first; all of them, unless a limit is given."""
        with self.journal() as journal:
            return [record.summary for record in journal.waiting(limit)]

    def waiting_count(self) -> int:
        """How many runs have a question for people."""
        with self.journal() as journal:
            return journal.waiting_count()

    def session(self, session: str, limit: int = 100) -> Sequence[Summary]:
        """The runs of a session, newest first."""
        with self.journal() as journal:
            return [record.summary for record in journal.session(session, limit)]

    def summaries(self, run_ids: Iterable[str]) -> Sequence[Summary]:
        """The lines of these runs."""
        with self.journal() as journal:
            return [record.summary for record in journal.records(run_ids)]

    def family(self, run_id: str) -> Sequence[Member]:
        """Every run of a run's family, parents before their children."""
        with self.journal() as journal:
            return family.family(journal, run_id)

    def family_now(self, run_id: str) -> Family:
        """A run's family and those of it that wait, all of one moment."""
        with self.journal() as journal, journal.one_moment():
            members = family.family(journal, run_id)
            return Family(journal.cursor(), members, [*_waiting(journal, members)])

    def first_of(self, run_id: str) -> str:
        """The run that a family began with."""
        with self.journal() as journal:
            return family.first_of(journal, run_id)

    def machine(self, digest: str) -> Machine:
        """A machine by its digest."""
        with self.journal() as journal:
            return journal.machine(digest)

    def machine_names(self) -> Sequence[str]:
        """The names of the machines that have runs."""
        with self.journal() as journal:
            return journal.names()

    def know(self, machine: Machine) -> None:
        """Keep a machine ready that is here already, instead of reading and compiling it again."""
        with self.journal() as journal:
            journal.know(machine)

    def old_runs(self, before: float) -> tuple[Sequence[dict[str, Any]], int]:
        """What would be kept of runs that ended before a time and protect nothing; how many others hold a key."""
        with self.journal() as journal:
            found, kept = retention.old_runs(journal, before)
            return [one.record for one in found], kept

    def claim_differences(self) -> Sequence[KeyTrouble]:
        """The keys about which the claims and the events do not agree."""
        with self.journal() as journal:
            return [KeyTrouble(one.kind, *one.claim[:4], one.problem) for one in differences(journal)]

    def gap(self) -> OpenGap | None:
        """What the journal knows nothing of, because it was restored and nobody has looked into that yet."""
        with self.journal() as journal:
            found = open_gap(journal)
        return None if found is None else OpenGap(*found)

    def list_unserved(self, run_id: str = "") -> Sequence[Unserved]:  # noqa: ARG002  # whoever writes a file also works
        """Calls that nobody at work can make: of one run, or of all."""
        return ()

    def head(self) -> JournalHead:
        """One digest over every run, every claim and the people, with what it is of."""
        with self.journal() as journal:
            return read_head(journal, self.home)

    def check_anchor(self, line: AnchorLine) -> AnchorProof:
        """Whether everything is still there that was when the journal was anchored."""
        with self.journal() as journal:
            return check_anchor(journal, line)

    # as it happens

    def cursor(self) -> int:
        """The place of the newest event in the order of all of them."""
        with self.journal() as journal:
            return journal.cursor()

    def steps(self, after: int, limit: int = AT_ONCE) -> Sequence[Step]:
        """The events after a place, in the order in which they were written."""
        with self.journal() as journal:
            return journal.steps(after, limit)

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """A run's entries as they come, until it has ended: pushed where this process writes, else tailed."""
        if self.summary(run_id) is None:
            raise Unknown(f"there is no run {run_id}")
        with self.following(run_id, after) as place:
            while not self._is_closed:
                found = place.at_hand()
                if found is None:
                    found = await self._aside(place.more)
                for entry in found:
                    yield entry
                if place.is_over:
                    return
                if not found:
                    await place.wait()

    @contextmanager
    def following(self, run_id: str, after: int = 0) -> Iterator[Following]:
        """A place in a run's entries, for those who ask when it suits them; the run may begin later."""
        with self.tail.watch(run_id) as watched:
            self._look_on()
            yield Following(self, watched, run_id, after)

    @contextmanager
    def watching(self) -> Iterator[Watching]:
        """For those who look at many runs, again whenever something was written; there need be no journal yet."""
        with self.tail.watch_all():
            self._look_on()
            yield Watching(self.tail.everything)

    async def follow_all(self, after: int | None = None) -> AsyncIterator[Sequence[Step]]:
        """The events of all runs as they come, several at once; from now on, or after a place."""
        with self.tail.watch_all():
            self._look_on()
            place = await self._aside(self.cursor) if after is None else after
            while not self._is_closed:
                rung = self.tail.everything.take()
                steps = await self._aside(self.steps, place)
                if steps:
                    place = steps[-1].cursor
                    yield steps
                else:
                    await rung.wait()

    async def _aside(self, ask: Callable[Q, R], *args: Q.args, **given: Q.kwargs) -> R:
        """Ask the file in a thread: a long answer must not keep the others waiting."""
        return ask(*args, **given) if self._is_inline else await asyncio.to_thread(ask, *args, **given)

    def _look_on(self) -> None:
        """Where another process writes, somebody has to look at the file: one task for all who follow."""
        if not self.tail.is_fed and not self.is_told and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll())


def _record(journal: Listing, run_id: str) -> Record:
    record = journal.record(run_id)
    if record is None:
        raise Unknown(f"there is no run {run_id}")
    return record


def _check_seq(record: Record, seq: int) -> None:
    last = record.summary.seq
    if not 1 <= seq <= last:
        raise Unknown(f"run {record.summary.run_id} has the events 1 to {last}, not {seq}")


def _standing_of(kept: ResidentRun, home: Path) -> Standing:
    return Standing(kept.run, kept.machine, kept.head.hex(), kept.run.seq, has_people(home))


def _waiting(journal: Listing, members: Iterable[Member]) -> Iterator[Run]:
    for one in members:
        try:
            if one.status == Status.WAITING:
                yield load(journal, one.run_id).run
        except DetentError:
            continue  # a damaged one must not hide the others


def _standing(live: LoadedRun, home: Path, last: int = 0) -> Standing:
    return Standing(live.run, live.machine, live.head.hex(), last or live.run.seq, has_people(home))
