"""What a server is told: limits, hooks that come in, webhooks that go out; read strictly from `detent.serve.yaml`.

Secrets are never in the file: it names the environment variables that hold them.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from detent.core.duration import seconds_of
from detent.core.expression import compile_template
from detent.define.document import Document, read_document, read_file
from detent.define.problem import BrokenDefinition, Problem, refuse
from detent.errors import DefinitionError, Refused
from detent.surfaces.server.notice_setting import NoticeChannel, list_channel_problems, list_variables
from detent.surfaces.server.signature import Format

NAME = "detent.serve.yaml"
SECRET_MIN = 16
EVERY_MIN_S = 1.0
TAKEN_HEADERS = frozenset({"authorization", "cookie", "host", "origin", "content-length", "content-type", "connection"})
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Seconds = Annotated[float, Meta(gt=0, le=600)]
Positive = Annotated[int, Meta(ge=1, le=10_000_000)]
Lasting = Annotated[int, Meta(ge=60, le=366 * 24 * 3600)]
Header = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,99}$")]


class ServerLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on everything that comes in."""

    body_bytes: Positive = 4 * 1024 * 1024
    body_seconds: Seconds = 15.0
    requests_per_second: Positive = 200  # of one address, lasting
    requests_burst: Positive = 2000  # of one address, at once
    streams: Positive = 1000  # open at the same time
    connections: Positive = 2000
    head_seconds: Seconds = 10.0  # a connection must have said by then what it wants
    heartbeat_seconds: Seconds = 15.0  # a sign of life on a stream where nothing happens
    stalled_seconds: Seconds = 60.0  # a reader that takes nothing for so long is let go; it can come back where it was
    verbs_per_second: Positive = 20  # what one person changes, lasting
    verbs_burst: Positive = 200  # and at once
    attempts_per_minute: Positive = 20  # wrong tokens and links of one address, and under one name
    attempts_burst: Positive = 10


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message from outside: it becomes a signal to a run, or fires the triggers that wait for this hook.

    `run`, `signal`, `data` and `id` may hold `{{ body… }}`; without `run` and `signal` it is for triggers.
    """

    secret_env: Variable
    run: str = ""
    signal: str = ""
    data: Any = "{{ body }}"
    id: str = ""  # empty: the signature, so that the same message sent again counts once
    window_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 300
    format: Format = "detent"  # how it is signed
    header: Header | Literal[""] = ""  # where the signature is, if not where the format has it


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address that is told when a run waits for a person or has ended."""

    url: str
    secret_env: Variable
    on: tuple[Literal["waiting", "ended"], ...] = ("waiting", "ended")
    machines: list[str] = []  # empty: all


class BackupPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder into which a backup is written again and again, and how many stay in it."""

    to: str
    every: str = "1h"
    keep: Positive = 24


class AnchorPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the journal's head is published again and again, signed if there is a key."""

    to: str  # a file, an address, or git[:FOLDER]
    every: str = "1h"
    key: str = ""


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How people log in, where the home has people."""

    idle_seconds: Lasting = 12 * 3600  # a session that is not used for so long ends
    absolute_seconds: Lasting = 7 * 24 * 3600  # and every session after so long
    os_user: bool = True  # on loopback, the user whose program asks is the person with that `os_user`


class Proxy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reverse proxy that has found out who somebody is and passes the name on."""

    secret_env: Variable  # holds what the proxy sends as proof that it is the proxy
    name_header: Header = "X-Remote-User"
    secret_header: Header = "X-Proxy-Secret"
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")  # where it asks from; networks such as 10.0.0.0/8 too
    log_out: str = ""  # where the proxy ends its own session, for the page's link


