"""Real agents, end to end: the program as its makers ship it, a scripted model on loopback, our checks decide.

They run when the programs are in the cache folder (`./run agents`), or may be fetched into it (DETENT_EXTERNAL=1, as
`.ci/run` says, which begins the fetch beside its static checks); otherwise they are skipped and say why.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from detent.agents.coding.external_agent import AgentWorker
from detent.agents.coding.port import Assignment, WorkerReport
from detent.agents.coding.settings import WorkerSettings, settings
from detent.effects.sandbox import find_problem
from tests.agents.coding import fetch
from tests.agents.coding.world import BAD, GOOD, git, office, project
from tests.effects.llm.scripted import (
    DONE,
    Asked,
    Script,
    Server,
    Write,
    chunk,
    event,
    head,
    message,
    serving,
    streaming,
    text,
    tool_use,
    usage,
)

MAY_FETCH = os.environ.get("DETENT_EXTERNAL") == "1"
WAIT_S = 90.0  # for fetches under way, all together: a slow line must not hold up the suite
CHECK = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap", "baseline": "strict"}
RESULT = {"status": "done", "summary": "add() adds", "question": ""}

_refused: dict[str, str] = {}  # what could not be had is not asked for again
_waited: list[float] = []


def agent(name: str) -> Any:
    """A fixture: where the program is, if it is there or may be fetched; else the test is skipped and says why."""

    @pytest.fixture(name=name)
    def place(monkeypatch: pytest.MonkeyPatch) -> str:
        try:
            found = fetch.found(name) or _fetched(name)
            monkeypatch.setenv("PATH", fetch.search_path())
            monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")  # where the way to the world is a proxy
            monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        except fetch.Unavailable as error:
            _refused[name] = str(error)
            pytest.skip(str(error))
        return found

    return place


claude, codex, aider, gemini, opencode = map(agent, ("claude", "codex", "aider", "gemini", "opencode"))


@pytest.fixture
def program(name: str, request: pytest.FixtureRequest) -> str:
    """The one that the test is about."""
    place: str = request.getfixturevalue(name)
    return place


def _fetched(name: str) -> str:
    if name in _refused:
        raise fetch.Unavailable(_refused[name])
    if not MAY_FETCH:
        raise fetch.Unavailable(f"{name} is not in {fetch.CACHE}; ./run agents {name} fetches it")
    if name not in fetch.USUAL:
        raise fetch.Unavailable(f"{name} is not among the agents that CI has; ./run agents {name} fetches it")
    begun = time.monotonic()
    try:
        return fetch.obtained(name, WAIT_S - sum(_waited))
    finally:
        _waited.append(time.monotonic() - begun)


def results(asked: Asked) -> int:
    """How many results of tools a request to Anthropic's API carries."""
    found = 0
    for one in asked.body.get("messages", []):
        if isinstance(one.get("content"), list):
            found += sum(part.get("type") == "tool_result" for part in one["content"])
    return found


def as_claude(root: Path) -> Script:
    """Reads the file, writes it, and reports; whatever else it is asked, it says a word."""
    path = str(root / "calc.py")

    async def script(asked: Asked, write: Write) -> None:
        tools = {tool.get("name") for tool in asked.body.get("tools") or ()}
        if not asked.path.startswith("/v1/messages"):
            await write(head(404, "application/json", length=2) + b"{}")
        elif "count_tokens" in asked.path:
            body = b'{"input_tokens": 10}'
            await write(head(200, "application/json", length=len(body)) + body)
        elif "Write" not in tools:
            await message(text("Mend it"))(asked, write)
        elif results(asked) == 0:
            await message(tool_use("t1", "Read", json.dumps({"file_path": path})), stop="tool_use")(asked, write)
        elif results(asked) == 1:
            given = json.dumps({"file_path": path, "content": GOOD})
            await message(tool_use("t2", "Write", given), stop="tool_use")(asked, write)
        elif results(asked) == 2 and "StructuredOutput" in tools:
            await message(tool_use("t3", "StructuredOutput", json.dumps(RESULT)), stop="tool_use")(asked, write)
        else:
            await message(text("All done."))(asked, write)

    return script


async def driven(
    program: str,
    root: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    sandbox: str = "",
    **worker: Any,
) -> tuple[Any, list[str]]:
    """A whole job with this agent."""
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    heard: list[str] = []
    async with office(root) as job:
        stop = job.host.overhear(job.run_id, lambda _, data: heard.append(str(data.get("text"))))
        chosen = {"worker": {"use": Path(program).name, "command": [program], **worker}, "verify": [CHECK]}
        chosen |= {"limits": {"wall_s": 190, "silence_s": 180}, "fix": {"attempts": 0}, "sandbox": {"level": sandbox}}
        await job.go(settings(chosen, "test"))
        stop()
        return await job.job(), heard


