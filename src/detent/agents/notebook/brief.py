"""What a notebook run is started with: the goal, who is asked, and under which rules."""

from typing import Any, Literal

import msgspec

from detent.agents.notebook.notebook_plan import WorkflowTemplate


class KernelBrief(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which kernel, where, and for how long."""

    name: str = ""  # a kernelspec; "": Python
    cwd: str = ""
    timeout_s: float = 300.0
    grace_s: float = 5.0
    threads: int = 0  # of numerical libraries; 0: as many as there are cores
    eager: bool = True  # start it while the planner thinks
    env: tuple[str, ...] = ()  # names of variables that the kernel is given from the environment of whoever drives it
    checkpoint_bytes: int = 2 * 1024**3  # most that a checkpoint of the variables may take; 0: none is made


class Brief(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input of a notebook run."""

    goal: str = ""
    title: str = ""
    notebook_id: str = ""
    variables: dict[str, Any] = {}  # what the planner is told: data_file, problem_description, custom context
    todo: list[Any] = []  # what the planner is shown as toDoList
    planner: dict[str, Any] = msgspec.field(default_factory=lambda: {"use": "builtin:analysis"})
    fallback: dict[str, Any] | None = None
    plan: WorkflowTemplate | None = None  # a plan to begin with
    confirm: Literal["first", "all", "none"] = "first"  # which changes of the plan need nobody's word
    on_cell_error: Literal["feedback", "continue", "fail"] = "feedback"
    max_steps: int = 0  # an action counts as two; 0: no limit
    max_actions: int = 0  # of one behaviour; 0: 20,000
    max_behaviors: int = 0  # of one step; 0: 20, and 5 with a model
    further_behaviors: int = 0  # granted to a planner that gives no directive
    kernel: KernelBrief = KernelBrief()
    review: Literal["", "risky", "none"] = ""  # ask before risky cells; "": only those a model wrote
    actions: str = ""  # a Python file that registers custom actions
    outputs: tuple[str, ...] = ()  # files that the notebook is written to when the run is over; (): the usual ones

    def input(self) -> dict[str, Any]:
        """The input of the run, with the places its work writes to."""
        own: dict[str, Any] = {"door": "", "call": {}, "achieved": None, "reason": "", "cells": 0}
        given: dict[str, Any] = {**msgspec.to_builtins(self), **own}
        return given if self.outputs else {name: value for name, value in given.items() if name != "outputs"}
