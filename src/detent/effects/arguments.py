"""What a contract asks of an effect, read strictly: a misspelt or mistyped argument is refused before anything happens.

Every refusal is an EffectFailed of type `validation_error`, which is evidence that the world was not touched.
"""

import math
from collections.abc import Mapping
from typing import Any

from detent.core.effect_type import EffectFailed

MISSING: Any = object()
TEXT = "text; write it in quotes, or declare the input as a string"


def invalid(message: str) -> EffectFailed:
    """The refusal of a call that cannot be meant as it is written."""
    return EffectFailed(message, type="validation_error")


class Arguments:
    """A contract's input, one named and checked value at a time; null is the same as left out."""

    def __init__(self, effect: str, given: Mapping[str, Any], known: str) -> None:
        names = known.replace("!", "").split()  # `!` marks what cannot be left out, for those who check a file
        strangers = [name for name in given if name not in names]
        if strangers:
            raise invalid(f"`{effect}` knows no `{strangers[0]}`; it takes {', '.join(names)}")
        self.effect = effect
        self.given = {name: value for name, value in given.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def any(self, name: str, default: Any = MISSING) -> Any:
        """The value as it is; without a default it must be there."""
        value = self.given.get(name, default)
        if value is MISSING:
            raise invalid(f"`{self.effect}` needs `{name}`")
        return value

    def text(self, name: str, default: Any = MISSING) -> str:
        """A text."""
        value = self.any(name, default)
        if not isinstance(value, str):
            raise self.refuse_type(name, value, "text")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false when left out."""
        value = self.any(name, False)
        if not isinstance(value, bool):
            raise self.refuse_type(name, value, "true or false")
        return value

    def seconds(self, name: str) -> float | None:
        """A positive number of seconds, or None when left out."""
        value = self.any(name, None)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            raise self.refuse_type(name, value, "a positive number of seconds")
        return float(value)

    def numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A whole number or a list of them."""
        value = self.any(name, None)
        if value is None:
            return default
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
            raise self.refuse_type(name, value, "a list of whole numbers")
        return tuple(found)

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of text to text; empty when left out."""
        value = self.any(name, {})
        if not isinstance(value, dict):
            raise self.refuse_type(name, value, "a mapping of text to text")
        for key, item in value.items():
            if not isinstance(item, str):
                raise self.refuse_type(f"{name}.{key}", item, TEXT)
        return value

    def choice(self, name: str, options: tuple[str, ...], default: Any = MISSING) -> str:
        """One of a few words."""
        value = self.any(name, default)
        if value not in options:
            raise invalid(f"`{name}` of `{self.effect}` must be one of {', '.join(options)}; this is {value!r:.60}")
        return str(value)

    def refuse_type(self, name: str, value: Any, wanted: str) -> EffectFailed:
        """The refusal of a value of the wrong kind; it does not repeat a text, which may be secret."""
        kinds = {"str": "text", "bool": "true or false", "list": "a list", "dict": "a mapping"}
        found = kinds.get(type(value).__name__, f"the number {value}")
        if value is None:
            return invalid(f"`{name}` of `{self.effect}` has no value: what it is made of was not given")
        return invalid(f"`{name}` of `{self.effect}` must be {wanted}; this is {found}")