async def test_claude_mends_a_bug(claude: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    async with serving(as_claude(root)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-scripted-and-worthless")
        monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        found, heard = await driven(claude, root, server, monkeypatch, tmp_path / "home")
    assert found.outcome == "archived", (found.blocked, heard[-20:], [asked.path for asked in server.asked])
    assert (root / "calc.py").read_text() == GOOD
    assert found.progress("T-001").summary == "add() adds"
    assert found.progress("T-001").session
    assert found.spent.tokens > 0


def as_codex() -> Script:
    """Runs one command with whatever tool for commands it is offered, and reports."""
    mend = "sed -i 's/a - b/a + b/' calc.py"
    forms: dict[str, dict[str, Any]] = {
        "exec_command": {"cmd": mend},
        "shell_command": {"command": mend},
        "shell": {"command": ["sh", "-c", mend]},
    }

    def item(**fields: Any) -> str:
        return event("response.output_item.done", output_index=0, item=fields)

    async def script(asked: Asked, write: Write) -> None:
        if not asked.path.endswith("/responses"):
            await write(head(404, "application/json", length=2) + b"{}")
            return
        tools = {str(tool.get("name")) for tool in asked.body.get("tools") or ()}
        name = next((name for name in forms if name in tools), "")
        is_done = any(str(one.get("type", "")).endswith("call_output") for one in asked.body.get("input", []))
        if name and not is_done:
            made = item(type="function_call", id="f1", call_id="c1", name=name, arguments=json.dumps(forms[name]))
        else:
            said = [{"type": "output_text", "text": json.dumps(RESULT), "annotations": []}]
            made = item(type="message", id="m1", role="assistant", content=said)
        counted = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20}
        counted |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120}
        ready = {"id": "r1", "usage": counted, "output": []}
        begun = event("response.created", response={"id": "r1"})
        await streaming(begun, made, event("response.completed", response=ready))(asked, write)

    return script


async def test_codex_mends_a_bug(codex: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    async with serving(as_codex()) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-and-worthless")
        provider = f'{{name="scripted", base_url="{server.url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}'
        more = ["-c", "model_provider=scripted", "-c", f"model_providers.scripted={provider}"]
        # Beside bubblewrap it makes no sandbox of its own while its home is a temporary folder; so it has ours.
        level = "" if find_problem("home") else "home"
        worker = {"options": {"args": more}, "model": "tiny"}
        found, heard = await driven(codex, root, server, monkeypatch, tmp_path / "home", level, **worker)
    tools = [tool.get("name") for asked in server.asked for tool in asked.body.get("tools") or ()]
    assert found.outcome == "archived", (found.blocked, heard[-30:], [asked.path for asked in server.asked], tools)
    assert (root / "calc.py").read_text() == GOOD
    assert found.progress("T-001").summary == "add() adds"
    assert found.progress("T-001").session
    assert found.spent.tokens == 240


def as_aider(is_idle: bool = False) -> Script:
    """One edit in aider's own form, or only words; as a stream or in one piece, as it is asked."""
    marks = "<" * 7 + " SEARCH", "=" * 7, ">" * 7 + " REPLACE"
    edit = f"calc.py\n```python\n{marks[0]}\n    return a - b\n{marks[1]}\n    return a + b\n{marks[2]}\n```\n"
    words = "I would rather not." if is_idle else f"I mend it.\n\n{edit}"

    async def script(asked: Asked, write: Write) -> None:
        if asked.body.get("stream"):
            await streaming(chunk({"content": words}), chunk({}, "stop"), usage(100, 20), DONE)(asked, write)
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
        counted = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]}
        body = json.dumps(whole | {"usage": counted}).encode()
        await write(head(200, "application/json", length=len(body)) + body)

    return script


