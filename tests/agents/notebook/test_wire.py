"""Planners over HTTP: planning first, honest feedback, streams cut anywhere, tries, fallbacks; our own server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.commands.planner_endpoints import planner_app
from detent.agents.notebook.http_planner import ActionLines, Remote
from detent.agents.notebook.notebook_plan import PLANNING_STAGE
from detent.agents.notebook.script_planner import advise_by_script, complete_script
from tests.agents.notebook.studio import PlannerServer, Reply, code, said, streamed, studio, text

STAGES = {"stages": [{"id": "s", "name": "S", "steps": [{"id": "one", "description": "One"}]}]}
ACHIEVED = {"targetAchieved": True, "transition": {"continue_behaviors": False, "target_achieved": True}}


def brief(url: str, **more: Any) -> Brief:
    return Brief(planner={"use": "http", "url": url}, kernel=KernelBrief(eager=False), **more)


def test_a_stream_may_be_cut_at_every_byte() -> None:
    body = (
        '{"action": {"action": "add", "content": "数据 🎉"}}\n\nnot json\n{"action": {"action": "end_phase"}}'.encode()
    )
    for at in range(len(body) + 1):
        lines = ActionLines()
        found = [*lines.feed(body[:at]), *lines.feed(body[at:]), *lines.end()]
        assert [one.get("action", {}).get("action") for one in found] == ["add", None, "end_phase"]
        assert found[0]["action"]["content"] == "数据 🎉"
        assert "line 3" in found[1]["warning"]
    assert [*ActionLines().feed(b'{"actions": [{"action": "add"}, 3]}\n')] == [{"action": "add"}]


async def test_planning_comes_first_and_feedback_counts_honestly(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        state = body["observation"]["context"].get("FSM", {}).get("state")
        if path == "/generating":
            first = body["observation"]["location"]["current"]["behavior_iteration"] == 1
            actions = [{"action": "new_section", "content": "S"}, text("数据"), {"action": "nonsense"}, *code("1 / 0")]
            return streamed(*actions, *code("never = 1"), end="") if first else streamed(*code("fine = 1"))
        if state == "stage_running":
            return said({"context_update": {"workflow_update": {"workflowTemplate": STAGES}}})
        feedback = body.get("behavior_feedback")
        if feedback is None:
            return said({**ACHIEVED, "targetAchieved": state != "step_running", "transition": {}})
        is_good = feedback["last_action_result"] == "success"
        return said(ACHIEVED if is_good else {"transition": {"continue_behaviors": True}})

    async with PlannerServer(answer, chunk=3) as server, studio(tmp_path) as here:
        run = await here.begin(brief(server.url, goal="g"))
        assert (run.state, run.output["achieved"]) == ("workflow_completed", None)  # its word alone is no evidence
        assert run.output["reason"] == "1 cells failed: " + here.book.failed[0]
        shown = [body["observation"]["context"]["effects"] for path, body in server.requests if path == "/generating"]
        assert shown[0]["current"] == []
        assert any("ZeroDivisionError" in text for text in shown[1]["current"])  # what the last cells put out
        order = "planning planning generating planning generating planning planning planning"
        assert [path for path, _ in server.requests] == [f"/{name}" for name in order.split()]
        first = server.requests[3][1]["behavior_feedback"]
        assert first == {
            "behavior_id": "behavior_001",
            "actions_executed": 5,
            "actions_succeeded": 3,
            "actions_planned": 7,
            "sections_added": 1,
            "last_action_result": "error",
            "end_phase": False,
        }
        assert "ZeroDivisionError" in server.requests[3][1]["observation"]["context"]["effects"]["current"][-1]
        assert [body["options"]["stream"] for _, body in server.requests[:3]] == [False, False, True]
        assert len(server.requests[0][1]["notebook_id"]) == 32
        assert "nonsense" in here.book.warnings[0]
        assert "never" not in here.book.variables


async def test_a_planner_that_fails_is_tried_three_times(tmp_path: Path) -> None:
    async with PlannerServer(lambda *_: (503, b"busy")) as server, studio(tmp_path) as here:
        run = await here.begin(brief(server.url))
        while run.ended is None:
            await asyncio.sleep(0.01)
            run = await here.host.show("run")
        assert run.error is not None
        assert (run.state, run.error.type) == ("error", "tool_failure.planner")
        assert "503: busy" in run.error.message
        assert len(server.requests) == 3


async def test_a_cut_connection_is_tried_again_and_actions_are_done_once(tmp_path: Path) -> None:
    calls = 0

    def answer(path: str, body: dict[str, Any]) -> Reply:
        nonlocal calls
        if path == "/generating":
            calls += 1
            mark = str(tmp_path / "deeds")
            return streamed(*code(f"open({mark!r}, 'a').write('x')", need_output=False)) if calls > 1 else (0, b"")
        if body["observation"]["context"]["FSM"]["state"] == "step_running":
            return said({})
        return said(ACHIEVED)

    async with PlannerServer(answer) as server, studio(tmp_path / "home") as here:
        run = await here.begin(brief(server.url, review="none"))
        while run.ended is None:
            await asyncio.sleep(0.01)
            run = await here.host.show("run")
        assert run.state == "workflow_completed"
        assert (calls, (tmp_path / "deeds").read_text()) == (2, "x")
        assert here.book.plan is not None
        assert here.book.plan.stages[0].id == PLANNING_STAGE  # it sent no workflow, so the protocol's default stands


async def test_a_wrong_request_is_not_tried_again_and_a_fallback_steps_in(tmp_path: Path) -> None:
    script = complete_script({"actions": [text("from the fallback")]}, "test")
    fallback = {"use": "builtin:script", "script": script}
    async with PlannerServer(lambda *_: (404, b"no")) as server, studio(tmp_path / "a") as here:
        run = await here.begin(brief(server.url))
        assert run.error is not None
        assert (run.error.type, len(server.requests)) == ("tool_failure.answer", 1)
    async with PlannerServer(lambda *_: (500, b"no")) as server, studio(tmp_path / "b") as here:
        run = await here.begin(brief(server.url, fallback=fallback))
        while run.ended is None:
            await asyncio.sleep(0.01)
            run = await here.host.show("run")
        assert run.state == "workflow_completed"
        assert [cell.content for cell in here.book.cells] == ["from the fallback"]


async def test_no_directive_is_a_failure_unless_more_was_granted(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        return streamed(text("x")) if path == "/generating" else said({})

    async with PlannerServer(answer) as server:
        async with studio(tmp_path / "a") as here:
            run = await here.begin(brief(server.url))
            assert run.error is not None
            assert (run.state, run.error.type) == ("error", "tool_failure.no_directive")
        async with studio(tmp_path / "b") as here:
            await here.begin(brief(server.url, further_behaviors=2))
            assert len(here.book.cells) == 3


async def test_an_update_in_an_answer_becomes_an_action_at_the_head_of_the_queue(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        seen = body["observation"]
        state, step = seen["context"]["FSM"]["state"], seen["location"]["current"]["step_id"]
        if state == "stage_running":
            return said({"context_update": {"workflow_update": STAGES}})
        if path == "/generating":
            return streamed(text(step))
        if state == "step_running" and step == "one":
            steps = [{"id": "one"}, {"id": "two"}]
            return said({"context_update": {"stage_steps_update": {"stage_id": "s", "steps": steps}}})
        return said(ACHIEVED if state != "step_running" else {})

    async with PlannerServer(answer) as server, studio(tmp_path) as here:
        run = await here.begin(brief(server.url))
        assert run.state == "step_update_pending"
        run = await here.answer(approved=True)
        assert run.state == "workflow_completed"
        assert here.book.location.list_done("steps") == ["one", "two"]
        assert [row["event"] for row in here.book.transitions][3:5] == ["START_ACTION", "UPDATE_STEP"]


async def test_achieved_is_believed_only_with_evidence(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        seen = body["observation"]
        if path == "/generating":
            iteration = seen["location"]["current"]["behavior_iteration"]
            return streamed(*code(f"score = {iteration} * 0.4"))
        if seen["context"]["FSM"]["state"] == "step_running":
            return said({"acceptance": ["score > 0.7", "score"]})
        return said(ACHIEVED)

    async with PlannerServer(answer) as server, studio(tmp_path) as here:
        run = await here.begin(brief(server.url))
        assert run.state == "workflow_completed"
        assert here.book.location.iteration == 2
        assert here.book.acceptance["score > 0.7"] == {"holds": True, "value": True}
        effects = [body["observation"]["context"]["effects"]["current"] for _, body in server.requests]
        assert any("REFUSED" in text and "score > 0.7" in text for texts in effects for text in texts)


async def test_a_filter_narrows_the_next_generating_call_only(tmp_path: Path) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        seen = body["observation"]
        if path == "/generating":
            return streamed(*code("xs = list(range(100))"))
        if body.get("behavior_feedback", {}).get("behavior_id") == "behavior_001":
            wanted = {"variables_to_include": ["gone"], "variables_to_summarize": {"xs": "last_2_only"}}
            return said({"transition": {"continue_behaviors": True}, "context_filter": wanted})
        return said({} if seen["context"]["FSM"]["state"] == "step_running" else ACHIEVED)

    async with PlannerServer(answer) as server, studio(tmp_path) as here:
        await here.begin(brief(server.url))
        generating = [body["observation"] for path, body in server.requests if path == "/generating"]
        assert "notebook" in generating[0]["context"]
        narrow = generating[1]["context"]
        assert "notebook" not in narrow
        assert [98, 99] in (narrow["variables"]["xs"], narrow["variables"]["xs"].get("last"))
        assert "'gone'" in narrow["effects"]["current"][-1]


async def test_we_serve_the_two_endpoints_to_others(tmp_path: Path) -> None:
    script = complete_script({"actions": [text("数据"), text("b")]}, "test")
    app = planner_app(advise_by_script({"script": script}))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn offers no event
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        async with studio(tmp_path) as here:  # our own client on our own server
            run = await here.begin(brief(url))
            assert run.state == "workflow_completed"
            assert [cell.content for cell in here.book.cells] == ["数据", "b"]
        async with httpx2.AsyncClient(base_url=url) as client:
            current = {"stage_id": "script", "step_id": "cells", "behavior_iteration": 1}
            body = {"observation": {"location": {"current": current}}, "options": {"stream": False}}
            found = (await client.post("/generating", json=body)).json()
            assert [one["content"] for one in found["actions"]] == ["数据", "b"]
            for content, status in ((b"{", 400), (b"[]", 400), (b"{}", 400)):
                bad = await client.post("/planning", content=content, headers={"Content-Type": "application/json"})
                assert bad.status_code == status
            assert (await client.post("/planning", content=b"{}")).status_code == 415
            for path, status, words in (("/plan", 404, "Not Found"), ("/planning", 405, "Method Not Allowed")):
                wrong = await client.get(path)
                assert (wrong.status_code, wrong.json()["error"]["message"].startswith(words)) == (status, True)
            described = (await client.get("/openapi.json")).json()
            assert {"/planning", "/generating"} <= set(described["paths"])
            strange = {"Content-Type": "application/json", "Host": "elsewhere.example"}
            assert (await client.post("/planning", content=json.dumps(body), headers=strange)).status_code == 403
    finally:
        server.should_exit = True
        await serving


async def test_the_offline_planner_says_that_it_needs_data() -> None:
    from detent.agents.notebook.analysis import analyst
    from detent.agents.notebook.observation import whole
    from detent.agents.notebook.port import PlannerFailed

    current = {"stage_id": "existence", "step_id": "load", "behavior_iteration": 1}
    with pytest.raises(PlannerFailed, match="`data_file` in the observation"):
        await anext(analyst({}).generator.generate(whole({"location": {"current": current}})))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
async def test_a_planner_that_is_not_there_is_said_so(url: str) -> None:
    from detent.agents.notebook.observation import whole
    from detent.agents.notebook.port import PlannerFailed

    with pytest.raises(PlannerFailed) as caught:
        await Remote(url).plan(whole({}))
    assert url in str(caught.value)
    assert caught.value.is_passing is (url != "nonsense")
