"""The effect `http` against real servers on the loopback, well-behaved and not."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.effects.http import BODY_BYTES_MAX, http

Handler = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]
READING, REPEATABLE, IRREVERSIBLE = ["GET", "HEAD", "OPTIONS"], ["PUT", "DELETE"], ["POST", "PATCH", "PURGE"]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


class Request:
    """What arrived at a server."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body


async def received(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body)


class Server:
    """A server on the loopback: its address, and the requests it has seen."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[Request] = []


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Server]:
    open_now: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            request = await received(reader)
            server.requests.append(request)
            await handler(request, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.transport.abort()
            open_now.discard(task)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server = Server(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now)


def answering(status: int, body: bytes = b"", **headers: str) -> Handler:
    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        fields = {"content-length": str(len(body)), "connection": "close"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} Some reason", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + (b"" if request.method == "HEAD" else body))
        await writer.drain()

    return handler


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangup(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def reset(request: Request, writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def nonsense(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"this is not HTTP\r\n\r\n")
    await writer.drain()


async def half(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this")
    await writer.drain()


async def send(url: Any, key: str = "http:abc", kind: str = "", **given: Any) -> dict[str, Any]:
    """Send a request of the kind that its method has, or of another."""
    kind = kind or http.declared.kind_of(given)
    outcome = await http.perform(Contract("a/b/1", "b", "http", kind=kind, input={"url": url, **given}, key=key))
    assert isinstance(outcome, Outcome)
    result: dict[str, Any] = outcome.result
    return result


async def refusal(url: Any, **given: Any) -> EffectFailed:
    """How a request of which nothing came is told: evidence."""
    with pytest.raises(EffectFailed) as caught:
        await send(url, **given)
    return caught.value


async def failure(url: Any, **given: Any) -> PartialFailure:
    """How a request is told that left and failed, where a second one does no harm."""
    with pytest.raises(PartialFailure) as caught:
        await send(url, **given)
    return caught.value


async def doubt(url: Any, **given: Any) -> OutcomeUnknown:
    """How a request is told that left and of which nobody knows what came."""
    with pytest.raises(OutcomeUnknown) as caught:
        await send(url, **given)
    return caught.value


async def test_json_goes_out_and_comes_back() -> None:
    async with serving(answering(201, b'{"id": 7, "name": "\xc3\xbc"}', content_type="application/json")) as server:
        result = await send(f"{server.url}/orders?x=1", method="post", json={"a": ["ü", None]})
    assert (result["status"], result["success"], result["json"]) == (201, True, {"id": 7, "name": "ü"})
    assert "text" not in result
    (request,) = server.requests
    assert (request.method, request.path, json.loads(request.body)) == ("POST", "/orders?x=1", {"a": ["ü", None]})
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "http:abc"


async def test_text_goes_out_and_comes_back() -> None:
    async with serving(answering(200, "grüß".encode("latin-1"), content_type="text/plain; charset=latin-1")) as server:
        result = await send(server.url, method="PUT", body="漢字", headers={"X-Mine": "yes", "Content-Type": "text/x"})
    assert (result["text"], result["headers"]["content-type"]) == ("grüß", "text/plain; charset=latin-1")
    (request,) = server.requests
    assert (request.body.decode(), request.headers["x-mine"], request.headers["content-type"]) == (
        "漢字",
        "yes",
        "text/x",
    )


async def test_the_callers_own_idempotency_key_wins() -> None:
    async with serving(answering(200)) as server:
        await send(server.url, headers={"idempotency-KEY": "mine"})
        await send(server.url, key="")
        await send(server.url, key="订单 42\n")
    keys = [request.headers.get("idempotency-key") for request in server.requests]
    assert keys == ["mine", None, "%E8%AE%A2%E5%8D%95 42%0A"]


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("status", [200, 201, 204, 301, 302, 303, 304])
async def test_below_400_it_is_done(method: str, status: int) -> None:
    async with serving(answering(status, b"" if status in (204, 304) else b"x", location="/there")) as server:
        result = await send(server.url, method=method)
    assert (result["status"], result["success"], result["headers"]["location"]) == (status, True, "/there")
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 429, 451])
async def test_a_4xx_is_a_no_to_an_irreversible_request(status: int) -> None:
    async with serving(answering(status, b'{"why": "x"}', content_type="application/json")) as server:
        no = await refusal(server.url, method="POST")
    assert no.type == "tool_failure.http"
    assert f"answered {status}" in str(no)
    assert (no.result["status"], no.result["success"], no.result["json"]) == (status, False, {"why": "x"})


@pytest.mark.parametrize("method", IRREVERSIBLE)
@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 599])
async def test_an_answer_that_does_not_say_whether_it_was_done_is_a_doubt(method: str, status: int) -> None:
    async with serving(answering(status, b"upstream gone")) as server:
        unknown = await doubt(server.url, method=method)
    assert f"answered {status}" in str(unknown)
    assert (unknown.result["status"], unknown.result["text"]) == (status, "upstream gone"), "shown to who must find out"


@pytest.mark.parametrize("method", [*READING, *REPEATABLE])
@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
async def test_where_a_second_request_does_no_harm_400_and_more_are_plain_failures(method: str, status: int) -> None:
    async with serving(answering(status, b"x")) as server:
        error = await failure(server.url, method=method)
    assert error.type == "tool_failure.http"
    assert error.result["status"] == status


async def test_the_action_may_say_of_which_kind_a_request_is() -> None:
    async with serving(answering(500)) as server:
        await failure(server.url, method="POST", kind="idempotent")
        await doubt(server.url, method="PUT", kind="irreversible")
        await doubt(server.url, method="GET", kind="irreversible")


@pytest.mark.parametrize("ok_status", [[404, 500], 404])
async def test_ok_status_says_which_further_answers_are_success(ok_status: Any) -> None:
    async with serving(answering(404, b"none")) as server:
        for method in ("GET", "POST"):
            result = await send(server.url, method=method, ok_status=ok_status)
            assert (result["status"], result["success"], result["text"]) == (404, True, "none")
        assert (await refusal(server.url, method="POST", ok_status=[410])).type == "tool_failure.http"


async def test_redirects_are_followed_when_asked() -> None:
    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        moved = request.path == "/old"
        await (answering(307, location="/new") if moved else answering(200, b"arrived"))(request, writer)

    async with serving(handler) as server:
        assert (await send(f"{server.url}/old"))["status"] == 307
        result = await send(f"{server.url}/old", follow=True, method="POST", body="x")
    assert (result["status"], result["text"]) == (200, "arrived")
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]


async def test_a_circle_of_redirects_ends() -> None:
    async with serving(answering(302, location="/again")) as server:
        assert "redirect" in str(await failure(server.url, follow=True))
        await doubt(server.url, follow=True, method="POST")


def leading(status: int, end: Handler) -> Handler:
    """A server that redirects from /old to /new, which it answers otherwise."""

    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        await (answering(status, location="/new") if request.path == "/old" else end)(request, writer)

    return handler


@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.parametrize("end", [404, 500])
async def test_a_deed_that_led_to_a_page_is_done_though_the_page_is_not_there(status: int, end: int) -> None:
    async with serving(leading(status, answering(end))) as server:
        error = await failure(f"{server.url}/old", method="POST", follow=True)
    assert (error.type, error.result["status"]) == ("tool_failure.http", end)
    assert [request.method for request in server.requests] == ["POST", "GET"]


@pytest.mark.parametrize("status", [307, 308])
async def test_a_deed_that_was_sent_elsewhere_is_judged_by_the_answer_there(status: int) -> None:
    async with serving(leading(status, answering(404))) as server:
        await refusal(f"{server.url}/old", method="POST", follow=True)
    async with serving(leading(status, answering(500))) as server:
        await doubt(f"{server.url}/old", method="POST", follow=True)
    assert [request.method for request in server.requests] == ["POST", "POST"]


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", "http://x:99999999/", "ftp://x/"]
)
async def test_a_redirect_to_nowhere_is_a_doubt_for_the_first_request_has_left(location: str) -> None:
    async with serving(answering(307, location=location)) as server:
        await doubt(server.url, method="POST", follow=True)
    assert len(server.requests) == 1


async def test_a_large_body_is_cut_and_says_so() -> None:
    body = b'"' + b"x" * 30_000_000 + b'"'
    async with serving(answering(200, body, content_type="application/json")) as server:
        result = await send(server.url)
    assert result["truncated"]
    assert len(result["text"]) == BODY_BYTES_MAX
    assert "1,048,576" in result["note"]


async def test_an_endless_body_ends() -> None:
    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 100_000)
            await writer.drain()

    async with serving(handler) as server:
        assert (await send(server.url))["truncated"]


@pytest.mark.parametrize("body", [b"<html>", b'{"a": NaN}', b"[" * 5000 + b"]" * 5000, b"[" * 100_000, b"\xff", b""])
async def test_a_body_that_only_calls_itself_json_is_text(body: bytes) -> None:
    async with serving(answering(200, body, content_type="application/problem+json")) as server:
        result = await send(server.url)
    assert result["text"] == body.decode("utf-8", "replace")
    assert "is not" in result["note"]


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_never_left_is_a_failure(method: str) -> None:
    refused = await refusal(f"http://user:secret@127.0.0.1:{closed_port()}/private", method=method)
    assert refused.type == "tool_failure"
    assert "secret" not in str(refused)
    assert "private" not in str(refused)
    assert (await refusal("http://no-such-host.invalid/", method=method)).type == "tool_failure"


@pytest.mark.parametrize("method", IRREVERSIBLE)
@pytest.mark.parametrize("handler", [hangup, reset, nonsense, half])
async def test_a_lost_answer_to_a_deed_is_a_doubt(method: str, handler: Handler) -> None:
    async with serving(handler) as server:
        assert "had been sent" in str(await doubt(server.url, method=method, body="x"))


@pytest.mark.parametrize("method", ["GET", "OPTIONS", *REPEATABLE])
@pytest.mark.parametrize("handler", [hangup, reset, nonsense, half])
async def test_a_lost_answer_is_a_failure_where_a_second_request_does_no_harm(method: str, handler: Handler) -> None:
    async with serving(handler) as server:
        assert (await failure(server.url, method=method)).type == "tool_failure"


async def test_silence_after_a_deed_is_a_doubt_and_after_a_question_a_timeout() -> None:
    async with serving(silence) as server:
        assert "no answer within 0.3 s" in str(await doubt(server.url, method="POST", timeout=0.3))
        assert (await failure(server.url, timeout=0.3)).type == "timeout.action"


async def test_a_slow_drip_does_not_outwit_the_timeout() -> None:
    async def drip(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(drip) as server:
        assert (await failure(server.url, timeout=0.3)).type == "timeout.action"


async def test_a_server_that_never_reads_leaves_a_large_deed_in_doubt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        await doubt(url, method="POST", body="x" * 15_000_000, timeout=0.5)


async def test_time_that_ran_out_before_the_request_left_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, but is not the TLS server it should be
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        assert (await refusal(url, method="POST", timeout=0.3)).type == "timeout.action"


async def test_a_server_that_does_not_speak_tls_is_a_failure() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ready\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        assert (await refusal(url, method="POST", timeout=20)).type == "tool_failure"


async def test_a_cancel_goes_on_as_it_is() -> None:
    async with serving(silence) as server:
        task = asyncio.create_task(send(server.url, method="POST"))
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": None}, "needs `url`"),
        ({"url": "example.com/x"}, "must begin with http"),
        ({"url": "ftp://example.com/x"}, "must begin with http"),
        ({"url": "file:///etc/passwd"}, "must begin with http"),
        ({"url": "http://"}, "must begin with http"),
        ({"url": "http://["}, "is not one"),
        ({"url": "http://x:99999999/"}, "is not one"),
        ({"url": "http://a b/"}, "name a host"),
        ({"url": "http://a/", "method": "GET /"}, "`method`"),
        ({"url": "http://a/", "json": 1, "body": "x"}, "not both"),
        ({"url": "http://a/", "body": {"x": 1}}, "must be text"),
        ({"url": "http://a/", "headers": {"a": 1}}, "must be text"),
        ({"url": "http://a/", "headers": {"a": "ü漢"}}, "header"),
        ({"url": "http://a/", "timeout": -1}, "positive"),
        ({"url": "http://a/", "ok_status": "404"}, "list of whole numbers"),
        ({"url": "http://a/", "params": {}}, "knows no `params`"),
    ],
)
async def test_what_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(EffectFailed) as caught:
        await http.perform(Contract("a/b/1", "b", "http", input=given))
    assert caught.value.type == "validation_error"
    assert problem in str(caught.value)


@pytest.mark.parametrize("headers", [{"bad name": "x"}, {"x": "a\r\nInjected: yes"}])
async def test_headers_that_would_break_the_protocol_never_leave(headers: dict[str, str]) -> None:
    async with serving(answering(200)) as server:
        await refusal(server.url, method="POST", headers=headers)
    assert server.requests == []


def test_it_declares_what_it_is() -> None:
    assert (http.name, http.declared.kind, http.declared.timeout_s) == ("http", "irreversible", 60.0)
    assert http.declared.kind_of({}) == "pure", "GET, where no method is given"
    kinds = {"pure": READING, "idempotent": REPEATABLE, "irreversible": IRREVERSIBLE}
    for kind, methods in kinds.items():
        for method in methods:
            assert {http.declared.kind_of({"method": name}) for name in (method, method.lower())} == {kind}
    assert http.declared.kind_of({"method": ["GET"]}) == "irreversible", "what is not understood is not harmless"
