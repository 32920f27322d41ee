"""Plans as people and other tools write them, and the order their tasks are done in."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.agents.coding import plan, plan_parser
from detent.agents.coding.plan import Task, TaskPlan
from detent.errors import Refused

LIST = """\
# Calculator

## Tasks
- [ ] **T-001** [P0] Parse numbers (`parse.py`)
  Only whole ones.
  - Verify: `pytest -k parse`
- [x] Task-002 P2 Print numbers
  - Depends on: T-001
  - Accept: a number is printed
"""
TABLE = """\
| 编号 | 名称 | 状态 | 描述 | 预计 | 依赖 | 验收标准 |
|---|---|---|---|---|---|---|
| T-001 | 解析 | ✅ DONE | 整数 | 1h | - | 能解析 |
| T-002 | 打印 | PENDING |  | 1h | T-001 | 能打印 |
"""
SPEC_KIT = """\
## Phase 1: Setup

- [ ] T001 Create the folders
- [ ] T002 [P] [US1] Write src/model.py
"""
OPEN_SPEC = """\
## 1. Implementation
- [ ] 1.1 Add the endpoint
- [x] 1.2 Add its tests
"""
MASTER = {
    "master": {
        "tasks": [
            {"id": 1, "title": "a", "priority": "high", "status": "pending", "testStrategy": "look",
             "subtasks": [{"id": 1, "title": "x"}, {"id": 2, "title": "y", "dependencies": [1]}]},
            {"id": 2, "title": "b", "dependencies": [1], "status": "done"},
        ]
    }
}  # fmt: skip


def ids(text: str) -> list[tuple[str, int, tuple[str, ...], bool]]:
    return [(task.id, task.priority, task.depends, task.is_done) for task in plan_parser.read(text).tasks]


def test_a_list_with_checkboxes() -> None:
    tasks = plan_parser.read(LIST).tasks
    assert ids(LIST) == [("T-001", 0, (), False), ("Task-002", 2, ("T-001",), True)]
    assert (tasks[0].verify, tasks[0].about) == ("pytest -k parse", "Only whole ones.")
    assert tasks[1].acceptance == ("a number is printed",)


@pytest.mark.parametrize("changed", [LIST.replace("\n", "\r\n"), "\ufeff" + LIST, LIST.replace("- [", "* [")])
def test_line_ends_marks_and_bullets_do_not_matter(changed: str) -> None:
    assert plan_parser.read(changed).tasks == plan_parser.read(LIST).tasks


def test_a_table() -> None:
    assert ids(TABLE) == [("T-001", 1, (), True), ("T-002", 1, ("T-001",), False)]
    assert plan_parser.read(TABLE).tasks[1].acceptance == ("能打印",)


def test_spec_kit_and_open_spec() -> None:
    assert ids(SPEC_KIT) == [("T001", 1, (), False), ("T002", 1, (), False)]
    assert plan_parser.read(SPEC_KIT).tasks[1].title == "Write src/model.py"
    assert ids(OPEN_SPEC) == [("1.1", 1, (), False), ("1.2", 1, (), True)]


def test_taskmaster() -> None:
    assert ids(json.dumps(MASTER)) == [
        ("1.1", 1, (), False),
        ("1.2", 1, ("1.1",), False),
        ("1", 0, ("1.1", "1.2"), False),
        ("2", 1, ("1",), True),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Nothing", "has no tasks"),
        ("- [ ] T-1 a\n- [ ] T-1 b", "two tasks"),
        ("- [ ] T-1 a\n  - Depends: T-9", "T-9, which is not in the plan"),
        ("- [ ] T-1 a\n  - Depends: T-2\n- [ ] T-2 b\n  - Depends: T-1", "wait for each other: T-1, T-2"),
        ("{broken", "looks like JSON"),
        ('{"tasks": [{"title": "x"}]}', "no `id`"),
        ("<<<<<<< ours\n- [ ] T-1 a\n>>>>>>> theirs\n", "conflict markers"),
        ("x" * (plan_parser.SOURCE_MAX + 1), "characters"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        plan_parser.read(text)


words = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=12)
titles = st.lists(words, min_size=1, max_size=4).map(" ".join)
tasks = st.builds(
    Task,
    id=st.just(""),
    title=titles,
    priority=st.integers(0, 9),
    files=st.lists(words, max_size=2, unique=True).map(tuple),
    acceptance=st.lists(titles, max_size=2).map(tuple),
    verify=st.just("") | titles,
    fewer_tests=st.integers(0, 3),
    no_change=st.booleans(),
    is_done=st.booleans(),
)


@given(st.lists(tasks, min_size=1, max_size=6), st.lists(titles, max_size=2), titles)
def test_what_is_written_is_read_back_equal(given: list[Task], risks: list[str], title: str) -> None:
    from msgspec.structs import replace

    numbered = tuple(replace(task, id=f"T-{n:03d}") for n, task in enumerate(given, 1))
    whole = TaskPlan(title=title, goal="One line.", risks=tuple(risks), tasks=numbered)
    assert plan_parser.read(plan.write_plan(whole, {"run": "r"})) == whole


@given(st.text(max_size=400))
def test_no_text_makes_the_reader_fall_over(text: str) -> None:
    with contextlib.suppress(Refused):
        assert isinstance(plan_parser.read(text), TaskPlan)


def test_the_order_is_topological_then_priority_then_number() -> None:
    given = [
        Task("T-10", "late"),
        Task("T-9", "early"),
        Task("T-3", "urgent", priority=0, depends=("T-9",)),
        Task("T-1", "low", priority=2),
    ]
    assert [task.id for task in plan.order(given)] == ["T-9", "T-3", "T-10", "T-1"]
