"""Which calls of a file cannot be undone, as far as the file and the tools' own declarations say."""

import json
from collections.abc import Mapping
from typing import Any

from detent.core.compiled_machine import flat
from detent.core.effect_type import Declared, Effect
from detent.core.machine import Action, Machine
from detent.core.machine_check import OWN_EFFECTS

# What the effects that come with detent declare: a file is looked through without loading them.
BUILTIN = {
    "shell": Declared(is_lenient=True),
    "python": Declared(is_lenient=True),
    "pipeline": Declared(is_lenient=True, is_priced=True),
    "http": Declared(
        kind_by="method",
        kinds={
            "": "pure",
            "GET": "pure",
            "HEAD": "pure",
            "OPTIONS": "pure",
            "PUT": "idempotent",
            "DELETE": "idempotent",
        },
    ),
    "files": Declared(kind_by="op", kinds={"READ": "pure", "WRITE": "idempotent"}),
    "files.append": Declared(),
}


def find_declared(action: Action, effects: Mapping[str, Effect]) -> Declared | None:
    """What is known of an action's tool; None: nothing, as of one that an expression names."""
    name = action.effect
    if name in BUILTIN or name in OWN_EFFECTS or "{{" in name:
        return BUILTIN.get(name)
    return effects[name].declared if name in effects else None


def is_irreversible(action: Action, effects: Mapping[str, Effect]) -> bool:
    """Whether an action does what cannot be undone; a child does if one of its own actions does."""
    if action.effect == "child":
        machine = action.input.get("machine") if isinstance(action.input, dict) else None
        return isinstance(machine, dict) and _has_deeds(Machine.from_json(json.dumps(machine)), effects)
    known = find_declared(action, effects)
    if action.kind or known is None:
        return action.kind == "irreversible"
    return known.kind_of(_input_of(action)) == "irreversible"


def _has_deeds(machine: Machine, effects: Mapping[str, Effect]) -> bool:
    return any(
        is_irreversible(one.action, effects) for place in machine.chart.places.values() for one in flat(place.work)
    )


def _input_of(action: Action) -> dict[str, Any]:
    return action.input if isinstance(action.input, dict) else {}
