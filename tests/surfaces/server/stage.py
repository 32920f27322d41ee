"""A real server on loopback in a folder of its own, and a client that speaks to it, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from detent.effects import builtin
from detent.kit.effect_source import Sources
from detent.surfaces.server.service import Served, ServePlan, serving
from detent.surfaces.server.setting import ServerSettings

FLOWS = """
import asyncio
import json
from pathlib import Path

from detent import Action, EffectFailed, Machine, Question, Status, effect, table
from detent.core.progress import say

HERE = Path(__file__).parent


@effect("note", kind="pure")
async def note(contract):
    return {"noted": contract.input.get("text")}


@effect("mail.send", settle_s=0.0)
async def send(contract):
    with (HERE / "sent").open("a") as sent:
        sent.write(contract.input["to"] + "\\n")
    return {"id": 7}


@effect("maybe", kind="idempotent")
async def maybe(contract):
    if not (HERE / "go").exists():
        raise EffectFailed("not yet")
    return {"ok": True}


@effect("talk", kind="pure")
async def talk(contract):
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
        if (HERE / "speak").exists():
            say(contract, {"text": "one"})
    return {"said": True}


@effect("cell", kind="pure")
async def cell(contract):
    output = {"output_type": "display_data", "data": {"text/html": contract.input["html"]}}
    say(contract, {"cell": "c1", "output": output})
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return {"changes": {"cells": [{"id": "c1", "outputs": [output]}]}}


@effect("steady", kind="idempotent")
async def steady(contract):
    (HERE / "began").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return {"done": True}


def simple(name, *actions, **given):
    rows = table("working - done")
    return Machine(name, "working", rows, work={"working": actions}, ends={"done": Status.COMPLETED}, **given)


MAIL = Machine(
    "mail",
    "writing",
    table("writing SEND sending\\nsending - done\\nsending !approval_rejected writing"),
    work={"sending": (Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("May I send it?")),)},
    ends={"done": Status.COMPLETED},
)
PLEA = simple("plea", Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("Please?")))
FORM = simple("form", Action("ask", "ask", ask=Question("How many?", "form", {
    "type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}})),
    output={"count": "{{ result.ask.data.count }}"})
PAIR = simple("pair", Action("send", "mail.send", {"to": "{{ context.to }}"}), Action("maybe", "maybe"))
TALK = simple("talk", Action("talk", "talk"))
CELL = simple("cell", Action("cell", "cell", {"html": "{{ context.html }}"}))
STEADY = simple("steady", Action("steady", "steady"))
BOTH = simple("both", Action("kid", "child", {"machine": json.loads(simple("kid").to_json())}), Action("ask", "ask",
              ask=Question("Is it fine?")))
COUNT = Machine("count", "on", table("on TICK on\\non STOP off"), ends={"off": Status.COMPLETED})
"""
NAMES = ("MAIL", "PLEA", "FORM", "PAIR", "TALK", "CELL", "STEADY", "BOTH", "COUNT")
APPROVAL = """\
name: approval
input: {what: string, amount: number}
states:
  check: {type: initial}
  large:
    actions:
      - {id: sign, tool: ask, approval: {question: "Spend {{ context.amount }}?"}}
  booked: {type: final}
  refused: {type: error}
transitions:
  - {from: check, to: large, condition: "{{ context.amount > 100 }}"}
  - {from: check, to: booked}
  - {from: large, to: booked, condition: "{{ result.sign.success }}"}
  - {from: large, to: refused, condition: "{{ not result.sign.success }}"}
"""


class Event(NamedTuple):
    """One message of a stream."""

    kind: str
    id: int | None
    data: Any


class Stage:
    """A server that answers, and the ways to ask it."""

    def __init__(self, served: Served, client: httpx2.AsyncClient, folder: Path) -> None:
        self.served, self.client, self.folder = served, client, folder
        self.room = served.room
        self.model: Any = None  # the server of a scripted model, where there is one
        self.port = int(served.address.rpartition(":")[2])

    async def get(self, path: str, status: int = 200, **given: Any) -> Any:
        """Ask, and take the answer as JSON."""
        answer = await self.client.get(path, **given)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        """Send JSON, and take the answer as JSON."""
        answer = await self.client.post(path, json={} if body is None else body)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    async def start(self, definition: str, **input: Any) -> str:
        """Begin a run; its id."""
        begun = await self.post("/api/runs", {"definition": definition, "input": input}, 201)
        return str(begun["run_id"])

    async def until(self, run_id: str, *statuses: str) -> Any:
        """Wait, on the run's own stream, until it is in one of these statuses."""
        async for event in self.events(f"/api/runs/{run_id}/events"):
            if event.kind == "entry" and event.data["status"] in statuses:
                return await self.get(f"/api/runs/{run_id}")
        raise AssertionError(f"run {run_id} never was {statuses}")

    async def events(self, path: str, **headers: str) -> AsyncIterator[Event]:
        """The messages of a stream, comments left out."""
        async with self.client.stream("GET", path, headers=headers, timeout=None) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    if "data" in fields:
                        place = int(fields["id"]) if "id" in fields else None
                        yield Event(fields.get("event", ""), place, json.loads(fields["data"]))
                    fields = {}

    async def raw(self, content: bytes) -> bytes:
        """Send bytes as they are; everything that comes back until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(content)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def stage(
    folder: Path,
    settings: ServerSettings | None = None,
    *,
    definitions: Sequence[str] = NAMES,
    token: str = "",
    port: int = 0,
    **driving: Any,
) -> AsyncIterator[Stage]:
    """Serve the flows above from a folder."""
    if not (folder / "flows.py").exists():
        (folder / "flows.py").write_text(FLOWS)
        (folder / "approval.yaml").write_text(APPROVAL)
    named = tuple(f"flows.py:{name}" for name in definitions)
    plan = ServePlan(folder / ".detent", folder, port=port, token=token, definitions=named, user="kim")
    async with (
        Sources(plan.home, print) as sources,
        serving(plan, settings or ServerSettings(), builtin(), sources.find, **driving) as served,
        httpx2.AsyncClient(base_url=served.address, timeout=None) as client,  # a test has its own limit
    ):
        yield Stage(served, client, folder)
