"""What a planner sees and what its words do."""

from typing import Any

from detent.agents.notebook.cell import Cell, Output
from detent.agents.notebook.context_filter import apply_focus, patterns_of, strategies
from detent.agents.notebook.location import Location
from detent.agents.notebook.notebook_plan import WorkflowTemplate, template_of
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.observation import CONTEXT_MAX, observe, whole
from detent.agents.notebook.planner_regex import search_patterns
from detent.agents.notebook.planning_response import Advice

PLAN = template_of(
    {
        "stages": [
            {"id": "load", "name": "Load", "steps": [{"id": "read", "description": "Read it"}, {"step_id": "look"}]},
            {"id": "model", "description": "Model it", "steps": [{"id": "fit", "expected": ["model"]}]},
        ]
    }
)


def walked(*events: str, plan: WorkflowTemplate = PLAN) -> Location:
    place = Location()
    for event in events:
        place.move(event, plan)
    return place


def test_the_place_follows_from_the_transitions() -> None:
    place = walked("START_WORKFLOW", "START_STEP", "START_BEHAVIOR", "START_ACTION", "COMPLETE_ACTION")
    assert (place.stage_id, place.step_id, place.behavior_id, place.iteration) == ("load", "read", "behavior_001", 1)
    place.move("COMPLETE_BEHAVIOR", PLAN)
    place.move("NEXT_BEHAVIOR", PLAN)
    assert (place.behavior_id, place.list_done("behaviors")) == ("behavior_002", ["behavior_001"])
    for event in ("COMPLETE_BEHAVIOR", "COMPLETE_STEP", "NEXT_STEP"):
        place.move(event, PLAN)
    assert (place.step_id, place.list_done("steps"), place.remaining("steps", PLAN)) == ("look", ["read"], [])
    for event in ("COMPLETE_STEP", "COMPLETE_STAGE", "NEXT_STAGE", "START_STEP"):
        place.move(event, PLAN)
    assert (place.stage_id, place.step_id, place.list_done("stages")) == ("model", "fit", ["load"])
    place.move("RESET", PLAN)
    assert place.stage_id is None


def test_outputs_move_up_when_a_behavior_and_a_step_end() -> None:
    place = walked("START_WORKFLOW", "START_STEP", "START_BEHAVIOR")
    outputs = place.levels["behaviors"].outputs
    outputs.update({"expected": ["df", "missing"], "in_progress": ["tmp", "df"]})
    outputs.produce("df")
    assert outputs.wire() == {"expected": ["df", "missing"], "produced": ["df"], "in_progress": ["tmp"]}
    told = place.move("COMPLETE_BEHAVIOR", PLAN)
    assert told == ["⚠️ WARN: expected output 'missing' was not produced by behavior_001"]
    assert outputs.in_progress == []
    assert place.levels["steps"].outputs.produced == ["df"]
    assert place.levels["behaviors"].completed[0]["outputs_produced"]["variables"] == ["df"]
    place.move("NEXT_BEHAVIOR", PLAN)
    assert place.levels["behaviors"].outputs.wire() == {"expected": [], "produced": [], "in_progress": []}


def test_an_observation_has_every_part_of_the_protocol() -> None:
    book = NotebookState()
    book.plan = PLAN
    book.given = {"row_count": 1000}
    book.put(Cell("c", "code", "1", outputs=(Output("execute_result", "1", data={"image/png": "abc"}),)))
    book.current = ["Loaded"]
    book.location = walked("START_WORKFLOW", "START_STEP", "START_BEHAVIOR")
    seen = observe(book)
    assert seen["location"]["current"] == {
        "stage_id": "load",
        "step_id": "read",
        "behavior_id": "behavior_001",
        "behavior_iteration": 1,
    }
    assert seen["location"]["goals"] == {
        "workflow": "Data Analysis Task",
        "stage": "Load",
        "step": "Read it",
        "behavior": None,
    }
    assert {*seen["location"]["progress"]["behaviors"]} == {
        "completed",
        "current",
        "iteration",
        "focus",
        "current_outputs",
    }
    assert seen["location"]["progress"]["stages"]["remaining"] == ["model"]
    context = seen["context"]
    assert context["variables"] == {"row_count": 1000}
    assert context["effects"] == {"current": ["Loaded"], "history": []}
    (cell,) = context["notebook"]["cells"]
    assert (cell["isUpdate"], cell["outputs"][0]["data"]) == (True, {"image/png": "<image/png>"})
    assert (context["notebook"]["cell_count"], context["notebook"]["last_output"]) == (1, "1")
    assert context["FSM"]["history"] is context["FSM"]["transition"]


def test_an_observation_is_cut_to_what_can_be_sent() -> None:
    book = NotebookState()
    book.current = ["x" * 3000] * 30
    book.past = ["y" * 3000] * 5
    book.variables = {"big": "z" * 50_000}
    seen = observe(book)["context"]
    assert seen["effects"]["history"] == []
    assert len(seen["effects"]["current"]) == 10
    assert seen["variables"]["big"] == "z" * 200 + "..."
    assert sum(map(len, seen["effects"]["current"])) <= CONTEXT_MAX + 100


def test_a_foreign_observation_gets_its_missing_parts() -> None:
    given: dict[str, Any] = {"location": {"current": {"stage_id": "a"}}, "context": {"FSM": {"state": "STEP_RUNNING"}}}
    seen = whole(given)
    assert seen["location"]["current"]["stage_id"] == "a"
    assert seen["location"]["progress"]["steps"]["remaining"] == []
    assert seen["context"]["FSM"]["state"] == "step_running"
    assert whole({"location": 3, "context": None})["context"]["variables"] == {}


def seen_with(**context: Any) -> dict[str, Any]:
    seen = observe(NotebookState())
    seen["context"].update(context)
    return seen


