"""Messages from and to other programs: signed both ways, counted once on the way in, never lost on the way out."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from detent.define.problem import BrokenDefinition
from detent.surfaces.server.setting import Hook, ServerSettings, Webhook, read_settings
from detent.surfaces.server.signature import problem, sign
from tests.surfaces.server.stage import stage

SECRET = b"a long enough secret"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET.decode())


HOOKS = ServerSettings(
    hooks={
        "pay": Hook("HOOK_SECRET", run="{{ body.run }}", signal="TICK", data={"sum": "{{ body.sum }}"}),
        "named": Hook("HOOK_SECRET", run="{{ body.run }}", signal="{{ body.what }}", id="{{ body.id }}"),
    }
)


async def test_a_signed_message_becomes_a_signal_once(tmp_path: Path) -> None:
    async with stage(tmp_path, HOOKS, token="t" * 20) as at:
        auth = {"Authorization": f"Bearer {'t' * 20}"}
        begun = await at.client.post("/api/runs", json={"definition": "count"}, headers=auth)
        run_id = begun.json()["run_id"]
        body = json.dumps({"run": run_id, "sum": 7}).encode()
        headers = {"Detent-Signature": sign(SECRET, body, time.time())}
        first = await at.client.post("/api/hooks/pay", content=body, headers=headers)
        assert (first.status_code, first.json()["signal"]) == (200, "TICK")
        again = await at.client.post("/api/hooks/pay", content=body, headers=headers)
        assert again.status_code == 200
        log = (await at.client.get(f"/api/runs/{run_id}/log", headers=auth)).json()["entries"]
        assert [(entry["event"]["name"], entry["event"]["data"]) for entry in log[1:]] == [("TICK", {"sum": 7})]
        assert log[1]["event"]["by"] == "hook:pay"


async def test_an_id_of_the_sender_counts_once_however_it_is_signed(tmp_path: Path) -> None:
    async with stage(tmp_path, HOOKS) as at:
        run_id = await at.start("count")
        for later in (0, 1, 2):
            body = json.dumps({"run": run_id, "what": "TICK", "id": "p1", "try": later}).encode()
            headers = {"Detent-Signature": sign(SECRET, body, time.time() - later)}
            assert (await at.client.post("/api/hooks/named", content=body, headers=headers)).status_code == 200
        assert (await at.get(f"/api/runs/{run_id}"))["seq"] == 2


async def test_a_message_that_is_not_signed_old_or_senseless_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path, HOOKS) as at:
        run_id = await at.start("count")
        body = json.dumps({"run": run_id, "sum": 7}).encode()
        now = time.time()
        good = sign(SECRET, body, now)
        cases: list[tuple[str, bytes, str, int]] = [
            ("pay", body, "", 401),
            ("pay", body, good[:-1] + ("0" if good[-1] != "0" else "1"), 401),
            ("pay", body + b" ", good, 401),
            ("pay", body, sign(b"another secret, also long", body, now), 401),
            ("pay", body, sign(SECRET, body, now - 310), 401),
            ("pay", body, sign(SECRET, body, now + 310), 401),
            ("nothing", body, good, 401),
            ("pay", b"{", sign(SECRET, b"{", now), 400),
            ("pay", b"{}", sign(SECRET, b"{}", now), 422),
            ("pay", b'{"run": "nobody"}', sign(SECRET, b'{"run": "nobody"}', now), 404),
        ]
        for name, content, signature, status in cases:
            answer = await at.client.post(
                f"/api/hooks/{name}", content=content, headers={"Detent-Signature": signature}
            )
            assert answer.status_code == status, (name, content, answer.text)
        assert (await at.get(f"/api/runs/{run_id}"))["seq"] == 1


class Receiver:
    """Another program's server: it refuses as often as it is told to and keeps what it takes."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.asked = 0
        self.news = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self.asked += 1
        is_refused = self.asked <= self.refusals
        if not is_refused:
            self.taken.append((headers, body))
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % (b"500 no" if is_refused else b"204 yes"))
        await writer.drain()
        writer.close()
        self.news.set()

    async def until(self, count: int) -> None:
        while len(self.taken) < count:
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def receiver(refusals: int = 0) -> AsyncIterator[tuple[Receiver, str]]:
    one = Receiver(refusals)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    async with server:
        yield one, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"


