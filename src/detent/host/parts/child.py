"""Child runs: a contract whose deed is another run.

A child's id is computed from its contract, so beginning it twice gives the same run: that is why it needs no claim.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from detent.core.contract import Contract, Failure
from detent.core.effect_type import Declared, Effect, EffectFailed, Outcome
from detent.core.identity import By, Identity
from detent.core.machine import Machine
from detent.core.question import Question
from detent.core.run import Run
from detent.core.status import Status
from detent.errors import DetentError, Refused, Unknown
from detent.host.parts.secret import Secrets, list_secrets

if TYPE_CHECKING:
    from detent.host.parts.journal_query import AnyJournal
    from detent.host.parts.loaded_run import LoadedRun
    from detent.host.parts.secret_box import SecretKeeper

RUN_ID_MAX = 100


async def _nobody(contract: Contract) -> Outcome:
    raise EffectFailed(f"`{contract.effect}` is done by the host itself")


CHILD = Effect("child", _nobody, Declared(kind="idempotent", scope="run", settle_s=0.0))


def child_id(run_id: str, contract_id: str) -> str:
    """The id of the run a contract starts: the same every time it is tried."""
    full = f"{run_id}.{contract_id.replace('/', '.')}"
    if len(full) <= RUN_ID_MAX:
        return full
    return f"{full[: RUN_ID_MAX - 33]}~{hashlib.sha256(full.encode()).hexdigest()[:32]}"


def awaiting(parent: Run, run_id: str, contract_id: str) -> Contract | None:
    """The open contract that a child run carries out: the one that began it, or one that goes on with it."""
    own = parent.contract(contract_id)
    return own or next((one for one in parent.contracts if one.reopens == run_id), None)


def child_machine(journal: "AnyJournal", parent: Machine, contract: Contract) -> Machine:
    """The machine a child contract names: one of its parent's children, its JSON, or a digest the journal knows."""
    given = contract.input.get("machine")
    if isinstance(given, str) and given in parent.children:
        return parent.children[given]
    if not isinstance(given, dict):
        return journal.machine(str(given))
    try:
        return msgspec.convert(given, Machine)
    except msgspec.ValidationError as error:
        raise EffectFailed(f"the child's machine is not one: {error}", "validation_error") from None


def declarations(machine: Machine, known: Mapping[str, Effect]) -> dict[str, Declared]:
    """What the effects of a machine declare, to be pinned into its run; `Unknown` if one is missing."""
    names = machine.chart.effects
    if "*" in names:
        return {name: effect.declared for name, effect in known.items()}
    missing = [name for name in names if name not in known and name not in ("ask", "wait")]
    if missing:
        raise Unknown(f"there is no effect `{missing[0]}`; known: {', '.join(sorted(known)) or 'none'}")
    return {name: known[name].declared for name in names if name in known}


def describe_end(run: Run) -> tuple[dict[str, Any], Failure | None]:
    """What a child run gives its parent: its output, or why it has none."""
    error = None
    if run.ended is not None and run.ended is not Status.COMPLETED:
        kinds = {Status.REJECTED: "approval_rejected", Status.CANCELLED: "cancelled"}
        cause = run.error.message if run.error else ""
        text = f"run {run.id} ended as {run.ended.value}: {cause}"
        error = Failure(kinds.get(run.ended, "tool_failure"), text, {"run_id": run.id})
    return {"run_id": run.id, "output": run.output, "state": run.state}, error


def wait_for(run_id: str) -> Outcome:
    """A contract that waits until the run it stands for calls back."""
    return Outcome(question=Question(f"waits for run {run_id}", "callback", data={"run_id": run_id}))


class ChildStarter(Protocol):
    """What beginning a child needs of a host."""

    async def start(
        self,
        machine: Machine,
        input: Any = None,
        *,
        run_id: str = "",
        by: By = "",
        session: str = "",
        source: str = "",
        parent: str = "",
    ) -> Run:
        """Begin a run."""

    async def retry_child(self, run_id: str, mark: str) -> bool:
        """Whether a child that failed goes on from what failed."""

    @property
    def secret_box(self) -> "SecretKeeper":
        """Where the secrets are that runs were given."""


async def begin_child(host: ChildStarter, machine: Machine, live: "LoadedRun", contract: Contract) -> Outcome:
    """Start (or find again) the run a contract stands for, and wait for it to call back.

    A child that failed goes on from what failed, instead of a new one from the beginning.
    """
    if contract.reopens:
        with suppress(DetentError):  # it is not there any more, or cannot be read
            if await host.retry_child(contract.reopens, f"retry {contract.id}"):
                return wait_for(contract.reopens)
    parent, asked = live.run, contract.input.get("input")
    run_id, given = child_id(parent.id, contract.id), asked if isinstance(asked, dict) else {}
    find_given = partial(host.secret_box.find, parent.id)
    if machine.secret_inputs:  # the parent's definition names what it hands on
        secrets = Secrets(list_secrets(live.machine, contract.action), find_given)
        given = {name: secrets.resolve(one) if name in machine.secret_inputs else one for name, one in given.items()}
    try:
        machine.fill_input(machine.take_secrets(given)[0])
    except Refused as error:
        raise EffectFailed(str(error), "validation_error") from None
    if not machine.input_schema:  # a part of the same file, or one that asks for nothing
        host.secret_box.hand_on(parent.id, run_id)
    await host.start(
        machine,
        given,
        run_id=run_id,
        by=Identity(parent.by, "detent", parent.spoken_by),
        session=parent.session,
        source=parent.source,
        parent=f"{parent.id} {contract.id}",
    )
    return wait_for(run_id)
