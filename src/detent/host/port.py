"""The port between runs and everybody else: `Host` moves them, `Reader` reads them. Every host fulfils both.

A verb of the host returns when its event is on disk, and `Refused` means that nothing was changed. Reading never
disturbs anybody: it works in any thread, beside whoever writes, and answers in bounded time however long a run is.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from detent.core.effect_type import Effect
from detent.core.history import Entry
from detent.core.identity import By
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.progress import Hear, Pass
from detent.core.run import Run
from detent.core.status import Status
from detent.host.artefact_list import KeptFile
from detent.host.projection import P
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

FindEffects = Callable[[str], Mapping[str, Effect]]  # the effects of a definition's source


class Host(Protocol):
    """Moves runs: start, signal, answer, cancel, and the other verbs that change something."""

    @property
    def reader(self) -> "Reader":
        """Reads what this host writes."""

    async def start(
        self,
        machine: Machine,
        input: Mapping[str, Any] | None = None,
        *,
        run_id: str = "",
        by: By = "",
        session: str = "",
        source: str = "",
    ) -> Run:
        """Begin a run; the same `run_id` twice gives the run that is already there."""

    async def signal(
        self, run_id: str, name: str, data: Mapping[str, Any] | None = None, *, id: str = "", by: By = ""
    ) -> Run:
        """Tell a run that something happened; a signal with an id counts once."""

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], *, by: By = "") -> Run:
        """Answer a waiting contract's question; whoever is first wins. `by` comes before what the answer says of it."""

    async def cancel(self, run_id: str, *, by: By = "", reason: str = "") -> Run:
        """Stop a run and everything it has under way."""

    async def hold(self, run_id: str, *, by: By = "") -> Run:
        """Pause: what is at work goes on, nothing new begins."""

    async def release(self, run_id: str, *, by: By = "") -> Run:
        """Go on after a pause."""

    async def retry(self, run_id: str, *, by: By = "", id: str = "") -> Run:
        """Let a run that has failed go on from what failed."""

    async def fork(self, run_id: str, checkpoint: str = "", *, new_id: str = "", by: By = "", loop: str = "") -> Run:
        """Begin a new run as another one was at a checkpoint; by default where it is now.

        With a `loop` (an action with branches, or `*` for the only one) it begins where that had ended with failures,
        and does only these again.
        """

    async def migrate(
        self,
        run_id: str,
        machine: Machine,
        *,
        state: str = "",
        actions: Mapping[str, str] | None = None,
        by: By = "",
    ) -> Run:
        """Let a waiting run go on under another machine; `state` and `actions` name what is called otherwise there."""

    async def recover(self, run_id: str = "") -> tuple[str, ...]:
        """Take up what the last process left, all of it or one run's family."""

    async def settled(self, run_id: str) -> Run:
        """Return when the run has ended or can only be moved from outside."""

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Ask the effect itself whether a deed in doubt happened; whether that settled it."""

    async def prune(self, before: float, *, by: By = "") -> dict[str, Any]:
        """Forget runs that ended before a time and hold no key."""

    async def anchor(self, *, by: By = "") -> dict[str, Any]:
        """Put on record what the journal holds; the line to publish, not yet signed."""

    async def mark_restored(self, since: float, until: float = 0.0, *, by: By = "") -> int:
        """Say that this journal knows nothing of what was done from a time on, until now by default; the new epoch."""

    async def close_gap(self, *, by: By = "", comment: str = "") -> tuple[str, ...]:
        """Ask no more about calls that may have been made before a restore; the records that this closes."""

    async def change_people(self, change: Mapping[str, Any], *, by: By = "") -> dict[str, Any]:
        """Change who may do what (`core.people_change`); journalled in a run of its own before it holds."""

    async def show(self, run_id: str) -> Run:
        """Where a run stands, when that is on disk."""

    async def list(
        self, *, status: Sequence[Status] = (), name: str = "", limit: int = 100, before: int = 0
    ) -> Sequence[Summary]:
        """The runs, newest first."""

    def watch(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The run's events as they come, until it ends."""


