"""A host with the notebook agent in it, and a planner's server whose answers a test writes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.script_planner import complete_script
from detent.agents.notebook.service import Notebooks
from detent.core.history import Entry
from detent.core.run import Run
from detent.host.embedded.host import EmbeddedHost

RUN = "run"


class Studio:
    """One process that drives notebook runs."""

    def __init__(self, host: EmbeddedHost, notebooks: Notebooks) -> None:
        self.host, self.notebooks = host, notebooks

    async def begin(self, brief: Brief) -> Run:
        """Start a run and stay with it."""
        await self.host.start(NOTEBOOK, brief.input(), run_id=RUN)
        return await self.signal("START_WORKFLOW")

    async def signal(self, event: str) -> Run:
        """Send one event of the protocol and stay with the run."""
        await self.host.signal(RUN, event)
        return await self.host.settled(RUN)

    async def recover(self) -> Run:
        """Take the run up where another process left it."""
        await self.host.recover(RUN)
        return await self.host.settled(RUN)

    async def answer(self, **answer: Any) -> Run:
        """Answer the one open question."""
        (waiting,) = (await self.host.show(RUN)).waiting
        await self.host.answer(RUN, waiting.id, answer)
        return await self.host.settled(RUN)

    @property
    def book(self) -> NotebookState:
        """The run's book."""
        return self.notebooks.book(RUN)


@asynccontextmanager
async def studio(home: Path, **given: Any) -> AsyncIterator[Studio]:
    """A process: host, agent and kernels, gone at the end of the block."""
    home = home / ".detent"  # cells work beside it: they cannot reach into it
    async with Notebooks(home, **given) as notebooks, EmbeddedHost(home, notebooks.effects()) as host:
        yield Studio(host, notebooks)
        if host.reader.has_runs() and host.reader.summary(RUN):
            check_book(list(host.reader.entries(RUN)), host.reader.project(RUN, NotebookState))


def check_book(entries: Sequence[Entry], made: NotebookState) -> None:
    """A law: whatever part of a run a book has taken, dumped and loaded, with the rest it is the same book."""
    for count in range(0, len(entries) + 1, max(1, len(entries) // 8)):
        first = NotebookState(made.run_id)
        first.read(entries[:count])
        loaded = NotebookState.load(made.run_id, first.dump())
        assert loaded == first
        loaded.read(entries[count:])
        assert loaded == made


def script(*actions: dict[str, Any], **more: Any) -> Brief:
    """A brief for a script of these actions."""
    made = complete_script({"title": "Test", "actions": list(actions)}, "test")
    kernel = KernelBrief(timeout_s=more.pop("timeout_s", 60.0), grace_s=more.pop("grace_s", 2.0))
    planner = {"use": "builtin:script", "script": made, "tolerant": more.get("on_cell_error") == "continue"}
    return Brief(planner=planner, kernel=kernel, max_behaviors=1, **more)


def text(content: str) -> dict[str, Any]:
    """An action that adds a text."""
    return {"action": "add", "shot_type": "dialogue", "content": content}


def code(content: str, **more: Any) -> list[dict[str, Any]]:
    """Two actions: add code, run it."""
    own: dict[str, Any] = {name: more.pop(name) for name in ("repeat", "store_id") if name in more}
    return [
        {"action": "add", "shot_type": "action", "content": content, **own},
        {"action": "exec", "codecell_id": "lastAddedCellId", **more},
    ]


Reply = tuple[int, bytes]
Answer = Callable[[str, dict[str, Any]], Reply]


class PlannerServer:
    """A planner's server on loopback: a real one, whose answers are a function of the request."""

    def __init__(self, answer: Answer, chunk: int = 0) -> None:
        self._answer, self._chunk = answer, chunk
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    async def __aenter__(self) -> "PlannerServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
        )
        body = json.loads(await reader.readexactly(length))
        path = head.split()[1]
        self.requests.append((path, body))
        status, content = self._answer(path, body)
        if status:
            writer.write(f"HTTP/1.1 {status} X\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            size = self._chunk or max(1, len(content))
            for at in range(0, len(content), size):
                part = content[at : at + size]
                writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        writer.close()


def said(value: Any) -> Reply:
    """An answer of JSON."""
    return 200, json.dumps(value).encode()


def streamed(*actions: dict[str, Any], end: str = "\n") -> Reply:
    """A stream of actions, one line each."""
    lines = "\n".join(json.dumps({"action": action}, ensure_ascii=False) for action in actions)
    return 200, (lines + end).encode()
