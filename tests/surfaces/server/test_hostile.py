"""Requests of somebody who wants to be somebody else: each gets a plain no, and never a fault of the server."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.surfaces.server.setting import Login, Proxy, ServerLimits, ServerSettings
from tests.effort import examples
from tests.surfaces.server.people import token_of, with_people
from tests.surfaces.server.stage import Stage

SECRET = "what only the proxy knows"
COOKIE = "detent_session_{port}"
LONG = "a" * 9_000
ODD = (
    "\N{SNOWMAN}", "\u202eann", "ann\u0000", "\u0430nn", "%00", "' or 1=1 --", "../../ann", "ann\x7f", "role:admin",
    "@ann", "",
)  # fmt: skip

IDENTITY = [
    *(f"Authorization: {text}" for text in (
        "", "Bearer", "Bearer ", "Bearer .", "Bearer ann.", "Bearer .x", "Bearer ann", "bearer ann.x", "Basic YW5uOng=",
        "Basic ann", "Digest x", "Negotiate", "Token ann.x", "Bearer ann.x, Bearer bob.y", "Bearer null", "Bearer {}",
        f"Bearer ann.{LONG}", f"Bearer {LONG}.x", "Bearer " + "." * 2000,
    )),
    *(f"Authorization: Bearer {odd}.x" for odd in ODD),
    "Authorization: Bearer a\r\nAuthorization: Bearer b",
    "Authorization: Bearer a\r\n folded",
]  # fmt: skip
COOKIES = [
    *(f"Cookie: {COOKIE}={text}" for text in (
        "", "x", "a" * 43, "A" * 44, LONG, '"quoted"', "a b", "=", ";;;;", "../" * 14 + "x", "\x01" * 43,
        "%2e" * 14 + "x",
    )),
    *(f"Cookie: {COOKIE}={odd}" for odd in ODD),
    f"Cookie: {COOKIE}={'a' * 43}; {COOKIE}={'b' * 43}",
    f"Cookie: __Host-{COOKIE}={'a' * 43}; {COOKIE}={'b' * 43}",
    f"Cookie: {COOKIE}={'a' * 43}\r\nCookie: {COOKIE}={'b' * 43}",
    "Cookie: " + "; ".join(f"c{number}=1" for number in range(2000)),
    "Cookie: " + "=" * 5000, "Cookie: ;", f"Cookie: {COOKIE}", f"cookie : {COOKIE}=x",
]  # fmt: skip
PROXY = [
    *(f"X-Remote-User: {name}" for name in ("ann@example.org", "ann", *ODD)),
    *(
        f"X-Remote-User: ann@example.org\r\nX-Proxy-Secret: {text}"
        for text in ("", "x", SECRET[:-1], SECRET + "x", LONG)
    ),
    f"X-Remote-User: ann@example.org\r\nX-Remote-User: bob@example.org\r\nX-Proxy-Secret: {SECRET}",
    f"X-Remote-User: ann@example.org\r\nX-Proxy-Secret: {SECRET}\r\nX-Proxy-Secret: {SECRET}",
    f"X-Remote-User: ann@example.org, bob@example.org\r\nX-Proxy-Secret: {SECRET}",
    f"X-Remote-User: nobody@example.org\r\nX-Proxy-Secret: {SECRET}",
    f"X-Remote-User: {LONG}\r\nX-Proxy-Secret: {SECRET}",
    f"X_Remote_User: ann@example.org\r\nX-Proxy-Secret: {SECRET[::-1]}",
    "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1", "X-Forwarded-Host: localhost",
]  # fmt: skip
SITES = [
    "Origin: https://evil.example", "Origin: null", "Origin: http://[", "Sec-Fetch-Site: cross-site", "Origin: \x00",
    "X-HTTP-Method-Override: PUT", "Content-Length: -1", "Content-Length: 1e3", "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: identity\r\nContent-Length: 5", "Expect: 200-maybe",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Bad Header: x", ": empty", "X" * 5000 + ": x", "A: \xff\xfe",
]  # fmt: skip
BODIES = [
    "", "{", "[]", "null", "7", '"ann"', '{"token": 7}', '{"token": null}', '{"token": ["a"]}', '{"token": {"a": 1}}',
    '{"token": "ann.x", "link": "ann.y"}', '{"link": 1}', '{"link": ""}', '{"token": ""}', '{"name": "ann"}',
    '{"token": "ann.x", "by": "bob"}', '{"link": "../../detent.people.yaml"}', '{"link": "ann.' + "x" * 390 + '"}',
    '{"token": "' + "x" * 5000 + '"}', '{"token": "ann.\\ud800"}', '{"token": "\\u0000"}',
    '{"link": "\\ud83d\\ude00."}',
    '{"token": "a", "token": "b"}', "[" * 5000, '{"token": 1e999}', "\xff\xfe",
]  # fmt: skip
ANSWER = "POST /api/runs/last/contracts/pay/pay/1/answer"
TARGETS = ("GET /api/me", "GET /api/inbox", ANSWER, "POST /api/logout", "POST /mcp")


def request(target: str, port: int, header: str = "", body: str = '{"approved": true}') -> bytes:
    """One request as bytes, with whatever stands in it."""
    content = body.encode("utf-8", "surrogatepass") if target.startswith("POST") else b""
    head = f"{target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    if content and "content-length" not in header.lower() and "transfer-encoding" not in header.lower():
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    head += f"{header.replace('{port}', str(port))}\r\n" if header else ""
    return head.encode("utf-8", "surrogatepass") + b"\r\n" + content


async def status_of(at: Stage, content: bytes) -> int:
    """The status of the answer; 0 when the server only hangs up."""
    try:
        async with asyncio.timeout(20):
            answer = await at.raw(content)
    except ConnectionError:
        return 0
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("has_proxy", [False, True])
async def test_hundreds_of_hostile_requests_get_a_no(
    has_proxy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_SECRET", SECRET)
    limits = ServerLimits(
        attempts_burst=10_000, requests_burst=100_000, verbs_burst=10_000, head_seconds=1.0, body_seconds=1.0
    )
    proxy = Proxy("PROXY_SECRET") if has_proxy else None
    async with with_people(tmp_path, ServerSettings(login=Login(os_user=False), limits=limits, proxy=proxy)) as (
        at,
        enter,
    ):
        opal = await enter("opal")
        begun = await opal.post("/api/runs", json={"definition": "pay.yaml", "input": {}})
        headers = [*IDENTITY, *COOKIES, *PROXY, *SITES] if has_proxy else PROXY
        sent = [request(target, at.port, header) for target, header in itertools.product(TARGETS, headers)]
        sent += [request("POST /api/login", at.port, body=body) for body in BODIES]
        assert len(sent) > (300 if has_proxy else 100)
        few = asyncio.Semaphore(8)

        async def send(content: bytes) -> int:
            async with few:
                return await status_of(at, content)

        found = await asyncio.gather(*map(send, sent))
        bad = [(status, content[:200]) for status, content in zip(found, sent, strict=True) if status >= 500]
        assert bad == []
        me = await at.get("/api/me")
        assert me["name"] == ""
        run = (await opal.get(f"/api/runs/{begun.json()['run_id']}")).json()
        assert run["waiting"][0].get("answered", []) == []  # not one of them was heard
        assert (await opal.get("/api/me")).json()["name"] == "opal"


NAMES = st.sampled_from(
    [
        "Authorization",
        "Cookie",
        "X-Remote-User",
        "X-Proxy-Secret",
        "X-Forwarded-User",
        "Origin",
        "Host",
        "X-Forwarded-Proto",
    ]
)
TEXTS = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(["Bearer ", "Bearer ann.", f"Bearer {token_of('ann', 9)}", "null", SECRET, "ann@example.org"]),
    st.text("abc=;. \t\"", max_size=60).map(lambda text: f"{COOKIE}={text}"),
)  # fmt: skip


@pytest.mark.limit(120)
async def test_no_mixture_of_headers_makes_the_server_fail(tmp_path: Path) -> None:
    limits = ServerLimits(attempts_burst=100_000, requests_burst=1_000_000, verbs_burst=100_000)
    async with with_people(tmp_path, ServerSettings(login=Login(os_user=False), limits=limits)) as (at, _):
        loop = asyncio.get_running_loop()

        @given(st.sampled_from(TARGETS), st.lists(st.tuples(NAMES, TEXTS), max_size=5))
        @settings(max_examples=examples(60), deadline=None, database=None, derandomize=True)
        def tried(target: str, headers: list[tuple[str, str]]) -> None:
            header = "\r\n".join(f"{name}: {value}" for name, value in headers)
            body = json.dumps({"approved": True, "by": "ann"})
            asked = status_of(at, request(target, at.port, header, body))
            status = asyncio.run_coroutine_threadsafe(asked, loop).result()
            assert status < 500
            assert target == "GET /api/me" or status not in (200, 201) or "logout" in target

        await asyncio.to_thread(tried)
