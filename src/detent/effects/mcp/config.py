"""Which servers there are and how far each is believed: the contents of `detent.mcp.yaml`, read strictly.

    servers:
      git:
        command: mcp-server-git            or `url:` for a server over streamable HTTP
        args: [--repository, .]
        env: {TOKEN: "${GIT_TOKEN}"}       `${NAME}` and `${NAME:-default}` are read from the environment
        cwd: .
        trusted: true                      its hints about its own tools count
        effect: irreversible               for tools of which nothing else is known
        timeout: 30                        seconds
        tools:
          git_commit: {effect: irreversible, key: [message], timeout: 60, scope: run}
          pay: {budget: {calls: 20, per: 1d, total: {amount: 1000}}}      through the gateway

`mcpServers`, the name other programs use, is the same as `servers`, and their `type` and `disabled` are understood.
"""

import math
import os
import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from detent.core.call_budget import CallBudget, parse_budget
from detent.core.effect_type import TIMEOUT_S, EffectFailed, Kind, Scope
from detent.core.value import digest
from detent.errors import DefinitionError
from detent.redaction import declared_redactor
from detent.redaction.environment import looks_secret

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>s|m|h)?")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
SECRET_MIN = 8  # hiding shorter values would damage ordinary text

KINDS = ("pure", "idempotent", "irreversible")
SCOPES = ("global", "session", "run")
SERVER_KEYS = ("command", "args", "env", "cwd", "url", "headers", "trusted", "effect", "timeout", "protocol", "tools")
TOOL_KEYS = ("effect", "key", "key_argument", "timeout", "scope", "budget")
FOREIGN_KEYS = ("type", "disabled")  # of other programs' files
RESERVED = frozenset({"files", "child", "shell", "python", "http", "llm", "ask", "wait"})

Route = tuple[str | int, ...]


class ConfigTrouble(NamedTuple):
    """One thing that is wrong with a configuration, at a path in it."""

    path: Route
    message: str


class ToolConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What we say about one tool; it counts more than what its server says."""

    effect: Kind | None = None
    key: tuple[str, ...] = ()  # the arguments that make two calls the same deed
    key_argument: str = ""  # hand the idempotency key over in this argument too
    timeout_s: float | None = None
    scope: Scope = "global"
    budget: CallBudget | None = None  # of calls through the gateway


class ServerConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """One server; values still hold their references to the environment."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    trusted: bool = False
    effect: Kind | None = None
    timeout_s: float = TIMEOUT_S
    protocol: Literal["auto", "legacy"] = "auto"
    tools: dict[str, ToolConfig] = {}

    @property
    def digest(self) -> str:
        """Changes when the server may be another one."""
        return digest([self.command, list(self.args), self.env, self.cwd, self.url, self.headers])

    @property
    def place(self) -> str:
        """Where it is, without the values of its references."""
        return self.url.partition("?")[0] if self.url else " ".join([self.command, *self.args])

    def tool(self, name: str) -> ToolConfig:
        """What we say about a tool."""
        return self.tools.get(name, ToolConfig())


