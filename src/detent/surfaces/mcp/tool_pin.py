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
    """What was believed of a tool."""

    description: str
    schema: dict[str, Any]

    @property
    def mark(self) -> str:
        """Changes with every word."""
        return digest([self.description, self.schema])


def pin_of(offer: Offer) -> ToolPin:
    """What a server says of a tool now."""
    return ToolPin(offer.description, offer.schema)


class Pins:
    """The pins of one home."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        try:
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, ToolPin])
        except FileNotFoundError:
            self._known = {}

    def find(self, name: str, offer: Offer) -> ToolPin:
        """What is believed of a tool; one that is seen for the first time is believed."""
        if name not in self._known:
            self.put(name, pin_of(offer))
        return self._known[name]

    def put(self, name: str, pin: ToolPin) -> None:
        """Believe this from now on."""
        self._known[name] = pin
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path, msgspec.json.encode(self._known))
