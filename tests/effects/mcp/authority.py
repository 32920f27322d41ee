"""An MCP server behind OAuth 2.1 with an authorization server of its own: `authority.py PORT`. It lets everybody in.

Access tokens are short-lived on purpose: `renewals` says how often one was renewed.
"""

import secrets
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl

port = int(sys.argv[1])
URL = f"http://127.0.0.1:{port}"
ISSUER = str(AnyHttpUrl(URL))
LIFE_S = 1


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.renewals = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or [], expires_at=time.time() + 60, client_id=str(client.client_id),
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=ISSUER)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(str(client.client_id), authorization_code.resource)

    def _issue(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        until = int(time.time()) + 1 + LIFE_S  # never shorter than it is said to be
        self.tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=[], expires_at=until, resource=resource
        )
        self.refreshing[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=[], resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE_S, token_type="Bearer")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        del self.refreshing[refresh_token.token]
        return self._issue(str(client.client_id), refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) >= time.time() else None

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)


authority = Authority()
settings = AuthSettings(
    issuer_url=AnyHttpUrl(URL),
    resource_server_url=AnyHttpUrl(f"{URL}/mcp"),
    validate_token_resource=False,
    client_registration_options=ClientRegistrationOptions(enabled=True),
)
server = MCPServer("authority", auth_server_provider=authority, auth=settings, log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def renewals() -> int:
    """How often a token was renewed."""
    return authority.renewals


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def leak() -> str:
    """Every token there is."""
    return " ".join([*authority.tokens, *authority.refreshing])


uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error")
