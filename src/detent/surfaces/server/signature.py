"""Signatures of messages between servers: HMAC-SHA256 over the time and the body, good for a short while.

Detent-Signature: t=1790000000,v1=<hex>        v1 = HMAC(secret, "1790000000." + body)
"""

import hashlib
import hmac
import re

HEADER = "Detent-Signature"


def sign(secret: bytes, body: bytes, at: float) -> str:
    """The header for a body sent now."""
    return f"t={int(at)},v1={_mac(secret, body, int(at))}"


def problem(secret: bytes, body: bytes, header: str, now: float, window_s: float) -> str:
    """What is wrong with a signature; nothing when it is right and fresh."""
    parts = re.fullmatch(r"t=(\d{1,12}),v1=([0-9a-f]{64})", header.strip())
    if parts is None:
        return f"the header {HEADER} must be `t=SECONDS,v1=HEX`"
    at = int(parts[1])
    if not hmac.compare_digest(parts[2], _mac(secret, body, at)):
        return "the signature does not fit"
    if abs(now - at) > window_s:
        return f"the message is older than {window_s:g} s, or from the future"
    return ""


def _mac(secret: bytes, body: bytes, at: int) -> str:
    return hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest()
