"""Cells run by a real Jupyter kernel: outputs, time limits, death, variables.

`Kernel` runs cells, `Kernels` keeps one kernel per key. jupyter_client is loaded when the first kernel starts.
"""

from detent.agents.notebook.jupyter.cell_request import CellExecution
from detent.agents.notebook.jupyter.kernel import Kernel
from detent.agents.notebook.jupyter.kernel_pool import Kernels
from detent.agents.notebook.jupyter.variable import Variable
from detent.core.value import scrub
from detent.effects.orphan_process import kill_orphans

__all__ = ["Kernel", "Kernels", "CellExecution", "Variable", "kill_orphans", "scrub"]
