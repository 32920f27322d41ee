"""The shortcut: a state's only action went well, and the first row leads on to a state that begins with an action.

That is what most events of most runs say, and where it leads is known once the machine is made. The general road comes
to the same run, commands and story, byte for byte; it only looks at everything else that might be so.
"""

from detent.core import transition_choice
from detent.core.branch import fill_success
from detent.core.consequence import Consequence
from detent.core.contract_lifecycle import open_contract
from detent.core.events import ContractMoved
from detent.core.machine import Machine
from detent.core.run import Run
from detent.core.state_work import WHOLE
from detent.core.status import Status
from detent.core.working_copy import WorkingCopy
from detent.errors import ExpressionError, Refused


def take_shortcut(machine: Machine, run: Run, event: ContractMoved) -> WorkingCopy | None:
    """The run moved on by that event; None when the shortcut does not lead there."""
    if event.trigger != "succeed" or not run.state or not _is_open(run, event):
        return None
    way, limit = machine.chart.places[run.state].work_shortcut, machine.limits.max_transitions
    if way is None or (limit and run.transitions >= limit):
        return None
    target, work, transition = way
    contract, lanes = run.contracts[0], {"": WHOLE}
    moved = Consequence("contract", Status.RUNNING, "succeed", Status.COMPLETED, contract.id, event.actor or "host")
    changes = {
        "results": {**run.results, contract.action: fill_success(event.result)},
        "transitions": run.transitions + 1,
        "entered_at": event.at,
        "state_deadline": 0.0,
    }
    draft = WorkingCopy(
        machine, machine.chart, run, event.at, event.id, target, {}, lanes, None, run.wreck, None, run.ended, False,
        changes, taken=[moved, transition],
    )  # fmt: skip
    try:
        open_contract(draft, "", work)
    except (ExpressionError, Refused):
        return None
    if draft.ready or draft.settled:
        transition_choice.rest(draft)
    return draft


def _is_open(run: Run, event: ContractMoved) -> bool:
    """Whether nothing is so that only the general road takes care of."""
    if len(run.contracts) != 1 or run.contracts[0].id != event.contract_id:
        return False
    contract, result = run.contracts[0], event.result
    return not (
        contract.status is not Status.RUNNING
        or contract.is_adrift
        or contract.lane
        or event.raises
        or event.patch
        or event.usage
        or (type(result) is dict and result.get("success") is False)
        or len(run.lanes) != 1
        or run.inbox
        or run.local
        or run.failures
        or run.raised
        or run.is_business_failure
        or run.is_held
        or run.error is not None
        or run.ending is not None
    )
