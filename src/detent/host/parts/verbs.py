"""The verbs of a host: each admits whoever asks, checks what it can, and is one event handed to the engine room."""

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from detent.core.answer import answer_of, misfit
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.events import (
    ATTEMPT,
    CANCEL,
    HOLD,
    MIGRATE,
    RELEASE,
    RETRY,
    RULES,
    ContractMoved,
    Event,
    Signalled,
    Started,
)
from detent.core.history import Entry
from detent.core.identity import By, Identity, identity_of
from detent.core.machine import Machine
from detent.core.needed_result import find_unsaid
from detent.core.run import Run
from detent.core.value import digest, plain
from detent.errors import BadSignature, NotPermitted, NotWaiting, Refused
from detent.host.concurrency_group import Entering, enter_again, enter_new, leave, mark_of, take_place
from detent.host.parts.admission import Admission, describe_voucher, sign_answer
from detent.host.parts.anchor import anchor
from detent.host.parts.answer_signature import check_meaning, check_signed, keep_signed
from detent.host.parts.child import CHILD, declarations
from detent.host.parts.clock import Clock
from detent.host.parts.fork_origin import find_failed, find_origin
from detent.host.parts.journal_query import Batch, genesis
from detent.host.parts.listing import Listing
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.people_record import change_people
from detent.host.parts.replay import find
from detent.host.parts.restore_gap import CLOSE, Gap, check_not_record, close_gap, mark_restored, open_gap
from detent.host.parts.retention import prune
from detent.host.parts.run_reader import RunReader
from detent.host.parts.secret_box import SecretKeeper
from detent.host.people import DOUBT, RECORD_ID
from detent.host.policy_check import Rulings
from detent.host.rate_slot import take_slots
from detent.host.run_id import check_run_id, new_run_id

NAME_MAX = 200  # of a name that somebody who may not answer gives


