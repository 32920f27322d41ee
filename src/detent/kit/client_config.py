"""The configuration files of MCP clients: putting one server into them, and taking it out again.

What was there is kept beside the file before the first change, and nothing but our own entry is touched.
"""

import json
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

from detent.errors import Refused
from detent.whole_file import FOR_ALL, write_whole

NAME = "detent"
BACKUP = ".before-detent"
_TOML_PART = re.compile(rf"(?ms)^\[mcp_servers\.{NAME}(?:\.[^\]]*)?\]\n.*?(?=^\[|\Z)")


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


def install(file: ClientFile, entry: ServerEntry) -> None:
    """Put our entry in; done twice it is there once."""
    before = _read(file.path)
    after = _with_toml(before, entry) if not file.key else _with_json(file, before, entry)
    _write(file.path, before, after)


def uninstall(file: ClientFile) -> bool:
    """Take our entry out; whether there was one."""
    before = _read(file.path)
    after = _TOML_PART.sub("", before) if not file.key else _with_json(file, before, None)
    if before == after or not before:
        return False
    _write(file.path, before, after)
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _with_json(file: ClientFile, text: str, entry: ServerEntry | None) -> str:
    try:
        known: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise Refused(f"{file.path} is not JSON ({error}); nothing was changed") from None
    servers = known.get(file.key, {}) if isinstance(known, dict) else None
    if not isinstance(servers, dict):
        raise Refused(f"{file.path}: `{file.key}` is no mapping of servers; nothing was changed")
    if entry is None:
        if NAME not in servers:
            return text
        servers = {name: one for name, one in servers.items() if name != NAME}
    else:
        kind = {"type": "stdio"} if file.key == "servers" else {}
        servers = {**servers, NAME: {**kind, **entry._asdict()}}
    return json.dumps({**known, file.key: servers}, indent=2, ensure_ascii=False) + "\n"


def _with_toml(text: str, entry: ServerEntry) -> str:
    """Our part of a file of TOML, at its end; JSON's texts and lists are TOML's as well."""
    kept = _TOML_PART.sub("", text)
    lines = [f"[mcp_servers.{NAME}]", f"command = {json.dumps(entry.command)}", f"args = {json.dumps(entry.args)}"]
    lines += [f"[mcp_servers.{NAME}.env]", *(f"{name} = {json.dumps(value)}" for name, value in entry.env.items())]
    gap = "" if not kept or kept.endswith("\n\n") else "\n" if kept.endswith("\n") else "\n\n"
    return f"{kept}{gap}" + "\n".join(lines) + "\n"


def _write(path: Path, before: str, after: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + BACKUP)
        if before and not beside.exists():
            shutil.copy2(path, beside)
        write_whole(path, after.encode(), mode=stat.S_IMODE(path.stat().st_mode) if path.exists() else FOR_ALL)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error}") from None
