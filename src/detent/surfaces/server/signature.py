"""Signatures of messages between servers: HMAC-SHA256, in the formats of those who send them.

    detent   Detent-Signature: t=1790000000,v1=<hex>                       over "1790000000." + body
    stripe   Stripe-Signature: t=1790000000,v1=<hex>[,v1=<hex>]            over the same
    slack    X-Slack-Signature: v0=<hex>, X-Slack-Request-Timestamp        over "v0:1790000000:" + body
    github   X-Hub-Signature-256: sha256=<hex>                             over the body
    plain    a header of your own, with <hex> or sha256=<hex>              over the body

The first three are good for a short while. The others carry no time: a message counts once for what is in it.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

HEADER = "Detent-Signature"
Format = Literal["detent", "github", "stripe", "slack", "plain"]
HEADERS: dict[str, str] = {
    "detent": HEADER,
    "stripe": "Stripe-Signature",
    "slack": "X-Slack-Signature",
    "github": "X-Hub-Signature-256",
    "plain": "X-Signature",
}
SLACK_TIME = "X-Slack-Request-Timestamp"
UNFIT = "the signature does not fit"


class SignatureCheck(NamedTuple):
    """What a signature says: what is wrong with it, or which message it is of."""

    problem: str
    mark: str = ""


def check_signature(
    format: Format,
    secret: bytes,
    body: bytes,
    headers: Mapping[str, str],
    now: float,
    window_s: float,
    header: str = "",
) -> SignatureCheck:
    """Check a message's signature, in the format of whoever sends it."""
    given = headers.get(header or HEADERS[format], "").strip()
    if format == "detent":
        return SignatureCheck(problem(secret, body, given, now, window_s), given)
    if format in ("github", "plain"):
        found = re.fullmatch(r"(?:sha256=)?([0-9a-fA-F]{64})", given)
        is_fit = found is not None and _is_mac(secret, body, found[1].lower())
        return SignatureCheck("" if is_fit else UNFIT, found[1].lower() if found is not None else "")
    if format == "stripe":
        times, macs = re.findall(r"(?:^|,)t=(\d{1,12})", given), re.findall(r"(?:^|,)v1=([0-9a-f]{64})", given)
        at, signed = (times[0] if len(times) == 1 else ""), f"{times[0] if times else ''}.".encode() + body
    else:
        at, macs = headers.get(SLACK_TIME, "").strip(), re.findall(r"^v0=([0-9a-f]{64})$", given)
        signed = f"v0:{at}:".encode() + body
    fitting = next((mac for mac in macs[:10] if _is_mac(secret, signed, mac)), "")
    if not re.fullmatch(r"\d{1,12}", at, re.ASCII) or not fitting:
        return SignatureCheck(UNFIT)
    return SignatureCheck(_find_age_problem(int(at), now, window_s), fitting)


def _is_mac(secret: bytes, signed: bytes, mac: str) -> bool:
    return hmac.compare_digest(mac, hmac.new(secret, signed, hashlib.sha256).hexdigest())


def _find_age_problem(at: int, now: float, window_s: float) -> str:
    return f"the message is older than {window_s:g} s, or from the future" if abs(now - at) > window_s else ""


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
        return UNFIT
    return _find_age_problem(at, now, window_s)


def _mac(secret: bytes, body: bytes, at: int) -> str:
    return hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest()
