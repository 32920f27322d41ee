"""Hooks: signed messages from other programs that become signals or start runs, as `detent.serve.yaml` says.

The signature is checked before a single byte of the body is understood. A message sent twice counts once: its id is
made of what the hook says, or of the signature.
"""

import hashlib
import time
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from detent.core.expression import compile_template
from detent.core.identity import Identity
from detent.core.value import plain
from detent.errors import DetentError
from detent.kit.http.http_error import BadRequest
from detent.kit.http.route import HttpCall, Route
from detent.kit.trigger.firing import Occasion, mark_of_event
from detent.kit.trigger.trigger_driver import deliver
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.setting import Hook, secret
from detent.surfaces.server.signature import UNFIT, check_signature

DELIVERY = {"github": "X-GitHub-Delivery", "slack": "X-Slack-Retry-Num"}
KINDS = {"github": "X-GitHub-Event"}
FORM = "application/x-www-form-urlencoded"
FIELDS_MAX = 1000


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a message made of one trigger: a run and its address, or why there is none."""

    trigger: str
    run_id: str = ""
    address: str = ""
    why: str = ""


class Hooked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a message has become: a signal to a run, or runs of triggers."""

    id: str
    run_id: str = ""
    signal: str = ""
    state: str = ""
    status: str = ""
    runs: list[Begun] = []
    challenge: str = ""  # Slack asks once whether somebody is here who knows the secret


async def receive(room: HttpServer, call: HttpCall) -> Any:
    """Take a message and pass it on."""
    from detent.surfaces.server.application import content_of, respond

    name = call.path["name"]
    hook = room.settings.hooks.get(name)
    body = await content_of(room, call.request)
    headers = call.request.headers
    # Whoever does not know the secret learns nothing, not even which hooks there are.
    if hook is None:
        raise BadRequest(UNFIT, 401)
    key = secret(hook.secret_env)
    checked = check_signature(hook.format, key, body, headers, time.time(), hook.window_seconds, hook.header)
    if checked.problem:
        raise BadRequest(checked.problem, 401)
    value = _read_body(body, headers.get("content-type", ""))
    if not hook.run:
        return respond(await _start_runs(room, hook, name, value, checked.mark, headers), 202)
    sent = _send(hook, name, checked.mark, value)
    run_id = await room.find_run_id(sent["run"])
    run = await room.host.signal(
        run_id, sent["signal"], sent["data"], id=sent["id"], by=Identity(f"hook:{name}", "hook")
    )
    return Hooked(sent["id"], run.id, sent["signal"], run.state, run.status.value)


async def _start_runs(room: HttpServer, hook: Hook, name: str, value: Any, mark: str, headers: Any) -> Hooked:
    """Fire the triggers that wait for this hook."""
    if hook.format == "slack" and isinstance(value, dict) and value.get("type") == "url_verification":
        return Hooked("", challenge=str(value.get("challenge", "")))
    said = _compute(hook.id, name, value) if hook.id else ""
    once = mark_of_event(name, str(said) if said else mark)
    event = {"hook": name, "id": headers.get(DELIVERY.get(hook.format, ""), "") or once, "body": value}
    if kind := headers.get(KINDS.get(hook.format, ""), ""):
        event["type"] = kind
    heard = await deliver(room.host, "webhook", name, Occasion(once, time.time(), event))
    if not heard:
        raise BadRequest(f"no armed trigger waits for the hook `{name}`", 404)
    runs = [
        Begun(armed.name, one.run_id, f"/api/runs/{one.run_id}" if one.run_id else "", one.why) for armed, one in heard
    ]
    return Hooked(once, runs=runs)


def _read_body(body: bytes, kind: str) -> Any:
    """The message: JSON, or a form as Slack sends it."""
    try:
        if kind.partition(";")[0].strip().lower() == FORM:
            value: Any = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
            return plain(msgspec.json.decode(value["payload"]) if set(value) == {"payload"} else value, "body")
        return plain(msgspec.json.decode(body), "body")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def _compute(template: Any, name: str, value: Any) -> Any:
    try:
        return compile_template(template)({"body": value})
    except DetentError as error:
        raise BadRequest(f"hook `{name}` cannot use this message: {error}", 422) from None


def _send(hook: Hook, name: str, header: str, value: Any) -> dict[str, Any]:
    """What the hook makes of a message."""
    made = {field: _compute(getattr(hook, field), name, value) for field in ("run", "signal", "data", "id")}
    if not made["run"] or not made["signal"]:
        raise BadRequest(f"hook `{name}` finds no run or no signal in this message", 422)
    data = made["data"] if isinstance(made["data"], dict) else {"value": made["data"]}
    mark = str(made["id"]) if hook.id and made["id"] else header
    once = hashlib.sha256(f"{name} {mark}".encode()).hexdigest()[:32]
    return {"run": str(made["run"]), "signal": str(made["signal"]), "data": data, "id": f"hook-{once}"}


ROUTES = (
    Route("POST", "/api/hooks/{name}", receive, "A signed message becomes a signal, or starts runs", Hooked,
          errors=(404, 409, 422),
          tag="hooks", is_open=True, is_raw=True,
          about="Signed with `Detent-Signature: t=SECONDS,v1=HEX`, HMAC-SHA256 over `SECONDS.` and the body, or as"
                " GitHub, Stripe or Slack do; 202 where it fires triggers."),
)  # fmt: skip
