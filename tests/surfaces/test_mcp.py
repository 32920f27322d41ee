"""Foreign MCP clients drive detent: start, look, have their user asked; they cannot approve by themselves."""

import asyncio
import contextlib
import gzip
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult, Implementation

from detent.effects import builtin
from detent.host.embedded.shared_host import open_host
from detent.surfaces.mcp import Surface
from tests.surfaces.command import Detent

DETENT = str(Path(sys.executable).with_name("detent"))
NOTEBOOK = Path(__file__).parents[1] / "golden" / "journals" / "notebook.sqlite.gz"
FLOW = """
name: book
input: {what: string}
states:
  ask:
    type: initial
    actions: [{id: sure, tool: ask, approval: {question: "Book {{ context.what }}?"}}]
  write:
    actions:
      - id: note
        tool: files.append
        params: {path: book.txt, text: "{{ context.what }}"}
        approval: {question: "Write it?"}
  done: {type: final}
  no: {type: error}
transitions:
  - {from: ask, to: write, condition: "{{ result.sure.success }}"}
  - {from: ask, to: no, condition: "{{ not result.sure.success }}"}
  - {from: write, to: done, condition: "{{ result.note.success }}"}
  - {from: write, to: no, on: error}
"""
FORM = """
name: who
states:
  ask:
    type: initial
    actions: [{id: who, tool: ask, approval: {question: "Who?", form: {name: string, age: integer}}}]
  done: {type: final}
transitions: [{from: ask, to: done, condition: "{{ result.who.success }}"}]
output: {said: "{{ result.who.data.name }}"}
"""


class Person:
    """Whoever sits at the client: what they were shown, and what they say."""

    def __init__(self, *says: ElicitResult) -> None:
        self.says = list(says)
        self.shown: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:  # noqa: ARG002
        self.shown.append(params.message)
        return self.says.pop(0)


YES = ElicitResult(action="accept", content={"approve": True, "comment": "fine"})
NO = ElicitResult(action="decline")


@contextlib.asynccontextmanager
async def client(
    folder: Path, person: Person | None = None, mode: str = "auto", *words: str, token: str = ""
) -> AsyncIterator[Client]:
    env = {**os.environ, "DETENT_TOKEN": token} if token else None
    parameters = StdioServerParameters(command=DETENT, args=["mcp", *words], cwd=folder, env=env)
    with (folder / "stderr").open("a") as log:
        async with Client(
            stdio_client(parameters, errlog=log),
            mode=mode,
            elicitation_callback=person,
            client_info=Implementation(name="tester", version="1"),
        ) as connected:
            yield connected


async def call(connected: Client, tool: str, **given: Any) -> dict[str, Any]:
    result = await connected.call_tool(tool, given)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refused(connected: Client, tool: str, **given: Any) -> str:
    result = await connected.call_tool(tool, given)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.yaml").write_text(FLOW, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_a_run_and_its_user_decides(folder: Path, mode: str) -> None:
    person = Person(YES)
    async with client(folder, person, mode) as connected:
        begun = await call(connected, "run_start", workflow="book.yaml", key="k1", input={"what": "tea\u202e"})
        assert (begun["status"], begun["state"]) == ("waiting", "ask")
        again = await call(connected, "run_start", workflow="book.yaml", key="k1", input={"what": "tea\u202e"})
        assert again["run_id"] == begun["run_id"]
        said = await refused(connected, "run_start", workflow="book.yaml", key="k1", input={"what": "gin"})
        assert "use another key" in said
        (open_now,) = (await call(connected, "approvals_list"))["questions"]
        assert open_now["contract_id"] == "ask/sure/1"
        decision = await call(connected, "approval_request", run=begun["run_id"])
        assert (decision["is_decided"], decision["answer"], decision["by"]) == (True, "approved", "mcp:tester")
        assert "\\u202e" in person.shown[0]
        assert "\u202e" not in person.shown[0]
        assert decision["run"]["state"] == "write"
        said = await refused(connected, "approval_request", run=begun["run_id"])
        assert "detent approve" in said, "what cannot be taken back is not decided here"
        events = await call(connected, "run_events", run="last", after=1)
        assert events["events"][0]["seq"] == 2
        (line,) = (await call(connected, "run_list", status="waiting"))["runs"]
        assert line["run_id"] == begun["run_id"]
        resource = await connected.read_resource(f"detent://runs/{begun['run_id']}")
        assert json.loads(resource.contents[0].text)["state"] == "write"  # type: ignore[union-attr]
        resource = await connected.read_resource(f"detent://runs/{begun['run_id']}/trace")
        assert len(json.loads(resource.contents[0].text)) > 1  # type: ignore[union-attr]
        resource = await connected.read_resource(f"detent://runs/{begun['run_id']}/contracts/ask/sure/1")
        contract = json.loads(resource.contents[0].text)["contract"]  # type: ignore[union-attr]
        assert (contract["id"], contract["status"]) == ("ask/sure/1", "completed")
        for missing in ("nobody", f"{begun['run_id']}/contracts/ask/sure/9"):
            with pytest.raises(MCPError, match="there is no"):
                await connected.read_resource(f"detent://runs/{missing}")
        cancelled = await call(connected, "run_cancel", run="last", reason="enough")
        assert cancelled["status"] == "cancelled"
    assert not (folder / "book.txt").exists()


