"""A model is asked once: its answer is in the journal, and neither a replay nor a new process asks again."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.effects.llm.scripted import refusing, said, serving

DETENT = Path(sys.executable).with_name("detent")
FLOW = """
name: ask
input: {n: number}
states:
  asking:
    type: initial
    actions:
      - id: think
        tool: llm
        params:
          messages: [{role: user, content: "Is {{ context.n }} even?"}]
          schema: {type: object, properties: {even: {type: boolean}}, required: [even]}
        retry: {max_retries: 2, delay: 0}
  confirming:
    actions:
      - id: confirm
        tool: ask
        approval: {question: "The model says {{ context.even }}"}
  done: {type: final}
transitions:
  - from: asking
    to: confirming
    on_transition: [{action: set_variable, variable: even, value: "{{ result.think.json.even }}"}]
  - {from: confirming, to: done, condition: "{{ result.confirm.success }}"}
"""
OVERLOADED = refusing(503, {"error": {"message": "busy"}})
ANSWER = said('{"even": true}')


async def detent(folder: Path, url: str, *words: str) -> tuple[int, Any]:
    environment = {**os.environ, "DETENT_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-secret-1", "NO_PROXY": "*"}
    process = await asyncio.create_subprocess_exec(
        DETENT, *words, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    return process.returncode or 0, lines[0] if len(lines) == 1 else lines


async def test_a_resumed_run_does_not_ask_the_model_again(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(FLOW, encoding="utf-8")
    async with serving(OVERLOADED, ANSWER) as server:
        code, run = await detent(tmp_path, server.url, "run", "ask.yaml", "--set", "n=4", "--json")
        assert code == 3, run
        assert run["waiting"][0]["question"] == "The model says true"
        assert len(server.asked) == 2, "the engine tried again, the SDK did not"
        code, run = await detent(tmp_path, server.url, "resume", "last", "--json")
        assert code == 3
        code, run = await detent(tmp_path, server.url, "approve", "last", "--json")
        assert (code, run["status"]) == (0, "completed")
        code, proof = await detent(tmp_path, server.url, "log", "last", "--verify", "--json")
        assert code == 0, proof
        assert len(server.asked) == 2
    journal = b"".join(path.read_bytes() for path in (tmp_path / ".detent").iterdir() if path.is_file())
    assert rb"{\"even\": true}" in journal
    assert b"sk-secret-1" not in journal


async def test_what_an_unusable_answer_used_up_is_counted(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(FLOW, encoding="utf-8")
    async with serving(said("no JSON", prompt=100, completion=10), said('{"even": true}', prompt=100)) as server:
        code, _ = await detent(tmp_path, server.url, "run", "ask.yaml", "--set", "n=4", "--json")
        assert code == 3
        code, events = await detent(tmp_path, server.url, "log", "last", "--json")
    spent = [entry["event"].get("usage") for entry in events if entry["event"].get("usage")]
    assert [one["tokens"] for one in spent] == [110.0, 105.0]