async def test_waiting_and_the_end_are_told_signed_and_tried_again(tmp_path: Path) -> None:
    async with receiver(refusals=1) as (other, url):
        settings = ServerSettings(
            webhooks={"chat": Webhook(url, "HOOK_SECRET"), "mail": Webhook(url, "HOOK_SECRET", on=())}
        )
        async with stage(tmp_path, settings) as at:
            run_id = await at.start("form")
            await other.until(1)
            await at.post(f"/api/runs/{run_id}/contracts/working/ask/1/answer", {"data": {"count": 3}})
            await other.until(2)
            assert (await at.get("/api/runs"))["runs"][0]["run_id"] == run_id
            assert len((await at.get("/api/runs"))["runs"]) == 1
            assert len((await at.get("/api/runs?machine=detent_webhook"))["runs"]) == 2
        told = [json.loads(body) for _, body in other.taken]
        assert [(one["type"], one["run"]["status"]) for one in told] == [("waiting", "waiting"), ("ended", "completed")]
        assert told[0]["question"]["question"] == "How many?"
        for headers, body in other.taken:
            assert problem(SECRET, body, headers["detent-signature"], time.time(), 60) == ""
            assert headers["detent-id"] == json.loads(body)["id"]
        assert other.asked == 3


async def test_a_delivery_survives_a_restart_and_nothing_is_told_twice(tmp_path: Path) -> None:
    async with receiver(refusals=1_000) as (other, url):
        settings = ServerSettings(webhooks={"chat": Webhook(url, "HOOK_SECRET")})
        async with stage(tmp_path, settings) as at:
            await at.start("form")
            await other.news.wait()  # the first try was refused; the next is a timer in the journal
        assert other.taken == []
        other.refusals = 0
        async with stage(tmp_path, settings):
            await other.until(1)
        async with stage(tmp_path, settings) as at:
            await at.start("approval", what="x", amount=1)
            await other.until(2)
        assert [json.loads(body)["type"] for _, body in other.taken] == ["waiting", "ended"]


def test_the_file_is_read_strictly_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "detent.serve.yaml"
    assert read_settings(tmp_path) == ServerSettings()
    path.write_text(
        "hosts: [a.example]\nlimits: {streams: 5}\nhooks:\n  pay: {secret_env: HOOK_SECRET, run: x, signal: GO}\n"
        "webhooks:\n  chat: {url: 'https://chat.example/x', secret_env: HOOK_SECRET, on: [ended]}\n"
    )
    settings = read_settings(tmp_path)
    assert (settings.limits.streams, settings.hooks["pay"].signal, settings.webhooks["chat"].on) == (
        5,
        "GO",
        ("ended",),
    )
    cases = [
        ("limits: {stream: 5}\n", 1, "stream"),
        ("hosts: []\nhooks:\n  pay:\n    secret_env: HOOK_SECRET\n    run: x\n    sginal: GO\n", 6, "sginal"),
        ("hooks:\n  pay: {secret_env: MISSING_SECRET, run: x, signal: GO}\n", 2, "MISSING_SECRET"),
        ("hooks:\n  pay: {secret_env: HOOK_SECRET, run: '{{ body. }}', signal: GO}\n", 2, "body"),
        ("hooks:\n  'a b': {secret_env: HOOK_SECRET, run: x, signal: GO}\n", 2, "not a name"),
        ("webhooks:\n  chat: {url: 'ftp://x', secret_env: HOOK_SECRET}\n", 2, "http://"),
        ("webhooks:\n  chat: {url: 'https://me:pw@x/', secret_env: HOOK_SECRET}\n", 2, "user name"),
        ("limits: {streams: 0}\n", 1, ">= 1"),
        ("limits: {streams: 1}\nlimits: {streams: 2}\n", 2, "limits"),
    ]
    for text, line, word in cases:
        path.write_text(text)
        with pytest.raises(BrokenDefinition) as raised:
            read_settings(tmp_path)
        assert raised.value.problems[0].line == line, (text, raised.value)
        assert word in str(raised.value), (text, raised.value)