class OpenHost(Host, Protocol):
    """A host on a home that several processes share: the one that holds the journal does the verbs of all."""

    on_silence: Callable[[], None]  # the holder does not answer; a verb that waits waits on
    given_up: str  # what is known of the verb that was last given up on: "withdrawn", or "perhaps" done

    @property
    def is_holder(self) -> bool:
        """Whether this process holds the journal."""

    @property
    def effects(self) -> Mapping[str, Effect]:
        """The effects this process brings, by name; those of definition files come on top."""

    @property
    def policy(self) -> Policy | None:
        """The policy this process was given; it holds for runs while this process drives them."""

    async def succeed(self) -> None:
        """Wait until this process holds the journal: when the one that does goes away, take over and go on."""

    async def repair_claims(self) -> tuple[str, ...]:
        """Write the claims anew where they are not what the events say; what was wrong, as sentences."""

    def overhear(self, run_id: str, hear: Hear) -> Callable[[], None]:
        """Hear what the run's effects say while they are at work; only the process that holds the journal does."""

    def hear_all(self, ear: Pass) -> None:
        """Hear what the effects of every run say, as long as this process holds the journal, also later."""

    def at_work(self, run_id: str) -> tuple[str, ...]:
        """The contracts of a run whose effects are under way in this process."""


class News(Protocol):
    """Something that may have become more."""

    async def wait(self) -> None:
        """Return when there may be more."""


class EntryStream(News, Protocol):
    """A reader's place in the entries of one run."""

    @property
    def run_id(self) -> str:
        """The run that is followed."""

    @property
    def seq(self) -> int:
        """The number of the last entry given."""

    @property
    def run(self) -> Run:
        """The run as of the last entry given."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and everything was given."""

    def more(self) -> Sequence[Entry]:
        """The next entries; none when there are no more for now."""


