"""The gate every request passes before anything is done for it: who may ask, under which name, from where, how often.

A server on loopback needs no token, and so must not be moved by other people's pages in a browser on this machine: the
name it is asked for under is checked against rebinding, and whatever changes something must come from its own page.
"""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detent.kit.http.route import Route
from detent.surfaces.server.authentication import Reception, Visitor
from detent.surfaces.server.peer import find_origin, is_from_here
from detent.surfaces.server.rate_limit import Pace
from detent.surfaces.server.refusal import Turned, too_early, turn_away
from detent.surfaces.server.setting import ServerSettings

HEAD_BYTES = 16 * 1024
HEADERS_MAX = 100
LOOK_S = 1.0  # how often somebody who reads a stream is looked at again
VISITOR = "detent.visitor"  # where a request's scope says who sends it
LOGIN = "/api/login"
FOR_NOBODY = (LOGIN, "/api/logout", "/api/me")  # what works for those who are not logged in
# What the token protects, with all beneath it; the rest is the page.
GUARDED = ("/api", "/chat", "/ecs", "/mcp", "/metrics")
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
        "img-src 'self' data: blob:"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


def is_guarded(path: str) -> bool:
    """Whether an address is one of the API; `/chat.js` is a file of the page."""
    return any(path == start or path.startswith(f"{start}/") for start in GUARDED)


class Gate:
    """Checks requests; `token` empty means that none is needed."""

    def __init__(
        self, settings: ServerSettings, token: str = "", hosts: Sequence[str] = (), reception: Reception | None = None
    ) -> None:
        self._token, self._reception = token.encode(), reception
        self._hosts = {name.lower() for name in (*hosts, *settings.hosts, "localhost", socket.gethostname())}
        self._limits = limits = settings.limits
        self._pace = Pace(limits.requests_per_second, limits.requests_burst)
        self._verbs = Pace(limits.verbs_per_second, limits.verbs_burst)  # of each person

    def around(self, app: ASGIApp, routes: Sequence[Route]) -> ASGIApp:
        """The application behind this gate."""
        is_open = {route.path.partition("{")[0] for route in routes if route.is_open}

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            is_streaming = False

            async def sealed(message: Message) -> None:
                nonlocal is_streaming
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    is_streaming = headers.get("content-type", "").startswith("text/event-stream")
                    for name, value in SECURITY.items():
                        headers.setdefault(name, value)
                    if is_guarded(scope["path"]):
                        headers.setdefault("Cache-Control", "no-store")
                await send(message)

            async def watched() -> Message:
                return await (self._until_ended(visitor, receive) if is_streaming and visitor else receive())

            try:
                scope[VISITOR] = visitor = await self._admit(scope, is_open)
            except Turned as turned:
                await turn_away(turned, sealed)
                return
            await app(scope, watched, sealed)

        return guarded

    async def _admit(self, scope: Scope, is_open: set[str]) -> Visitor | None:
        """Who asks, if they get in; None where nobody needs to be known."""
        if len(scope["headers"]) > HEADERS_MAX or sum(len(n) + len(v) for n, v in scope["headers"]) > HEAD_BYTES:
            raise Turned(
                431, "too_large", f"the headers are too many or more than {HEAD_BYTES:,} bytes", Connection="close"
            )
        if scope["http_version"] not in ("1.0", "1.1"):
            raise Turned(400, "bad_request", "this server speaks HTTP/1.1", Connection="close")
        headers = Headers(scope=scope)
        if self._pace.take(scope["client"][0] if scope.get("client") else ""):
            raise too_early(0.0, "too many requests; wait a moment")
        self._check_host(headers.getlist("host"))
        path = scope["path"]
        visitor = None
        if not any(path.startswith(prefix) for prefix in is_open):
            self._check_site(scope["method"], path, headers)
            if is_guarded(path):
                visitor = await self._identify(scope, headers)
                self._check_program(scope, is_proven=visitor is not None and visitor.is_proven)
        self._check_size(headers)
        return visitor

    async def _identify(self, scope: Scope, headers: Headers) -> Visitor | None:
        """A person where there are people, else whoever has the server's token."""
        path, reception = scope["path"], self._reception
        if reception is None or reception.people() is None:
            self._check_token(headers)
            return None
        visitor = await reception.identify(scope, headers, is_login=path == LOGIN)
        if visitor is None or visitor.who is None:
            if path in FOR_NOBODY:
                return None
            message = "log in, or send a person's token: `Authorization: Bearer …`"
            raise Turned(401, "login_wanted", message, **{"WWW-Authenticate": "Bearer"})
        if not reception.is_valid(visitor):
            raise Turned(403, "not_permitted", f"`{visitor.who.name}` may not look at anything here")
        is_verb = scope["method"] not in ("GET", "HEAD", "OPTIONS") and path not in FOR_NOBODY
        if is_verb and (wait := self._verbs.take(visitor.who.name)):
            raise too_early(wait, f"`{visitor.who.name}` asks for too much at once; wait a moment")
        return visitor

    async def _until_ended(self, visitor: Visitor, receive: Receive) -> Message:
        """What a reader of a stream sends, or its end as soon as they are nobody any more."""
        reading = asyncio.ensure_future(receive())
        try:
            while not (await asyncio.wait([reading], timeout=LOOK_S))[0]:
                if self._reception is not None and not self._reception.is_valid(visitor):
                    return {"type": "http.disconnect"}
            return reading.result()
        finally:
            reading.cancel()

    def _check_host(self, said: list[str]) -> None:
        """A name that is not ours may have been bent to this address by somebody else's page; a number cannot be."""
        name = _host(said[0]) if len(said) == 1 else ""
        if not name or (name not in self._hosts and not _is_number(name)):
            message = "this server is not known under that name; `hosts` in detent.serve.yaml adds one"
            raise Turned(421, "misdirected", message)

    def _check_site(self, method: str, path: str, headers: Headers) -> None:
        is_reading = method in ("GET", "HEAD", "OPTIONS")
        site = headers.get("sec-fetch-site", "")
        if site in ("cross-site", "same-site") and (is_guarded(path) or not is_reading):
            raise Turned(403, "foreign_site", "another site's page may not ask this server")
        origin = headers.get("origin")
        if origin is not None and not is_reading and _netloc(origin) != headers.get("host", "").lower():
            raise Turned(403, "foreign_site", "what changes something must come from this server's own page")

    def _check_program(self, scope: Scope, *, is_proven: bool) -> None:
        """An MCP client answers for its user: one that a step has started has none."""
        path = scope["path"]
        is_told = (path == "/mcp" or path.startswith("/mcp/")) and scope["method"] == "POST"
        origin = find_origin(scope) if is_told and is_from_here(scope) else "person"
        if origin == "step" or (origin == "unknown" and not is_proven):
            raise Turned(403, "not_permitted", "nothing that a step has started may use this server's MCP tools")

    def _check_token(self, headers: Headers) -> None:
        if not self._token:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if scheme.lower() != "bearer" or not is_right:
            message = "this server wants its token: `Authorization: Bearer …`"
            raise Turned(401, "token_wanted", message, **{"WWW-Authenticate": "Bearer"})

    def _check_size(self, headers: Headers) -> None:
        said = headers.get("content-length", "0")
        if said.isascii() and said.isdecimal() and int(said[:20]) > self._limits.body_bytes:
            most = self._limits.body_bytes
            raise Turned(413, "too_large", f"the body has more than {most:,} bytes", Connection="close")


def _host(said: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{said}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return "?"


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