class Traces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A collector that gets what runs did as spans, over OTLP/HTTP."""

    to: str  # such as http://127.0.0.1:4318/v1/traces
    headers_env: Variable | Literal[""] = ""  # holds `name=value,name=value`, for a collector that wants a key
    service: str = "detent"
    machines: tuple[str, ...] = ()  # empty: all


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a server can be told by its file."""

    hooks: dict[str, Hook] = {}
    webhooks: dict[str, Webhook] = {}
    definitions: list[str] = []  # files beside the workflows of the folder, such as FLOWS.py:NAME
    hosts: list[str] = []  # names under which the server may be asked for
    limits: ServerLimits = ServerLimits()
    backup: BackupPlan | None = None
    anchor: AnchorPlan | None = None
    login: Login = Login()
    proxy: Proxy | None = None
    traces: Traces | None = None
    address: str = ""  # how people reach this server: links in notices begin with it
    notify: dict[str, NoticeChannel] = {}
    edit: bool = True  # whether workflow files can be changed on the page, by those who may


def read_settings(folder: Path, name: str = "") -> ServerSettings:
    """The settings of a folder; the defaults when there is no file and none was named."""
    path = Path(name) if name else folder / NAME
    if not name and not path.exists():
        return ServerSettings()
    document = read_document(read_file(path), str(path))
    refuse(document.problems)
    try:
        settings = msgspec.convert(document.value if document.value is not None else {}, ServerSettings)
    except msgspec.ValidationError as error:
        raise BrokenDefinition([_problem(document, str(error))]) from None
    _check(document, settings)
    return settings


def with_backup(settings: ServerSettings, folder: str, every: str, keep: int | None) -> ServerSettings:
    """The settings with what the command line says of backups."""
    if not (folder or every or keep):
        return settings
    known = settings.backup
    if not folder and known is None:
        raise Refused("--every and --keep go with --backup FOLDER")
    plan = known if known is not None and not folder else BackupPlan(to=folder)
    plan = BackupPlan(to=plan.to, every=every or plan.every, keep=keep or plan.keep)
    if (seconds_of(plan.every) or 0.0) < EVERY_MIN_S:
        raise Refused(f"--every takes a time like 1h, not `{plan.every}`")
    return msgspec.structs.replace(settings, backup=plan)


def secret(variable: str) -> bytes:
    """The secret that a variable of the environment holds."""
    found = os.environ.get(variable, "")
    if len(found) < SECRET_MIN:
        raise DefinitionError(f"the variable {variable} must hold a secret of at least {SECRET_MIN} characters")
    return found.encode()


def read_headers(variable: str) -> dict[str, str]:
    """The headers that a variable of the environment holds, written `name=value,name=value`."""
    if not variable:
        return {}
    pairs = [pair.partition("=") for pair in os.environ.get(variable, "").split(",")]
    if not all(name.strip() and mark for name, mark, _ in pairs):
        raise DefinitionError(f"the variable {variable} must hold headers, written `name=value,name=value`")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _check(document: Document, settings: ServerSettings) -> None:
    """What a type alone does not say, each with its place."""
    problems = []
    for name, hook in settings.hooks.items():
        for field in ("run", "signal", "data", "id"):
            try:
                compile_template(getattr(hook, field))
            except DefinitionError as error:
                problems.append(_at(document, ("hooks", name, field), str(error)))
        if bool(hook.run) != bool(hook.signal):
            said = "a hook has both `run` and `signal`, or neither: then it is for triggers"
            problems.append(_at(document, ("hooks", name, "signal" if hook.signal else "run"), said))
        problems += _naming(document, ("hooks", name), name)
        problems += _secret(document, ("hooks", name, "secret_env"), hook.secret_env)
    for name, webhook in settings.webhooks.items():
        problems += _address(document, ("webhooks", name, "url"), webhook.url)
        problems += _naming(document, ("webhooks", name), name)
        problems += _secret(document, ("webhooks", name, "secret_env"), webhook.secret_env)
    for field, plan in (("backup", settings.backup), ("anchor", settings.anchor)):
        if plan is not None and (seconds_of(plan.every) or 0.0) < EVERY_MIN_S:
            problem = f"`{plan.every}` is not a time of at least {EVERY_MIN_S:g} s; write 1h or 30m"
            problems.append(_at(document, (field, "every"), problem))
    problems += _check_proxy(document, settings.proxy)
    problems += _check_notify(document, settings)
    if settings.traces is not None:
        problems += _address(document, ("traces", "to"), settings.traces.to)
        try:
            read_headers(settings.traces.headers_env)
        except DefinitionError as error:
            problems.append(_at(document, ("traces", "headers_env"), str(error)))
    if problems:
        raise BrokenDefinition(problems)


