"""What is read of runs: plain values, the same whatever keeps the journal."""

from typing import Any, Literal, NamedTuple

import msgspec

from detent.core.question import Reason
from detent.core.run import Run
from detent.core.status import TERMINAL, Status


class Calling(msgspec.Struct, frozen=True):
    """The exact call a question is about."""

    effect: str
    input: dict[str, Any]


class May(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether whoever asks may answer, why not, and in whose names they may beside their own."""

    answer: bool
    why: str = ""
    speaks_for: list[str] = []


class Needed(msgspec.Struct, frozen=True):
    """How many answers are missing, and who could give one."""

    count: int
    names: list[str]


class HeardAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody who has said yes, where more than one is needed."""

    by: str
    spoken_by: str = ""
    known_by: str = ""  # empty: the name is only claimed


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open question of a contract, with everything needed to answer it."""

    contract_id: str
    action: str
    question: str
    reason: Reason
    call: Calling
    call_hash: str
    since: float
    approvers: list[str] = []
    quorum: int = 1
    approved_by: list[str] = []
    claimed: bool = False  # it is for certain people, and nobody here says who is who
    schema: dict[str, Any] = {}
    data: dict[str, Any] = {}  # of a doubt: cause, result, lands_until
    earlier: dict[str, Any] = {}  # the same deed, done before: run_id, contract_id, status, at, by, result, error
    expires_at: float | None = None
    require_signature: bool = False  # whoever answers must sign, in a terminal
    # For one person, where it is known who asks:
    may: May | None = None
    needed: Needed | None = None
    answered: list[HeardAnswer] = []


class Summary(msgspec.Struct, frozen=True):
    """One line of the list of runs, kept beside the journal so that listing folds nothing."""

    run_id: str
    name: str
    machine: str
    state: str
    status: Status
    seq: int
    started_at: float
    updated_at: float
    wake_at: float = 0.0
    waiting: tuple[OpenQuestion, ...] = ()
    by: str = ""
    session: str = ""
    parent: str = ""
    cost_usd: float = 0.0
    checkpoint: str = ""
    source: str = ""
    error: dict[str, str] | None = None  # why it has not ended well: type and message
    failed: int = 0  # how many items, branches or calls it went on without, though it has completed
    alarms: tuple[str, ...] = ()  # what somebody must look into: deeds done twice perhaps, or left standing
    held_by: str = ""  # who holds it: whoever paused it, `host` while nobody drives it, or its group
    no: int = 0  # grows with every run; a query's `before` gives the page after this one


class Query(NamedTuple):
    """Which runs are wanted; what is left empty does not matter."""

    status: tuple[Status, ...] = ()
    name: str = ""
    agent: str = ""  # whose runs, by their source
    text: str = ""
    since: float | None = None
    until: float | None = None
    is_top: bool = False  # nobody's children
    without: tuple[str, ...] = ()  # machines to leave out, by name or digest
    before: int = 0
    limit: int = 50
    moved_since: float | None = None  # whose latest event is not older


class SummaryPage(NamedTuple):
    """What a query found, newest first, and where the next one goes on; 0: there is no more."""

    runs: list[Summary]
    next: int
    damaged: tuple[str, ...] = ()  # what is wrong with rows of this page that cannot be read


class Step(NamedTuple):
    """One event in the order in which all of them were written."""

    cursor: int
    run_id: str
    name: str
    seq: int


class Member(NamedTuple):
    """One run of a family."""

    run_id: str
    parent: str  # "RUN CONTRACT" of the contract it carries out; nothing for the first of the family
    status: str
    seq: int

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can happen to it."""
        return self.status in TERMINAL


class Family(NamedTuple):
    """A family of one moment."""

    cursor: int  # the place of the newest event then, in the order of all of them
    members: list[Member]  # parents before their children
    waiting: list[Run]  # those of them that wait, as far as they can be read


class Note(NamedTuple):
    """A message to whoever started a run, and what became of it."""

    key: str
    run_id: str
    message: dict[str, Any]
    at: float
    delivered_at: float = 0.0  # 0: not yet
    tries: int = 0
    problem: str = ""  # why the last try failed


class Deed(msgspec.Struct, frozen=True):
    """Something a run did to the outside world."""

    seq: int
    at: float
    contract_id: str
    effect: str
    kind: str
    deed: str  # done, or possible: nobody knows
    input: dict[str, Any]


class Proof(NamedTuple):
    """What verifying a run found."""

    run_id: str
    events: int
    checkpoint: str
    problem: str
    signed: int = 0  # how many answers have a signature that holds


class KeyTrouble(NamedTuple):
    """A key about which the claims and the events do not agree."""

    kind: Literal["missing", "stray"]
    scope: str
    key: str
    run_id: str
    contract_id: str
    problem: str


class StoreCheck(NamedTuple):
    """What looking at the store itself found."""

    problems: tuple[str, ...]  # nothing, when it is sound
    schema: int
    size: int  # in bytes
    swept: int | None = None  # what the sweep over a queue had to put right; it should stay at 0


class BackupReport(NamedTuple):
    """A backup that was written and checked."""

    file: str
    at: float  # everything done before this moment is in it
    runs: int
    events: int
    size: int  # in bytes
    left_out: tuple[str, ...]  # files of the home that are not in it
    dropped: tuple[str, ...]  # older backups that were removed
    took_s: float


class RestoreReport(NamedTuple):
    """A journal that was put in place, and what it does not know."""

    home: str
    since: float  # the moment of the backup
    until: float  # the moment of the restore
    epoch: int
    runs: int
    live: int  # runs that were not over in the backup
    aside: str  # where what was here before is kept; empty: there was nothing
    twins: tuple[str, ...]  # other homes on this machine with the same journal


class RelocationReport(NamedTuple):
    """A journal that was moved into a database."""

    home: str  # the folder that points at the database now
    runs: int
    events: int
    claims: int
    head: str  # one digest over all of it, the same on both sides
    copied: tuple[str, ...]  # other files of the home that were copied there
    left: tuple[str, ...]  # and those that stay where they are


class AnchorProof(NamedTuple):
    """Whether a journal still has what it had when it was anchored."""

    runs: int  # that the anchor knows
    pruned: tuple[str, ...]  # those of them that were forgotten since, on record
    problems: tuple[str, ...]


class OpenGap(NamedTuple):
    """What a restored journal knows nothing of; `run_id` is the record of the restore."""

    run_id: str
    epoch: int
    since: float
    until: float


class JournalHead(NamedTuple):
    """Everything a journal holds at one moment, as one digest."""

    journal: str  # its id
    epoch: int
    runs: int
    events: int
    claims: int
    people: str  # the digest of the people file; empty: there is none
    head: str


class AnchorLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A journal's head as it is published; `record` is the run that lists what the journal held, with its hash."""

    journal: str
    epoch: int
    at: float
    runs: int
    events: int
    claims: int
    head: str
    record: str
    checkpoint: str
    people: str = ""
    signature: str = ""  # made by ssh-keygen, over the same line without it


class JournalHolder(NamedTuple):
    """The process that writes a journal, or says so; all empty if nobody ever did."""

    pid: int = 0
    command: str = ""
    since: float = 0.0


# What is missing: anybody at all, somebody who takes local calls, an effect, newer rules, the place of a run's files.
Lack = Literal["worker", "local", "effect", "rules", "place"]


class Unserved(NamedTuple):
    """A call that nobody at work can make, and why."""

    run_id: str
    contract_id: str
    problem: str
    lack: Lack = "worker"


class Checkup(NamedTuple):
    """Whether somebody writes a journal now, and answers."""

    is_held: bool
    holder: JournalHolder
    is_answering: bool


class DatabaseReport(NamedTuple):
    """A journal in a database: what is there, and who works on it."""

    name: str
    server: str  # its version
    version: int  # of the tables; 0 where there are none
    known: int  # the version that this detent writes
    runs: int = 0
    at_work: int = 0  # contracts
    workers: int = 0  # with a heartbeat
    queued: int = 0  # jobs that could be done now
    swept: int = 0  # what the sweep had to put right; it should stay at 0
