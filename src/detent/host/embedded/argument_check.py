"""What a caller hands to a host: the wrong type is refused with a sentence, not found out deep inside."""

from collections.abc import Mapping
from typing import Any

from detent.core.machine import Machine
from detent.errors import Refused

# What a caller may get wrong most easily, and how to say what was expected.
EXPECTED: dict[str, tuple[type, str]] = {
    "machine": (Machine, "a Machine; `detent.define.load(FILE).machine` reads one from a file"),
    "input": (Mapping, "a mapping of names to JSON values"),
    "data": (Mapping, "a mapping of names to JSON values"),
    "change": (Mapping, 'a mapping such as {"do": "add", "name": "ann", "roles": ["approver"]}'),
    "answer": (Mapping, 'a mapping such as {"approved": True}'),
    "run_id": (str, "the id of a run"),
    "contract_id": (str, "the id of a contract, such as `run.waiting[0].id`"),
    "name": (str, "the name of a signal"),
}


def check_arguments(given: dict[str, Any]) -> None:
    """Refuse what is of the wrong type with a sentence; mappings become dicts."""
    for name, value in given.items():
        kind, expected = EXPECTED.get(name, (object, ""))
        if not isinstance(value, kind):
            raise Refused(f"{name} is {value!r}; it must be {expected}")
        if isinstance(value, Mapping):
            given[name] = dict(value)
