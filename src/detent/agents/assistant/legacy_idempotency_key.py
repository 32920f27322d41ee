"""The idempotency key in the form older clients know, for those who must agree with them.

It is weak on purpose (32 bits, Python's repr, the order of nested keys matters): detent's own keys are SHA-256 over
canonical JSON. A tool asks for this form with `key_style: wenko`.
"""

import hashlib
from typing import Any

STYLE = "wenko"
LENGTH = 8


def old_key(service: str | None, method: str | None, arguments: Any) -> str | None:
    """`service:method:` and eight hex digits, or None where a part is missing."""
    if not service or not method:
        return None
    return f"{service}:{method}:{old_hash(arguments)}"


def old_hash(arguments: Any) -> str:
    """Eight hex digits of MD5 over the arguments as Python shows them, top-level keys in order."""
    text = str(sorted(arguments.items())) if isinstance(arguments, dict) else str(arguments)
    return hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()[:LENGTH]