class Verbs(ABC):
    """What people and programs ask of a host, over an engine room of its own."""

    admission: Admission
    clock: Clock
    effects: Mapping[str, Effect]
    home: Path
    rulings: Rulings

    @cached_property
    def entering(self) -> Entering:
        """Runs that have entered their group and are about to begin."""
        return Entering()

    if TYPE_CHECKING:  # attributes of a host, which has its own kinds of them

        @property
        def reader(self) -> RunReader:
            """Reads what this host writes."""

        @property
        def secret_box(self) -> SecretKeeper:
            """Where the secrets are that runs were given."""

        @property
        def gap(self) -> Gap | None:
            """What a restored journal does not know."""

        @gap.setter
        def gap(self, gap: Gap | None) -> None: ...

        @property
        def journal(self) -> Listing:
            """The journal, for reading."""

    @abstractmethod
    def load(self, run_id: str) -> LoadedRun:
        """The run, read from the journal if it is not in memory."""

    @abstractmethod
    def find_effects_of(self, source: str) -> dict[str, Effect] | None:
        """The effects that a definition's source brings."""

    @abstractmethod
    async def fetch(self, run_id: str) -> LoadedRun:
        """The run as it stands now."""

    @abstractmethod
    async def _find(self, run_id: str) -> LoadedRun | None:
        """The run, if there is one."""

    @abstractmethod
    async def _begin(self, live: LoadedRun, event: Started) -> Run:
        """Fold the first event of a run."""

    @abstractmethod
    async def _tell(self, live: LoadedRun, event: Event, machine: Machine | None = None) -> Run:
        """Fold an event; returns the run when that is on disk."""

    @abstractmethod
    async def _has(self, live: LoadedRun, event_id: str) -> bool:
        """Whether the run has an event of that id."""

    @abstractmethod
    async def _on_disk(self, live: LoadedRun) -> Run:
        """The run as it stands now, when that is on disk."""

    @abstractmethod
    async def _ring_first(self, live: LoadedRun) -> bool:
        """Let a question or a wait of this run whose time is over go off first; whether there was one."""

    @abstractmethod
    def is_lingering(self, run_id: str, contract_id: str) -> bool:
        """Whether a call that was given up goes on."""

    @abstractmethod
    async def all_written(self) -> None:
        """Return when everything is on disk that was said so far."""

    @abstractmethod
    async def write(self, batch: Batch) -> None:
        """Write what is no event of a run."""

    @abstractmethod
    async def forget(self, runs: Mapping[str, int]) -> None:
        """Remove ended runs, by id and number, from the journal and from memory."""

    async def tell(self, live: LoadedRun, event: Event) -> Run:
        """Fold an event; returns the run when that is on disk."""
        return await self._tell(live, event)

    async def start(
        self,
        machine: Machine,
        input: Mapping[str, Any] | None = None,
        *,
        run_id: str = "",
        by: By = "",
        session: str = "",
        source: str = "",
        parent: str = "",
        fork: dict[str, Any] | None = None,
    ) -> Run:
        """Begin a run; the same `run_id` twice gives the run that is already there."""
        who = self.admission.admit("start" if fork is None else "fork", by, run_id)
        if run_id and (known := await self._find(run_id)) is not None:
            return await self._on_disk(known)
        check_run_id(run_id := run_id or new_run_id())
        given, secrets = machine.take_secrets(plain(dict(input or {}), "input"))
        live = LoadedRun(0, machine, Run(id=run_id), genesis(run_id), is_new=True)
        if source:
            live.effects = self.find_effects_of(source)
        known_effects = ChainMap({"child": CHILD}, live.effects or {}, self.effects)  # type: ignore[arg-type]  # only read
        filled = given if fork is not None else machine.fill_input(given)
        async with enter_new(self, machine.group if fork is None else None, filled, run_id, parent) as place:
            event = Started(
                machine=machine.digest,
                input=filled,
                effects=declarations(machine, known_effects),
                by=who.name,
                known_by=describe_voucher(who),
                spoken_by=who.spoken_by,
                session=session,
                source=source,
                parent=parent,
                fork=fork,
                rules=RULES if fork is None else fork["run"].get("rules", 1),
                at=self.clock.now(),
                **place,
            )
            self._keep_secrets(machine, run_id, secrets, fork)
            return await self._begin(live, event)

    def _keep_secrets(self, machine: Machine, run_id: str, given: dict[str, str], fork: dict[str, Any] | None) -> None:
        """Keep what a run was given as secrets, before it begins; a fork has those of the run it begins as."""
        if fork is not None:
            self.secret_box.hand_on(str(fork.get("run_id", "")), run_id)
        elif machine.secret_inputs:
            needed = machine.input_schema.get("required", ())
            self.secret_box.keep(run_id, given, [name for name in machine.secret_inputs if name in needed])

    async def take_slots(self, run_id: str) -> None:
        """Tell a run when it may begin, or those of its calls whose rate all runs share."""
        live = await self.fetch(run_id)
        await take_place(self, live)
        await take_slots(self, live)

    async def leave_group(self, run: Run) -> None:
        """A run of a group has ended: the next one has its place."""
        if (await self.fetch(run.id)).run.ended is not None:  # nobody has tried it again meanwhile
            await leave(self, run.group, run.id, f"{run.id} {run.seq}")

    async def signal(
        self, run_id: str, name: str, data: Mapping[str, Any] | None = None, *, id: str = "", by: By = ""
    ) -> Run:
        """Tell a run that something happened; a signal with an id counts once."""
        if name.startswith("@"):
            raise Refused(f"`{name}`: names that begin with @ are detent's own")
        who = self.admission.admit("signal", by, run_id)
        live = await self.fetch(run_id)
        check_not_record(live)
        if id and await self._has(live, id):
            return await self._on_disk(live)
        await self._ring_first(live)
        return await self._tell(live, self._make_signal(name, plain(dict(data or {}), "data"), who, id))

    def _make_signal(self, name: str, data: dict[str, Any], who: Identity, id: str) -> Signalled:
        return Signalled(name, data, who.name, self.clock.now(), id, describe_voucher(who), who.spoken_by)

    async def answer(
        self, run_id: str, contract_id: str, answer: Mapping[str, Any], *, id: str = "", by: By = ""
    ) -> Run:
        """Answer a waiting contract's question; whoever is first wins."""
        given: By = by or answer.get("by") or ""
        verb = "settle" if answer.get("outcome") in DOUBT else "answer"
        try:
            who = self.admission.admit(verb, given, run_id)
            return await self._answer(run_id, contract_id, sign_answer(answer, who), id, who)
        except NotPermitted as error:
            verb = "sign" if isinstance(error, BadSignature) else verb
            await self.note_attempt(run_id, contract_id, verb, given, str(error))
            raise

    async def note_attempt(self, run_id: str, contract_id: str, verb: str, by: By, why: str) -> None:
        """Write down who tried to answer and may not: once for each person and reason, and nothing else changes."""
        tried = identity_of(by)
        if tried.known == "claimed":
            if self.admission.people() is None:
                tried = self.admission.identify(by, None, is_guarded=True)
                if tried.known != "step":
                    return  # only claimed: anybody could fill the journal with names
            else:
                tried = self.admission.identify_attempt()
        live = await self.fetch(run_id)
        person = "" if tried.is_nobodys else tried.speaker  # a step may say any name, and is written down once
        # Other names may be tried without end: they are one reason. What is refused to one's own name are few.
        reason = why if person and identity_of(by).name in ("", person) else ""
        mark = f"attempt {digest([contract_id, verb, person, tried.known, reason])[:16]}"
        if live.run.ended is not None or live.run.contract(contract_id) is None or await self._has(live, mark):
            return
        data = {"verb": verb, "contract_id": contract_id, "why": why}
        event = self._make_signal(ATTEMPT, data, replace(tried, name=tried.name[:NAME_MAX]), mark)
        await self._tell(live, event)

    async def _answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], id: str, who: Identity) -> Run:
        return await self._answer_to(await self.fetch(run_id), contract_id, answer, id, who)

    async def _answer_to(
        self, live: LoadedRun, contract_id: str, answer: Mapping[str, Any], id: str, who: Identity
    ) -> Run:
        if id and await self._has(live, id):
            return await self._on_disk(live)
        contract = live.run.contract(contract_id)
        if contract is not None and contract.question is not None and contract.question.reason == "callback":
            awaited = contract.question.data.get("run_id", "another run")
            raise Refused(f"`{contract_id}` waits for {awaited}, not for a person")
        said = plain(dict(answer), "answer")
        if contract is not None:
            self._check_stopped(live.run.id, contract, said)
            if problem := misfit(contract, answer_of(said)) or find_unsaid(live.machine, contract, answer_of(said)):
                raise Refused(problem)
            if ruling := self.rulings.refresh(live.run, contract, self.clock.now()):
                await self._tell(live, ruling)
            said = await self._check_signed(live, contract_id, said, who)
        is_open = contract is not None and contract.is_asking
        if await self._ring_first(live) and is_open and live.run.contract(contract_id) is None:
            raise NotWaiting(f"the time for an answer to `{contract_id}` is over")
        moved = ContractMoved(contract_id, "resume", result=said, actor="human", at=self.clock.now(), id=id)
        return await self._tell(live, moved)

    async def _check_signed(
        self, live: LoadedRun, contract_id: str, said: dict[str, Any], who: Identity
    ) -> dict[str, Any]:
        """The answer as it is journalled, once its signature holds, if it has or needs one."""
        answer = answer_of(said)
        await check_signed(self.journal, self.admission.people(), answer, who, self.clock.now())
        contract = live.run.contract(contract_id)  # as it is now: the check may have taken a while
        if contract is not None:
            check_meaning(self.journal, live.run, contract, answer, who)
        return said if answer.signature is None else keep_signed(said)

    def _check_stopped(self, run_id: str, contract: Contract, said: Mapping[str, Any]) -> None:
        """Refuse a word that would start a deed again while its first call goes on here."""
        earlier = contract.question.earlier if contract.question is not None else {}
        if said.get("outcome") == "not_happened":
            doubted = (run_id, contract.id)
        elif said.get("approved") and earlier:
            doubted = (str(earlier.get("run_id")), str(earlier.get("contract_id")))
        else:
            return
        if self.is_lingering(*doubted):
            raise Refused(
                f"the call of `{doubted[1]}` cannot be stopped and still goes on; its result will be reported"
            )

    async def cancel(self, run_id: str, *, by: By = "", reason: str = "", id: str = "") -> Run:
        """Stop a run and everything it has under way."""
        data = {"reason": reason} if reason else {}
        who = self.admission.admit("cancel", by, run_id)
        live = await self.fetch(run_id)
        check_not_record(live)
        return await self._once(live, self._make_signal(CANCEL, data, who, id))

    async def show(self, run_id: str) -> Run:
        """Where a run stands."""
        return await self._on_disk(await self.fetch(run_id))

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The run's events as they come, until it ends."""
        async for entry in self.reader.follow(run_id, after):
            yield entry

    # beside the verbs

    async def _once(self, live: LoadedRun, event: Signalled) -> Run:
        """Tell an event unless it was told before: the process that was told first may have died over it."""
        if event.id and await self._has(live, event.id):
            return await self._on_disk(live)
        return await self._tell(live, event)

    async def hold(self, run_id: str, *, by: By = "", id: str = "") -> Run:
        """Pause: what is at work goes on, nothing new begins."""
        who = self.admission.admit("hold", by, run_id)
        return await self._once(await self.fetch(run_id), self._make_signal(HOLD, {}, who, id))

    async def release(self, run_id: str, *, by: By = "", id: str = "") -> Run:
        """Go on after `hold`."""
        who = self.admission.admit("release", by, run_id)
        live = await self.fetch(run_id)
        if live.run.group and live.run.held_by == mark_of(live.run.group) != who.name:
            raise Refused(f"run {run_id} waits for a place in its group, and goes on by itself when it has one")
        return await self._once(live, self._make_signal(RELEASE, {}, who, id))

    async def retry(self, run_id: str, *, by: By = "", id: str = "") -> Run:
        """Let a failed run go on from what failed; what is done stays done, and a yes to the same call holds."""
        live = await self.fetch(run_id)
        if live.run.parent:
            above = live.run.parent.partition(" ")[0]
            raise Refused(f"run {run_id} was started by run {above}; try that one again")
        who = self.admission.admit("retry", by, run_id)
        async with enter_again(self, live.machine.group, live.run):
            return await self._once(live, self._make_signal(RETRY, {}, who, id))

    async def retry_child(self, run_id: str, id: str) -> bool:
        """Let a child run go on because its parent does; whether it goes on now."""
        live = await self.fetch(run_id)
        try:
            await self._once(live, Signalled(RETRY, {}, "parent", self.clock.now(), id))
        except Refused:
            return live.run.ended is None
        return True

    async def migrate(
        self,
        run_id: str,
        machine: Machine,
        *,
        state: str = "",
        actions: Mapping[str, str] | None = None,
        by: By = "",
        id: str = "",
    ) -> Run:
        """Let a waiting run go on under another machine; `state` and `actions` name what is called otherwise there."""
        who = self.admission.admit("migrate", by, run_id)
        live = await self.fetch(run_id)
        check_not_record(live)
        if id and await self._has(live, id):
            return await self._on_disk(live)
        data: dict[str, Any] = {"machine": machine.digest, "rules": RULES} | ({"state": state} if state else {})
        data |= {"actions": dict(actions)} if actions else {}
        before, live.machine = live.machine, machine
        try:
            return await self._tell(live, self._make_signal(MIGRATE, data, who, id), machine)
        except Refused:
            live.machine = before
            raise

    async def fork(self, run_id: str, checkpoint: str = "", *, new_id: str = "", by: By = "", loop: str = "") -> Run:
        """Begin a new run as another one was at a checkpoint, or to do again only what failed in one of its loops."""
        self.admission.admit("fork", by, run_id)
        await self.show(run_id)  # all of it is on disk
        was = find_failed(self.journal, run_id, loop) if loop else find_origin(self.journal, run_id, checkpoint)
        return await self.start(was.machine, {}, run_id=new_id, by=by, source=was.source, fork=was.begins_as)

    async def checkpoint(self, run_id: str) -> str:
        """The hash that stands for everything this run has been through so far."""
        await self.show(run_id)
        return find(self.journal, run_id).summary.checkpoint

    async def prune(self, before: float, *, by: By = "") -> dict[str, Any]:
        """Forget runs that ended before a time and hold no key; what went is named in a run of its own."""
        return await prune(self, before, replace(self.admission.admit("prune", by), known="detent"))

    async def change_people(self, change: Mapping[str, Any], *, by: By = "") -> dict[str, Any]:
        """Add, change or remove a person, or adopt the file as it is; who did what is journalled first."""
        return await change_people(self, dict(change), by)

    async def tell_record(self, name: str, data: dict[str, Any], who: Identity, id: str = "") -> Run:
        """Write an event about people into the run that keeps them."""
        return await self._once(await self.fetch(RECORD_ID), self._make_signal(name, data, who, id))

    async def anchor(self, *, by: By = "") -> dict[str, Any]:
        """Put on record what the journal holds; the line to publish, not yet signed."""
        who = replace(self.admission.admit("anchor", by), known="detent")
        await self.all_written()
        line = await anchor(self, self.clock.now(), who)
        return dict(msgspec.to_builtins(line))

    async def mark_restored(self, since: float, until: float = 0.0, *, by: By = "") -> int:
        """Say that this journal knows nothing of what was done since a time; the new epoch."""
        who = self.admission.admit("restore", by)
        self.gap = await mark_restored(self, since, until or self.clock.now(), who)
        return self.gap.epoch

    async def close_gap(self, *, by: By = "", comment: str = "") -> tuple[str, ...]:
        """Ask no more about calls that may have been made in the gap; the records that are closed by that."""
        who = self.admission.admit("restore", by)
        closed = await close_gap(self, lambda data: self._make_signal(CLOSE, data, who, ""), comment)
        self.gap = open_gap(self.journal)
        return closed
