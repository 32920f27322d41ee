"""The doors to the outside that come with detent, and those that installed plugins add.

Importing this package loads no door: `builtin()` and `discover()` load theirs when they are called, `Known` each one
when somebody asks for it.
"""

from detent.effects.registry import Known, Plugin, builtin, discover, plugins

__all__ = ["Known", "Plugin", "builtin", "discover", "plugins"]