@pytest.mark.parametrize("is_idle", [False, True])
async def test_aider_mends_a_bug_and_its_exit_code_is_no_evidence(
    is_idle: bool, aider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, BAD)
    head_before = git(root, "rev-parse", "HEAD")
    async with serving(as_aider(is_idle)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-and-worthless")
        monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
        options = {"args": ["--edit-format", "diff", "--no-show-model-warnings"]}
        home = tmp_path / "home"
        found, heard = await driven(aider, root, server, monkeypatch, home, options=options, model="openai/tiny")
    if is_idle:
        assert found.blocked is not None
        assert found.blocked.reason == "no_change"
        assert found.progress("T-001").attempts == 1
    else:
        assert found.outcome == "archived", (found.blocked, heard[-30:])
        assert (root / "calc.py").read_text() == GOOD
        assert found.spent.tokens > 0
    assert git(root, "rev-parse", "HEAD") == head_before


def pointed(program: str, server: Server, monkeypatch: pytest.MonkeyPatch, home: Path) -> AgentWorker:
    """The agent, talking to the scripted model."""
    name = Path(program).name
    home.mkdir()
    choose_gemini(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GEMINI_API_KEY", "scripted-and-worthless")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-scripted-and-worthless")
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-and-worthless")
    provider = f'{{name="scripted", base_url="{server.url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}'
    more = ["-c", "model_provider=scripted", "-c", f"model_providers.scripted={provider}"] if name == "codex" else []
    model = {"codex": "tiny", "gemini": "gemini-2.5-flash"}.get(name, "")
    return AgentWorker(name, WorkerSettings(name, [program], model, {"args": more}))


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
async def test_a_session_goes_on_and_a_planner_answers(
    name: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, BAD)
    scripts = {"claude": as_claude(root), "codex": as_codex(), "gemini": as_gemini()}
    async with serving(scripts[name]) as server:
        worker = pointed(program, server, monkeypatch, tmp_path / "home")

        async def work(attempt: int, **given: Any) -> WorkerReport:
            ready: dict[str, Any] = {"run_id": "r", "task_id": "T-001", "root": str(root), "key": f"k{tmp_path}"}
            folder = str(tmp_path / f"attempt-{attempt}")
            assignment = Assignment(attempt=attempt, folder=folder, **ready, **given)
            return await worker.work(assignment, lambda *_: None)

        first = await work(1, prompt="The very first words")
        assert (first.status, first.error) == ("done", ""), first
        second = await work(2, prompt="The second words", session=first.session)
        assert (second.exit, second.error) == (0, ""), second
        assert second.summary
        assert "The very first words" in json.dumps(server.asked[-1].body)
        plan = await work(3, prompt="Plan it", role="plan")
        assert plan.plan, plan
        assert plan.error == ""


def as_opencode() -> Script:
    """One command with its own tool for them, then words."""
    given = {"command": "sed -i 's/a - b/a + b/' calc.py", "description": "Mends add()"}
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(given)}}

    async def script(asked: Asked, write: Write) -> None:
        tools = {tool["function"]["name"] for tool in asked.body.get("tools") or ()}
        is_done = any(one.get("role") == "tool" for one in asked.body.get("messages", []))
        if "bash" in tools and not is_done:
            await streaming(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), usage(100, 20), DONE)(asked, write)
        else:
            await streaming(chunk({"content": "add() adds"}), chunk({}, "stop"), usage(100, 20), DONE)(asked, write)

    return script


async def test_opencode_mends_a_bug(opencode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    async with serving(as_opencode()) as server:
        served = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"tiny": {"name": "tiny"}}}
        served["options"] = {"baseURL": f"{server.url}/v1", "apiKey": "worthless"}
        told = {"provider": {"scripted": served}, "autoupdate": False, "share": "disabled"}
        monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", json.dumps(told))
        monkeypatch.setenv("OPENCODE_DISABLE_MODELS_FETCH", "1")
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, str(tmp_path / "home" / name.lower()))
        found, heard = await driven(opencode, root, server, monkeypatch, tmp_path / "home", model="scripted/tiny")
    assert found.outcome == "archived", (found.blocked, heard[-30:], [asked.path for asked in server.asked])
    assert (root / "calc.py").read_text() == GOOD
    assert found.progress("T-001").summary == "add() adds"
    assert found.progress("T-001").session
    assert found.spent.tokens > 0


def as_gemini() -> Script:
    """Writes the file with its own tool for that, then words; other questions it asks get a word, too."""
    call = {"functionCall": {"name": "write_file", "args": {"file_path": "calc.py", "content": GOOD}}}

    async def script(asked: Asked, write: Write) -> None:
        tools = [
            one.get("name") for tool in asked.body.get("tools") or () for one in tool.get("functionDeclarations", [])
        ]
        parts = [part for one in asked.body.get("contents", []) for part in one.get("parts", [])]
        is_done = any("functionResponse" in part for part in parts)
        part = call if "write_file" in tools and not is_done else {"text": json.dumps(RESULT)}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        counted = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
        whole = json.dumps({"candidates": [candidate], "usageMetadata": counted, "modelVersion": "tiny"})
        if "stream" in asked.path:
            await write(head(200, "text/event-stream") + f"data: {whole}\r\n\r\n".encode())
        else:
            await write(head(200, "application/json", length=len(whole)) + whole.encode())

    return script


def choose_gemini(home: Path) -> None:
    """Let it use the key: with an address of its own it would ask for a gateway."""
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(chosen))


async def test_gemini_mends_a_bug(gemini: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, BAD)
    async with serving(as_gemini()) as server:
        monkeypatch.setenv("GEMINI_API_KEY", "scripted-and-worthless")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        choose_gemini(tmp_path / "home")
        found, heard = await driven(gemini, root, server, monkeypatch, tmp_path / "home", model="gemini-2.5-flash")
    assert found.outcome == "archived", (found.blocked, heard[-30:], [asked.path for asked in server.asked])
    assert (root / "calc.py").read_text() == GOOD
    assert found.progress("T-001").summary == "add() adds"
    assert found.progress("T-001").session
    assert found.spent.tokens > 0
