"""Telling what a proof has found: what can follow what, where a run may stand for ever, and what would mend it."""

from detent.define.machine_builder import MachinePlan
from detent.define.proof import MachineProof, way_out, what
from detent.define.standstill import WAIT_OUT, WAY_OUT, describe_trapped, describe_wait


def tell(plan: MachinePlan, proof: MachineProof) -> None:
    """Warn of every hole where the row stands that lets the failure or the no through."""
    paths = {id(row): path for row, path in zip(plan.rows, plan.row_paths, strict=True)}
    for hole in proof.holes:
        places = [plan.page.places.key(plan.path_of(state))[0] if state in plan.states else 0 for state in hole.states]
        told = zip(hole.states, places, strict=True)
        way = " → ".join(f"{state} (line {line})" if line else state for state, line in told)
        plan.page.warn(paths[id(hole.rows[0])], f"{what(hole)}: {way}", way_out(hole))
    for state in proof.standstill.no_way_out:
        plan.page.warn(plan.path_of(state), describe_trapped(state), WAY_OUT, at_key=True)
    for wait in proof.standstill.unexplained:
        plan.page.advise(plan.path_of(wait.state), describe_wait(wait), WAIT_OUT)
    if not proof.is_whole:
        message = "too many ways lead on to look at all: not proved that no irreversible action follows a failure"
        plan.page.warn((*plan.path, "states"), message, "let parts of it be workflows of their own", at_key=True)
