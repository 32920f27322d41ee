"""Guarded functions under real frameworks, each in its own environment: one payment, or a question, whatever dies."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import doctext
from tests.agents.coding import fetch
from tests.agents.coding.test_external import agent
from tests.effort import PATIENCE_S
from tests.frameworks.table import is_right

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("langgraph", "openai-agents", "pydantic-ai", "claude-agent-sdk")
TRIES = os.environ.get("DETENT_EXAMPLES", "1")


langgraph, openai_agents, pydantic_ai, claude_agent_sdk = map(agent, FRAMEWORKS)


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    if request.param == "claude-agent-sdk" and not os.environ.get("DETENT_EXTERNAL"):
        pytest.skip("it starts a whole coding agent for every try; DETENT_EXTERNAL=1 does")
    request.getfixturevalue(str(request.param))  # it is there, or the test is skipped and says why
    return str(request.param)


def run(framework: str, *command: str, cwd: Path) -> str:
    python = fetch.found(framework)
    assert python is not None
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * int(TRIES) * (10 if framework == "claude-agent-sdk" else 1),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.limit(3000)
def test_a_payment_is_made_once_or_somebody_is_asked(framework: str, tmp_path: Path) -> None:
    driver = str(Path(__file__).with_name("driver.py"))
    said = run(framework, driver, framework, str(tmp_path / "tries"), TRIES, "guarded", cwd=tmp_path)
    found = {line["scenario"]: line["tries"] for line in map(json.loads, said.splitlines())}
    assert len(found) == 6
    for scenario, tries in found.items():
        assert len(tries) == int(TRIES)
        assert is_right(scenario, tries), (scenario, tries)


def test_the_readme_shows_what_works(framework: str, tmp_path: Path) -> None:
    blocks = list(doctext.blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    (mail,) = [block for block in blocks if block.file == "mail.py"]
    shown = [block for block in blocks if block.skip.endswith(f"the environment of {framework}")]
    if not shown:
        pytest.skip(f"README shows nothing of {framework}")
    tmp_path.joinpath("mail.py").write_text(mail.text)
    run(framework, "-c", shown[0].text, cwd=tmp_path)


PLAIN = """
import asyncio, detent
guard = detent.guard(waiting="raise")

@guard.tool("mail.send", ask="Send to {to}?")
def send(to: str) -> str:
    "Send."
    return f"sent to {to}"

tool = guard.to_langgraph(send)
asked = tool.invoke({"to": "ann"})
assert (asked["status"], asked["question"]) == ("waiting", "Send to ann?"), asked
assert asyncio.run(tool.ainvoke({"to": "ann"}))["run_id"] == asked["run_id"]

async def approve():
    async with detent.open(".detent") as host:
        await host.answer(asked["run_id"], asked["contract_id"], {"approved": True}, by="ann")
        await host.settled(asked["run_id"])

guard.close()
asyncio.run(approve())
assert tool.invoke({"to": "ann"}) == "sent to ann"
assert tool.invoke({"to": "ann"})["status"] == "already_done"
"""


def test_outside_of_a_graph_it_is_a_plain_tool_of_langchain(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue("langgraph")
    run("langgraph", "-c", PLAIN, cwd=tmp_path)
