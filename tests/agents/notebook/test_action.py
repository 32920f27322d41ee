"""The eleven actions, the ways to add more, and what comes of actions that make no sense."""

from typing import Any

import msgspec
import pytest

from detent.agents.notebook.action import BESIDES, PROTOCOL, registry
from detent.agents.notebook.action_context import ScriptStore
from detent.agents.notebook.cell import cell_id, metadata_of
from detent.agents.notebook.cell_text import action_of, code_of, text_of
from detent.agents.notebook.notebook_plan import PlanStage, WorkflowTemplate
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.registry import ActionRegistry


async def done(
    book: NotebookState, action: dict[str, Any], actions: ActionRegistry | None = None
) -> tuple[Any, ScriptStore]:
    """One action, and its changes in the book."""
    store = ScriptStore(book, actions or registry())
    step = action_of(action)
    result = await store.exec_action(step)
    store.changes["done"] = {"action": step["action"], "result": "success"}
    book.change(msgspec.json.decode(msgspec.json.encode(store.changes)))
    return result, store


def test_there_are_eleven() -> None:
    names = "add exec is_thinking finish_thinking new_chapter new_section update_title update_workflow"
    assert [*PROTOCOL] == [*names.split(), "update_stage_steps", "end_phase", "next_event"]
    assert {"add_text", "new_step", "update_last_text", "set_effect_as_thinking", "comment_result", "promote"} == {
        *BESIDES
    }


async def test_texts_code_and_observations_become_cells() -> None:
    book = NotebookState()
    await done(book, {"action": "add", "shot_type": "dialogue", "content": "Hello"})
    await done(book, {"action": "add", "shot_type": "observation", "content": "Output: 42"})
    metadata = {"isSection": True, "section_number": "2", "colour": "red", "extra": {"a": 1}}
    given = {"action": "add", "shotType": "action", "content": "```python\nprint('hi')\n```", "storeId": "my cell.1"}
    await done(book, {**given, "metadata": metadata})
    hello, seen, code = book.cells
    assert [(c.type, c.content) for c in book.cells] == [
        ("markdown", "Hello"),
        ("markdown", "Output: 42"),
        ("code", "print('hi')"),
    ]
    assert (code.id, code.store_id) == ("my-cell-1", "my cell.1")
    assert book.cell("my cell.1") == code
    assert code.metadata.is_section
    assert code.metadata.extra == {"section_number": "2", "colour": "red", "a": 1}
    assert len(hello.id) == 36
    assert hello.id != seen.id


async def test_chapters_and_sections_are_numbered_and_have_ids() -> None:
    book = NotebookState()
    for name in ("new_chapter", "new_section", "new_section", "new_chapter", "new_section"):
        await done(book, {"action": name, "content": "数据 ## x"})
    found = [(c.content, c.metadata.chapter_id, c.metadata.section_id) for c in book.cells]
    assert found == [
        ("## 数据 ## x", "chapter-1", None),
        ("### 数据 ## x", "chapter-1", "section-1"),
        ("### 数据 ## x", "chapter-1", "section-2"),
        ("## 数据 ## x", "chapter-2", None),
        ("### 数据 ## x", "chapter-2", "section-3"),
    ]


async def test_thinking_is_marked_as_finished_and_stays() -> None:
    book = NotebookState()
    given = {"thinking_text": "hm", "agent_name": "Analyst", "custom_text": "c", "text_array": ["1", "2"]}
    await done(book, {"action": "is_thinking", **given})
    assert not book.cells[0].metadata.finished_thinking
    await done(book, {"action": "finish_thinking"})
    (cell,) = book.cells
    assert (cell.type, cell.content, cell.agent_name, cell.custom_text) == ("thinking", "hm", "Analyst", "c")
    assert (cell.text_array, cell.metadata.finished_thinking, cell.metadata.thinking_text) == (("1", "2"), True, "hm")
    await done(book, {"action": "finish_thinking"})
    assert "nobody was thinking" in book.warnings[-1]


async def test_a_title_changes_the_notebook_and_its_title_cell() -> None:
    book = NotebookState()
    await done(book, {"action": "add", "content": "# Old"})
    await done(book, {"action": "update_title", "title": "Update the title of the notebook: New"})
    assert (book.title, book.cells[0].content) == ("New", "# New")


async def test_updates_of_the_plan_are_proposed_not_done() -> None:
    book = NotebookState()
    book.plan = WorkflowTemplate(stages=(PlanStage("a"),))
    workflow = {"name": "W", "stages": [{"id": "s", "name": "S", "steps": [{"id": "x", "name": "X"}]}]}
    result, store = await done(book, {"action": "update_workflow", "updated_workflow": workflow})
    assert (result["workflow_update_pending"], store.raised) == (True, "UPDATE_WORKFLOW")
    steps = [{"id": "one", "name": "One", "description": "…"}]
    result, store = await done(book, {"action": "update_stage_steps", "stage_id": "a", "updated_steps": steps})
    assert (result["step_update_pending"], store.raised) == (True, "UPDATE_STEP")
    assert book.plan == WorkflowTemplate(stages=(PlanStage("a"),))
    result, store = await done(book, {"action": "update_workflow", "updated_workflow": {"stages": []}})
    assert (result["success"], store.raised) == (False, "")


