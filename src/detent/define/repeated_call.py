"""Irreversible calls that are the same in every run: the second run is asked whether it means to repeat them.

Right for a payment that somebody orders twice, a nuisance for a nightly report. `validate` says so where nothing in a
call's key, or without one in its arguments, can differ between runs.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from detent.core.compiled_machine import flat
from detent.core.effect_type import Declared, Effect
from detent.core.expression import names
from detent.core.machine import Action, Machine
from detent.define.irreversible_call import find_declared, is_irreversible

if TYPE_CHECKING:
    from detent.define.machine_builder import MachinePlan

SAME = ("attempt", "variables")  # what an expression can read that is the same in every run, unless something sets it
ADVICE = 'if it recurs, name what differs, such as `key: "{{ context.date }}"`; or say `on_repeat`'


def describe(action: Action) -> str:
    """What is the matter with such a call."""
    return f"`{action.id}` is the same irreversible call in every run: the second run asks before it repeats it"


def constant_calls(machine: Machine, effects: Mapping[str, Effect]) -> Iterator[Action]:
    """The irreversible calls of which nothing can differ between runs, and of which nobody has said what then."""
    actions = [one.action for place in machine.chart.places.values() for one in flat(place.work)]
    changing = {_name(one) for one in (*actions, *(one for row in machine.transitions for one in row.then))}
    for action in actions:
        if action.on_repeat or action.repeat or action.effect == "child" or not is_irreversible(action, effects):
            continue
        known = find_declared(action, effects) or Declared()
        is_lenient = known.is_lenient and not (action.kind or action.key or action.ask)
        if is_lenient or (action.scope or known.scope) != "global":
            continue  # its key is for its own run
        given = action.input if isinstance(action.input, dict) else {"value": action.input}
        part = action.key or known.essence(given)
        if not any(_can_differ(read, changing) for read in (*_reads(part), *_reads(action.effect))):
            yield action


def advise(plan: "MachinePlan", machine: Machine, effects: Mapping[str, Effect]) -> tuple[str, ...]:
    """Say where a file has such a call; their names."""
    found = tuple(constant_calls(machine, effects))
    for action in found:
        plan.page.advise(plan.actions.get(action.id, plan.path), describe(action), ADVICE)
    return tuple(action.id for action in found)


def _name(action: Action) -> str:
    """The variable that an action sets, if it sets one."""
    return str(action.input.get("name", "")) if action.effect == "set" and isinstance(action.input, dict) else ""


def _reads(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _reads(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _reads(inner)
    elif isinstance(value, str) and "{{" in value:
        yield from names(value)


def _can_differ(read: str, changing: set[str]) -> bool:
    if read.partition(".")[0] not in SAME:
        return True
    return any(f"{name}.".startswith(f"{read}.") or f"{read}.".startswith(f"{name}.") for name in changing if name)
