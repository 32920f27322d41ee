"""Encodings of a secret as ordinary programs make them, and places where they stand; written without the product."""

import base64
import binascii
import html
import json
import shlex
import urllib.parse
from collections.abc import Callable

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json utf-8": lambda value: json.dumps({"a": value}, ensure_ascii=False),
    "repr": repr,
    "bytes repr": lambda value: repr(value.encode()),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 after 1": lambda value: base64.b64encode(b":" + value.encode()).decode(),
    "base64 after 2": lambda value: base64.b64encode(b"u:" + value.encode() + b"\n").decode(),
    "base64 basic auth": lambda value: base64.b64encode(f"kim:{value}".encode()).decode(),
    "base64 urlsafe": lambda value: base64.urlsafe_b64encode(b"x" + value.encode() + b"yz").decode(),
    "base64 lines": lambda value: base64.encodebytes(value.encode()).decode(),
    "hex": lambda value: value.encode().hex(),
    "hex upper": lambda value: binascii.hexlify(value.encode()).decode().upper(),
    "url": lambda value: "https://example.com/?t=" + urllib.parse.quote(value, safe=""),
    "url path": lambda value: "/" + urllib.parse.quote(value),
    "url form": lambda value: urllib.parse.urlencode({"token": value}),
    "url lower": lambda value: urllib.parse.quote(value, safe="").replace("%2F", "%2f").replace("%3D", "%3d")
    if not set(value) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/=-_.") else value,
    "shell": lambda value: f"curl -H {shlex.quote(value)}",
    "html": html.escape,
    "html text": lambda value: html.escape(value, quote=False),
}  # fmt: skip


def is_leaked(value: str, text: str) -> bool:
    """Whether a text holds the secret in any of these forms, wrapped or not."""
    flat = text.replace("\\n", "").replace("\n", "")
    raw = value.encode()
    cores = [value, json.dumps(value)[1:-1], repr(value)[1:-1], raw.hex(), urllib.parse.quote(value, safe="")]
    for before in range(3):  # the whole groups of base64, whatever stands around
        middle = raw[-before % 3 : len(raw) - (len(raw) - (-before % 3)) % 3]
        cores.append(base64.b64encode(middle).decode())
    cores = [core for core in cores if len(core) >= 4]
    return any(core in one for core in cores for one in (text, flat)) or raw.hex().upper() in flat
