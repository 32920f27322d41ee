"""Hooks: signed messages from other programs that become signals, as `detent.serve.yaml` says.

The signature is checked before a single byte of the body is understood. A message sent twice counts once: its signal's
id is made of what the hook says, or of the signature.
"""

import hashlib
import time
from typing import Any

import msgspec

from detent.core.expression import compile_template
from detent.core.identity import Identity
from detent.core.value import plain
from detent.errors import DetentError
from detent.kit.http.route import HttpCall, Route
from detent.kit.http.trouble import BadRequest
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.setting import Hook, secret
from detent.surfaces.server.signature import HEADER, problem


class Hooked(msgspec.Struct, frozen=True):
    """What a message has become."""

    run_id: str
    signal: str
    id: str
    state: str
    status: str


async def receive(room: HttpServer, call: HttpCall) -> Hooked:
    """Take a message and pass it on as a signal."""
    from detent.surfaces.server.application import content_of

    name = call.path["name"]
    hook = room.settings.hooks.get(name)
    body = await content_of(room, call.request)
    header = call.request.headers.get(HEADER, "")
    # Whoever does not know the secret learns nothing, not even which hooks there are.
    wrong = problem(secret(hook.secret_env), body, header, time.time(), hook.window_seconds) if hook else "unknown"
    if hook is None or wrong:
        said = wrong if hook is not None else "the signature does not fit"
        raise BadRequest(said, 401)
    sent = _send(hook, name, header, body)
    run_id = await room.find_run_id(sent["run"])
    run = await room.host.signal(
        run_id, sent["signal"], sent["data"], id=sent["id"], by=Identity(f"hook:{name}", "hook")
    )
    return Hooked(run.id, sent["signal"], sent["id"], run.state, run.status.value)


def _send(hook: Hook, name: str, header: str, body: bytes) -> dict[str, Any]:
    """What the hook makes of a message."""
    try:
        value = plain(msgspec.json.decode(body), "body")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    scope = {"body": value}
    try:
        made = {field: compile_template(getattr(hook, field))(scope) for field in ("run", "signal", "data", "id")}
    except DetentError as error:
        raise BadRequest(f"hook `{name}` cannot use this message: {error}", 422) from None
    if not made["run"] or not made["signal"]:
        raise BadRequest(f"hook `{name}` finds no run or no signal in this message", 422)
    data = made["data"] if isinstance(made["data"], dict) else {"value": made["data"]}
    mark = str(made["id"]) if hook.id and made["id"] else header
    once = hashlib.sha256(f"{name} {mark}".encode()).hexdigest()[:32]
    return {"run": str(made["run"]), "signal": str(made["signal"]), "data": data, "id": f"hook-{once}"}


ROUTES = (
    Route("POST", "/api/hooks/{name}", receive, "A signed message becomes a signal", Hooked, errors=(404, 409, 422),
          tag="hooks", is_open=True, is_raw=True,
          about="Signed with `Detent-Signature: t=SECONDS,v1=HEX`, HMAC-SHA256 over `SECONDS.` and the body."),
)  # fmt: skip
