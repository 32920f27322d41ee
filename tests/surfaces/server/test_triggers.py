"""Triggers of a server: hooks in the formats of those who send them, schedules it drives, and the page's addresses."""

import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest

from detent.define import load
from detent.kit.trigger.armed_trigger import arm
from detent.surfaces.server.setting import Hook, ServerSettings
from detent.surfaces.server.signature import sign
from tests.surfaces.server.stage import Stage, stage

SECRET = b"a long enough secret"
FORMATS = ("detent", "github", "stripe", "slack", "plain")
FLOW = """
name: flow
triggers:
FORMATS  often: {every: 1s}
states: {a: {type: initial}, z: {type: final}}
transitions: [{from: a, to: z}]
""".replace(
    "FORMATS",
    "".join(
        f"  {name}: {{webhook: {name}, when: '{{{{ event.body.ref == \"main\" }}}}',"
        f" input: {{ref: '{{{{ event.body.ref }}}}'}}}}\n"
        for name in FORMATS
    ),
)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET.decode())


HOOKS = ServerSettings(hooks={name: Hook("HOOK_SECRET", format=name) for name in FORMATS})  # type: ignore[arg-type]


def _mac(signed: bytes) -> str:
    return hmac.new(SECRET, signed, hashlib.sha256).hexdigest()


def signed(name: str, body: bytes, at: int) -> dict[str, str]:
    """The headers that such a sender sends."""
    return {
        "detent": {"Detent-Signature": sign(SECRET, body, at)},
        "github": {"X-Hub-Signature-256": f"sha256={_mac(body)}", "X-GitHub-Delivery": str(at)},
        "stripe": {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={_mac(b'%d.' % at + body)}"},
        "slack": {"X-Slack-Signature": f"v0={_mac(b'v0:%d:' % at + body)}", "X-Slack-Request-Timestamp": str(at)},
        "plain": {"X-Signature": _mac(body)},
    }[name]


async def armed_stage(at: Stage) -> None:
    (at.folder / "flow.yaml").write_text(FLOW)
    await arm(at.room.host, load(at.folder / "flow.yaml"), time.time(), "ann")


async def test_a_message_of_each_format_starts_one_run(tmp_path: Path) -> None:
    async with stage(tmp_path, HOOKS) as at:
        await armed_stage(at)
        now = int(time.time())
        for name in FORMATS:

            async def send(body: Any, when: int, status: int, hook: str = name, **other: str) -> Any:
                content = json.dumps(body).encode()
                headers = signed(hook, content, when) | other
                answer = await at.client.post(f"/api/hooks/{hook}", content=content, headers=headers)
                assert answer.status_code == status, (hook, answer.text)
                return answer.json()

            (first,) = (await send({"ref": "main"}, now, 202))["runs"]
            assert first["trigger"] == f"flow.{name}"
            run = await at.get(first["address"])
            assert (run["context"]["ref"], run["by"]) == ("main", f"trigger:flow.{name}")
            assert (await send({"ref": "main"}, now, 202))["runs"] == [first], "sent again, it counts once"
            (other,) = (await send({"ref": "side"}, now, 202))["runs"]
            assert "run_id" not in other
            assert "condition" in other["why"]
            if name in ("detent", "stripe", "slack"):
                await send({"ref": "main"}, now - 400, 401)
            for header in signed(name, b"", now):
                await send({"ref": "main"}, now, 202 if header == "X-GitHub-Delivery" else 401, **{header: "1"})
        challenge = json.dumps({"type": "url_verification", "challenge": "abc"}).encode()
        said = await at.client.post("/api/hooks/slack", content=challenge, headers=signed("slack", challenge, now))
        assert said.json()["challenge"] == "abc"


async def test_a_server_drives_what_is_armed_and_fires_by_hand(tmp_path: Path) -> None:
    async with stage(tmp_path, HOOKS) as at:
        await armed_stage(at)
        async for steps in at.room.reader.follow_all(0):
            if any(step.run_id.startswith("flow-often-2") for step in steps):
                break
        shown = await at.get("/api/triggers")
        assert shown["is_driven"]
        often = next(one for one in shown["triggers"] if one["name"] == "flow.often")
        assert (often["state"], often["file_state"]) == ("armed", "same")
        assert {one["trigger"] for one in shown["next"]} == {"flow.often"}
        paused = await at.post("/api/triggers/often/pause", {})
        assert [one["state"] for one in paused["triggers"] if one["name"] == "flow.often"] == ["paused"]
        fired = await at.post("/api/triggers/flow.plain/fire", {"event": {"body": {"ref": "main"}}})
        assert (await at.get(f"/api/runs/{fired['run_id']}"))["context"]["trigger"]["is_manual"] is True
        await at.post("/api/triggers/flow.plain/fire", {}, status=409)
        await at.post("/api/triggers/nothing/fire", {}, status=404)
        runs = (await at.get("/api/runs"))["runs"]
        assert {run["machine"] for run in runs} == {"flow"}
