"""No address of the server shows a secret, not even one that the journal had to keep."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from detent.redaction import HIDDEN
from tests.redaction.encodings import ENCODINGS, is_leaked
from tests.surfaces.server.stage import Event, Stage, stage

VALUE = "tK9-server+secret.0123456789="
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize("form", ["plain", "base64 basic auth", "hex", "url", "html"])
async def test_the_page_and_the_api_show_no_secret(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", VALUE)
    async with stage(tmp_path) as at:
        run_id = await at.start("plea", to=f"ann {ENCODINGS[form](VALUE)} {TOKEN}")
        seen = [event.data async for event in _first(at, run_id)]
        for path in (f"/api/runs/{run_id}", f"/api/runs/{run_id}/log", "/api/inbox", "/api/runs"):
            seen.append(await at.get(path))
        seen.append(await at.post(f"/api/runs/{VALUE}/signals", {"name": "GO"}, 404))
        told = repr(seen)
        assert HIDDEN in told
        assert TOKEN not in told
        assert not is_leaked(VALUE, told)
        shown = await at.get(f"/api/runs/{run_id}")
        asked = shown["waiting"][0]
        edited = {"approved": True, "args": asked["call"]["input"], "call_hash": asked["call_hash"]}
        where = f"/api/runs/{run_id}/contracts/{asked['contract_id']}/answer"
        assert HIDDEN in (await at.post(where, edited, 422))["error"]["message"]
        await at.post(where, {"approved": True, "call_hash": asked["call_hash"]})
        await at.until(run_id, "completed")
        assert TOKEN in (tmp_path / "sent").read_text(), "the deed itself had what it was given"


async def _first(at: Stage, run_id: str) -> AsyncIterator[Event]:
    async for event in at.events(f"/api/runs/{run_id}/events"):
        yield event
        if event.kind == "entry" and event.data["status"] == "waiting":
            return