class Reader(Protocol):
    """Reads runs; an unknown run raises `Unknown`, a damaged one `JournalError`."""

    has_workers: bool  # whether calls are made by workers, who may lack something or not be there

    def close(self) -> None:
        """Let go; whoever follows comes to an end."""

    def has_runs(self) -> bool:
        """Whether anything was ever written here."""

    def find(self, name: str) -> Summary:
        """A run by its id, an unambiguous beginning of it, or `last`."""

    def find_all(self, prefix: str) -> Sequence[Summary]:
        """The runs whose id begins like this, newest first; at most ten."""

    def summary(self, run_id: str) -> Summary | None:
        """The line of a run in the list; None when there is none."""

    def standing(self, run_id: str) -> Standing:
        """Where a run stands."""

    def at_hand(self, run_id: str) -> tuple[Standing, tuple[Entry, ...]] | None:
        """Where a run stands and why, if memory has both: it takes no time. None: ask for them."""

    def attend(self) -> None:
        """Keep in memory what moved lately, for this process shows it to people."""

    def at(self, run_id: str, seq: int) -> Standing:
        """The run as it was after one of its events."""

    def seq_at(self, run_id: str, at: str, loop: str = "") -> int:
        """The event that a number or the beginning of a checkpoint names; the latest for nothing."""

    def why(self, run_id: str, seq: int = 0) -> tuple[Entry, ...]:
        """The entries that led into the state the run is in, or was in after an event."""

    def entries(self, run_id: str, after: int = 0, upto: int = 0) -> Iterator[Entry]:
        """A run's events with what each led to, from the first after `after`."""

    def project(self, run_id: str, projection: type[P]) -> P:
        """What a projection makes of a run; what it has taken before it does not take again."""

    def project_part(self, run_id: str, projection: type[P], seconds: float | None) -> tuple[P, int]:
        """What a projection makes of a run in a time (None: in any), and up to which event; the next goes on there."""

    def deeds(self, run_id: str, after: int = 0) -> Sequence[Deed]:
        """What a run did to the outside world after one of its events."""

    def artefacts(self, run_id: str) -> Sequence[KeptFile]:
        """The files that a run has kept."""

    def read_artefact(self, run_id: str, digest: str) -> Iterator[bytes]:
        """The content of a file that a run has kept, piece by piece."""

    def notes(self, run_id: str) -> Sequence[Note]:
        """The messages a run has sent to whoever started it."""

    def questions(self, run_id: str) -> Sequence[tuple[str, OpenQuestion]]:
        """What a run and its children wait for people to say, each with the run that asks."""

    def identity(self) -> tuple[str, int]:
        """Which journal this is: its id, and its epoch, one more with every restore."""

    def verify(self, run_id: str, allowed_signers: str = "") -> Proof:
        """Replay a run from its first event and check every hash and signature.

        `allowed_signers`: whose keys count, as OpenSSH writes it; without it those that the journal says were in force.
        """

    def transcript(self, run_ids: Iterable[str]) -> Generator[str, None, None]:
        """Runs as lines of JSON that anybody can verify without detent."""

    def list(self, query: Query = ...) -> SummaryPage:
        """One page of runs, newest first."""

    def waiting(self, limit: int = ...) -> Sequence[Summary]:
        """Runs with a question for people, oldest first; all of them, unless a limit is given."""

    def waiting_count(self) -> int:
        """How many runs have a question for people."""

    def session(self, session: str, limit: int = 100) -> Sequence[Summary]:
        """The runs of a session, newest first."""

    def summaries(self, run_ids: Iterable[str]) -> Sequence[Summary]:
        """The lines of these runs."""

    def family(self, run_id: str) -> Sequence[Member]:
        """Every run of a run's family, parents before their children."""

    def family_now(self, run_id: str) -> Family:
        """A run's family and those of it that wait, all of one moment."""

    def first_of(self, run_id: str) -> str:
        """The run that a family began with."""

    def machine(self, digest: str) -> Machine:
        """A machine by its digest."""

    def machine_names(self) -> Sequence[str]:
        """The names of the machines that have runs."""

    def know(self, machine: Machine) -> None:
        """Keep a machine ready that is here already, instead of reading and compiling it again."""

    def old_runs(self, before: float) -> tuple[Sequence[dict[str, Any]], int]:
        """What would be kept of runs that ended before a time and protect nothing; how many others hold a key."""

    def claim_differences(self) -> Sequence[KeyTrouble]:
        """The keys about which the claims and the events do not agree."""

    def gap(self) -> OpenGap | None:
        """What the journal knows nothing of, because it was restored and nobody has looked into that yet."""

    def list_unserved(self, run_id: str = "") -> Sequence[Unserved]:
        """Calls that nobody at work can make, and why: of one run, or of all."""

    def head(self) -> JournalHead:
        """One digest over every run, every claim and the people, with what it is of."""

    def check_anchor(self, line: AnchorLine) -> AnchorProof:
        """Whether everything is still there that was when the journal was anchored."""

    def check(self) -> StoreCheck:
        """Whether the store itself is sound."""

    def cursor(self) -> int:
        """The place of the newest event in the order of all of them."""

    def steps(self, after: int, limit: int = ...) -> Sequence[Step]:
        """The events after a place, in the order in which they were written."""

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """A run's entries as they come, until it has ended."""

    def following(self, run_id: str, after: int = 0) -> AbstractContextManager[EntryStream]:
        """A place in a run's entries, for those who ask when it suits them; the run may begin later."""

    def watching(self) -> AbstractContextManager[News]:
        """For those who look at many runs, again whenever something was written."""

    def follow_all(self, after: int | None = None) -> AsyncIterator[Sequence[Step]]:
        """The events of all runs as they come, several at once; from now on, or after a place."""
