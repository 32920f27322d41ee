"""A model's server on the loopback that says what a test tells it to, and keeps what it was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

Write = Callable[[bytes], Awaitable[None]]
Script = Callable[["Asked", Write], Awaitable[None]]


class Asked(NamedTuple):
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Server:
    """Answers the n-th request with the n-th script, and every later one with the last."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self.scripts = scripts
        self.asked: list[Asked] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            lines = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in lines}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(head[0].split(" ")[1], headers, json.loads(body or b"{}"))
            self.asked.append(asked)
            await self.scripts[min(len(self.asked), len(self.scripts)) - 1](asked, write)
        writer.close()


@contextlib.asynccontextmanager
async def serving(*scripts: Script) -> AsyncIterator[Server]:
    server = Server(scripts)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()


def head(status: int, kind: str, *more: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {kind}", "connection: close", *more]
    lines += [] if length is None else [f"content-length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def refusing(status: int, body: Any, *headers: str) -> Script:
    """An answer with an HTTP status that is no success."""

    async def script(asked: Asked, write: Write) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await write(head(status, "application/json", *headers, length=len(data)) + data)

    return script


def streaming(*events: str | bytes, then: Callable[[], Awaitable[None]] | None = None) -> Script:
    """A stream of server-sent events, written as they are."""

    async def script(asked: Asked, write: Write) -> None:
        await write(head(200, "text/event-stream"))
        for event in events:
            await write(event.encode() if isinstance(event, str) else event)
        if then is not None:
            await then()

    return script


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    """One chunk of a chat completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-2026", "choices": choices}
    return f"data: {json.dumps(base | more)}\n\n"


DONE = "data: [DONE]\n\n"


def usage(prompt: int, completion: int, cached: int = 0) -> str:
    counted = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return chunk(usage=counted | {"prompt_tokens_details": {"cached_tokens": cached}})


def said(*pieces: str, prompt: int = 10, completion: int = 5) -> Script:
    """A chat completion of some text."""
    chunks = [chunk({"content": piece}) for piece in pieces]
    return streaming(*chunks, chunk({}, "stop"), usage(prompt, completion), DONE)


def calling(name: str, **arguments: Any) -> Script:
    """A chat completion that asks for one tool."""
    asked = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return streaming(chunk({"tool_calls": [asked]}), chunk({}, "tool_calls"), DONE)


def event(kind: str, **body: Any) -> str:
    """One event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | body)}\n\n"


def message(*blocks: str, stop: str = "end_turn", output: int = 5, is_cut: bool = False) -> Script:
    """A message of Anthropic's API; each block is made by `text` or `tool_use`."""
    counted = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3}
    start: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "claude-tiny"}
    begin = event("message_start", message=start | {"stop_reason": None, "stop_sequence": None, "usage": counted})
    end = [
        event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": output}),
        event("message_stop"),
    ]
    numbered = [block.replace('"index": -1', f'"index": {at}') for at, block in enumerate(blocks)]
    return streaming(begin, *numbered, *([] if is_cut else end))


def text(*pieces: str) -> str:
    begin = event("content_block_start", index=-1, content_block={"type": "text", "text": ""})
    deltas = [event("content_block_delta", index=-1, delta={"type": "text_delta", "text": one}) for one in pieces]
    return begin + "".join(deltas) + event("content_block_stop", index=-1)


def tool_use(id: str, name: str, *pieces: str) -> str:
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    deltas = [
        event("content_block_delta", index=-1, delta={"type": "input_json_delta", "partial_json": one})
        for one in pieces
    ]
    begin = event("content_block_start", index=-1, content_block=block)
    return begin + "".join(deltas) + event("content_block_stop", index=-1)
