"""The plan: a goal, its scope, risks and tasks; one document that people edit and programs read.

`digest` is what a person confirms. It covers everything that steers the work: tasks, acceptance, checks and bounds.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
import yaml

from detent.core.value import digest as value_digest
from detent.errors import Refused

TASKS_MAX = 500
TEXT_MAX = 20_000
Priority = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of work, with how anybody can tell that it is done."""

    id: str
    title: str
    priority: Priority = 1
    about: str = ""
    files: tuple[str, ...] = ()  # paths or globs it is about; protected ones must be listed here to be changed
    depends: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    verify: str = ""  # a command of its own, besides the project's checks
    mends: tuple[str, ...] = ()  # checks that fail before the job and must not afterwards; `all`, `none`
    fewer_tests: Annotated[int, msgspec.Meta(ge=0)] = 0  # so many tests may disappear
    no_change: bool = False  # it may be done without any change to the tree
    is_done: bool = False  # ticked off in the document it was read from
    is_parallel: bool = False  # marked [P]: it may be worked on beside others


class TaskPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What will be done, and why."""

    title: str
    goal: str = ""
    scope: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    notes: str = ""

    def task(self, task_id: str) -> Task:
        """The task of that id."""
        return next(task for task in self.tasks if task.id == task_id)


def digest(plan: TaskPlan, checks: Mapping[str, Any]) -> str:
    """What a confirmation is bound to: the plan and the frozen checks and bounds."""
    return value_digest([msgspec.to_builtins(plan), dict(checks)])[:16]


def check_plan(plan: TaskPlan) -> TaskPlan:
    """The plan, if it can be carried out; refused with what is wrong with it."""
    if not plan.tasks:
        raise Refused("the plan has no tasks; write each as `- [ ] T-001 (P1) title`")
    if len(plan.tasks) > TASKS_MAX:
        raise Refused(f"the plan has {len(plan.tasks)} tasks; at most {TASKS_MAX} are taken")
    known: set[str] = set()
    for task in plan.tasks:
        if task.id in known:
            raise Refused(f"two tasks of the plan are called {task.id}")
        known.add(task.id)
    for task in plan.tasks:
        for other in task.depends:
            if other not in known:
                raise Refused(f"{task.id} depends on {other}, which is not in the plan")
    order(plan.tasks)
    return plan


def order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Topological, then priority (P0 first), then id; refused when tasks wait for each other in a circle."""
    left = {task.id: task for task in tasks}
    done: dict[str, Task] = {}
    while left:
        ready = [task for task in left.values() if all(other not in left for other in task.depends)]
        if not ready:
            raise Refused(f"these tasks wait for each other: {', '.join(sorted(left))}")
        chosen = min(ready, key=lambda task: (task.priority, natural(task.id)))
        done[chosen.id] = left.pop(chosen.id)
    return tuple(done.values())


def natural(text: str) -> tuple[Any, ...]:
    """Sorts T-9 before T-10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part)


def write_plan(plan: TaskPlan, front: Mapping[str, Any]) -> str:
    """The one canonical document: front matter, the story for people, and the list that is read back."""
    head = yaml.safe_dump(dict(front), sort_keys=False, allow_unicode=True).strip()
    lines = ["---", head, "---", "", f"# {plan.title}", ""]
    if plan.goal:
        lines += ["## Goal", "", plan.goal, ""]
    for title, items in (("Scope", plan.scope), ("Out of scope", plan.out_of_scope), ("Risks", plan.risks)):
        if items:
            lines += [f"## {title}", "", *(f"- {item}" for item in items), ""]
    lines += ["## Tasks", ""]
    for task in plan.tasks:
        lines += _task_lines(task)
    if plan.notes:
        lines += ["", "## Notes", "", plan.notes]
    return "\n".join(lines).rstrip() + "\n"


def _task_lines(task: Task) -> list[str]:
    mark = "[P] " if task.is_parallel else ""
    lines = [f"- [{'x' if task.is_done else ' '}] {task.id} (P{task.priority}) {mark}{task.title}"]
    lines += [f"  {line}" for line in task.about.splitlines() if line.strip()]
    if task.files:
        lines.append("  - Files: " + ", ".join(f"`{path}`" for path in task.files))
    if task.depends:
        lines.append(f"  - Depends: {', '.join(task.depends)}")
    lines += [f"  - Accept: {item}" for item in task.acceptance]
    if task.verify:
        lines.append(f"  - Verify: `{task.verify}`")
    if task.mends:
        lines.append("  - Mends: " + ", ".join(f"`{name}`" for name in task.mends))
    if task.fewer_tests:
        lines.append(f"  - Fewer tests: {task.fewer_tests}")
    if task.no_change:
        lines.append("  - No change: allowed")
    return lines