class Resolver:
    """Reads references and remembers the values, so that they can be hidden wherever they come back."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._values: set[str] = set()

    def text(self, text: str) -> str:
        """The text with its references replaced."""
        return _REFERENCE.sub(self._value, text)

    def texts(self, texts: dict[str, str]) -> dict[str, str]:
        """Every value with its references replaced; one whose name says that it is a secret is hidden as well."""
        found = {name: self.text(text) for name, text in texts.items()}
        for name, value in found.items():
            if looks_secret(name.replace("-", "_")) or name.lower() == "authorization":
                self.know(value.rpartition(" ")[2])
        return found

    def _value(self, reference: re.Match[str]) -> str:
        found: str | None = os.environ.get(reference["name"], reference["default"])
        if found is None:
            message = f"the server `{self._server}` needs ${{{reference['name']}}}, which is not set in the environment"
            raise EffectFailed(message, "validation_error")
        if len(found) >= SECRET_MIN and reference["name"] in os.environ:
            self._values.add(found)
        return found

    def know(self, secret: str) -> None:
        """Hide this too: a token that came by a login."""
        if len(secret) >= SECRET_MIN:
            self._values.add(secret)

    def hide(self, value: Any) -> Any:
        """A value without any of them."""
        redactor = declared_redactor(frozenset(self._values))
        return redactor.hide_free(value) if isinstance(value, str) else redactor.hide_in(value)


def parse_config(value: Any) -> tuple[dict[str, ServerConfig], list[ConfigTrouble]]:
    """The servers a configuration names, and everything that is wrong with it."""
    reader = _Reader()
    return reader.read(value), reader.troubles


class _Reader:
    def __init__(self) -> None:
        self.troubles: list[ConfigTrouble] = []

    def say(self, path: Route, message: str) -> None:
        self.troubles.append(ConfigTrouble(path, message))

    def read(self, value: Any) -> dict[str, ServerConfig]:
        given = self._mapping((), value, "the file", ("servers", "mcpServers"))
        if given is None:
            return {}
        if not given:
            self.say((), "the file names no servers; write `servers:` and below it a name and a `command` or `url`")
        if len(given) > 1:
            self.say(("mcpServers",), "`servers` and `mcpServers` are the same; write one of them")
        found: dict[str, ServerConfig] = {}
        for key in given:
            servers = self._mapping((key,), given[key], f"`{key}`") or {}
            for name, one in servers.items():
                server = self._server((key, name), name, one)
                if server is not None:
                    found[name] = server
        return found

    def _server(self, path: Route, name: str, value: Any) -> ServerConfig | None:
        if not NAME.fullmatch(name) or name in RESERVED:
            why = "detent has effects of its own with that name" if name in RESERVED else "letters, digits, `_`, `-`"
            self.say(path, f"`{name}` cannot be the name of a server: {why}")
        given = self._mapping(path, value, f"server `{name}`", (*SERVER_KEYS, *FOREIGN_KEYS))
        if given is None or given.get("disabled") is True:
            return None
        if ("command" in given) == ("url" in given):
            self.say(path, f"server `{name}` needs a `command` to start or a `url` to reach, one of them")
        self._check_type(path, given)
        for wrong in [one for one in ("args", "env", "cwd") if one in given and "url" in given]:
            self.say((*path, wrong), f"`{wrong}` goes with `command`, not with `url`")
        if "headers" in given and "command" in given:
            self.say((*path, "headers"), "`headers` goes with `url`, not with `command`")
        tools = self._mapping((*path, "tools"), given.get("tools", {}), "`tools`") or {}
        return ServerConfig(
            name=name,
            command=self._text(path, given, "command"),
            args=self._texts(path, given, "args"),
            env=self._pairs(path, given, "env"),
            cwd=self._text(path, given, "cwd"),
            url=self._url(path, given),
            headers=self._pairs(path, given, "headers"),
            trusted=self._flag(path, given, "trusted"),
            effect=self._choice(path, given, "effect", KINDS),
            timeout_s=self._seconds(path, given, "timeout") or TIMEOUT_S,
            protocol=self._choice(path, given, "protocol", ("auto", "legacy")) or "auto",
            tools={one: self._tool((*path, "tools", one), one, tools[one]) for one in tools},
        )

    def _tool(self, path: Route, name: str, value: Any) -> ToolConfig:
        given = self._mapping(path, value, f"tool `{name}`", TOOL_KEYS)
        given = given or {}
        if isinstance(given.get("key"), str):
            given = {**given, "key": [given["key"]]}
        return ToolConfig(
            effect=self._choice(path, given, "effect", KINDS),
            key=self._texts(path, given, "key"),
            key_argument=self._text(path, given, "key_argument"),
            timeout_s=self._seconds(path, given, "timeout"),
            scope=self._choice(path, given, "scope", SCOPES) or "global",
            budget=self._budget(path, given),
        )

    def _budget(self, path: Route, given: dict[str, Any]) -> CallBudget | None:
        if "budget" not in given:
            return None
        try:
            return parse_budget(given["budget"])
        except DefinitionError as error:
            self.say((*path, "budget"), str(error))
            return None

    def _check_type(self, path: Route, given: dict[str, Any]) -> None:
        kind = given.get("type")
        wanted = ("stdio",) if "command" in given else ("http", "streamable-http", "streamable_http")
        if kind is not None and kind not in wanted:
            note = "; the older `sse` is not spoken here" if kind == "sse" else ""
            self.say((*path, "type"), f"`type` must be {wanted[0]} here{note}")

    def _mapping(self, path: Route, value: Any, what: str, known: Iterable[str] = ()) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.say(path, f"{what} must be a mapping")
            return None
        names = tuple(known)
        for strange in [one for one in value if names and one not in names]:
            self.say((*path, strange), f"{what} knows no `{strange}`; it has {', '.join(names)}")
        return {one: inner for one, inner in value.items() if inner is not None and (not names or one in names)}

    def _text(self, path: Route, given: dict[str, Any], key: str) -> str:
        value = given.get(key, "")
        if not isinstance(value, str) or "\0" in value or (key in given and not value):
            self.say((*path, key), f"`{key}` must be a text")
            return ""
        return value

    def _url(self, path: Route, given: dict[str, Any]) -> str:
        url = self._text(path, given, "url")
        if url and not url.startswith(("http://", "https://", "${")):
            self.say((*path, "url"), "`url` must begin with http:// or https://")
        return url

    def _texts(self, path: Route, given: dict[str, Any], key: str) -> tuple[str, ...]:
        value = given.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.say((*path, key), f"`{key}` must be a list of texts")
            return ()
        return tuple(value)

    def _pairs(self, path: Route, given: dict[str, Any], key: str) -> dict[str, str]:
        value = given.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self.say((*path, key), f"`{key}` must be a mapping of text to text; write numbers in quotes")
            return {}
        return value

    def _flag(self, path: Route, given: dict[str, Any], key: str) -> bool:
        value = given.get(key, False)
        if not isinstance(value, bool):
            self.say((*path, key), f"`{key}` must be true or false")
        return value is True

    def _choice(self, path: Route, given: dict[str, Any], key: str, words: tuple[str, ...]) -> Any:
        value = given.get(key)
        if value is not None and value not in words:
            self.say((*path, key), f"`{key}` must be one of {', '.join(words)}")
            return None
        return value

    def _seconds(self, path: Route, given: dict[str, Any], key: str) -> float | None:
        value = given.get(key)
        if value is None:
            return None
        found = _DURATION.fullmatch(str(value)) if isinstance(value, str | int | float) else None
        seconds = float(found["number"]) * _UNITS[found["unit"]] if found and not isinstance(value, bool) else 0.0
        if seconds <= 0 or not math.isfinite(seconds):
            self.say((*path, key), f"`{key}` must be a time such as 30, 90s or 5m")
            return None
        return seconds
