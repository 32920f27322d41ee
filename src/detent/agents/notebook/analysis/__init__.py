"""`builtin:analysis`: plans and writes a whole data analysis by rules, without a model, a key or a server.

What it does is data (`template.yaml`); what the person wants is read by `goal`; the figures it speaks of come from
the kernel, beside the tables that cells show.
"""

from detent.agents.notebook.analysis.planner import analyst

__all__ = ["analyst"]
