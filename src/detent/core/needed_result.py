"""Which parts of a deed's result others read: whoever says that it happened must be able to say them."""

from collections.abc import Mapping
from typing import Any

from detent.core.compiled_machine import Work, flat
from detent.core.contract import Contract
from detent.core.expression import list_needed
from detent.core.machine import Action, Machine
from detent.core.question import Answer

ALWAYS = ("success", "error")  # parts that every result has, or may have


def find_unsaid(machine: Machine, contract: Contract, said: Answer) -> str:
    """What is wrong with `happened` as an answer that leaves out what others read of the deed."""
    if said.outcome != "happened" or (contract.is_adrift and not machine.on_failure):
        return ""
    given = {"value": said.result} if said.result is not None and not isinstance(said.result, dict) else said.result
    unsaid = [name for name in _list_parts(machine, contract) if name not in (given or {})]
    if not unsaid:
        return ""
    names = ", ".join(f"`{name}`" for name in unsaid)
    return f"what `{contract.id}` gave is read later: {names}; say it in `result`, with null for what it did not give"


def _list_parts(machine: Machine, contract: Contract) -> list[str]:
    """The parts of an action's result that calls of the machine read; of a deed nobody waits for, only its `undo`."""
    places = machine.chart.places
    states = [machine.on_failure] if contract.is_adrift else list(places)
    read = {path for state in states for work in flat(places[state].work) for path in _reads(work.action)}
    split = [path.split(".") for path in sorted(read)]
    own = [keys[2] for keys in split if len(keys) > 2 and keys[:2] == ["result", contract.action]]
    return [name for name in dict.fromkeys(own) if name not in ALWAYS]


def _reads(action: Action) -> frozenset[str]:
    asked = action.ask.text if action.ask is not None else ""
    given = action.input
    if action.effect == "child" and isinstance(given, dict):  # a child's machine keeps its expressions for the child
        given = {name: value for name, value in given.items() if name != "machine"}
    return list_needed([given, action.effect, action.key, action.each, asked])


def find_missing(work: Work, scope: Mapping[str, Any]) -> str:
    """A part of a result that a call needs and that is not there; empty where all are."""
    for path in sorted(_reads(work.action)):
        root, *keys = path.split(".")
        if root != "result" or len(keys) < 2 or keys[1] in ALWAYS:
            continue
        value: Any = scope[root]
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                return path
            value = value[key]
    return ""
