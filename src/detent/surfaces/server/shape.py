"""The shapes of the API: every request and every answer about runs, as data. `docs/reference/http.md` explains them.

Times are seconds since the epoch. What is not there is null or left out; a field is never renamed.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from detent.core.signed_answer import PAYLOAD_MAX, SIGNATURE_MAX
from detent.host.reading import Deed, Lack, OpenQuestion
from detent.host.standing import Can
from detent.kit.http.request_base import Asked, Count
from detent.surfaces.server.branch_progress import LaneSum

PAGE_MAX = 500
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Within = Annotated[float, Meta(ge=0, le=10)]  # seconds after which a part is enough; 0: the whole is wanted
Opened = Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=500)]  # groups of a picture
Name = Annotated[str, Meta(max_length=200)]
Note = Annotated[str, Meta(max_length=10_000)]
StatusName = Literal["pending", "running", "waiting", "completed", "failed", "rejected", "cancelled"]


class Failed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a run or a contract did not work."""

    type: str
    message: str = ""
    data: dict[str, Any] = {}


class RunLine(msgspec.Struct, frozen=True):
    """One run in a list."""

    run_id: str
    machine: str
    digest: str
    state: str
    status: StatusName
    seq: int
    no: int
    started_at: float
    updated_at: float
    wake_at: float | None
    waiting: list[OpenQuestion]
    by: str
    session: str
    parent: str
    source: str
    cost_usd: float
    checkpoint: str
    error: Failed | None = None
    failed: int = 0  # how many items, branches or calls a completed run went on without
    alarms: list[str] = []  # deeds that may have been done twice, or were left standing


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs, newest first; `next` goes into `before` of the next request, also if the page is short."""

    runs: list[RunLine]
    next: int | None
    waiting: int
    cursor: int


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing an event led to."""

    kind: str
    source: str = ""
    event: str = ""
    target: str = ""
    subject: str = ""
    actor: str = ""
    value: Any = None
    values: dict[str, Any] = {}


class ContractView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at one action."""

    id: str
    action: str
    effect: str
    status: StatusName
    deed: str
    kind: str
    attempt: int
    input: dict[str, Any] = {}
    key: str = ""
    call_hash: str = ""
    lane: str = ""
    created_at: float = 0.0
    moved_at: float = 0.0
    due_at: float | None = None
    expires_at: float | None = None
    question: OpenQuestion | None = None
    answers: list[dict[str, Any]] = []
    supersedes: str = ""
    rule: str = ""  # of the policy: the one that has asked about it or answered for it
    result: Any = None
    error: Failed | None = None


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one event changed in the run; what is left out stayed as it was."""

    state: str | None = None
    status: StatusName | None = None
    context: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    dropped: list[str] = []  # keys of the context that are gone
    contracts: list[ContractView] = []  # opened or changed, and open now
    closed: list[str] = []  # ids of contracts that have ended
    error: Failed | None = None
    paused: bool | None = None
    output: Any = None
    usage: dict[str, float] = {}
    alarms: list[str] = []


class LogEntry(msgspec.Struct, frozen=True):
    """One event of a run with what it led to; `folded` names the parts too large to be here, `/log/{seq}` has them."""

    seq: int
    at: float
    kind: Literal["started", "signalled", "moved"]
    event: dict[str, Any]
    taken: list[Taken]
    state: str
    status: StatusName
    delta: Delta
    folded: list[str]


class LogPage(msgspec.Struct, frozen=True):
    """A page of a run's events; `next` goes into `after`."""

    run_id: str
    entries: list[LogEntry]
    next: int | None
    last: int


class UnservedCall(msgspec.Struct, frozen=True):
    """A call that nobody at work can make."""

    contract_id: str
    lack: Lack
    problem: str


class RunView(msgspec.Struct, frozen=True):
    """Where a run stands, or stood."""

    run_id: str
    machine: str
    title: str
    digest: str
    state: str
    status: StatusName
    paused: bool
    seq: int
    last: int  # the newest event there is; `seq` is smaller in a view of the past
    at: float
    started_at: float
    entered_at: float
    wake_at: float | None
    by: str
    session: str
    parent: str
    source: str
    context: dict[str, Any]
    variables: dict[str, Any]
    output: Any
    error: Failed | None
    alarms: list[str]  # deeds that may have been done twice, or were left standing
    usage: dict[str, float]
    cost_usd: float
    checkpoint: str
    accepts: list[str]
    contracts: list[ContractView]
    waiting: list[OpenQuestion]
    children: list[str]
    can: Can
    why: list[LogEntry]
    failed: int = 0  # how many items, branches or calls it went on without, though it has completed
    lanes: list[LaneSum] = []  # work side by side in its state
    unserved: list[UnservedCall] | UnsetType = UNSET  # while it runs, where calls are made by workers