@pytest.mark.parametrize("way", ["option", "policy"])
async def test_an_operator_can_let_users_of_clients_approve_everything(folder: Path, way: str) -> None:
    (folder / "detent.policy.yaml").write_text(f"mcp_may_approve_irreversible: {str(way == 'policy').lower()}\n")
    option = ["--mcp-may-approve-irreversible"] if way == "option" else []
    async with client(folder, Person(YES, YES), "auto", *option) as connected:
        begun = await call(connected, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        await call(connected, "approval_request", run=begun["run_id"])
        decision = await call(connected, "approval_request", run=begun["run_id"])
        assert decision["run"]["status"] == "completed"
    assert (folder / "book.txt").read_text() == "tea"


async def test_a_repeat_tells_a_client_what_was_done_and_takes_a_yes_or_a_no(folder: Path) -> None:
    person = Person(YES, YES, YES, NO)
    async with client(folder, person, "auto", "--mcp-may-approve-irreversible") as connected:
        first = await call(connected, "run_start", workflow="book.yaml", key="a", input={"what": "tea"})
        for _ in range(2):
            decision = await call(connected, "approval_request", run=first["run_id"])
        assert (decision["run"]["status"], decision["run"]["alarms"]) == ("completed", [])
        again = await call(connected, "run_start", workflow="book.yaml", key="b", input={"what": "tea"})
        await call(connected, "approval_request", run=again["run_id"])
        (asked,) = (await call(connected, "approvals_list"))["questions"]
        assert (asked["earlier"]["run_id"], asked["earlier"]["status"]) == (first["run_id"], "completed")
        decision = await call(connected, "approval_request", run=again["run_id"])
        assert (decision["answer"], decision["run"]["status"]) == ("rejected", "failed")
        assert "approved by mcp:tester" in person.shown[-1]
    assert (folder / "book.txt").read_text() == "tea"


@pytest.mark.parametrize(
    ("says", "answer", "status"), [(NO, "rejected", "failed"), (ElicitResult(action="cancel"), "open", "waiting")]
)
async def test_declining_rejects_and_dismissing_leaves_it_open(
    folder: Path, says: ElicitResult, answer: str, status: str
) -> None:
    async with client(folder, Person(says)) as connected:
        begun = await call(connected, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        decision = await call(connected, "approval_request", run=begun["run_id"])
        assert (decision["answer"], decision["run"]["status"]) == (answer, status)


async def test_no_argument_approves_and_a_client_without_a_user_cannot_ask(folder: Path) -> None:
    async with client(folder, None) as connected:
        tools = {tool.name: tool for tool in (await connected.list_tools()).tools}
        assert set(tools) == {
            "run_start", "run_get", "run_list", "run_events", "approvals_list", "approval_request", "run_cancel",
            "run_retry", "signal",
        }  # fmt: skip
        assert set(tools["approval_request"].input_schema["properties"]) == {"run", "contract"}
        for name in ("run_get", "run_list", "run_events", "approvals_list"):
            notes = tools[name].annotations
            assert notes is not None
            assert notes.read_only_hint is True
        assert tools["run_cancel"].annotations is not None
        assert tools["run_cancel"].annotations.destructive_hint is True
        await call(connected, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        with contextlib.suppress(Exception):
            await connected.call_tool("approval_request", {"run": "last", "answer": {"approve": True}})
        assert (await call(connected, "run_get", run="last"))["state"] == "ask"


async def test_a_form_is_filled_in_by_the_user(folder: Path) -> None:
    (folder / "who.yaml").write_text(FORM, encoding="utf-8")
    person = Person(ElicitResult(action="accept", content={"name": "Ada", "age": 36}))
    async with client(folder, person) as connected:
        await call(connected, "run_start", workflow="who.yaml", key="k")
        decision = await call(connected, "approval_request", run="last")
        assert decision["answer"] == "filled_in", decision
        assert decision["run"]["output"] == {"said": "Ada"}


async def test_the_same_over_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    async with open_host(folder / ".detent", builtin()) as host:
        surface = Surface(host, folder=folder)
        server = uvicorn.Server(uvicorn.Config(surface.app(), host="127.0.0.1", port=0, log_level="error"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # uvicorn sets a plain flag
            assert not serving.done()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            for mode in ("auto", "legacy"):
                async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode, elicitation_callback=Person(YES)) as one:
                    begun = await call(one, "run_start", workflow="book.yaml", key=mode, input={"what": mode})
                    decision = await call(one, "approval_request", run=begun["run_id"])
                    assert decision["run"]["state"] == "write"
        finally:
            server.should_exit = True
            await serving


@pytest.mark.parametrize("workflow", ["../other.yaml", "/etc/passwd", "evil.py", "none.yaml"])
async def test_only_workflow_files_of_the_folder_can_be_started(folder: Path, workflow: str) -> None:
    (folder / "evil.py").write_text("raise SystemExit", encoding="utf-8")
    async with client(folder) as connected:
        assert await refused(connected, "run_start", workflow=workflow, key="k")


async def test_it_works_beside_the_process_that_has_the_journal(folder: Path) -> None:
    async with client(folder, Person(YES)) as first, client(folder, Person(YES)) as second:
        begun = await call(first, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        decision = await call(second, "approval_request", run=begun["run_id"])
        assert decision["run"]["state"] == "write"
        done = await asyncio.create_subprocess_exec(
            DETENT, "approve", "last", "--json", cwd=folder, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await done.communicate()
        assert json.loads(out)["status"] == "completed"
        assert (await call(first, "run_get", run="last"))["status"] == "completed"


async def test_a_token_decides_whose_rights_a_client_has(folder: Path) -> None:
    detent = Detent(folder)
    detent("people", "add", "ada", "--role", "admin", "--os-user", pwd.getpwuid(os.getuid()).pw_name)
    ann, vic = (
        str(detent("people", "add", name, "--role", role, "--token", "--json").json["token"])
        for name, role in (("ann", "approver"), ("vic", "viewer"))
    )
    async with client(folder, token=vic) as watching:
        said = await refused(watching, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        assert "takes the role operator" in said
    async with client(folder) as own, client(folder, Person(YES), token=ann) as beside:
        begun = await call(own, "run_start", workflow="book.yaml", key="k", input={"what": "tea"})
        decision = await call(beside, "approval_request", run=begun["run_id"])
        assert decision["by"] == "ann"
    answer = json.loads(detent("audit", "--who", "ann", "--json").out.splitlines()[0])
    assert (answer["known_by"], answer["channel"]) == ("token", "mcp")


CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "detent-tests" / "inspector"


def inspector() -> list[str]:
    """The npm inspector, fetched once; skips where that is not possible."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no npm on this machine")
    package = CACHE / "node_modules" / "@modelcontextprotocol" / "inspector"
    if not package.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(CACHE)]
        done = subprocess.run(
            [*words, "@modelcontextprotocol/inspector"], capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            pytest.skip(f"npm cannot fetch the inspector: {done.stderr[-200:]}")
    entry = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]
    return [node, str(package / next(iter(entry.values()))), "--cli", DETENT, "mcp"]


@pytest.mark.limit(900)
def test_the_inspector_drives_it(folder: Path) -> None:
    program = inspector()

    def asked(*words: str) -> Any:
        done = subprocess.run([*program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    names = {tool["name"] for tool in asked("--method", "tools/list")["tools"]}
    assert "run_start" in names
    given = ["--tool-arg", "workflow=book.yaml", "--tool-arg", "key=k", "--tool-arg", 'input={"what": "tea"}']
    begun = asked("--method", "tools/call", "--tool-name", "run_start", *given)
    assert begun["structuredContent"]["status"] == "waiting"


async def test_prompts_and_resources_are_there_to_be_read(folder: Path) -> None:
    async with client(folder) as connected:
        names = {prompt.name for prompt in (await connected.list_prompts()).prompts}
        assert names == {"review_waiting", "explain_run", "summarise_notebook"}
        with pytest.raises(MCPError, match="Unknown prompt"):
            await connected.get_prompt("nothing", {})
        told = await connected.get_prompt("explain_run", {"run": "abc"})
        assert "detent://runs/abc/trace" in str(told.messages[0].content)
        addresses = {str(one.uri) for one in (await connected.list_resources()).resources}
        assert addresses == {"detent://runs", "detent://waiting", "detent://documents"}
        (waiting,) = (await connected.read_resource("detent://waiting")).contents
        assert json.loads(getattr(waiting, "text", "")) == {"questions": []}


async def read(connected: Client, uri: str) -> str:
    (found,) = (await connected.read_resource(uri)).contents
    return str(getattr(found, "text", ""))


async def test_logs_and_notebooks_are_there_to_be_read(folder: Path) -> None:
    home = folder / ".detent"
    home.mkdir(mode=0o700)
    (home / "journal.db").write_bytes(gzip.decompress(NOTEBOOK.read_bytes()))
    async with client(folder) as connected:
        begun = await call(connected, "run_start", workflow="book.yaml", key="k1", input={"what": "tea"})
        log = await read(connected, f"detent://runs/{begun['run_id']}/log")
        assert "ask/sure/1: running → waiting" in log
        with pytest.raises(MCPError):
            await read(connected, f"detent://runs/{begun['run_id']}/documents/notebook.md")
        listed = json.loads(await read(connected, "detent://documents"))["documents"]
        assert {one["run_id"] for one in listed} == {"job"}
        text = {one["uri"].rpartition(".")[2]: await read(connected, one["uri"]) for one in listed}
        assert "# A small job" in text["md"]
        assert "42" in text["html"]
        assert json.loads(text["ipynb"])["nbformat"] == 4
