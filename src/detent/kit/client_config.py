"""The configuration files of MCP clients: putting one server into them, and taking it out again.

What was there is kept beside the file, and nothing but our own entry is touched: an entry of the same name that starts
something else stays, and a file that cannot be changed without doubt is left as it is.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from detent.errors import Refused
from detent.whole_file import FOR_ALL, write_whole

NAMES = ("detent", "detent-gateway")  # the second where something else is called by the first
BACKUP = ".before-detent"
TOML_KEY = "mcp_servers"


class ClientFile(NamedTuple):
    """Where a client keeps its servers, and under which name; none for a file of TOML."""

    path: Path
    key: str


class ServerEntry(NamedTuple):
    """How a client starts a server."""

    command: str
    args: list[str]
    env: dict[str, str]


def client_files(folder: Path) -> dict[str, ClientFile]:
    """The clients that we know; those of a project keep their file in its folder."""
    home = Path.home()
    support = home / "Library/Application Support" if sys.platform == "darwin" else _config_folder(home)
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    return {
        "claude-desktop": ClientFile(support / "Claude" / "claude_desktop_config.json", "mcpServers"),
        "claude-code": ClientFile(folder / ".mcp.json", "mcpServers"),
        "cursor": ClientFile(folder / ".cursor" / "mcp.json", "mcpServers"),
        "vscode": ClientFile(folder / ".vscode" / "mcp.json", "servers"),
        "codex": ClientFile(codex / "config.toml", ""),
    }


def _config_folder(home: Path) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")


def install(file: ClientFile, entry: ServerEntry) -> bool:
    """Put our entry in; done twice it is there once. Whether anything has changed."""
    before, kind = _read(file.path), {"type": "stdio"} if file.key == "servers" else {}
    wanted = {**kind, **entry._asdict()}
    try:
        servers = _servers(file, before)
        name = _find_own(servers) or next((one for one in NAMES if one not in servers), "")
        if not name:
            raise Refused(f"{file.path} has other servers called {' and '.join(NAMES)}; nothing was changed")
        after = _change(file, before, name, wanted)
    except Refused as error:
        shown = json.dumps({NAMES[0]: wanted}, ensure_ascii=False)
        raise Refused(f"{error}. The entry, to be put in by hand (here as JSON): {shown}") from None
    return _write(file, before, after, is_backed_up=not _find_own(servers))


def uninstall(file: ClientFile) -> bool:
    """Take our entry out; whether there was one. Where nothing else has changed, the file is as it was before."""
    before = _read(file.path)
    name = _find_own(_servers(file, before))
    if not name:
        return False
    after = _change(file, before, name, None)
    kept = _read(file.path.with_name(file.path.name + BACKUP))
    with contextlib.suppress(Refused):
        now = _load(file, after)
        if kept and _load(file, kept) in (now, {key: one for key, one in now.items() if one or key != _key(file)}):
            after = kept
    return _write(file, before, after)


def _key(file: ClientFile) -> str:
    return file.key or TOML_KEY


def _find_own(servers: dict[str, Any]) -> str:
    """The name of our entry, if it is there."""
    for name in NAMES:
        args = servers[name].get("args") if isinstance(servers.get(name), dict) else None
        if isinstance(args, list) and args[:1] == ["gateway"]:
            return name
    return ""


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _load(file: ClientFile, text: str) -> dict[str, Any]:
    what = "JSON" if file.key else "TOML"
    try:
        known: Any = json.loads(text.strip() or "{}", object_pairs_hook=_pair) if file.key else tomllib.loads(text)
    except ValueError as error:
        raise Refused(f"{file.path} is not {what} ({error}); nothing was changed") from None
    if not isinstance(known, dict):
        raise Refused(f"{file.path} is not a JSON object; nothing was changed")
    return known


def _pair(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _servers(file: ClientFile, text: str) -> dict[str, Any]:
    found = _load(file, text).get(_key(file))
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Refused(f"{file.path}: `{_key(file)}` is not a mapping of servers; nothing was changed")
    return found


def _change(file: ClientFile, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """The text with an entry put in or taken out; everything else in it says what it said before."""
    known, servers = _load(file, text), {one: it for one, it in _servers(file, text).items() if one != name}
    wanted = {**known, _key(file): servers | ({name: entry} if entry else {})}
    if file.key:
        indent = re.search(r'\n([ \t]+)"', text)
        return json.dumps(wanted, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    part = _write_toml(name, entry) if entry else ""
    kept = re.sub(rf"(?ms)\n?^\[{TOML_KEY}\.{name}(?:\.[^\]\n]*)?\][^\n]*\n.*?(?=\n?^\[|\Z)", "", text)
    after = f"{kept}{'' if kept.endswith(chr(10)) or not kept else chr(10)}{chr(10) if kept and part else ''}{part}"
    with contextlib.suppress(ValueError):
        now = tomllib.loads(after)
        if {**now, TOML_KEY: now.get(TOML_KEY, {})} == wanted:
            return after
    raise Refused(f"{file.path}: `{TOML_KEY}` is written in a way that detent does not change; nothing was changed")


def _write_toml(name: str, entry: dict[str, Any]) -> str:
    """An entry as TOML, of which JSON's texts and lists are a part."""

    def write(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [f"[{TOML_KEY}.{name}]", *(f"{key} = {write(one)}" for key, one in entry.items() if key != "env")]
    lines += [f"[{TOML_KEY}.{name}.env]", *(f"{key} = {write(one)}" for key, one in entry["env"].items())]
    return "\n".join(lines) + "\n"


def _write(file: ClientFile, before: str, after: str, *, is_backed_up: bool = False) -> bool:
    path = file.path
    if before == after:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if before and is_backed_up:
            shutil.copy2(path, path.with_name(path.name + BACKUP))
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else FOR_ALL
        write_whole(path.resolve(), after.encode(), mode=mode)  # a link stays one
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error}") from None
    return True
