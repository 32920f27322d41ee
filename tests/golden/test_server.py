"""What the server says: its OpenAPI document, answers, and streams message by message, as transcripts."""

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from detent.surfaces.server.setting import ServerSettings
from tests.golden.transcript import Marks, compare, pretty
from tests.surfaces.server.stage import Stage, stage

STAGE = Path(__file__).parent / "stage"
MACHINES = ("QUICK", "PLEA", "FORM", "MAIL", "COUNT", "BREAKS")


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Stage]:
    """A server of the machines the transcripts are about."""
    shutil.copytree(STAGE, folder, dirs_exist_ok=True)
    async with stage(folder, ServerSettings(), definitions=MACHINES) as at:
        yield at


def written(marks: Marks, *message: Any) -> str:
    """One message of a stream."""
    return pretty(marks.value(list(message)))


async def test_the_openapi_document(tmp_path: Path) -> None:
    async with serving(tmp_path) as at:
        said = await at.get("/api/openapi.json")
    compare("openapi.json", pretty(Marks(tmp_path).value(said), is_sorted=True))


async def test_the_answers_of_a_few_requests(tmp_path: Path) -> None:
    marks, lines = Marks(tmp_path), []
    async with serving(tmp_path) as at:
        quick = await at.start("quick", text="hello")
        await at.until(quick, "completed")
        plea, mail = await at.start("plea", to="ann"), await at.start("mail", to="ann")
        for method, path, body in (
            ("GET", f"/api/runs/{quick}", None),
            ("GET", f"/api/runs/{quick}/log", None),
            ("GET", f"/api/runs/{quick}/verify", None),
            ("GET", f"/api/runs/{quick}/at/1", None),
            ("GET", f"/api/runs/{quick}/contracts", None),
            ("GET", f"/api/runs/{plea}", None),
            ("GET", "/api/inbox", None),
            ("POST", f"/api/runs/{plea}/contracts/working/send/1/answer", {"approved": False, "comment": "never"}),
            ("GET", f"/api/runs/{plea}", None),
            ("POST", f"/api/runs/{mail}/signals", {"name": "NONSENSE"}),
            ("POST", f"/api/runs/{mail}/pause", {}),
            ("POST", f"/api/runs/{mail}/cancel", {"reason": "enough"}),
            ("POST", "/api/runs", {"definition": "nobody"}),
            ("GET", "/api/runs/nobody", None),
            ("GET", "/api/runs", None),
            ("GET", "/api/definitions", None),
        ):
            answer = await at.client.request(method, path, json=body)
            lines.append(marks.text(f"{method} {path} {'' if body is None else body}\n{answer.status_code}\n"))
            lines.append(pretty(marks.value(answer.json())))
    compare("http.txt", "".join(lines))


async def test_the_stream_of_a_run_from_its_start_to_its_end(tmp_path: Path) -> None:
    marks, lines = Marks(tmp_path), []
    async with serving(tmp_path) as at:
        run_id = await at.start("mail", to="ann")
        async for event in at.events(f"/api/runs/{run_id}/events"):
            lines.append(written(marks, *event))
            if event.id == 1:
                await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
            elif event.id == 2:
                await at.post(f"/api/runs/{run_id}/contracts/sending/send/1/answer", {"approved": True})
    compare("stream-run.txt", "".join(lines))


async def test_the_stream_of_the_list(tmp_path: Path) -> None:
    marks, lines, seen, run_id = Marks(tmp_path), [], 0, ""
    async with serving(tmp_path) as at, contextlib.aclosing(at.events("/api/events")) as stream:  # type: ignore[type-var]
        async for event in stream:
            lines.append(written(marks, *event))
            seen += 1
            if seen == 1:
                run_id = await at.start("count")
            elif seen == 2:
                await at.post(f"/api/runs/{run_id}/signals", {"name": "TICK", "data": {"turn": 1}})
            elif seen == 3:
                await at.post(f"/api/runs/{run_id}/signals", {"name": "STOP"})
            else:
                break
    compare("stream-list.txt", "".join(lines))


async def test_the_stream_of_a_chat_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "DETENT_TOOLS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with serving(tmp_path) as at:
        answer = await at.client.post("/chat", json={"message": "hello", "session_id": "s1"})
        assert answer.status_code == 200, answer.text
    compare("stream-chat.txt", Marks(tmp_path).text(answer.text))
