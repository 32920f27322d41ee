"""Arguments of tools whose names are known: a call that its tool would refuse is found before it is made."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from detent.core.compiled_machine import flat
from detent.core.effect_type import Effect
from detent.core.machine import Action, Machine

if TYPE_CHECKING:
    from detent.define.machine_builder import MachinePlan

NEEDED = "!"


def check_arguments(plan: "MachinePlan", machine: Machine, effects: Mapping[str, Effect]) -> None:
    """Say which calls have an argument that their tool does not know, or lack one that it needs."""
    for place in machine.chart.places.values():
        for one in flat(place.work):
            _check(plan, one.action, effects)


def _check(plan: "MachinePlan", action: Action, effects: Mapping[str, Effect]) -> None:
    known = effects.get(action.effect)
    path = plan.actions.get(action.id)
    if known is None or not known.takes or path is None or not isinstance(action.input, dict):
        return
    names = known.takes.replace(NEEDED, "").split()
    params = (*path, "params")
    for name in action.input:
        if name not in names:
            problem = f"`{action.effect}` knows no `{name}`; it takes {', '.join(names)}"
            plan.page.say((*params, name), problem, at_key=True)
    for name in _list_needed(known.takes):
        if action.input.get(name) is None:
            plan.page.say(params, f"`{action.effect}` needs `{name}`")


def _list_needed(takes: str) -> Iterator[str]:
    return (name.removesuffix(NEEDED) for name in takes.split() if name.endswith(NEEDED))
