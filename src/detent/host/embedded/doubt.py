"""Doubts: calls of which nobody knows whether they happened, and the three ways to find out.

The probe may know, a person may look, and a call that was given up may still answer. That it happened counts at
once. That it did not counts only when nothing of the call can be in flight any more.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from detent.core.answer import CALLER, awaits_caller
from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, PartialFailure, StillRunning
from detent.core.events import EVIDENCE, ContractMoved, Signalled
from detent.core.status import Status
from detent.errors import NotWaiting
from detent.host.parts.effect_call import ask_probe
from detent.host.parts.idempotency_claim import was_redone
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.outcome import (
    UnknownOutcome,
    doubtful,
    evident,
    move_for,
    take_report,
)
from detent.host.parts.restore_gap import find_clearance, meet_gap
from detent.host.parts.secret import Secrets, list_secrets
from detent.host.standing import ASK_WITHIN_S, settle_time

if TYPE_CHECKING:
    from detent.host.embedded.host_protocol import ContractPerformer, Performer

CRASHED = UnknownOutcome()
_LATE_MARK, _PROBE_MARK = " late", " probe"


Work = Callable[..., Coroutine[Any, Any, None]]


class Breaks(Protocol):
    """What carries out contracts, and can say that doing so went wrong on our side."""

    def broke(self, live: LoadedRun, contract_id: str, error: Exception) -> None:
        """End that contract, so that its run does not wait for ever."""


def guard_work(work: Work) -> Work:
    """A defect of ours ends one contract, not the host and every run in it."""

    @functools.wraps(work)
    async def guarded(self: Breaks, live: LoadedRun, contract: Contract | str, *args: Any, **named: Any) -> None:
        try:
            await work(self, live, contract, *args, **named)
        except Exception as error:  # noqa: BLE001  # the last guard: whatever it is, the other runs go on
            self.broke(live, contract if isinstance(contract, str) else contract.id, error)

    return guarded


class DoubtRegister:
    """Every doubt of this host, and every call that goes on although it was given up."""

    def __init__(self, host: "Performer", attempts: "ContractPerformer") -> None:
        self._host = host
        self._attempts = attempts
        self._lingering: set[tuple[str, str]] = set()

    def broke(self, live: LoadedRun, contract_id: str, error: Exception) -> None:
        """Settling a doubt went wrong on our side."""
        self._attempts.broke(live, contract_id, error)

    def linger(self, live: LoadedRun, contract: Contract, secrets: Secrets, error: StillRunning) -> None:
        """A call goes on that nobody waits for any more: what comes of it is still evidence."""
        if not contract.is_irreversible:
            if asyncio.iscoroutine(error.outcome):
                error.outcome.close()  # it is done again, or failed, whatever comes of it
            return
        self._lingering.add((live.run.id, contract.id))
        mark = f"{contract.id}{_LATE_MARK}"
        self._host.spawn(live, mark, self._late(live, contract, secrets, error.outcome))

    def is_lingering(self, run_id: str, contract_id: str) -> bool:
        """Whether a call that was given up goes on in this process."""
        return (run_id, contract_id) in self._lingering

    @guard_work
    async def _late(self, live: LoadedRun, contract: Contract, secrets: Secrets, outcome: Awaitable[Any]) -> None:
        try:
            moved = move_for(contract, await outcome, self._host.clock.now())
        except (EffectFailed, PartialFailure) as error:
            moved = take_report(contract, error, self._host.clock.now(), live.run.rules)
        except Exception as error:  # noqa: BLE001  # it ended, and nobody is any the wiser: the question stays
            self._host.report(live.run.id, error)
            return
        finally:
            self._lingering.discard((live.run.id, contract.id))
            live.tasks.pop(f"{contract.id}{_LATE_MARK}", None)
        self.give_evidence(live.run.id, contract, secrets.hide(moved))

    def give_evidence(self, run_id: str, performed: Contract, moved: ContractMoved) -> None:
        """What came of a call that had been given up: it answers an open doubt, and never starts a second deed."""
        live = self._host.load(run_id)
        contract = live.run.contract(performed.id)
        is_redone = self._attempts.is_at_work(live, performed.id)
        question = contract.question if contract is not None else None
        is_asked = question is not None and question.reason == "outcome_unknown"
        if contract is not None and not is_redone and (is_asked or contract.status is Status.RUNNING):
            self._attempts.tell(live, evident(contract, moved))
        elif performed.is_irreversible and (moved.trigger == "succeed" or moved.deed == "possible"):
            is_second = is_redone or was_redone(self._host.journal, run_id, performed.id)
            is_second = is_second or self._host.claims.is_repeated(live.run, performed)
            data = {"contract_id": performed.id, "result": moved.result, "is_second": is_second}
            told = f"the call of {performed.effect} that had been given up was done all the same"
            self._host.fold(live, Signalled(EVIDENCE, {**data, "said": told}, "evidence", moved.at))

    @guard_work
    async def settle(
        self,
        live: LoadedRun,
        contract_id: str,
        effect: Effect | None,
        doubt: UnknownOutcome = CRASHED,
        is_crash: bool = False,
    ) -> None:
        """Nobody knows whether it happened: ask the probe, then a person.

        That it did not happen can only be known when nothing is in flight any more. Where that is soon, it is waited
        for; else the question is put at once, says until when, and the probe is asked again then.
        """
        clock = self._host.clock
        try:
            contract = live.run.contract(contract_id)
            if contract is None or contract.status is not Status.RUNNING:
                return
            effect = effect or self._host.find_effect(live, contract)
            lands_until = settle_time(live.run, contract, clock.now())
            if lands_until - clock.now() <= ASK_WITHIN_S:
                await clock.sleep_until(lands_until)
                lands_until = 0.0
            found = await self._probe(live, effect, contract_id, is_crash, may_deny=not lands_until)
            contract = live.run.contract(contract_id) or contract  # its run may have moved on meanwhile
        finally:
            live.tasks.pop(contract_id, None)
        at, advice = clock.now(), effect.advice if effect is not None else ""
        first, *follow = [replace(moved, at=at) for moved in found or [doubtful(contract, doubt, lands_until, advice)]]
        self._attempts.tell(live, replace(first, sandbox=doubt.sandbox) if doubt.sandbox else first, follow)
        if lands_until and not found:
            self.look_again(live, contract)

    async def meet_gap(self, live: LoadedRun, effect: Effect, contract: Contract) -> ContractMoved | None:
        """What stands against a call that may have been made before the journal was restored; None: nothing."""
        gap = self._host.claims.gap
        if gap is None or not gap.concerns(live.run, contract):
            return None
        why = find_clearance(self._host.journal, gap, live.run, contract)

        async def probe(may_deny: bool) -> list[ContractMoved] | None:
            return await self._probe(live, effect, contract.id, True, may_deny=may_deny)

        met = await meet_gap(gap, contract, effect, self._host.clock, why, probe)
        if isinstance(met, ContractMoved):
            return met
        self._host.fold(live, met)
        return None

    def look_again(self, live: LoadedRun, contract: Contract) -> None:
        """Ask the probe of an open doubt once nothing of its call can be in flight."""
        effect = self._host.find_effect(live, contract)
        if effect is not None and effect.reconcile is not None and f"{contract.id}{_PROBE_MARK}" not in live.tasks:
            self._host.spawn(live, f"{contract.id}{_PROBE_MARK}", self._look_again(live, contract.id, effect))

    @guard_work
    async def _look_again(self, live: LoadedRun, contract_id: str, effect: Effect) -> None:
        try:
            contract = live.run.contract(contract_id)
            if contract is None or contract.question is None:
                return
            asked = contract.question.data
            await self._host.clock.sleep_until(float(asked.get("lands_until", 0.0)))
            found = await self._probe(live, effect, contract_id, is_crash="cause" not in asked, may_deny=True)
        finally:
            live.tasks.pop(f"{contract_id}{_PROBE_MARK}", None)
        if found:
            at = self._host.clock.now()
            self._attempts.tell(live, replace(found[0], at=at), [replace(moved, at=at) for moved in found[1:]])

    async def probe(self, live: LoadedRun, contract_id: str) -> bool:
        """Ask the probe of an open doubt now; whether that settled it.

        A call that waits for the program which makes it is offered once more: that program may be there now.
        """
        contract = live.run.contract(contract_id)
        if contract is not None and awaits_caller(contract):
            self._attempts.tell(live, ContractMoved(contract.id, "resume", actor=CALLER, at=self._host.clock.now()))
            return True
        if contract is None or contract.question is None or contract.question.reason != "outcome_unknown":
            raise NotWaiting(f"contract `{contract_id}` of run {live.run.id} is not in doubt")
        effect, asked, clock = self._host.find_effect(live, contract), contract.question.data, self._host.clock
        may_deny = clock.now() >= float(asked.get("lands_until", 0.0))
        found = await self._probe(live, effect, contract_id, is_crash="cause" not in asked, may_deny=may_deny)
        if not found:
            return False
        self._attempts.tell(live, replace(found[0], at=clock.now()))
        return True

    async def _probe(
        self, live: LoadedRun, effect: Effect | None, contract_id: str, is_crash: bool, may_deny: bool
    ) -> list[ContractMoved] | None:
        """What the effect's probe says; None when there is none, or it cannot tell, breaks, or takes too long.

        Its word that nothing happened counts only where `may_deny`, and not while the call goes on here.
        """
        contract = live.run.contract(contract_id)
        if contract is None:
            return None
        find_given = functools.partial(self._host.secret_box.find, live.run.id)
        secrets = Secrets(list_secrets(live.machine, contract.action), find_given)
        return await ask_probe(
            effect,
            lambda: live.run.contract(contract_id),
            secrets,
            self._host.clock,
            is_crash,
            lambda: may_deny and not self.is_lingering(live.run.id, contract_id),
        )