def _check_notify(document: Document, settings: ServerSettings) -> list[Problem]:
    if not settings.notify:
        return []
    problems = _address(document, ("address",), settings.address)
    for name, channel in settings.notify.items():
        problems += _naming(document, ("notify", name), name)
        problems += [_at(document, ("notify", name, *place), said) for place, said in list_channel_problems(channel)]
        for place, variable in list_variables(channel):
            if not os.environ.get(variable):
                problem = f"the variable {variable} is empty; it must hold what the channel needs"
                problems.append(_at(document, ("notify", name, *place), problem))
    return problems


def _check_proxy(document: Document, proxy: Proxy | None) -> list[Problem]:
    if proxy is None:
        return []
    problems = _secret(document, ("proxy", "secret_env"), proxy.secret_env)
    if proxy.name_header.lower() == proxy.secret_header.lower():
        problems.append(_at(document, ("proxy", "name_header"), "the name and the secret need a header each"))
    for field in ("name_header", "secret_header"):
        if getattr(proxy, field).lower() in TAKEN_HEADERS:
            problems.append(_at(document, ("proxy", field), "this header has another meaning already"))
    for number, address in enumerate(proxy.addresses):
        try:
            ipaddress.ip_network(address)
        except ValueError as error:
            problems.append(_at(document, ("proxy", "addresses", number), str(error)))
    if proxy.log_out and not re.match(r"(https://[^\s/@]+)?/[^/\s]?\S*$", proxy.log_out):
        problems.append(_at(document, ("proxy", "log_out"), "this is a path (/…) or an https:// address"))
    return problems


def _address(document: Document, path: tuple[str, ...], address: str) -> list[Problem]:
    if re.match(r"https?://[^\s/@]+(/|$)", address):
        return []
    return [_at(document, path, "an address is http:// or https:// and a host, without a user name in it")]


def _naming(document: Document, path: tuple[str, ...], name: str) -> list[Problem]:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,50}", name):
        return []
    return [_at(document, path, f"`{name}` is not a name: letters, digits, `-` and `_`, at most 50")]


def _secret(document: Document, path: tuple[str, ...], variable: str) -> list[Problem]:
    try:
        secret(variable)
    except DefinitionError as error:
        return [_at(document, path, str(error))]
    return []


def _problem(document: Document, said: str) -> Problem:
    """msgspec's complaint at the line it is about."""
    message, _, where = said.partition(" - at `$")
    path = tuple(part for part in re.split(r"[.\[\]`]+", where) if part and part != "...")
    field = re.search(r"(?:unknown|required) field `([^`]+)`", message)
    route = (*path, field[1]) if field and "unknown" in message else path
    # msgspec writes [...] for a key of a mapping: the first one that holds the field is meant.
    return _at(document, _resolve(document.value, route), message)


def _resolve(value: Any, route: tuple[str, ...]) -> tuple[str | int, ...]:
    found: list[str | int] = []
    for part in route:
        if isinstance(value, dict) and part not in value:
            holder = next((key for key, inner in value.items() if isinstance(inner, dict) and part in inner), None)
            if holder is None:
                break
            found.append(holder)
            value = value[holder]
        if isinstance(value, list) and part.isdecimal():
            found.append(int(part))
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, dict):
            found.append(part)
            value = value.get(part)
    return tuple(found)


def _at(document: Document, path: tuple[str | int, ...], message: str) -> Problem:
    line, column = document.places.key(path)
    return Problem(document.file, line, column, message)
