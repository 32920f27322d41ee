"""Pinned tools: what a server said of a tool when it was first seen, so that it cannot become another one unseen.

A description is read by models and obeyed; one that changes between two sessions may be an attack (tool poisoning). The
old words are shown until a person has said yes to the new ones.
"""

from pathlib import Path
from typing import Any

import msgspec

from detent.core.value import digest
from detent.effects.mcp import Offer
from detent.whole_file import write_whole

FILE = "pins.json"  # in the folder of the servers


class ToolPin(msgspec.Struct, frozen=True):
    """What was believed of a tool; None: nobody has looked at it so far."""

    description: str
    schema: dict[str, Any]
    title: str | None = None
    output: dict[str, Any] | None = None

    @property
    def mark(self) -> str:
        """Changes with every word."""
        return digest([self.description, self.schema, self.title or "", self.output or {}])

    def fits(self, offer: Offer) -> bool:
        """Whether a server says just that."""
        now = pin_of(offer)
        is_named = self.title in (None, now.title) and self.output in (None, now.output)
        return is_named and (self.description, self.schema) == (now.description, now.schema)


def pin_of(offer: Offer) -> ToolPin:
    """What a server says of a tool now."""
    return ToolPin(offer.description, offer.schema, offer.title, offer.output)


def tell_change(now: ToolPin, before: ToolPin) -> tuple[str, str]:
    """What is said now and what was said before: the description, and whatever else of it is another."""
    told = []
    for one, other in ((now, before), (before, now)):
        rows = [one.description]
        rows += [f"title: {one.title or ''}"] if one.title != other.title else []
        rows += [f"arguments: {_write(one.schema)}"] if one.schema != other.schema else []
        rows += [f"result: {_write(one.output)}"] if one.output != other.output else []
        told.append("\n".join(rows))
    return told[0], told[1]


def _write(schema: Any) -> str:
    return msgspec.json.encode(schema or {}, order="sorted").decode()


class Pins:
    """The pins of one home."""

    def __init__(self, folder: Path) -> None:
        self._path, self._is_kept = folder / FILE, True
        try:
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, ToolPin])
        except FileNotFoundError:
            self._known = {}

    def find(self, name: str, offer: Offer) -> ToolPin:
        """What is believed of a tool; one that is seen for the first time is believed."""
        known = self._known.get(name)
        if known is None or (known.fits(offer) and known != pin_of(offer)):  # or by a version that looked at less
            self._known[name], self._is_kept = pin_of(offer), False
        return self._known[name]

    def put(self, name: str, pin: ToolPin) -> None:
        """Believe this from now on."""
        self._known[name], self._is_kept = pin, False
        self.keep()

    def keep(self) -> None:
        """Write down what is believed since the last time."""
        if not self._is_kept:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(self._known))
            self._is_kept = True