class MoveView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One move of a contract: which of the nine, when, by whom."""

    seq: int
    at: float
    trigger: str
    status: StatusName
    actor: str = ""


class Life(msgspec.Struct, frozen=True):
    """A contract with all its moves."""

    contract: ContractView
    moves: list[MoveView]


class LifePage(msgspec.Struct, frozen=True):
    """The contracts of a run, in the order they were made."""

    run_id: str
    contracts: list[Life]
    next: int | None
    total: int
    offset: int  # of the first of them
    upto: int  # the event up to which they are known


class ProofView(msgspec.Struct, frozen=True):
    """What replaying a whole run and checking every hash found."""

    run_id: str
    ok: bool
    events: int
    checkpoint: str
    problem: str


class Deeds(msgspec.Struct, frozen=True):
    """What a run has done: before a point in its life, and after it."""

    run_id: str
    at: int
    before: list[Deed]
    after: list[Deed]


class Forked(msgspec.Struct, frozen=True):
    """The new run, and what the old one had done already: a fork takes nothing back."""

    run: RunView
    deeds: Deeds


class Begin(Asked, frozen=True):
    """Start a run: `definition` is a file of the project or the name of its machine; a `key` makes it happen once."""

    definition: Annotated[str, Meta(min_length=1, max_length=1000)]
    input: dict[str, Any] = {}
    key: Annotated[str, Meta(max_length=500)] = ""
    by: Name = ""
    session: Name = ""


class Signal(Asked, frozen=True):
    """Tell a run that something happened; an `id` makes it count once."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    data: dict[str, Any] = {}
    id: Name = ""
    by: Name = ""


class SignatureBody(Asked, frozen=True):
    """An SSH signature made elsewhere: the very text that was signed, and what `ssh-keygen -Y sign` made of it."""

    payload: Annotated[str, Meta(max_length=PAYLOAD_MAX)]
    signature: Annotated[str, Meta(max_length=SIGNATURE_MAX)]


class AnswerBody(Asked, frozen=True):
    """The reply to a question: `approved`, or `data` of a form, or the `outcome` of a deed nobody is sure about.

    `outcome: use` takes the result of the same deed, done before; `result` may say another one.
    """

    approved: bool | None = None
    comment: Note = ""
    by: Name = ""
    call_hash: Name = ""
    shown: Name = ""  # of the item; refused if anything of what was shown has changed
    args: dict[str, Any] | None = None
    patch: dict[str, Any] = {}
    data: Any = None
    outcome: Literal["", "happened", "not_happened", "give_up", "use"] = ""
    result: Any = None
    signature: SignatureBody | None = None


class Settle(Asked, frozen=True):
    """Which doubts (of `runs` and their children, about an `effect`, or `all`), and `outcome` or `probe`."""

    runs: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=1000)] = []
    effect: Name = ""
    all: bool = False
    outcome: Literal["", "happened", "not_happened", "give_up"] = ""
    probe: bool = False  # ask the effects themselves
    result: Any = None  # with happened: what it gave
    comment: Note = ""
    by: Name = ""


class Cancel(Asked, frozen=True):
    """Stop a run."""

    reason: Note = ""
    by: Name = ""


class Who(Asked, frozen=True):
    """Who asks for it."""

    by: Name = ""


class Fork(Asked, frozen=True):
    """Begin a new run as this one was after event `at`, or to do again only what failed in a loop of it."""

    # a number, or the beginning of a checkpoint; empty: now
    at: Annotated[str, Meta(max_length=64)] = ""
    key: Annotated[str, Meta(max_length=500)] = ""
    by: Name = ""
    loop: Name = ""  # a `for_each` that ended although items had failed; `*`: the only one


class RunQuery(Asked, frozen=True):
    """Which runs."""

    status: Annotated[list[StatusName], Meta(max_length=7)] = []
    machine: Name = ""
    agent: Name = ""  # whose runs
    text: Annotated[str, Meta(max_length=200)] = ""
    since: float | None = None
    until: float | None = None
    top: bool = False  # leave out runs that are children of others
    system: bool = False  # with those in which detent records its own work
    before: Seq = 0
    limit: Count = 50


class LogQuery(Asked, frozen=True):
    """Which events."""

    after: Seq = 0
    limit: Count = 100


class LifeQuery(Asked, frozen=True):
    """Which contracts: those after a place, or the newest; those that are known after some seconds, or all."""

    after: Seq = 0
    limit: Count = 200
    newest: bool = False
    within: Within = 0.0


class PointQuery(Asked, frozen=True):
    """After which event; 0: now."""

    at: Seq = 0


class StreamQuery(Asked, frozen=True):
    """Where a stream goes on; the header `Last-Event-ID` comes first."""

    after: Seq | None = None


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, and what is known about it."""

    type: str
    message: str
    accepts: list[str] = []  # signals the run would take now
    decided: dict[str, Any] = {}  # who answered first, when and what
    problems: list[dict[str, Any]] = []  # every problem of a definition file or of the data


class Trouble(msgspec.Struct, frozen=True):
    """Every answer that is not 2xx."""

    error: Detail
