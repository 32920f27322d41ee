"""Checks that fail before a job and that one of its tasks is to mend: from then on they count like all others.

A failure that was there before is nobody's fault, unless it is what the job is about. A task names it under `Mends`, by
test, class, file or `all`; where a task does not, its title is read for it, and the plan shows what was understood.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from detent.agents.coding.check_result import Evidence, Failing, Fault
from detent.agents.coding.plan import TaskPlan

ALL, NONE = "all", "none"
NAMES_MAX = 20
_NAME = re.compile(
    r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.(?:py|js|ts|jsx|tsx|go|rs|dart)(?:::[\w:\[\]-]+)?"  # a file, perhaps with a test
    r"|(?<![\w.])(?:\w+(?:::|\.))*(?:test_\w+|Test[A-Z]\w*)(?:(?:::|\.)\w+)*",
)
_MEND = re.compile(r"\b(?:fix|mend|repair|heal|solve|resolve|correct|make|get|turn)\b|修复|修好|修正|解决|让|使", re.I)
_WRONG = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?|broken|red|pass(?:es|ing)?|green|work again)\b|失败|不通过|报错|通过|变绿|错误", re.I
)
_TESTS = re.compile(r"\b(?:tests?|checks?|suite|lint|build|ci)\b|测试|检查|构建", re.I)
_QUOTED = re.compile(r"(?:tests?|checks?|测试|检查)\s*[`'\"“「]([^`'\"”」\n]{1,200})[`'\"”」]", re.I)
_PIECES = re.compile(r"\w[\w-]*(?:\[[^\]]*\])?")
_PARAMETERS = re.compile(r"\[[^\]]*\]$")


def find_mends(plan: TaskPlan, requirement: str = "") -> TaskPlan:
    """The plan with what its tasks have to mend, where their titles say so and nothing else does.

    Where only the requirement says so, it is to be done when the last task is.
    """
    tasks = [replace(task, mends=task.mends or find_tests_named(task.title, task.about)) for task in plan.tasks]
    wanted = find_tests_named(requirement.partition("\n")[0], requirement)
    if tasks and wanted and not any(task.mends for task in tasks):
        tasks[-1] = replace(tasks[-1], mends=wanted)
    return replace(plan, tasks=tuple(tasks))


def find_tests_named(title: str, about: str = "") -> tuple[str, ...]:
    """The tests that a text wants to be mended: their names, `all` where it speaks of failing ones as such, or none."""
    if not _MEND.search(title) or not (_WRONG.search(title) or _TESTS.search(title)):
        return ()
    text = f"{title}\n{about}"
    names = [*_QUOTED.findall(text), *(name for name in _NAME.findall(text) if "test" in name.lower())]
    if names:
        return tuple(dict.fromkeys(names))[:NAMES_MAX]
    return (ALL,) if _TESTS.search(title) and _WRONG.search(title) else ()


def is_meant(test: str, names: Iterable[str]) -> bool:
    """Whether a failing check is one of those: its name, or the file, class or module it is in."""
    whole = _pieces(test)
    plain = [_PARAMETERS.sub("", piece) for piece in whole]
    for name in names:
        wanted = _pieces(name)
        if name == ALL or (wanted and (_holds(whole, wanted) or _holds(plain, wanted))):
            return True
    return False


def is_expected(baseline: Evidence | None, test: str, names: Iterable[str]) -> bool:
    """Whether a task has to mend it: it is meant, and does not merely need something of the user's own tree."""
    is_local = baseline is not None and any(one.test == test for one in baseline.only_here)
    return not is_local and is_meant(test, names)


def _pieces(name: str) -> list[str]:
    found = _PIECES.findall(name)
    return [piece for piece in found if piece not in ("py", "js", "ts", "jsx", "tsx", "go", "rs", "dart")]


def _holds(whole: list[str], wanted: list[str]) -> bool:
    return any(whole[at : at + len(wanted)] == wanted for at in range(len(whole) - len(wanted) + 1))


def to_mend(baseline: Evidence | None, names: Iterable[str]) -> tuple[Fault, ...]:
    """What failed before and is to be mended, as faults a worker can be shown."""
    wanted = tuple(names)
    found: list[Fault] = []
    for step in baseline.steps if baseline and wanted else ():
        meant = [item for item in step.failures if is_expected(baseline, item.test, wanted)]
        found += [_fault(step.name, item) for item in meant]
        if ALL in wanted and not step.is_green and not step.failing_ids:
            found.append(Fault(step.name, f"`{step.command}` ended with {step.exit}\n{step.tail}".strip()))
    return tuple(found)


def _fault(step: str, item: Failing) -> Fault:
    return Fault(step, item.message, item.test, item.file, item.line)
