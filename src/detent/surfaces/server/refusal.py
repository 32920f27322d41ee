"""A request that does not get in, and how it is told."""

import msgspec
from starlette.requests import Request
from starlette.types import Send

from detent.kit.error_translation import error_in_chinese
from detent.surfaces.server.shape import Detail, Trouble


class Turned(Exception):
    """A request that does not get in."""

    def __init__(self, status: int, kind: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers


def too_early(seconds: float, message: str) -> Turned:
    """Somebody who asks too often, and when they may again."""
    return Turned(429, "too_many_requests", message, **{"Retry-After": str(max(1, round(seconds + 0.5)))})


def say_to(request: Request, english: str) -> str:
    """A sentence in the language that a request asks for."""
    is_chinese = request.headers.get("accept-language", "").lower().startswith("zh")
    return error_in_chinese(english) if is_chinese else english


async def turn_away(turned: Turned, send: Send) -> None:
    """Say no."""
    body = msgspec.json.encode(Trouble(Detail(turned.kind, str(turned))))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in turned.headers.items()]
    await send({"type": "http.response.start", "status": turned.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