async def test_the_quiet_ones() -> None:
    book = NotebookState()
    result, _ = await done(book, {"action": "end_phase", "step_id": "load_data"})
    assert (result["step_id"], book.is_phase_ended) == ("load_data", True)
    result, _ = await done(book, {"action": "next_event", "event_type": "custom_event"})
    assert result["event_type"] == "custom_event"
    await done(book, {"action": "add", "content": "a"})
    await done(book, {"type": "update_last_text", "text": "b"})
    await done(book, {"action": "set_effect_as_thinking"})
    book.current.append("shown")
    await done(book, {"action": "comment_result", "content": "so"})
    assert [c.content for c in book.cells] == ["b", "finished thinking", "so"]
    assert (book.current, book.past) == ([], ["shown"])


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"action": "exec"}, "codecell_id"),
        ({"action": "add"}, "content"),
        ({"action": "update_title"}, "content"),
        ({"action": "update_workflow"}, "updated_workflow"),
        ({"action": "new_chapter", "content": 3}, "content"),
    ],
)
async def test_a_missing_field_is_a_structured_error(action: dict[str, Any], field: str) -> None:
    book = NotebookState()
    result, _ = await done(book, action)
    assert result["success"] is False
    assert field in result["error"]
    assert result["action_id"] == "action-1"
    assert field in book.warnings[-1]
    assert book.cells == []


async def test_an_unknown_action_is_warned_about_and_skipped() -> None:
    book = NotebookState()
    result, _ = await done(book, {"action": "custom_action"})
    assert result is None
    assert "custom_action" in book.warnings[0]


async def test_custom_actions_in_three_ways_with_hooks_that_may_fail() -> None:
    heard: list[Any] = []
    ScriptStore.register_custom_action("everywhere", lambda *_: {"where": "class"})
    store = ScriptStore()
    store._registry.register_handler("here", lambda *_: "instance")
    own = ActionRegistry()

    @own.register("decorated")
    async def decorated(script_store: ScriptStore, step: dict[str, Any]) -> dict[str, Any]:
        script_store.add_cell("outcome", step["content"])
        return {"made": True}

    def broken(step: dict[str, Any]) -> None:
        raise ValueError("no")

    async def broken_after(step: dict[str, Any], result: Any) -> None:
        raise RuntimeError(f"{step['action']} {result['made']}")

    own.add_pre_hook(broken)
    own.add_post_hook(broken_after)
    own.add_pre_hook(lambda step: heard.append(step["action"]))
    own.add_post_hook(lambda _step, result: heard.append(result))
    assert await store.exec_action({"action": "everywhere"}) == {"success": True, "where": "class"}
    assert await store.exec_action({"action": "here"}) == {"success": True, "result": "instance"}
    book = NotebookState()
    result, _ = await done(book, {"action": "decorated", "content": "42"}, own)
    assert result == {"success": True, "made": True}
    assert (book.cells[0].type, book.cells[0].content) == ("outcome", "42")
    assert heard == ["decorated", result]
    assert "`broken` failed: ValueError: no" in book.warnings[0]
    assert "`broken_after` failed: RuntimeError: decorated True" in book.warnings[1]


async def test_the_last_added_cell_is_the_last_code_cell_and_defaults_are_the_protocols() -> None:
    book = NotebookState()
    _, store = await done(book, {"action": "exec", "codecell_id": "code-1"}, ActionRegistry({"exec": lambda *_: None}))
    assert store.cell("lastAddedCellId") is None
    await done(book, {"action": "add", "shot_type": "action", "content": "1"})
    await done(book, {"action": "add", "content": "a text after it", "metadata": "no mapping"})
    assert ScriptStore(book).cell("lastAddedCellId") == book.cells[0]
    code, text = book.cells
    assert (code.need_output, code.keep_debug_button_visible, code.repeat) == (True, False, "replay")
    assert (text.type, text.metadata) == ("markdown", metadata_of({}))
    assert msgspec.to_builtins(text.metadata, str_keys=True).get("extra", {}) == {}
    fields = "is_step is_chapter is_section chapter_id section_id chapter_number section_number finished_thinking"
    assert text.metadata.__struct_fields__ == (*fields.split(), "thinking_text", "extra")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Add text to the notebook: Hello", "Hello"),
        ("Add text to the notebook:Hello", "Hello"),
        ("add text to me", "add text to me"),
        ("Nothing: special", "Nothing: special"),
    ],
)
def test_instruction_phrases_are_taken_off(given: str, wanted: str) -> None:
    assert text_of(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        "x = 1",
        "```\nx = 1\n```",
        "```python\nx = 1\n```",
        "```Python\nx = 1\n```\n",
        "~~~py\nx = 1\n~~~",
        "Add code to the notebook: x = 1",
        "Add code to the notebook and run it: ```python\nx = 1\n```",
    ],
)
def test_code_loses_phrases_and_fences(given: str) -> None:
    assert code_of(given) == "x = 1"


def test_a_fence_inside_code_stays() -> None:
    assert code_of("s = '''\n```\n'''") == "s = '''\n```\n'''"


def test_ids_are_what_nbformat_takes() -> None:
    assert cell_id("a b.c", set()) == "a-b-c"
    assert cell_id("x" * 70, {"x" * 64}) == "x" * 62 + "-2"
    assert cell_id("", set()) == "cell"


def test_actions_come_wrapped_and_in_camel_case() -> None:
    given = {"action": {"type": "add-text", "shotType": "dialogue", "content": "x"}}
    assert action_of(given) == {"action": "add_text", "shot_type": "dialogue", "content": "x"}
    assert action_of("x") == {}
    assert action_of({"content": "x"}) == {}
    assert metadata_of(None) == metadata_of({})
