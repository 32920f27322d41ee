"""Hostile requests: what is not meant for this server, too large, too slow or not HTTP at all gets a clear no."""

import asyncio
import json
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from detent.errors import Refused
from detent.surfaces.server.page_files import BUILT
from detent.surfaces.server.service import ServePlan, read_token, serving
from detent.surfaces.server.setting import ServerLimits, ServerSettings
from tests.surfaces.server.stage import stage


def memory() -> float:
    """What this process holds in memory, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


async def test_every_answer_has_the_headers_of_a_careful_server(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for path in ("/", "/api/runs", "/api/nothing", "/healthz", "/api/openapi.json"):
            headers = (await at.client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'self';")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert "access-control-allow-origin" not in headers
            assert "set-cookie" not in headers
            assert "server" not in headers
        assert (await at.client.get("/api/runs")).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("said", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "a b", "[::1"])
async def test_a_name_bent_to_this_address_is_turned_away(said: str, tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        answer = await at.raw(f"GET /api/runs HTTP/1.1\r\nHost: {said}\r\nConnection: close\r\n\r\n".encode())
        assert answer.split(b" ")[1] in (b"421", b"400"), answer
        twice = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        assert (await at.raw(twice)).split(b" ")[1] in (b"421", b"400")


async def test_names_and_numbers_that_are_ours_get_in(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(hosts=["control.example"])) as at:
        for name in ("localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8410", "10.0.0.7", "control.example"):
            assert (await at.client.get("/api/runs", headers={"Host": name})).status_code == 200, name


async def test_other_sites_can_change_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        body = {"definition": "count"}
        own = at.served.address
        foreign: list[dict[str, str]] = [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": own.replace("127.0.0.1", "localhost")},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ]
        for headers in foreign:
            assert (await at.client.post("/api/runs", json=body, headers=headers)).status_code == 403, headers
        assert (await at.client.get("/api/runs", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
        assert (await at.client.get("/", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 200
        assert (await at.client.options("/api/runs", headers={"Origin": "https://evil.example"})).status_code == 405
        assert (await at.get("/api/runs"))["runs"] == []
        good = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
        assert (await at.client.post("/api/runs", json=body, headers=good)).status_code == 201


async def test_only_json_is_read_and_unknown_fields_are_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        content = json.dumps({"definition": "count"}).encode()
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = await at.client.post("/api/runs", content=content, headers={"Content-Type": kind})
            assert answer.status_code == 415, kind
        cases: list[tuple[bytes, int]] = [
            (b"", 400),
            (b"{", 400),
            (b"\xff\xfe{}", 400),
            (b'{"definition": "\xff"}', 400),
            (b'{"definition": "count", "input": {"a": NaN}}', 400),
            (b"[" * 100_000, 400),
            (b'{"definition": "count", "input": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}", 409),
            (b"[]", 422),
            (b'"text"', 422),
            (b'{"definition": 7}', 422),
            (b'{"definition": "count", "inptu": {}}', 422),
            (b'{"definition": "count", "definition": "mail", "key": 1e999}', 422),
            (b'{"definition": ""}', 422),
            (b'{"definition": "' + b"x" * 2000 + b'"}', 422),
        ]
        for body, status in cases:
            answer = await at.client.post("/api/runs", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == status, (body[:60], answer.status_code, answer.text)
            assert answer.json()["error"]["message"]
        for query in ("limit=0", "limit=501", "limit=x", "status=fine", "since=NaN", "since=inf", "top=maybe"):
            answer = await at.client.get(f"/api/runs?{query}")
            assert answer.status_code in (409, 422), (query, answer.text)
        await at.get("/api/runs?page=2", 400)
        await at.get("/api/runs?limit=2&limit=3", 400)


async def test_paths_lead_nowhere_but_to_the_page_and_the_api(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        tricks = [
            "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/%00", "/page/%00.js",
            "//etc/passwd", "/.%5c..%5cetc", "/api/../../etc/passwd", "/api/runs/..%2f..%2fx", "/api/runs/%00",
            "/api/runs/%ff%fe", "/api/runs/" + "x" * 5000, "/api/runs/a/at/-1", "/api/runs/a/at/1e9",
            "/api/runs/%F0%9F%92%A5/log", "/api/runs/%25/log", "/api/runs/_/log",
        ]  # fmt: skip
        for trick in tricks:
            request = f"GET {trick} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            answer = await at.raw(request)
            status = int(answer.split(b" ")[1])
            assert status in (200, 400, 404), (trick, answer[:200])
            assert b"root:" not in answer
            assert status == 404 or not trick.startswith("/api/"), (trick, answer[:200])


async def test_headers_that_are_too_many_too_long_or_wrong_are_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        head = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n"
        cases = [
            head + b"X: " + b"a" * 40_000 + b"\r\n\r\n",
            head + b"".join(b"X-%d: 1\r\n" % n for n in range(5000)) + b"\r\n",
            head + b"A b: 1\r\n\r\n",
            head + b"X: a\x00b\r\n\r\n",
            b"GET /api/runs HTTP/9.9\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET  HTTP/1.1\r\n\r\n",
            b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x, chunked\r\n\r\n",
        ]
        for content in cases:
            answer = await asyncio.wait_for(at.raw(content), 5)
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")), (content[:60], answer[:100])
        upgrade = head + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(upgrade)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")  # an ordinary request, and no socket
        writer.close()
        assert (await at.get("/healthz"))["ok"]


async def test_a_huge_body_is_refused_before_it_is_sent_and_while_it_comes(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(body_bytes=100_000))) as at:
        head = "POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        said = await at.raw(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert said.startswith(b"HTTP/1.1 413")

        async def endless() -> Any:
            for _ in range(1000):
                yield b" " * 10_000

        answer = await at.client.post("/api/runs", content=endless(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413


async def test_a_slow_body_and_a_silent_connection_do_not_hold_the_server(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(body_seconds=0.3))) as at:
        head = "POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        slow = [asyncio.open_connection("127.0.0.1", at.port) for _ in range(50)]
        opened = await asyncio.gather(*slow)
        for _, writer in opened:
            writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert (await at.get("/healthz"))["ok"]
        for reader, writer in opened:
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
            writer.close()


async def test_a_connection_that_does_not_say_what_it_wants_is_closed(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(head_seconds=1.5))) as at:
        silent = (b"", b"GET /api/runs HTTP/1.1\r\nHost: loc")
        assert await asyncio.gather(*(at.raw(content) for content in silent)) == [b"", b""]
        assert (await at.get("/healthz"))["ok"]


async def test_a_head_request_does_not_follow_a_stream(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for path in ("/api/events", "/api/runs"):
            assert (await at.client.head(path)).status_code == 405
        assert (await at.client.head("/")).status_code == 200


async def test_who_asks_too_fast_is_told_to_wait(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(requests_per_second=1, requests_burst=5))) as at:
        taken = 0
        while (answer := await at.client.get("/healthz")).status_code == 200:
            taken += 1
        assert taken >= 5
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_thousand_idle_streams_leave_room_for_others(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard) if hard > 0 else 8192, hard))
    try:
        async with stage(tmp_path, ServerSettings(limits=ServerLimits(streams=900))) as at:
            run_id = await at.start("count")
            before = memory()
            opened = []
            for _ in range(1000):  # each asks at once: who says nothing for long is sent away
                opened.append(await asyncio.open_connection("127.0.0.1", at.port))
                opened[-1][1].write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers = [await reader.readline() for reader, _ in opened]
            assert answers.count(b"HTTP/1.1 200 OK\r\n") == 900
            assert sum(answer.startswith(b"HTTP/1.1 429") for answer in answers) == 100
            assert (await at.post(f"/api/runs/{run_id}/signals", {"name": "TICK"}))["seq"] == 2
            assert memory() - before < 100e6  # both ends of a thousand connections, in one process
            for _, writer in opened:
                writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_connections_have_a_limit_too(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(connections=5))) as at:
        assert (await at.get("/healthz"))["ok"]  # a connection that is kept, and goes on being served
        opened = [await asyncio.open_connection("127.0.0.1", at.port) for _ in range(4)]
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            with suppress(ConnectionError):  # closed without a word
                assert await reader.read() == b""
            writer.close()
            assert (await at.get("/healthz"))["ok"]
        for _, writer in opened:
            writer.close()


async def test_a_token_is_wanted_everywhere_but_on_the_page(tmp_path: Path) -> None:
    async with stage(tmp_path, token="s" * 20) as at:
        for given in (None, "Bearer wrong", f"Basic {'s' * 20}", "s" * 20, f"Bearer {'s' * 19}é"):
            headers = {} if given is None else {b"Authorization": given.encode()}
            answer = await at.client.get("/api/runs", headers=headers)
            assert answer.status_code == 401, given
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await at.client.get("/healthz")).status_code == 200
        for path in ("/chat", "/chat/", "/chat/image", "/ecs/respond", "/mcp", "/api", "/api/nothing"):
            assert (await at.client.post(path, json={})).status_code == 401, path
        files = [path for path in BUILT.rglob("*") if path.is_file()]
        for file in ("", *(path.relative_to(BUILT).as_posix() for path in files)):  # also chat.js: the page must come
            assert (await at.client.get(f"/{file}")).status_code in (200, 404), file
        assert (await at.client.get("/")).status_code == 200
        right = {"Authorization": f"Bearer {'s' * 20}"}
        assert (await at.client.get("/api/runs", headers=right)).status_code == 200
        assert (await at.client.get("/api/events")).status_code == 401


async def test_no_people_no_other_address(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="detent people add"):
        async with serving(ServePlan(tmp_path / ".detent", tmp_path, host="0.0.0.0", token="s" * 20), ServerSettings()):  # noqa: S104
            pass
    short = tmp_path / "token"
    short.write_text("short")
    with pytest.raises(Refused, match="at least 16"):
        read_token(short)


async def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        with pytest.raises(Refused, match="--port"):
            async with serving(ServePlan(tmp_path / "other", tmp_path, port=at.port), ServerSettings()):
                pass
