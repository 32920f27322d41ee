"""Logging in to MCP servers (OAuth 2.1): discovery, dynamic registration, a browser, and tokens that are kept.

The protocol is the SDK's. Ours is where the tokens are (in the home, for us alone), the page on loopback to which the
browser comes back, and that only a person who asks for it logs in: a run never opens a browser.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from detent.core.effect_type import EffectFailed
from detent.whole_file import write_whole

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

FOLDER = "oauth"  # in the folder of the servers
LOGIN_S = 600.0
PAGE = "<!doctype html><meta charset=utf-8><title>detent</title><p>%s You can close this page."
HEAD_MAX = 16 * 1024


class TokenFile:
    """What a server has given us to get in: our registration there, and tokens."""

    def __init__(self, folder: Path, name: str, hear: Callable[[str], None]) -> None:
        self._path = folder / FOLDER / f"{name}.json"
        self._hear = hear  # told of every secret, so that it can be hidden wherever it comes back
        self.context: Any = None  # the SDK's, once there is one

    @property
    def is_there(self) -> bool:
        """Whether somebody has logged in."""
        return bool(self._read().get("tokens"))

    def forget(self) -> None:
        """Log out."""
        self._path.unlink(missing_ok=True)

    async def get_tokens(self) -> "OAuthToken | None":
        """The tokens, if there are any."""
        from mcp.shared.auth import OAuthToken  # noqa: PLC0415

        kept = self._read().get("tokens")
        return self._tell(OAuthToken.model_validate(kept)) if kept else None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        """Keep tokens, also those that came in place of old ones."""
        self._write("tokens", self._tell(tokens).model_dump(mode="json", exclude_none=True))
        self._write("expires_at", time.time() + tokens.expires_in if tokens.expires_in else 0.0)
        if self.context is not None and self.context.oauth_metadata is not None:
            self._write("metadata", self.context.oauth_metadata.model_dump(mode="json", exclude_none=True))

    def brief(self, context: Any) -> None:
        """Tell the SDK what it does not keep: until when the token holds, and where a new one is had."""
        from mcp.shared.auth import OAuthMetadata  # noqa: PLC0415

        self.context, kept = context, self._read()
        if kept.get("tokens"):
            context.token_expiry_time = kept.get("expires_at") or None
            if "metadata" in kept:
                context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        """Our registration, if there is one."""
        from mcp.shared.auth import OAuthClientInformationFull  # noqa: PLC0415

        kept = self._read().get("client")
        return OAuthClientInformationFull.model_validate(kept) if kept else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        """Keep our registration."""
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _tell(self, tokens: "OAuthToken") -> "OAuthToken":
        for secret in (tokens.access_token, tokens.refresh_token):
            if secret:
                self._hear(secret)
        return tokens

    def _read(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return {}

    def _write(self, key: str, value: Any) -> None:
        kept = {**self._read(), key: value}
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path, msgspec.json.encode(kept))


class BrowserLogin:
    """A person at a browser, and the page on loopback to which it comes back."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.address, self._state = "", ""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Wait at an address of this machine."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_MAX)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        try:
            yield
        finally:
            server.close()

    async def redirect(self, url: str) -> None:
        """Send the person to where they say yes."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._show(url)

    async def callback(self) -> "AuthorizationCodeResult":
        """What the browser brought back."""
        from mcp.shared.auth import AuthorizationCodeResult  # noqa: PLC0415

        try:
            async with asyncio.timeout(LOGIN_S):
                said = await self._came
        except TimeoutError:
            raise EffectFailed(f"nobody logged in within {LOGIN_S:g} s") from None
        if "code" not in said:
            raise EffectFailed(f"the login was refused: {said.get('error_description') or said.get('error', '?')}")
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target = urlsplit(head.split(" ", 2)[1])
            said = {name: values[0] for name, values in parse_qs(target.query).items()}
            told, status = PAGE % ("Done." if "code" in said else "Nobody was logged in."), "200 OK"
            if (
                target.path != "/callback"
                or said.get("state", "") != self._state
                or not said.keys() & {"code", "error"}
            ):
                told, status = (
                    PAGE % "This is not the login that was begun.",
                    "400 Bad Request",
                )  # any page may call here
            elif not self._came.done():
                self._came.set_result(said)
            kind = "content-type: text/html; charset=utf-8\r\nconnection: close\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{kind}content-length: {len(told)}\r\n\r\n{told}".encode())
            await writer.drain()
        writer.close()


def make_auth(url: str, tokens: TokenFile, login: BrowserLogin | None) -> "httpx2.Auth":
    """The SDK's provider for one server: tokens are used and renewed; only with a login may it ask a person."""
    from mcp.client.auth import OAuthClientProvider  # noqa: PLC0415
    from mcp.shared.auth import OAuthClientMetadata  # noqa: PLC0415
    from pydantic import AnyUrl  # noqa: PLC0415

    address = login.address if login is not None else "http://127.0.0.1:1/callback"
    about = OAuthClientMetadata(
        client_name="detent",
        redirect_uris=[AnyUrl(address)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",  # noqa: S106  # a program on somebody's machine keeps no secret
    )
    ways = (_refuse, _refuse) if login is None else (login.redirect, login.callback)
    logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())  # its tracebacks are no user's concern
    made = OAuthClientProvider(url, about, tokens, *ways)
    tokens.brief(made.context)
    from detent.effects.mcp.renewing_auth import RenewingAuth  # noqa: PLC0415

    return RenewingAuth(made, tokens)


async def _refuse(*_: str) -> Any:
    raise EffectFailed("the login has ended; log in again with `detent mcp login`", "tool_failure.unavailable")
