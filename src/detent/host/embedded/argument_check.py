"""What a caller hands to a host: the wrong type is refused with a sentence, not found out deep inside."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from detent.core.machine import Machine
from detent.errors import Refused
from detent.host.parts.run_reader import RunReader

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


SHOWN_MAX = 200  # letters of a value that is not what it must be


class HintingHost:
    """Says with a sentence that a host does not have what somebody asks of it."""

    if not TYPE_CHECKING:  # a type checker knows every name, and must go on refusing others

        def __getattr__(self, name: str) -> Any:
            if hasattr(RunReader, name):
                raise AttributeError(f"a host has no `{name}`; its reader does: `host.reader.{name}`")
            close = get_close_matches(name, [one for one in dir(type(self)) if not one.startswith("_")], 1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise AttributeError(f"a host has no `{name}`{hint}")


def check_arguments(given: dict[str, Any]) -> None:
    """Refuse what is of the wrong type with a sentence; mappings become dicts."""
    for name, value in given.items():
        kind, expected = EXPECTED.get(name, (object, ""))
        if not isinstance(value, kind):
            shown = repr(value)
            raise Refused(
                f"{name} is {shown if len(shown) <= SHOWN_MAX else f'a {type(value).__name__}'}; it must be {expected}"
            )
        if isinstance(value, Mapping):
            given[name] = dict(value)
