"""Work side by side, lane by lane: where each item of a loop, or each branch of a parallel state, stands.

Everything is read from the run of one moment, so any moment of a loop of ten thousand items costs the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from detent.core.contract import Contract
from detent.core.machine import Action, Machine
from detent.core.run import BranchState, Run
from detent.core.status import Status

MARKS_MAX = 100  # lanes that are told one by one where a run is shown; of more, only their numbers
ITEM_MAX = 200  # letters of an item

LaneStatus = Literal["pending", "running", "waiting", "completed", "failed"]


class LaneSum(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action whose lanes are under way: how many there are, and what has become of them."""

    action: str
    path: str  # of the lane it stands in; empty for the state's own
    total: int
    begun: int
    completed: int
    failed: int
    waiting: int
    is_each: bool = False  # one lane for each item, else for each branch
    marks: str = ""  # of a few lanes, the first letter of each one's status


class LaneView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One lane."""

    index: int
    name: str  # of the branch, or its item in a few letters
    status: LaneStatus
    action: str = ""  # what it is at
    contract_id: str = ""
    error: str = ""
    lanes: int = 0  # of its own


def sum_lanes(machine: Machine, run: Run) -> list[LaneSum]:
    """Every action of the run's state that has lanes now."""
    if len(run.lanes) < 2 and not any(lane.ended for lane in run.lanes):  # the state's own, as nearly always
        return []
    found = [(lane, _find_action(machine, run, lane)) for lane in run.lanes if lane.spawned and not lane.is_ended]
    return [_sum(run, lane, action) for lane, action in found if action is not None and action.branches]


def list_lanes(machine: Machine, run: Run, path: str = "") -> tuple[LaneSum, list[LaneView]] | None:
    """The lanes of an action of the run's state, or of a lane of it; None where it has none."""
    parent = next((lane for lane in run.lanes if lane.path == path and lane.spawned), None)
    action = _find_action(machine, run, parent) if parent is not None else None
    if parent is None or action is None or not action.branches:
        return None
    return _sum(run, parent, action), list(_view_lanes(parent, action, _Under(run)))


def _find_action(machine: Machine, run: Run, lane: BranchState) -> Action | None:
    """What a lane is at."""
    actions: Sequence[Action] = machine.work.get(run.state, ())
    for part in lane.path.split("/")[1:]:
        name, _, index = part.rpartition(".")
        action = next((one for one in actions if one.id == name), None)
        if action is None:
            return None
        actions = action.branches[0 if action.each else int(index)].actions
    return actions[lane.position] if lane.position < len(actions) else None


def _sum(run: Run, lane: BranchState, action: Action) -> LaneSum:
    total = len(lane.items) or len(action.branches)
    under = _Under(run)
    waiting = sum(1 for name in under.waiting if _is_right_below(name, lane.path))
    marks = "".join(one.status[0] for one in _view_lanes(lane, action, under)) if total <= MARKS_MAX else ""
    return LaneSum(action.id, lane.path, total, lane.spawned, lane.done, lane.lost, waiting, bool(action.each), marks)


def _is_right_below(path: str, above: str) -> bool:
    return path.rpartition("/")[0] == above


class _Under:
    """What is under way in a run's lanes."""

    def __init__(self, run: Run) -> None:
        self.lanes = {lane.path: lane for lane in run.lanes}
        self.contracts: dict[str, Contract] = {}
        self.waiting: set[str] = set()  # lanes in which something waits, themselves or further down
        for contract in run.contracts:
            path = contract.lane
            while path:
                known = self.contracts.setdefault(path, contract)
                if contract.status is Status.WAITING:
                    self.waiting.add(path)
                    if known.status is not Status.WAITING:
                        self.contracts[path] = contract
                path = path.rpartition("/")[0]


def _view_lanes(parent: BranchState, action: Action, under: _Under) -> Iterator[LaneView]:
    ended = {lane.path: lane for piece in parent.ended for lane in piece}
    for index in range(len(parent.items) or len(action.branches)):
        path = f"{parent.path}/{action.id}.{index}"
        name = _say(parent.items[index]) if parent.items else action.branches[index].name
        lane = ended.get(path) or under.lanes.get(path)
        if lane is None:
            yield LaneView(index, name, "pending")
        elif lane.is_ended or lane.is_failed:
            error = lane.error.type if lane.error is not None else ""
            yield LaneView(index, name, "failed" if lane.is_failed else "completed", error=error)
        else:
            contract = under.contracts.get(path)
            status: LaneStatus = "waiting" if path in under.waiting else "running"
            at, id = (contract.action, contract.id) if contract is not None else ("", "")
            yield LaneView(index, name, status, at, id, lanes=lane.spawned)


def _say(item: Any) -> str:
    return (item if isinstance(item, str) else msgspec.json.encode(item).decode())[:ITEM_MAX]
