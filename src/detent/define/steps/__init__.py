"""Files that are a plain list of steps, compiled to the same Machine as files of states."""

from detent.define.steps.steps_file import compile_steps, is_steps

__all__ = ["compile_steps", "is_steps"]
