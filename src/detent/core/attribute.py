"""Attributes: the few values that people look for a run by, declared by its machine and read from where it stands."""

from typing import TYPE_CHECKING, Any

from detent.core.expression import compile_template
from detent.errors import DefinitionError, ExpressionError

if TYPE_CHECKING:
    from detent.core.machine import Machine
    from detent.core.run import Run

ATTRIBUTES_MAX = 16
LETTERS_MAX = 500  # of a value

Scalar = str | int | float | bool


def check_attributes(machine: "Machine") -> None:
    """Refuse what cannot be attributes, and expressions that cannot be read."""
    where = f"machine `{machine.name}`, attributes"
    if len(machine.attributes) > ATTRIBUTES_MAX:
        raise DefinitionError(f"a machine has at most {ATTRIBUTES_MAX} attributes", where)
    for name, template in machine.attributes.items():
        if not name.isidentifier() or len(name) > LETTERS_MAX:
            raise DefinitionError(f"the attribute `{name}` must be one word", where)
        try:
            compile_template(template)
        except DefinitionError as error:
            raise DefinitionError(error.problem, where) from None


def read_attributes(machine: "Machine", run: "Run") -> dict[str, Scalar]:
    """What a run's attributes are now; one that is no single value, or cannot be had, is left out."""
    found: dict[str, Scalar] = {}
    scope: dict[str, Any] = {"context": run.context, "variables": run.variables}
    for name, template in machine.attributes.items():
        try:
            value = compile_template(template)(scope)
        except ExpressionError:
            continue
        if isinstance(value, str):
            found[name] = value[:LETTERS_MAX]
        elif isinstance(value, (bool, int, float)):
            found[name] = value
    return found
