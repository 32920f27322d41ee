"""The doors to the outside that come with detent, and those that installed plugins add.

Importing this package loads no door: `builtin()` and `discover()` do, when somebody asks for them.
"""

from detent.effects.registry import builtin, discover

__all__ = ["builtin", "discover"]
