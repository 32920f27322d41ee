"""Whole runs on a real kernel and a real journal: cells, errors, consent, recovery."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.action import registry as every_action
from detent.core.status import Status
from detent.errors import EventRefused
from detent.host.parts.replay import verify
from tests.agents.notebook.studio import RUN, code, script, studio, text

WORKFLOW = {"stages": [{"id": "new", "title": "New", "steps": [{"step_id": "n1"}]}]}


async def test_a_script_becomes_a_notebook_and_one_entry_per_cell(tmp_path: Path) -> None:
    actions = [
        {"action": "new_chapter", "content": "Load"},
        text("A table"),
        *code("x = 20\nprint('hi')\nx"),
        *code("y = x + 1", need_output=False),
        *code("from IPython.display import HTML\nHTML('<b>1</b>')"),
    ]
    heard: list[dict[str, Any]] = []
    async with studio(tmp_path) as here:
        here.host.overhear(RUN, lambda _id, data: heard.append(dict(data)))
        run = await here.begin(script(*actions, title="Test"))
        assert (run.state, run.status, run.output["achieved"]) == ("workflow_completed", Status.COMPLETED, True)
        book = here.book
        first, second, third = (cell for cell in book.cells if cell.type == "code")
        assert [output.content for output in first.outputs] == ["hi\n", "20"]
        assert (first.execution_count, second.execution_count, first.ran) == (1, 2, "ok")
        assert third.outputs[0].data["text/html"] == "<b>1</b>"
        assert book.variables == {"x": 20, "y": 21}
        assert book.current[:2] == ["hi\n", "20"]
        assert run.seq == 1 + 1 + 3 + len(actions) + 3  # started, signal, three plans, one entry per action, three ends
        assert {"hi\n"} <= {data["output"].get("text") for data in heard if "output" in data}
        assert verify(here.host.journal, RUN).problem == ""
        fsm = [row["event"] for row in book.transitions]
        assert fsm[:6] == [
            "START_WORKFLOW",
            "START_STEP",
            "START_BEHAVIOR",
            "START_ACTION",
            "COMPLETE_ACTION",
            "NEXT_ACTION",
        ]
        run = await here.signal("RESET")
        assert (run.state, run.status) == ("idle", Status.WAITING)


async def test_a_goal_that_a_script_measures_nothing_of_is_not_called_met(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("1 / 1"), goal="make me a sandwich"))
        assert (run.state, run.output["achieved"]) == ("workflow_completed", None)


async def test_an_exception_is_an_observation_and_ends_a_script(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("1 / 0"), *code("never = 1")))
        assert (run.state, run.status) == ("error", Status.FAILED)
        assert run.error is not None
        assert run.error.type == "tool_failure.no_directive"
        book = here.book
        assert "ZeroDivisionError" in book.current[0]
        assert (book.cells[0].ran, book.position, book.counts["succeeded"]) == ("error", 2, 1)
        assert "never" not in book.variables
        with pytest.raises(EventRefused):
            await here.host.signal(RUN, "NEXT_STEP")
        run = await here.signal("START_BEHAVIOR")  # goes on with what has not succeeded
        assert (run.state, here.book.location.iteration) == ("error", 2)
        assert len(here.book.cells) == 1
        run = await here.signal("START_WORKFLOW")  # from its first stage on
        place = here.book.location
        assert (run.state, place.stage_id, place.iteration, place.list_done("steps")) == ("error", "script", 1, [])
        run = await here.signal("RESET")
        assert (run.state, run.status, here.book.location.stage_id) == ("idle", Status.WAITING, None)
        assert (await here.signal("START_WORKFLOW")).state == "error"


async def test_actions_of_others_may_fail_or_bring_a_context_and_the_run_goes_on(tmp_path: Path) -> None:
    own = every_action()
    own.register_handler("boom", lambda *_: 1 / 0)
    own.register_handler("shout", lambda store, step: store.add_cell("markdown", step["content"].upper()))
    state = {
        "variables": {"rows": 3},
        "toDoList": ["next"],
        "section_progress": {"a": 1},
        "effects": {"current": ["no"]},
    }
    odd: dict[str, Any] = {"action": "add", "content": "x", "metadata": ["junk"]}
    actions = [{"action": "boom"}, {"action": "shout", "content": "a"}, odd, {**text("with a context"), "state": state}]
    async with studio(tmp_path, registry=own) as here:
        run = await here.begin(script(*actions, on_cell_error="continue"))
        assert run.state == "workflow_completed"
        book = here.book
        assert "the action `boom` failed: ZeroDivisionError: division by zero" in book.warnings
        assert (book.given, book.todo, book.section_progress) == ({"rows": 3}, ["next"], {"a": 1})
        assert "no" not in book.current
        assert [cell.content for cell in book.cells] == ["A", "x", "with a context"]


@pytest.mark.parametrize(("policy", "state", "count"), [("continue", "workflow_completed", 4), ("fail", "error", 1)])
async def test_what_an_exception_leads_to_is_a_choice(tmp_path: Path, policy: Any, state: str, count: int) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("1 / 0"), *code("after = 1"), on_cell_error=policy))
        assert run.state == state
        assert ("after" in here.book.variables) is (policy == "continue")


async def test_a_kernel_that_dies_inside_a_cell_fails_it_with_its_output_and_comes_back(tmp_path: Path) -> None:
    died, heard = tmp_path / "died", tmp_path / "heard"
    dying = f"""
