"""A block of MCP servers as people paste it: from other programs' files, manuals and chats.

Comments, commas too many, a fence and missing braces are no reason to refuse it. What has no meaning here is left out
and named, so that nobody believes that it counts.
"""

import json
import re
from typing import Any

from detent.effects.mcp.config import FOREIGN_KEYS, NAME, SERVER_KEYS
from detent.errors import Refused

_TEXT = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])")
_FENCE = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_REFERENCE = re.compile(r"\$\{(?:env|input):([^}]+)\}")
URLS = ("serverUrl", "httpUrl")
MILLISECONDS = 1000  # a larger limit was not meant in seconds


def parse_pasted(text: str) -> tuple[dict[str, Any], list[str]]:
    """The servers of a pasted block as detent writes them, and what of it was left out or changed."""
    given = _load(text)
    for key in ("mcpServers", "servers", "mcp_servers", "mcp"):
        if isinstance(given.get(key), dict):
            given = given[key]
            break
    if not given or not all(isinstance(one, dict) for one in given.values()):
        raise Refused('paste a block such as {"mcpServers": {"git": {"command": "mcp-server-git"}}}')
    notes: list[str] = []
    servers = {_clean_name(name, notes): _clean(name, one, notes) for name, one in given.items()}
    if len(servers) < len(given):
        raise Refused("two of the servers would have one name here; rename one of them")
    return servers, notes


def _load(text: str) -> dict[str, Any]:
    fenced = _FENCE.match(text)
    plain = _COMMENT.sub(lambda found: found[1] or "", fenced[1] if fenced else text)
    plain = _COMMA.sub(lambda found: found[1] or "", plain).strip().rstrip(",")
    try:
        given = json.loads(plain if plain.startswith(("{", "[")) else f"{{{plain}}}")
    except ValueError as error:
        raise Refused(f"what was pasted is not JSON: {error}") from None
    return given if isinstance(given, dict) else {}


def _clean_name(name: str, notes: list[str]) -> str:
    clean = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:64]
    if not NAME.fullmatch(clean):
        raise Refused(f"`{name}` cannot be the name of a server: letters, digits, `_`, `-`")
    if clean != name:
        notes.append(f"`{name}` is called `{clean}` here")
    return clean


def _clean(name: str, server: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    found = {key: value for key, value in server.items() if value is not None}
    for key in URLS:
        if isinstance(found.get(key), str):
            found.setdefault("url", found.pop(key))
    kind = str(found.pop("type", "") or found.pop("transport", "") or found.pop("transportType", "")).lower()
    if kind == "sse":
        found["type"] = kind  # it is refused with its reason
    if found.pop("enabled", True) is False:
        found["disabled"] = True
    strange = [key for key in found if key not in (*SERVER_KEYS, *FOREIGN_KEYS)]
    if strange:
        notes.append(f"left out of `{name}`: {', '.join(strange)}")
    found = {key: value for key, value in found.items() if key not in strange}
    if isinstance(found.get("timeout"), int) and found["timeout"] >= MILLISECONDS:
        found["timeout"] /= MILLISECONDS
    for key in ("env", "headers"):
        if isinstance(found.get(key), dict):
            found[key] = {one: _text(value, notes) for one, value in found[key].items()}
    for key in ("command", "url", "cwd"):
        found |= {key: _text(found[key], notes)} if key in found else {}
    if isinstance(found.get("args"), list):
        found["args"] = [_text(one, notes) for one in found["args"]]
    return found


def _text(value: Any, notes: list[str]) -> Any:
    """A value as text, with other programs' references to the environment as ours."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return value

    def refer(found: re.Match[str]) -> str:
        name = re.sub(r"[^A-Za-z0-9_]", "_", found[1]).upper() if found[0].startswith("${input:") else found[1]
        notes.append(f"{found[0]} is ${{{name}}} here: it is read from the environment")
        return f"${{{name}}}"

    return _REFERENCE.sub(refer, value)
