"""`builtin:analysis`: plans and writes a whole data analysis by rules, without a model, a key or a server.

What it does is data (`template.yaml`); what the person wants is read by `goal`; the figures it speaks of come from
the kernel, beside the tables that cells show.
"""

from typing import Any

from detent.agents.notebook.analysis.planner import Analysis
from detent.agents.notebook.port import Advisers

__all__ = ["analyst"]


def analyst(settings: dict[str, Any]) -> Advisers:  # noqa: ARG001  # there is nothing to set
    """The offline planner and generator."""
    analysis = Analysis()
    return Advisers(analysis, analysis)
