"""What comes from outside: the base of every query and body."""

from typing import Annotated

import msgspec
from msgspec import Meta

PAGE_MAX = 500
Count = Annotated[int, Meta(ge=1, le=PAGE_MAX)]


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of everything that comes from outside: unknown fields are refused, for they would be overlooked."""