import os, time
print('so far', flush=True)
if not os.path.exists({str(died)!r}):
    while not os.path.exists({str(heard)!r}):
        time.sleep(0.01)
    open({str(died)!r}, 'w')
    os._exit(3)
"""
    async with studio(tmp_path) as here:
        here.host.overhear(RUN, lambda _id, data: heard.touch() if "so far" in str(data.get("output")) else None)
        run = await here.begin(script(*code("kept = 7"), *code(dying), *code("late = kept + 1")))
        assert run.error is not None
        assert (run.state, run.error.type) == ("error", "tool_failure.kernel_died")
        cell = here.book.cells[1]
        assert cell.ran == "dead"
        assert "so far" in cell.outputs[0].text
        assert here.book.variables == {}
        run = await here.signal("START_BEHAVIOR")  # a new kernel, the journalled cells again, then on
        assert run.state == "workflow_completed"
        assert here.book.variables["late"] == 8


@pytest.mark.parametrize(
    ("end", "more", "type"),
    [
        ("import os\nos._exit(3)", {}, "tool_failure.kernel_died"),
        ("import time\nwhile True: time.sleep(0.01)", {"timeout_s": 2.0}, "timeout.action"),
        ("1 / 0", {"on_cell_error": "fail"}, "tool_failure.cell"),
    ],
)
async def test_a_once_cell_that_failed_after_its_deed_is_not_run_again_without_a_word(
    tmp_path: Path, end: str, more: dict[str, Any], type: str
) -> None:
    deeds = tmp_path / "deeds"
    deed = f"with open({str(deeds)!r}, 'a') as file: file.write('x')\n{end}"
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code(deed, repeat="once"), **more))
        assert run.error is not None
        assert (run.state, run.error.type) == ("error", type)
        run = await here.signal("START_BEHAVIOR")
        (asking,) = run.waiting
        assert asking.question is not None
        assert (asking.question.earlier["status"], asking.question.earlier["error"]["type"]) == ("possible", type)
        assert deeds.read_text() == "x"
        run = await here.answer(approved=True, by="kim")
        assert deeds.read_text() == "xx", "somebody wanted it"


async def test_a_cell_over_its_time_limit_fails(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("import time\nwhile True: time.sleep(0.01)"), timeout_s=0.5))
        assert run.error is not None
        assert (run.state, run.error.type) == ("error", "timeout.action")
        assert here.book.cells[0].ran == "timeout"


async def test_a_cell_that_is_not_there_fails(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script({"action": "exec", "codecell_id": "nowhere"}))
        assert run.error is not None
        assert (run.state, run.error.type) == ("error", "tool_failure.not_found")


async def test_a_changed_workflow_waits_for_consent_through_a_restart(tmp_path: Path) -> None:
    update = {"action": "update_workflow", "updated_workflow": WORKFLOW}
    async with studio(tmp_path) as here:
        run = await here.begin(script(text("a"), update, text("b")))
        assert (run.state, run.status) == ("workflow_update_pending", Status.WAITING)
        assert "new: n1" in (run.waiting[0].question.text if run.waiting[0].question else "")
    async with studio(tmp_path) as here:
        run = await here.recover()
        assert run.state == "workflow_update_pending"
        run = await here.answer(approved=True, by="me")
        assert run.state == "workflow_completed"
        assert [cell.content for cell in here.book.cells] == ["a", "b"]
        assert here.book.plan is not None
        assert [stage.id for stage in here.book.plan.stages] == ["new"]
        assert here.book.location.list_done("stages") == ["script", "new"]


async def test_rejection_is_asymmetric(tmp_path: Path) -> None:
    update = {"action": "update_workflow", "updated_workflow": WORKFLOW}
    steps = {"action": "update_stage_steps", "stage_id": "script", "updated_steps": [{"step_id": "z"}]}
    async with studio(tmp_path / "a") as here:
        await here.begin(script(update, text("b")))
        run = await here.answer(approved=False)
        assert (run.state, len(here.book.cells)) == ("workflow_completed", 1)
    async with studio(tmp_path / "b") as here:
        run = await here.begin(script(steps, text("b")))
        assert run.state == "step_update_pending"
        run = await here.answer(approved=False)
        assert (run.state, run.status) == ("error", Status.FAILED)
        run = await here.signal("START_WORKFLOW")
        assert run.state == "step_update_pending"
        run = await here.signal("UPDATE_STEP_CONFIRMED")  # the protocol's own word does as well as an answer
        assert here.book.location.list_done("steps") == ["cells", "z"]
        assert run.state == "workflow_completed"


async def test_a_policy_may_consent_and_a_pending_update_may_be_cancelled(tmp_path: Path) -> None:
    update = {"action": "update_workflow", "updated_workflow": WORKFLOW}
    async with studio(tmp_path / "a") as here:
        assert (await here.begin(script(update, confirm="all"))).state == "workflow_completed"
    async with studio(tmp_path / "b") as here:
        await here.begin(script(update))
        run = await here.signal("COMPLETE_ACTION")  # the placeholder keeps it pending
        assert (run.state, len(run.waiting)) == ("workflow_update_pending", 1)
        run = await here.signal("CANCEL")
        assert (run.state, run.status) == ("cancelled", Status.CANCELLED)
        assert (await here.signal("RESET")).state == "idle"


async def test_cancel_ends_the_cell_and_its_kernel(tmp_path: Path) -> None:
    began = asyncio.Event()
    async with studio(tmp_path) as here:
        here.host.overhear(RUN, lambda _id, data: began.set() if "output" in data else None)
        brief = script(*code("import time\nprint('go', flush=True)\ntime.sleep(60)"))
        running = asyncio.create_task(here.begin(brief))
        await began.wait()
        run = await here.signal("CANCEL")
        assert (run.state, run.status) == ("cancelled", Status.CANCELLED)
        await running
        async with asyncio.timeout(20):
            while here.notebooks.bench.runs:  # noqa: ASYNC110  # the kernel's end is nobody's event
                await asyncio.sleep(0.02)


async def test_auto_debug_repairs_within_bounds(tmp_path: Path) -> None:
    from detent.agents.notebook.port import Advisers
    from detent.agents.notebook.script_planner import advise_by_script

    class Rules:
        calls = 0

        async def repair(self, failure: dict[str, Any]) -> dict[str, Any] | None:
            Rules.calls += 1
            is_last = failure["attempt"] == 2
            return {"code": "fixed = 1" if is_last else "1 / 0 # again", "why": f"try {failure['attempt']}"}

    def repairing(settings: dict[str, Any]) -> Advisers:
        return advise_by_script(settings)._replace(debugger=Rules())

    async with studio(tmp_path, sources={"builtin:script": repairing}) as here:
        run = await here.begin(script(*code("1 / 0", auto_debug=True, keep_debug_button_visible=True)))
        assert run.state == "workflow_completed"
        (cell,) = here.book.cells
        assert (cell.content, cell.repairs, cell.keep_debug_button_visible) == ("fixed = 1", ("try 1", "try 2"), True)
        assert Rules.calls == 2


async def test_a_later_cell_may_change_what_an_earlier_one_shows(tmp_path: Path) -> None:
    show = "from IPython.display import display\nhandle = display('before', display_id=True)"
    async with studio(tmp_path) as here:
        await here.begin(script(*code(show), *code("handle.update('after')")))
        assert here.book.cells[0].outputs[0].data["text/plain"] == "'after'"


async def test_a_temporary_is_promoted_to_an_artifact(tmp_path: Path) -> None:
    promote = {"action": "promote", "variable": "tmp_df", "base": "df_imputed", "version": "iter3"}
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("tmp_df = [1, 2]"), promote))
        assert run.state == "workflow_completed"
        assert here.book.variables == {"df_imputed_iter3": [1, 2]}
        (artifact,) = here.book.artifacts
        assert (artifact["artifact_id"], artifact["source"]) == ("df_imputed@iter3", "tmp_df")
        done = here.book.location.levels["steps"].completed[0]["outputs_produced"]
        assert done["variables"] == ["df_imputed_iter3"]


async def test_a_step_limit_stops_the_run(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        run = await here.begin(script(text("a"), text("b"), text("c"), max_steps=4))
        assert run.error is not None
        assert (run.error.type, len(here.book.cells)) == ("tool_failure.step_limit", 2)


async def test_awkward_text_survives_into_the_notebook(tmp_path: Path) -> None:
    awkward = "s = '\\ud800x'\nprint(s)\nraise ValueError(s)"
    async with studio(tmp_path) as here:
        run = await here.begin(script(text("half \ud83d"), *code(awkward), on_cell_error="continue"))
        assert run.state == "workflow_completed"
        assert all(cell.content.encode() for cell in here.book.cells)
        assert "�" in here.book.cells[0].content
        assert here.book.variables["s"]
