"""The forms that a secret takes when an ordinary program prints it: quoted, escaped, in base64, in hex."""

import base64
import html
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterator

ENCODED_MIN = 8  # characters: a shorter base64 or hex form stands in too many innocent texts
WRAPPED_MIN = 60  # programs break lines of base64 at 64 or 76 characters
_UNSAFE_IN_SHELL = re.compile(r"([^\w@%+=:,./-])", re.ASCII)


def quoted_forms(value: str) -> set[str]:
    """The value as it is, and as text formats quote it."""
    in_json, in_utf8_json = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    in_html = html.escape(value, quote=True)
    forms = {
        value,
        in_json,
        in_utf8_json,
        in_json.replace("/", "\\/"),
        json.dumps(in_json)[1:-1],  # JSON inside a text of JSON
        json.dumps(in_utf8_json, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        repr(_encode(value))[2:-1],
        shlex.quote(value).removeprefix("'").removesuffix("'"),
        _UNSAFE_IN_SHELL.sub(r"\\\1", value),
        html.escape(value, quote=False),
        in_html,
        in_html.replace("&#x27;", "&#39;"),
        *_quote_for_addresses(value),
    }
    return {form for form in forms if form}


def _quote_for_addresses(value: str) -> Iterator[str]:
    raw = _encode(value)
    for safe in ("", "/", "!'()*~", "/:?#[]@!$&'()*+,;="):
        quoted = urllib.parse.quote(raw, safe=safe)
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
        yield quoted.replace("%20", "+")


def encoded_forms(value: str) -> set[str]:
    """The value in base64, wherever it stands in what was encoded, and in hex; without what its neighbours decide."""
    raw = _encode(value)
    forms = {raw.hex(), raw.hex().upper()}
    for before in range(3):
        after = -(before + len(raw)) % 3
        code = base64.b64encode(b"\0" * before + raw + b"\0" * after).decode()
        # A character of base64 holds six bits; those it shares with a neighbour's byte are not ours.
        start, end = (0, 2, 3)[before], len(code) - (0, 2, 3)[after]
        forms.add(code[start:end])
        forms.add(code[start:end].replace("+", "-").replace("/", "_"))
    return {form for form in forms if len(form) >= ENCODED_MIN}


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