def test_a_filter_passes_what_it_names_and_warns_about_what_is_not_there() -> None:
    seen = seen_with(variables={"a": 1, "df": "DataFrame(3×2)"}, effects={"current": ["1", "2", "3"], "history": ["0"]})
    wanted = {
        "variables_to_include": ["a", "gone", "lost"],
        "variables_to_summarize": {"df": "shape_only", "lost": "head_only", "none": "last_5_only", "bad": "all"},
        "effects_config": {"current_limit": 2, "include_history": True, "history_limit": 5},
        "focus_to_include": ["stages"],
        "outputs_tracking": {"expected_variables": ["x"]},
    }
    assert strategies(wanted) == {"df": "shape_only", "lost": "head_only", "none": "last_5_only"}
    found = apply_focus(seen, wanted, {"df": {"shape": [3, 2]}}, {})
    assert found["context"]["variables"] == {
        "a": 1,
        "df": {"shape": [3, 2]},
        "lost": "<head_only: not available>",
        "none": "<last_5_only: not available>",
        "bad": "<all: not available>",
    }
    current = found["context"]["effects"]["current"]
    assert current[:2] == ["2", "3"]
    assert [text.split("'")[1] for text in current[2:]] == ["gone", "lost", "none", "bad"]
    assert found["context"]["effects"]["history"] == ["0"]
    assert [*found["location"]["progress"]] == ["stages", "steps"]
    assert {*found["location"]} == {"current", "progress"}
    assert "notebook" not in found["context"]


async def test_a_filters_patterns_choose_effects() -> None:
    texts = ["keep 1", "drop 1", "keep 2", "keep " + "a" * 60]
    seen = seen_with(effects={"current": texts, "history": []})
    patterns = {"include": ["keep", "("], "exclude": ["2$", "(a+)+b", 3]}
    wanted = {"effects_config": {"patterns": patterns}}
    assert patterns_of(wanted) == ["keep", "(", "2$", "(a+)+b", "3"]
    for within_s in (1, 4, 16):  # however long a process takes to start here
        matches = await search_patterns(patterns_of(wanted), texts, within_s)
        if matches["2$"] == frozenset({texts[2]}):
            break
    assert matches["keep"] == frozenset({texts[0], *texts[2:]})
    assert (matches["2$"], matches["3"]) == (frozenset({texts[2]}), frozenset())
    found = apply_focus(seen, wanted, {}, matches)["context"]["effects"]["current"]
    assert found[:2] == ["keep 1", texts[3]]
    assert "'(' of effects_config is left out: error: missing )" in found[2]
    assert "'(a+)+b' of effects_config is left out: it took more than " in found[3]  # and nobody waited for it
    off = apply_focus(seen, {"effects_config": {"include_current": False}}, {}, {})
    assert off["context"]["effects"] == {"current": [], "history": []}


def test_advice_knows_every_kind_of_update() -> None:
    update = {
        "variables": {"b": 2},
        "progress_update": {"level": "behaviors", "focus": "look"},
        "outputs_update": {"level": "steps", "outputs": {"expected": ["x"], "produced": []}},
        "effects_update": {"current": ["c"], "history": []},
        "workflow_update": {"workflowTemplate": {"stages": [{"id": "s"}]}, "nextStageId": "s"},
        "stage_steps_update": {"stage_id": "s", "steps": [{"id": "t"}]},
        "todo_list_update": {"operation": "add", "items": ["y"]},
        "section_progress": {"done": 1},
    }
    advice = Advice({"targetAchieved": False, "context_update": update, "context_filter": {"x": 1}}, ["x"], {"a": 1})
    assert advice.warnings == []
    assert advice.changes["set"] == {
        "given": {"a": 1, "b": 2},
        "todo": ["x", "y"],
        "section_progress": {"done": 1},
        "filter": {"x": 1},
    }
    assert advice.changes["focus"] == {"behaviors": "look"}
    assert advice.changes["outputs"] == {"steps": {"expected": ["x"], "produced": []}}
    assert advice.changes["effects_set"] == {"current": ["c"], "history": []}
    assert [one["action"] for one in advice.updates] == ["update_workflow", "update_stage_steps"]
    assert advice.next_stage_id == "s"


def test_careless_advice_is_left_out_and_said_so() -> None:
    update = {
        "variables": 3,
        "progress_update": {"level": "x", "focus": ["not", "text"]},
        "outputs_update": {"level": "steps", "outputs": {"other": []}},
        "effects_update": {"current": 1},
        "workflow_update": {"stages": []},
        "stage_steps_update": {"steps": []},
        "todo_list_update": {"operation": "burn", "items": []},
        "section_progress": 4,
        "new_thing": 1,
    }
    advice = Advice({"contextUpdate": update, "transition": {"targetAchieved": True}}, [], {})
    assert len(advice.warnings) == 9
    assert advice.is_achieved
    assert [*advice.changes] == ["warned"]
    assert Advice("nonsense", [], {}).warnings
    torn = Advice({"targetAchieved": False, "transition": {"target_achieved": True}}, [], {})
    assert not torn.is_achieved
    assert torn.warnings == ["`targetAchieved` is false and `transition.target_achieved` true; the first decides"]


def test_the_top_level_flag_decides() -> None:
    assert Advice({"targetAchieved": True, "transition": {"target_achieved": False}}, [], {}).is_achieved
    assert not Advice({"targetAchieved": False, "transition": {"target_achieved": True}}, [], {}).is_achieved
    assert Advice({"transition": {"target_achieved": True}}, [], {}).is_achieved
    assert Advice({"targetAchieved": True, "transition": {}}, [], {}).is_achieved
    assert Advice({"transition": {"continue_behaviors": True}}, [], {}).continues
