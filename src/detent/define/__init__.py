"""Ways to write a Machine down and to get it back."""

from detent.define.source import READERS, Definition, find_effects, load

__all__ = ["READERS", "Definition", "find_effects", "load"]
