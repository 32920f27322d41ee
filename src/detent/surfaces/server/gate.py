"""The gate every request passes before anything is done for it: who may ask, under which name, from where, how often.

A server on loopback needs no token, and so must not be moved by other people's pages in a browser on this machine: the
name it is asked for under is checked against rebinding, and whatever changes something must come from its own page.
"""

import hmac
import ipaddress
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detent.host.ancestry import can_know, origin_of_connection
from detent.kit.http.route import Route
from detent.surfaces.server.setting import ServerSettings
from detent.surfaces.server.shape import Detail, Trouble

HEAD_BYTES = 16 * 1024
HEADERS_MAX = 100
ADDRESSES_MAX = 10_000  # senders whose pace is remembered
GUARDED = ("/api", "/chat", "/ecs", "/mcp")  # what the token protects, with all beneath it; the rest is the page
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


class Turned(Exception):
    """A request that does not get in."""

    def __init__(self, status: int, kind: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers


class Gate:
    """Checks requests; `token` empty means that none is needed."""

    def __init__(
        self,
        settings: ServerSettings,
        token: str = "",
        hosts: Sequence[str] = (),
        is_persons: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_persons = is_persons  # whether a token is one of a person
        self._token = token.encode()
        self._hosts = {name.lower() for name in (*hosts, *settings.hosts, "localhost", socket.gethostname())}
        self._limits = settings.limits
        self._pace: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: what is left, as of when

    def around(self, app: ASGIApp, routes: Sequence[Route]) -> ASGIApp:
        """The application behind this gate."""
        is_open = {route.path.partition("{")[0] for route in routes if route.is_open}

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return

            async def sealed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    for name, value in SECURITY.items():
                        headers.setdefault(name, value)
                    if is_guarded(scope["path"]):
                        headers.setdefault("Cache-Control", "no-store")
                await send(message)

            try:
                self._check(scope, is_open)
            except Turned as turned:
                await _turn_away(turned, sealed)
                return
            await app(scope, receive, sealed)

        return guarded

    def _check(self, scope: Scope, is_open: set[str]) -> None:
        if len(scope["headers"]) > HEADERS_MAX or sum(len(n) + len(v) for n, v in scope["headers"]) > HEAD_BYTES:
            raise Turned(
                431, "too_large", f"the headers are too many or more than {HEAD_BYTES:,} bytes", Connection="close"
            )
        if scope["http_version"] not in ("1.0", "1.1"):
            raise Turned(400, "bad_request", "this server speaks HTTP/1.1", Connection="close")
        headers = Headers(scope=scope)
        self._check_pace(scope["client"][0] if scope.get("client") else "")
        self._check_host(headers.getlist("host"))
        path = scope["path"]
        is_signed = any(path.startswith(prefix) for prefix in is_open)
        if not is_signed:
            self._check_site(scope["method"], path, headers)
            if is_guarded(path):
                self._check_token(headers)
                self._check_program(scope)
        self._check_size(headers)

    def _check_pace(self, address: str) -> None:
        """A bucket that fills steadily and holds a burst."""
        now, most = time.monotonic(), float(self._limits.requests_burst)
        left, at = self._pace.pop(address, (most, now))
        left = min(most, left + (now - at) * self._limits.requests_per_second) - 1
        self._pace[address] = max(left, 0.0), now
        if len(self._pace) > ADDRESSES_MAX:
            self._pace.popitem(last=False)
        if left < 0:
            raise Turned(429, "too_many_requests", "too many requests; wait a moment", **{"Retry-After": "1"})

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

    def _check_program(self, scope: Scope) -> None:
        """An MCP client answers for its user: one that a step has started has none."""
        path, client, server = scope["path"], scope.get("client"), scope.get("server")
        is_told = (path == "/mcp" or path.startswith("/mcp/")) and scope["method"] == "POST"
        if not is_told or not client or not server or not can_know() or not _is_loopback(client[0]):
            return
        if origin_of_connection((client[0], client[1]), (server[0], server[1])) == "step":
            raise Turned(403, "not_permitted", "nothing that a step has started may use this server's MCP tools")

    def _check_token(self, headers: Headers) -> None:
        if not self._token:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token) or self._is_persons(given.strip())
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


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


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


async def _turn_away(turned: Turned, send: Send) -> None:
    body = msgspec.json.encode(Trouble(Detail(turned.kind, str(turned))))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in turned.headers.items()]
    await send({"type": "http.response.start", "status": turned.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
