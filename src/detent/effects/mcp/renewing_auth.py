"""A token that the server no longer takes is renewed before anybody is asked to log in again.

The SDK renews by its own clock only, and takes any other refusal for the end of the login. But clocks differ, tokens
are revoked, and another process with the same tokens may have renewed them meanwhile.
"""

from collections.abc import AsyncGenerator

import httpx2
from mcp.client.auth import OAuthClientProvider

from detent.effects.mcp.oauth_login import TokenFile

REFUSED = 401
LONG_AGO = 1.0


class RenewingAuth(httpx2.Auth):
    """The SDK's provider; what can be renewed is renewed before anybody logs in."""

    def __init__(self, provider: OAuthClientProvider, tokens: TokenFile) -> None:
        self._provider, self._tokens = provider, tokens

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; where its token is refused, send it once more with a newer one."""
        for is_last in (False, True):
            flow = self._provider.async_auth_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    response = yield outgoing
                    if outgoing is request and response.status_code == REFUSED and not is_last:
                        break
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
            await self._look_for_newer(request.headers.get("authorization", ""))

    async def _look_for_newer(self, sent: str) -> None:
        """Take what another request or process has renewed; else have the provider renew it."""
        context = self._provider.context
        async with context.lock:
            kept = await self._tokens.get_tokens()
            if kept is None:
                return
            context.current_tokens = kept
            self._tokens.brief(context)
            if sent == f"Bearer {kept.access_token}":
                context.token_expiry_time = LONG_AGO
