"""MCP clients on the HTTP server: the same runs, behind the same gate, and no way to approve themselves."""

from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.surfaces.server.people import with_people
from tests.surfaces.server.stage import stage

GIVEN = {"what": "desk", "amount": 900}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_and_sees_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    async with stage(tmp_path) as served, Client(f"{served.served.address}/mcp", mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"run_start", "run_get", "approval_request"} <= tools
        assert "approve" not in tools
        begun = await client.call_tool("run_start", {"workflow": "approval.yaml", "key": "one", "input": GIVEN})
        assert begun.structured_content is not None
        run_id = begun.structured_content["run_id"]
        shown = (await served.client.get(f"/api/runs/{run_id}")).json()
        assert shown["status"] == "waiting"
        assert shown["by"].startswith("mcp:")


async def test_a_token_guards_it_too(tmp_path: Path) -> None:
    async with stage(tmp_path, token="t" * 40) as served:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await served.client.post("/mcp", json=asked)).status_code == 401
        foreign = {"Origin": "http://evil.example"}
        assert (await served.client.post("/mcp", json=asked, headers=foreign)).status_code == 403


async def test_where_there_are_people_a_client_acts_as_the_owner_of_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    async with with_people(tmp_path) as (at, enter):
        for name, is_taken in (("opal", True), ("kim", False)):
            http = await enter(name, is_program=True)
            async with Client(streamable_http_client(f"{at.served.address}/mcp", http_client=http)) as client:
                begun = await client.call_tool("run_start", {"workflow": "pay.yaml", "key": name})
                assert begun.is_error is not is_taken, begun
                if is_taken:
                    assert begun.structured_content is not None
                    run = (await http.get(f"/api/runs/{begun.structured_content['run_id']}")).json()
                    assert run["by"] == "opal"
                else:
                    assert "takes the role operator" in str(begun.content)
