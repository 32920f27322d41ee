"""Server-Sent Events: messages, and an answer that goes on until nobody reads it any more."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from detent.errors import DetentError
from detent.kit.http.context import ServerContext
from detent.redaction import ambient_redactor

_encode = msgspec.json.Encoder().encode
BEAT = b": beat\n\n"


def message(kind: str, value: Any, place: int | None = None) -> bytes:
    """One message as Server-Sent Events write it, without secrets."""
    head = b"" if place is None else b"id: %d\n" % place
    return b"event: %s\n%sdata: %s\n\n" % (kind.encode(), head, ambient_redactor().hide_json(_encode(value)))


class Stream(Response):
    """An answer that goes on until the reader goes away, the run has ended or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, server: ServerContext, chunks: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._server, self._chunks = server, chunks

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send what comes, and stop at once when nobody is there any more."""
        self._server.streams += 1
        sending = cast("asyncio.Task[None]", asyncio.current_task())
        leaving = asyncio.create_task(_stop_when_gone(receive, sending))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send)
        except asyncio.CancelledError:
            if not leaving.done() or sending.uncancel():  # somebody else wants it to stop
                raise
        finally:
            leaving.cancel()
            self._server.streams -= 1

    async def _send(self, send: Send) -> None:
        try:
            async for chunk in self._chunks:
                if not chunk:
                    continue
                async with asyncio.timeout(self._server.stalled_seconds):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, DetentError):
            return  # it does not read, or the run is damaged; the connection is closed behind it
        finally:
            await self._chunks.aclose()  # type: ignore[attr-defined]  # a generator


async def _stop_when_gone(receive: Receive, sending: "asyncio.Task[None]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()
