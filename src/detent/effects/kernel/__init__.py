"""Cells run by a real Jupyter kernel: outputs, time limits, death, variables.

`Kernel` runs cells, `Kernels` keeps one kernel per key. jupyter_client is loaded when the first kernel starts.
"""

from detent.core.value import scrub
from detent.effects.kernel.cell import Execution
from detent.effects.kernel.kernel import Kernel
from detent.effects.kernel.orphan import kill_orphans
from detent.effects.kernel.pool import Kernels
from detent.effects.kernel.variable import Variable

__all__ = ["Kernel", "Kernels", "Execution", "Variable", "kill_orphans", "scrub"]
