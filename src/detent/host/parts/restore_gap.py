"""The gap: a journal that was restored from a backup does not know what was done after the backup was made.

The restore is a run of its own, on record like any other, and the gap is open while that run is. Until somebody closes
it, an irreversible call is asked about before it is made, unless it cannot have been made in the gap: the effect's
probe says so, a person has said so since, or it was not to be made before the gap was over.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import REPEATED, RESTORED, RULED, ContractMoved, Signalled
from detent.core.identity import By
from detent.core.machine import Machine, table
from detent.core.question import Question
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, Refused
from detent.host.parts.clock import Clock
from detent.host.parts.journal_query import AnyJournal, Batch, Nobody, decode_event, encode
from detent.host.parts.loaded_run import LoadedRun, load
from detent.host.run_id import is_made_id
from detent.host.standing import ASK_WITHIN_S

GAP = "gap"  # stands where an earlier deed names its contract
RECORD = "restored"
CLOSE, CLOSED = "CLOSE", "closed"
RECORDED = Machine(
    name=RECORD,
    initial="open",
    transitions=table(f"open {CLOSE} {CLOSED}"),
    ends={CLOSED: "completed"},
    title="A journal that was restored",
)
OPEN_RECORDS = "select run_id from runs where name = 'restored' and state <> 'closed' order by no desc"
LIVE = "select run_id from runs where status in ('running', 'pending', 'waiting') and name <> 'restored' order by no"
MENTIONS = (
    "select cast(body as blob) from events where run = (select no from runs where run_id = ?)"
    " and instr(body, cast(? as blob)) > 0 order by seq desc"
)


# Asks the probe of a call, and says whether its no would count.
AskProbe = Callable[[bool], Awaitable[list[ContractMoved] | None]]


class Gap(NamedTuple):
    """From when until when a journal does not know what was done; `run_id` is the record of the restore."""

    run_id: str
    epoch: int
    since: float
    until: float

    @property
    def mark(self) -> str:
        """How a contract names the gap that somebody has looked into."""
        return f"{self.run_id} {GAP}"

    @property
    def earlier(self) -> dict[str, Any]:
        """The gap as the earlier deed that a question is about: perhaps there was one."""
        about = {"run_id": self.run_id, "contract_id": GAP, "status": "possible"}
        return {**about, "at": self.since, "until": self.until, "epoch": self.epoch}

    def describe(self, contract: Contract) -> str:
        """What is asked about a call."""
        since, until = (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) for at in (self.since, self.until))
        return (
            f"`{contract.effect}` may have been done between {since} and {until} UTC: this journal was restored from a"
            " backup and does not know what was done meanwhile. Do it?"
        )

    def concerns(self, run: Run, contract: Contract) -> bool:
        """Whether a call may have been made in the gap, by what its own contract says."""
        if not contract.is_irreversible or contract.effect in ("ask", "wait") or contract.again == self.mark:
            return False
        # A key that counts in one run only is new with the run, unless somebody gave the run an id that was used.
        root = run.id.partition(".")[0]
        return not (contract.scope == "run" and run.started_at > self.until and is_made_id(root))


def is_gap(earlier: Mapping[str, Any]) -> bool:
    """Whether the earlier deed of a question is a gap: then nobody else holds the key."""
    return earlier.get("contract_id") == GAP


def open_gap(journal: AnyJournal) -> Gap | None:
    """What a journal does not know; several restores make one gap."""
    found: list[Gap] = []
    for (run_id,) in journal.rows(OPEN_RECORDS, ()):
        said = load(journal, run_id).run.context
        if {"since", "until", "epoch"} <= said.keys():
            found.append(Gap(run_id, int(said["epoch"]), float(said["since"]), float(said["until"])))
    if not found:
        return None
    since, until = min(gap.since for gap in found), max(gap.until for gap in found)
    return found[0]._replace(since=since, until=until)


def note_in_question(gap: Gap, run: Run, contract: Contract, at: float) -> Signalled | None:
    """That the call an approval is about may have been made in the gap, for whoever answers."""
    question = contract.question
    is_plain = question is not None and question.reason == "approval" and not question.earlier
    if contract.status is not Status.WAITING or not is_plain or not gap.concerns(run, contract):
        return None
    data = {"contract_id": contract.id, "text": gap.describe(contract), "earlier": gap.earlier}
    return Signalled(REPEATED, data, "journal", at)


def ask_about(gap: Gap, contract: Contract, at: float, advice: str) -> ContractMoved:
    """The question whether a call was made in the gap, for those who could approve it."""
    text = gap.describe(contract) + (f"\n{advice}" if advice else "")
    question = Question(text, earlier=gap.earlier, approvers=contract.judges, separate=contract.separate)
    return ContractMoved(contract.id, "suspend", question=question, deed="none", actor="journal", at=at)


def note_cleared(gap: Gap, contract: Contract, why: str, at: float) -> Signalled:
    """Why a call goes on although the gap is open, for the trace."""
    said = {"rule": f"restored, epoch {gap.epoch}: {why}", "decision": "allow"}
    return Signalled(RULED, {"contract_id": contract.id, "policy": said}, "journal", at)


async def meet_gap(
    gap: Gap, contract: Contract, effect: Effect, clock: Clock, why: str, probe: AskProbe
) -> ContractMoved | Signalled:
    """What stands against a call that may have been made in the gap; a signal says `why` nothing does.

    The probe is asked first; its word that nothing happened counts when nothing from before can be in flight.
    """
    if not why and effect.reconcile is not None:
        lands_until = gap.until + contract.timeout_s + contract.settle_s
        if 0 < lands_until - clock.now() <= ASK_WITHIN_S:
            await clock.sleep_until(lands_until)
        found = await probe(clock.now() >= lands_until)
        if found and found[0].trigger == "succeed":
            return replace(found[0], at=clock.now())
        why = "its probe says that it was not done" if found else ""
    if why:
        return note_cleared(gap, contract, why, clock.now())
    return ask_about(gap, contract, clock.now(), effect.advice)


def find_clearance(journal: AnyJournal, gap: Gap, run: Run, contract: Contract) -> str:
    """Why a call cannot have been made in the gap, by what the journal says; empty: it can."""
    for (body,) in journal.rows(MENTIONS, (run.id, encode(contract.id))):
        event = decode_event(body)
        said = event.result if type(event) is ContractMoved and event.trigger == "resume" else None
        is_denied = isinstance(said, dict) and said.get("outcome") == "not_happened" and said.get("by") != "recovery"
        if is_denied and event.at >= gap.until:
            return "somebody has said since that it did not happen"
    for (body,) in journal.rows(MENTIONS, (run.id, encode(RESTORED))):
        event = decode_event(body)
        if type(event) is Signalled and event.name == RESTORED and event.data.get("run_id") == gap.run_id:
            asleep_until = float(event.data.get("asleep_until") or 0.0)
            if gap.until < asleep_until <= contract.created_at:
                return "it was not to be done before the gap was over"
    return ""


def find_sleep(live: LoadedRun, until: float) -> float:
    """Until when a run can only have slept, if that is after the gap; 0 when anything could have moved it."""
    run, ends = live.run, []
    for contract in run.contracts:
        is_timer = contract.question is not None and contract.question.reason == "timer"
        is_timed = contract.status is Status.PENDING or (contract.status is Status.WAITING and is_timer)
        if not is_timed or contract.alarm_at <= until:
            return 0.0
        ends.append(contract.alarm_at)
    deadlines = [at for at in (run.deadline, run.state_deadline) if at]
    if not ends or run.inbox or live.machine.accepts(run.state) or any(at <= until for at in deadlines):
        return 0.0
    return min([*ends, *deadlines])


class RestoringHost(Protocol):
    """What putting a restore on record needs of a host."""

    @property
    def journal(self) -> AnyJournal:
        """The journal, for reading."""

    def load(self, run_id: str) -> LoadedRun:
        """The run, read from the journal if it is not in memory."""

    async def start(self, machine: Machine, input: Mapping[str, Any] | None = None, *, by: By = "") -> Run:
        """Begin a run."""

    async def tell(self, live: LoadedRun, event: Signalled) -> Run:
        """Fold an event; returns when it is on disk."""

    async def write(self, batch: Batch) -> None:
        """Write what is no event of a run."""


async def mark_restored(host: RestoringHost, since: float, until: float, by: By, after_epoch: int = 0) -> Gap:
    """Begin a new epoch: the restore goes on record, and every run that was live is told that it may be behind."""
    if not since <= until:
        raise Refused("a journal cannot be restored to a time that is still to come")
    epoch = max(read_epoch(host.journal), after_epoch) + 1
    record = await host.start(RECORDED, {"since": since, "until": until, "epoch": epoch}, by=by)
    gap = Gap(record.id, epoch, since, until)
    for (run_id,) in host.journal.rows(LIVE, ()):
        try:
            await _tell_run(host, host.load(run_id), gap)
        except DetentError:
            continue  # a damaged run does not go on anyway
    batch = Batch(Nobody())
    batch.meta = (("epoch", str(epoch)),)
    await host.write(batch)
    return gap


async def _tell_run(host: RestoringHost, live: LoadedRun, gap: Gap) -> None:
    data: dict[str, Any] = {name: getattr(gap, name) for name in ("run_id", "since", "until", "epoch")}
    if asleep_until := find_sleep(live, gap.until):
        data["asleep_until"] = asleep_until
    await host.tell(live, Signalled(RESTORED, data, "restore", gap.until))
    for contract in live.run.waiting:
        note = note_in_question(gap, live.run, contract, gap.until)
        if note is not None:
            await host.tell(live, note)


async def close_gap(
    host: RestoringHost, make_signal: Callable[[dict[str, Any]], Signalled], comment: str
) -> tuple[str, ...]:
    """Somebody has looked: what the journal does not know was not done, or does not matter. The records it closes."""
    closed = []
    for (run_id,) in host.journal.rows(OPEN_RECORDS, ()):
        data = {"comment": comment} if comment else {}
        await host.tell(host.load(run_id), make_signal(data))
        closed.append(run_id)
    return tuple(closed)


def check_not_record(live: LoadedRun) -> None:
    """Refuse to move the record of a restore in any way but one."""
    if live.machine.name == RECORD and "epoch" in live.run.context:
        raise Refused(f"run {live.run.id} is the record of a restore; `detent restore --close-gap` closes it")


def read_epoch(journal: AnyJournal) -> int:
    """How often the journal was restored, and one."""
    rows = journal.rows("select value from meta where name = 'epoch'", ())
    return int(rows[0][0]) if rows else 1
