"""Carrying out contracts that jobs point at: begun once, and by the crash rules where they are found begun.

After an irreversible call has left, silence is not failure. A worker that was taken for dead and comes back hands in
what came of its call all the same: it answers the open doubt, or is told as a second deed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from msgspec.structs import replace

from detent.core import progress
from detent.core.answer import CALLER, awaits_caller
from detent.core.contract import Contract, Failure
from detent.core.effect_type import Effect, EffectFailed, Outcome, PartialFailure, StillRunning
from detent.core.events import EVIDENCE, RULES, ContractMoved, Event, Signalled
from detent.core.status import Status
from detent.errors import DetentError, JournalError, NotWaiting, Refused
from detent.host.parts.child import awaiting, begin_child, child_id, child_machine
from detent.host.parts.effect_call import ask_probe, call_effect
from detent.host.parts.idempotency_claim import was_redone
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outcome import (
    UnknownOutcome,
    describe_exception,
    doubtful,
    evident,
    make_failure,
    move_for,
    not_kept,
    run_again,
    take_report,
)
from detent.host.parts.restore_gap import find_clearance, meet_gap, open_gap
from detent.host.parts.secret import NONE, Secrets, hide, list_secrets
from detent.host.postgres.fold_transaction import Moment
from detent.host.postgres.head_start import BegunCall, HeadStart
from detent.host.postgres.host_protocol import PostgresPerformer
from detent.host.postgres.job_delivery import (
    TAKE_OVER,
    Beginning,
    Delivery,
    begin,
    hand_on,
    is_possible,
    list_left,
    take_over,
)
from detent.host.postgres.job_queue import RULES_NEEDED, end_job, find_job, name_need, name_place
from detent.host.standing import ASK_WITHIN_S, settle_time

CRASHED = UnknownOutcome()


class Crew:
    """Every effect this process has under way."""

    def __init__(self, host: PostgresPerformer) -> None:
        self._host = host
        self._in_hand: dict[Delivery, int] = {}  # and its job
        self._under_way: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._aborted: set[tuple[str, str]] = set()
        self._stopped: set[tuple[str, str]] = set()  # before they were called
        self.head_start = HeadStart(host)
        self._lingering: set[tuple[str, str]] = set()
        self.is_closing = False

    def is_lingering(self, run_id: str, contract_id: str) -> bool:
        """Whether a call that was given up goes on in this process."""
        return (run_id, contract_id) in self._lingering

    def list_at_work(self, run_id: str) -> tuple[str, ...]:
        """The contracts of a run whose effects are being called here."""
        return tuple(contract_id for one, contract_id in self._under_way if one == run_id)

    def abort(self, run_id: str, contract_id: str) -> None:
        """Stop a contract's effect, if it is under way here."""
        task = self._under_way.get((run_id, contract_id))
        if task is not None:
            self._aborted.add((run_id, contract_id))
            task.cancel()
        elif any(wanted.mark == (run_id, contract_id) for wanted in (*self._in_hand, *self.head_start.list_begun())):
            self._stopped.add((run_id, contract_id))  # it is about to be called

    def list_under_way(self) -> tuple[tuple[str, str], ...]:
        """Every contract whose effect is being called here, with its run."""
        return tuple(self._under_way)

    async def take_up_left(self) -> int:
        """Go on with what this worker has begun and has neither in hand nor a job for; how much that was."""
        worker = self._host.queue.worker_id
        found = await self._host.ask(list_left, worker) if worker and not self.is_closing else ()
        left = [one for one in found if Delivery(*one, worker) not in self._in_hand]
        for run_id, contract_id, turn in left:
            self._host.own(self.perform(run_id, contract_id, turn))
        return len(left)

    async def perform(self, run_id: str, contract_id: str, turn: int) -> None:
        """A job says that a contract is to be carried out."""
        wanted = Delivery(run_id, contract_id, turn, self._host.queue.worker_id)
        job = find_job()
        if wanted in self._in_hand:  # handed out a second time while it goes on here, or what came of it is being told
            if self._in_hand[wanted] == job:
                self._host.queue.note_ended(job)  # when the call has ended, and not before
            return
        self._in_hand[wanted] = job
        try:
            await self._perform(wanted._replace(job=job))
        finally:
            self._in_hand.pop(wanted, None)
            self._stopped.discard(wanted.mark)

    async def _perform(self, wanted: Delivery) -> None:
        host = self._host
        tries = 0

        async def try_to_begin() -> BegunCall:
            nonlocal tries
            tries += 1
            return await host.ask(self._look_and_begin, wanted)

        ahead = self.head_start.take(wanted)
        live, contract, queue, begun = await host.surely(try_to_begin) if ahead is None else ahead
        if contract is None:
            await self._end_unwanted(live, wanted)
            return
        if queue:
            host.places.leave(queue)
            await host.surely(lambda: host.ask(hand_on, host.queue, wanted, queue))
            return
        if tries > 1 and begun.dead == wanted.worker:
            begun = Beginning(True)  # it was begun by a try whose answer was lost: nothing has left
        if not begun.is_ours and not begun.dead:
            return
        try:
            if begun.dead:
                await self._take_over(live, contract, wanted, begun.dead)
            else:
                await self._attempt(live, contract, wanted)
            if contract.effect == "child":
                await self._end_unwanted(await host.surely(lambda: host.look(wanted.run_id)), wanted)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # the last guard: whatever it is, the other runs go on
            await self._broke(live, contract, wanted, error)

    def _look_and_begin(self, connection: psycopg.Connection, wanted: Delivery) -> BegunCall:
        """Begin a contract that is to be carried out, unless that is for others: then nothing has left."""
        host = self._host
        live = host.load(wanted.run_id, connection)
        contract = live.run.contract(wanted.contract_id)
        if contract is None or contract.status is not Status.RUNNING:
            return BegunCall(live)
        if live.run.rules > RULES:
            return BegunCall(live, contract, f"{RULES_NEEDED}{live.run.rules}")
        effect = None if contract.effect == "child" else host.effect(live, contract.effect)
        if effect is None and contract.effect != "child":
            return BegunCall(live, contract, name_need(contract.effect, live.run.source))
        place = host.place if effect is not None and effect.is_local else ""
        begun = begin(connection, wanted, place, not contract.is_irreversible)
        return BegunCall(live, contract, name_place(begun.place) if begun.place else "", begun)

    async def _take_over(self, live: LoadedRun, contract: Contract, wanted: Delivery, dead: int) -> None:
        """A worker that has begun this is gone: what follows is what follows from any crash."""
        is_taken = False

        def take(moment: Moment) -> Sequence[Event]:
            nonlocal is_taken
            given = (wanted.worker, moment.live.no, wanted.contract_id, wanted.turn, dead, wanted.worker)
            is_taken = dead == wanted.worker or moment.connection.execute(TAKE_OVER, given).fetchone() is not None
            now = moment.live.run.contract(wanted.contract_id)
            if not is_taken or now is None or now.status is not Status.RUNNING or is_possible(now):
                return ()
            at = self._host.clock.now()
            return [replace(moved, at=at) for moved in run_again(now, "recovery")]

        if is_possible(contract):
            is_taken = dead == wanted.worker or await self._host.surely(
                lambda: self._host.ask(take_over, wanted, live.no, dead)
            )
            if is_taken:
                await self.settle(live, wanted, None, CRASHED, is_crash=True)
        else:
            await self._host.fold(live, take, patience_s=float("inf"))

    async def _attempt(self, live: LoadedRun, contract: Contract, wanted: Delivery) -> None:
        if contract.is_adrift or wanted.mark in self._stopped:
            error = Failure("cancelled", "stopped before it began")
            await self.hand_in(live, contract, wanted, ContractMoved(contract.id, "cancel", error=error, deed="none"))
            return
        effect = self._host.find_effect(live, contract)
        if contract.effect == "child":
            effect = Effect("child", partial(self._child, live))
        known = frozenset() if contract.effect == "child" else list_secrets(live.machine, contract.action)
        secrets = Secrets(known) if known else NONE
        notes: dict[str, str] = {}
        moved = await self._call(live, effect, contract, secrets, notes)
        if isinstance(moved, UnknownOutcome):
            doubt = hide(secrets, moved)._replace(sandbox=notes.get("sandbox", ""))
            await self.settle(live, wanted, effect, doubt)
            return
        moved = secrets.hide(replace(moved, sandbox=notes.get("sandbox", "")) if notes else moved)
        await self.hand_in(live, contract, wanted, moved)

    async def _call(
        self, live: LoadedRun, effect: Effect | None, contract: Contract, secrets: Secrets, notes: dict[str, str]
    ) -> ContractMoved | UnknownOutcome:
        host, mark = self._host, (live.run.id, contract.id)
        least = host.least_sandbox(live, contract)
        about = progress.Attempt(contract, live.run.id, self._pass_on, host.ground, least, notes, host.artefacts)
        task = asyncio.ensure_future(self._call_about(about, live, effect, contract, secrets))
        self._under_way[mark] = task
        try:
            return await task
        except asyncio.CancelledError:
            if mark not in self._aborted:
                task.cancel()
                raise  # this worker is closing: the contract stays as it is and is recovered by another
            return UnknownOutcome(f"`{contract.effect}` was stopped", "cancelled")
        finally:
            host.onlookers.finish(*mark)
            self._under_way.pop(mark, None)
            self._aborted.discard(mark)

    async def _call_about(
        self, about: progress.Attempt, live: LoadedRun, effect: Effect | None, contract: Contract, secrets: Secrets
    ) -> ContractMoved | UnknownOutcome:
        progress.attempt.set(about)  # of this task only
        met = None if effect is None else await self._meet_gap(live, effect, contract)
        if met is not None:
            return met
        linger = partial(self._linger, live, contract)
        return await call_effect(effect, contract, secrets, self._host.clock, live.run.rules, linger)

    def _pass_on(self, run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
        if (run_id, contract_id) in self._under_way:
            self._host.overheard(run_id, contract_id, data)

    async def _meet_gap(self, live: LoadedRun, effect: Effect, contract: Contract) -> ContractMoved | None:
        """What stands against a call that may have been made before the journal was restored; None: nothing."""
        host = self._host
        if not contract.is_irreversible:
            return None
        gap = await host.surely(lambda: host.database.aside(open_gap, host.journal))
        if gap is None or not gap.concerns(live.run, contract):
            return None
        why = await host.database.aside(find_clearance, host.journal, gap, live.run, contract)

        async def probe(may_deny: bool) -> list[ContractMoved] | None:
            return await self._probe(live, effect, contract.id, True, may_deny=may_deny)

        met = await meet_gap(gap, contract, effect, host.clock, why, probe)
        if isinstance(met, ContractMoved):
            return met
        await host.tell(live, met)
        return None

    async def hand_in(
        self, live: LoadedRun, performed: Contract, wanted: Delivery, *moved: ContractMoved, is_late: bool = False
    ) -> None:
        """Say what came of a contract, if it is still in our hands; if not, it is evidence."""

        is_ended = False

        def make(moment: Moment) -> Sequence[Event]:
            nonlocal is_ended
            at = self._host.clock.now()
            told = [replace(one, at=one.at or at) for one in moved]
            held = moment.held
            is_ended = not is_late and held == (wanted.worker, wanted.turn)
            if is_ended:
                end_job(moment.statements, wanted.job, wanted.worker)  # with its work, or not at all
                return told
            return self._judge_late(moment, performed, told[0], is_redone=held is not None and held[1] != wanted.turn)

        try:
            about = (wanted.contract_id, wanted.worker, wanted.turn)
            await self._host.fold(live, make, patience_s=float("inf"), about=about)
            if is_ended:
                self._host.queue.note_ended(wanted.job)
        except NotWaiting:
            return  # it was ended in the meantime; a late result changes nothing
        except Refused as error:
            contract = live.run.contract(performed.id)
            if contract is None or contract.status is not Status.RUNNING:
                self._host.report(live.run.id, error)
                return
            kept = not_kept(contract, moved[0], error)
            await self._host.fold(live, lambda _: (kept,), patience_s=float("inf"))

    def _judge_late(
        self, moment: Moment, performed: Contract, moved: ContractMoved, *, is_redone: bool
    ) -> Sequence[Event]:
        """What came of a call that had been given up: it answers an open doubt, and never starts a second deed."""
        live = moment.live
        contract = live.run.contract(performed.id)
        question = contract.question if contract is not None else None
        is_asked = question is not None and question.reason == "outcome_unknown"
        if contract is not None and not is_redone and (is_asked or contract.status is Status.RUNNING):
            return (evident(contract, moved),)
        if performed.is_irreversible and (moved.trigger == "succeed" or moved.deed == "possible"):
            is_second = is_redone or was_redone(moment.journal, live.run.id, performed.id)
            is_second = is_second or moment.claims.is_repeated(live.run, performed)
            data = {"contract_id": performed.id, "result": moved.result, "is_second": is_second}
            told = f"the call of {performed.effect} that had been given up was done all the same"
            return (Signalled(EVIDENCE, {**data, "said": told}, "evidence", moved.at),)
        return ()

    def _linger(self, live: LoadedRun, contract: Contract, secrets: Secrets, error: StillRunning) -> None:
        """A call goes on that nobody waits for any more: what comes of it is still evidence."""
        if self.is_closing or not contract.is_irreversible:
            if asyncio.iscoroutine(error.outcome):
                error.outcome.close()
            return
        self._lingering.add((live.run.id, contract.id))
        self._host.own(self._late(live, contract, secrets, error))

    async def _late(self, live: LoadedRun, contract: Contract, secrets: Secrets, lingering: StillRunning) -> None:
        try:
            moved = move_for(contract, await lingering.outcome, self._host.clock.now())
        except (EffectFailed, PartialFailure) as error:
            moved = take_report(contract, error, self._host.clock.now(), live.run.rules)
        except Exception as error:  # noqa: BLE001  # it ended, and nobody is any the wiser: the question stays
            self._host.report(live.run.id, error)
            return
        finally:
            self._lingering.discard((live.run.id, contract.id))
        wanted = Delivery(live.run.id, contract.id, 0, 0)
        await self.hand_in(live, contract, wanted, secrets.hide(moved), is_late=True)

    async def settle(
        self,
        live: LoadedRun,
        wanted: Delivery,
        effect: Effect | None,
        doubt: UnknownOutcome = CRASHED,
        is_crash: bool = False,
    ) -> None:
        """Nobody knows whether it happened: ask the probe, then a person; see `embedded.doubt`."""
        host, clock = self._host, self._host.clock
        live = await host.surely(lambda: host.look(wanted.run_id))
        contract = live.run.contract(wanted.contract_id)
        if contract is None or contract.status is not Status.RUNNING:
            return
        effect = effect or host.find_effect(live, contract)
        lands_until = settle_time(live.run, contract, clock.now())
        if lands_until - clock.now() <= ASK_WITHIN_S:
            await clock.sleep_until(lands_until)
            lands_until = 0.0
        found = await self._probe(live, effect, contract.id, is_crash, may_deny=not lands_until)
        contract = live.run.contract(contract.id) or contract
        advice = effect.advice if effect is not None else ""
        first, *follow = found or [doubtful(contract, doubt, lands_until, advice)]
        first = replace(first, sandbox=doubt.sandbox) if doubt.sandbox else first
        await self.hand_in(live, contract, wanted, first, *follow)
        if lands_until and not found:
            self.look_again(live, contract)

    def look_again(self, live: LoadedRun, contract: Contract) -> None:
        """Ask the probe of an open doubt once nothing of its call can be in flight."""
        effect = self._host.find_effect(live, contract)
        if effect is not None and effect.reconcile is not None:
            self._host.own(self._look_again(live.run.id, contract.id, effect))

    async def _look_again(self, run_id: str, contract_id: str, effect: Effect) -> None:
        live = await self._host.look(run_id)
        contract = live.run.contract(contract_id)
        if contract is None or contract.question is None:
            return
        await self._host.clock.sleep_until(float(contract.question.data.get("lands_until", 0.0)))
        await self.probe(run_id, contract_id, effect)

    async def probe(self, run_id: str, contract_id: str, effect: Effect | None = None) -> bool:
        """Ask the probe of an open doubt now; whether that settled it. A call that waits for its program is offered."""
        live, clock = await self._host.look(run_id), self._host.clock
        contract = live.run.contract(contract_id)
        if contract is not None and awaits_caller(contract):
            await self._host.fold(live, lambda _: [ContractMoved(contract_id, "resume", actor=CALLER, at=clock.now())])
            return True
        if contract is None or contract.question is None or contract.question.reason != "outcome_unknown":
            raise NotWaiting(f"contract `{contract_id}` of run {run_id} is not in doubt")
        asked, effect = contract.question.data, effect or self._host.find_effect(live, contract)
        may_deny = clock.now() >= float(asked.get("lands_until", 0.0))
        found = await self._probe(live, effect, contract_id, "cause" not in asked, may_deny=may_deny)
        if not found:
            return False
        at = clock.now()
        told = [replace(moved, at=at) for moved in found]
        try:
            await self._host.fold(live, lambda _: told)
        except NotWaiting:
            return False  # somebody was quicker
        return True

    async def _probe(
        self, live: LoadedRun, effect: Effect | None, contract_id: str, is_crash: bool, may_deny: bool
    ) -> list[ContractMoved] | None:
        contract = live.run.contract(contract_id)
        if contract is None:
            return None
        secrets = Secrets(list_secrets(live.machine, contract.action))
        found = await ask_probe(
            effect,
            lambda: live.run.contract(contract_id),
            secrets,
            self._host.clock,
            is_crash,
            lambda: may_deny and not self.is_lingering(live.run.id, contract_id),
        )
        if found is not None:  # somebody may have answered meanwhile, in another process
            now = (await self._host.surely(lambda: self._host.look(live.run.id))).run.contract(contract_id)
            if now is None or now.status is not contract.status:
                return None
        return found

    async def _broke(self, live: LoadedRun, contract: Contract, wanted: Delivery, error: Exception) -> None:
        """Carrying out a contract went wrong on our side: end it, so that its run does not wait for ever."""
        self._host.report(live.run.id, error)
        if isinstance(error, JournalError):
            return  # the journal has the last word, and it is with the sweep
        at = self._host.clock.now()
        moved = make_failure(contract, "engine_error", describe_exception(error), at)
        if contract.is_irreversible:
            moved = replace(doubtful(contract, UnknownOutcome(describe_exception(error), "engine_error")), at=at)
        try:
            await self.hand_in(live, contract, wanted, moved)
        except (DetentError, psycopg.Error) as problem:  # then it is found by `take_up_left`
            self._host.report(live.run.id, problem)

    async def _child(self, live: LoadedRun, contract: Contract) -> Outcome:
        host = self._host
        machine = await host.database.aside(child_machine, host.journal, live.machine, contract)
        beginning = asyncio.ensure_future(begin_child(host, machine, live, contract))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            while not beginning.done():  # what is on its way arrives there, however often we are stopped
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((beginning,))
            raise

    async def _end_unwanted(self, live: LoadedRun, wanted: Delivery) -> None:
        """Whoever wanted a child may have given up while it began, when there was no run yet to be told."""
        child = child_id(wanted.run_id, wanted.contract_id)
        if awaiting(live.run, child, wanted.contract_id) is None:
            await self._host.end_child(child)
