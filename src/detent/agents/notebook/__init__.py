"""The notebook agent: from a goal to a finished notebook, as one machine whose every cell is journalled.

Begin with `port` (what a planner is asked and answers) and `cell` (what a notebook is).
"""

__all__: list[str] = []
