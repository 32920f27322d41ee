"""Calling an effect, and asking its probe: whatever happens becomes one event, or the doubt whether it happened.

Only the effect knows what its exceptions mean. `EffectFailed` and `PartialFailure` are its word; no other class is
judged here, however harmless it sounds.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, PartialFailure, StillRunning
from detent.core.events import ContractMoved
from detent.errors import JournalError
from detent.host.parts.clock import Clock
from detent.host.parts.outcome import (
    Limit,
    UnknownOutcome,
    confirm_happened,
    judge_exception,
    make_failure,
    move_for,
    not_done,
    take_report,
)
from detent.host.parts.secret import Secrets

PROBE_TIMEOUT_S = 60.0

Linger = Callable[[Secrets, StillRunning], None]  # a call goes on that nobody waits for any more
FindContract = Callable[[], Contract | None]  # the contract as it is now


def _judge_cut_off(contract: Contract, limit: Limit, at: float) -> ContractMoved | UnknownOutcome:
    """A call that was cancelled: by its time limit or by itself; by somebody else, that is not ours to judge."""
    if limit.is_from_outside:
        raise asyncio.CancelledError
    problem, kind = f"`{contract.effect}` broke off by itself", "tool_failure.exception"
    if limit.is_over:
        problem, kind = f"`{contract.effect}` took longer than {contract.timeout_s:g} s", "timeout.action"
    return UnknownOutcome(problem, kind) if contract.is_irreversible else make_failure(contract, kind, problem, at)


async def call_effect(
    effect: Effect | None,
    contract: Contract,
    secrets: Secrets,
    clock: Clock,
    rules: int,
    linger: Linger,
    task: asyncio.Task[None] | None = None,
) -> ContractMoved | UnknownOutcome:
    """What calling the effect comes to: an event, or the doubt whether it happened."""
    if effect is None:
        missing = f"there is no effect `{contract.effect}` here"
        return make_failure(contract, "tool_failure.not_found", missing, clock.now())
    limit = Limit(clock, contract.timeout_s, task)
    try:
        given = contract
        if contract.input and secrets.find(contract.input):
            given = replace(contract, input=secrets.resolve(contract.input))
        outcome = await effect.perform(given)
        return move_for(contract, outcome, clock.now())
    except asyncio.CancelledError:
        return _judge_cut_off(contract, limit, clock.now())
    except (EffectFailed, PartialFailure) as error:
        return take_report(contract, error, clock.now(), rules)
    except StillRunning as error:
        linger(secrets, error)
        return _judge_cut_off(contract, limit, clock.now())
    except KeyboardInterrupt:
        raise  # the user's
    except BaseException as error:  # effects may fail in any way; the machine decides what that means
        is_loops_end = isinstance(error, GeneratorExit) and limit.is_abandoned
        is_ours = contract.effect == "child" and isinstance(error, JournalError)  # `recover` starts it again
        if is_loops_end or is_ours:
            raise
        return judge_exception(contract, error, clock.now())
    finally:
        limit.cancel()


async def ask_probe(
    effect: Effect | None,
    find: FindContract,
    secrets: Secrets,
    clock: Clock,
    is_crash: bool,
    may_deny: Callable[[], bool],
) -> list[ContractMoved] | None:
    """What the effect's probe says; None when there is none, or it cannot tell, breaks, or takes too long.

    Its word that nothing happened counts only where `may_deny` says so when the word comes.
    """
    contract = find()
    if contract is None or effect is None or effect.reconcile is None:
        return None
    limit = Limit(clock, contract.timeout_s or PROBE_TIMEOUT_S)
    try:
        given = contract
        if secrets.find([contract.input, contract.probe]):
            try:
                known = {"input": secrets.resolve(contract.input), "probe": secrets.resolve(contract.probe)}
                given = replace(contract, **known)
            except EffectFailed:
                return None  # without its secrets the probe cannot ask; that says nothing about the deed
        outcome = await effect.reconcile(given)
        contract = find()  # somebody may have answered meanwhile
        if outcome is None or contract is None:
            return None
        return [secrets.hide(confirm_happened(contract, move_for(contract, outcome, 0.0), "probe"))]
    except EffectFailed as error:
        contract = find()
        if contract is None or not may_deny():
            return None
        return [secrets.hide(moved) for moved in not_done(contract, error, is_crash)]
    except asyncio.CancelledError:
        if limit.is_from_outside:
            raise
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and limit.is_abandoned:
            raise
        return None  # a probe that breaks cannot tell
    finally:
        limit.cancel()
