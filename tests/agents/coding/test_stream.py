"""What agents print, in the shapes their documents describe: words, session, cost, end; and lines that are nonsense."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.agents.coding import agent_output
from detent.agents.coding.agent_output import Said, read


def lines(*objects: Any) -> list[str]:
    return [json.dumps(found) for found in objects]


RESULT = {"status": "done", "summary": "mended", "question": ""}

CLAUDE = lines(
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m", "tools": ["Read"]},
    {
        "type": "assistant",
        "session_id": "s-1",
        "message": {
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "name": "Edit", "input": {"file_path": "calc.py"}},
            ]
        },
    },
    {"type": "user", "session_id": "s-1", "message": {"content": [{"type": "tool_result", "content": "ok"}]}},
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "All done.",
        "session_id": "s-1",
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7},
        "structured_output": RESULT,
    },
)
CODEX = lines(
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "turn.started"},
    {"type": "item.started", "item": {"id": "i0", "type": "command_execution", "command": "ls"}},
    {"type": "item.completed", "item": {"id": "i1", "type": "file_change", "changes": [{"path": "calc.py"}]}},
    {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": json.dumps(RESULT)}},
    {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 50, "output_tokens": 20}},
)
GEMINI = lines(
    {"type": "init", "session_id": "g-1", "model": "m"},
    {"type": "message", "role": "user", "content": "Do it"},
    {"type": "message", "role": "assistant", "content": "I look.", "delta": True},
    {"type": "tool_use", "tool_name": "replace", "tool_id": "1", "parameters": {}},
    {"type": "tool_result", "tool_id": "1", "status": "success", "output": ""},
    {"type": "message", "role": "assistant", "content": "All ", "delta": True},
    {"type": "message", "role": "assistant", "content": "done.", "delta": True},
    {"type": "result", "status": "success", "stats": {"total_tokens": 33, "input_tokens": 30, "output_tokens": 3}},
)
OPENCODE = lines(
    {"type": "step_start", "sessionID": "o-1", "part": {}},
    {"type": "tool_use", "sessionID": "o-1", "part": {"tool": "edit", "state": {"title": "calc.py"}}},
    {"type": "step_finish", "sessionID": "o-1", "part": {"cost": 0.1, "tokens": {"input": 5, "output": 2}}},
    {"type": "text", "sessionID": "o-1", "part": {"text": "All done."}},
    {"type": "step_finish", "sessionID": "o-1", "part": {"cost": 0.2, "tokens": {"input": 6, "cache": {"read": 4}}}},
)
AIDER = [
    "Aider v0.86.2",
    "I mend it.",
    "Tokens: 2.1k sent, 300 received. Cost: $0.01 message, $0.01 session.",
    "Applied edit to calc.py",
    "Tokens: 1,200 sent, 1.5k cache hit, 100 received. Cost: $0.0050 message, $0.0150 session.",
]


@pytest.mark.parametrize(
    ("reader", "given_lines", "expected"),
    [
        (agent_output.claude, CLAUDE, Said("All done.", "s-1", 0.25, 22, "", RESULT)),
        (agent_output.codex, CODEX, Said(json.dumps(RESULT), "t-1", 0.0, 120, "", RESULT)),
        (agent_output.gemini, GEMINI, Said("All done.", "g-1", 0.0, 33)),
        (agent_output.opencode, OPENCODE, Said("All done.", "o-1", 0.1 + 0.2, 17)),
    ],
)
def test_an_agents_stream_is_understood(reader: agent_output.Reader, given_lines: list[str], expected: Said) -> None:
    assert read(reader, given_lines) == expected


def test_aiders_text_is_understood() -> None:
    said = read(agent_output.aider, AIDER)
    assert (said.cost_usd, said.tokens, said.error) == (0.015, 2400 + 1300, "")
    assert "I mend it." in said.text
    assert "Tokens:" not in said.text


@pytest.mark.parametrize(
    ("reader", "line", "problem"),
    [
        (agent_output.claude, {"type": "result", "is_error": True, "result": "Invalid API key"}, "Invalid API key"),
        (agent_output.claude, {"type": "result", "subtype": "error_max_turns"}, "error_max_turns"),
        (agent_output.codex, {"type": "turn.failed", "error": {"message": "no quota"}}, "no quota"),
        (agent_output.codex, {"type": "error", "message": "stream disconnected"}, "stream disconnected"),
        (agent_output.gemini, {"type": "result", "status": "error", "error": {"message": "turns"}}, "turns"),
        (
            agent_output.opencode,
            {"type": "error", "error": {"name": "X", "data": {"message": "bad model"}}},
            "bad model",
        ),
    ],
)
def test_trouble_is_named(reader: agent_output.Reader, line: dict[str, Any], problem: str) -> None:
    assert read(reader, lines(line)).error == problem


def test_aiders_trouble_is_named_and_forgotten_when_it_passes() -> None:
    trouble = "litellm.AuthenticationError: no key"
    assert read(agent_output.aider, [trouble]).error == trouble
    assert read(agent_output.aider, [trouble, AIDER[2]]).error == ""


def test_people_see_words_and_not_json() -> None:
    said, shown = Said(), []
    for line in CLAUDE:
        said, text = agent_output.claude(said, line)
        shown.append(text)
    assert shown == ["", "I look.\n[Edit] calc.py", "", "All done."]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = "system assistant user result thread.started turn.completed turn.failed error item.completed init message"
FIELDS = (
    "message item usage result part error stats session_id sessionID content total_cost_usd structured_output errors"
)


@given(
    st.sampled_from(
        [agent_output.claude, agent_output.codex, agent_output.gemini, agent_output.opencode, agent_output.aider]
    ),
    st.sampled_from([*KINDS.split(), "text", "tool_use", "step_finish"]),
    st.dictionaries(st.sampled_from(FIELDS.split()), JSON, max_size=4),
)
def test_no_line_is_stumbled_over(reader: agent_output.Reader, kind: str, fields: dict[str, Any]) -> None:
    said = read(reader, [json.dumps({"type": kind} | fields), "{", "[" * 10_000, "null"])
    assert said.cost_usd >= 0
    assert said.tokens >= 0
