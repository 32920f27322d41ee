"""What can be found out about a call before it is made, for a policy: not how it is written, but what it comes to.

A program is followed to its real path, so that `rm`, `/bin/rm` and a link to it are the same. Nothing here is evidence
of what a program will do once it runs; only a sandbox decides that.
"""

import ipaddress
import os
import shutil
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent.effects import sandbox


def shell_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a program: its real path, the real folder it works in with the arguments that are paths, and its sandbox."""
    argv, cwd, env = given.get("argv"), _text(given.get("cwd")) or ".", given.get("env")
    words = [word for word in argv if isinstance(word, str)] if isinstance(argv, list) else []
    said = [one.get("PATH") for one in (env if isinstance(env, list) else [env]) if isinstance(one, dict)]
    path = next((_text(one) for one in reversed(said) if one is not None), "")
    paths = [_real(cwd), *(_real(cwd, word) for word in words[1:] if _is_path(cwd, word))]
    level = sandbox.plan_level(sandbox.SandboxWish(_level(given)))
    return {"program": _program(words[0], cwd, path) if words else "", "paths": paths, "sandbox": level}


def python_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a function: only in which sandbox it would be called; what it does with its arguments nobody can tell."""
    return {"sandbox": _level(given) or sandbox.find_demanded() or "off"}


def file_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a file: its real path."""
    path = _text(given.get("path"))
    return {"paths": [_real(_text(given.get("root")) or ".", path)] if path else []}


def notify_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a message: the real path of the file it is put into."""
    path = _text(given.get("outbox"))
    return {"paths": [_real(".", path)] if path else []}


def http_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a request: the host it is sent to first."""
    try:
        return {"host": _host((urllib.parse.urlsplit(_text(given.get("url"))).hostname or "").rstrip("."))}
    except ValueError:
        return {"host": ""}


def _host(name: str) -> str:
    """A host as rules name it: one address can be written in many ways, like 127.1 or ::ffff:127.0.0.1."""
    try:
        if ":" in name:
            address = ipaddress.IPv6Address(name.partition("%")[0])
            return str(address.ipv4_mapped or address)
        return socket.inet_ntoa(socket.inet_aton(name)) if name[:1].isdigit() else name
    except (OSError, ValueError):
        return name  # a name, whatever it begins with


def _text(value: Any) -> str:
    return value if isinstance(value, str) and "\0" not in value else ""


def _level(given: Mapping[str, Any]) -> str:
    level = given.get("sandbox")
    return level if isinstance(level, str) and level in sandbox.LEVELS else ""


def _real(*parts: str) -> str:
    try:
        return os.path.realpath(os.path.join(*parts))
    except (OSError, ValueError):
        return ""


def _is_path(cwd: str, word: str) -> bool:
    """Whether an argument names something there is, or is written like a path."""
    return "\0" not in word and ("/" in word or os.path.lexists(os.path.join(cwd, word)))


def _program(name: str, cwd: str, path: str) -> str:
    if not name or "\0" in name:
        return ""
    if "/" in name:
        return _real(cwd, name)
    found = shutil.which(name, path=path or None)
    return str(Path(found).resolve()) if found else ""
