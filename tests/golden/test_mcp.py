"""What an MCP client sees: the tools with their schemas, and what they say of one run, as transcripts."""

import shutil
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.golden.transcript import Marks, compare, pretty

STAGE = Path(__file__).parent / "stage"
DETENT = str(Path(sys.executable).with_name("detent"))
CAR = {"what": "car", "amount": 5000}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run_start", {"workflow": "spend.yaml", "key": "k1", "input": CAR}),
    ("run_start", {"workflow": "nowhere.yaml", "key": "k2"}),
    ("run_get", {"run": "last"}),
    ("run_list", {}),
    ("approvals_list", {}),
    ("run_events", {"run": "last"}),
    ("run_cancel", {"run": "last", "reason": "enough"}),
)


async def test_the_tools_and_what_they_say_of_a_run(tmp_path: Path) -> None:
    shutil.copytree(STAGE, tmp_path, dirs_exist_ok=True)
    marks, lines = Marks(tmp_path), []
    server = StdioServerParameters(command=DETENT, args=["mcp"], cwd=tmp_path, env={"DETENT_LANG": "en", "USER": "kim"})
    with (tmp_path / "stderr").open("a") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            shown = (await client.list_tools()).tools
            tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in shown]
            for name, given in CALLS:
                result = await client.call_tool(name, given)
                said = result.structured_content or [getattr(part, "text", "") for part in result.content]
                lines.append(f"{name} {given}\n{'error ' if result.is_error else ''}{pretty(marks.value(said))}")
    compare("mcp-tools.json", pretty(marks.value(tools)))
    compare("mcp-calls.txt", "".join(lines))
