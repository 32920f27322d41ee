"""Images: recognised by their first bytes, and taken out of what tools give, so that a model sees them as images."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

IMAGE_MAX = 3_000_000  # bytes; as base64 it fits into the largest request that is taken
SEEN_MAX = 8  # images of tools that one question to the model shows
KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}


def image_kind(raw: bytes) -> str:
    """The media type of an image that models take; empty: it is none, or too large."""
    kind = next((kind for start, kind in KINDS.items() if raw.startswith(start)), "")
    is_other = kind == "image/webp" and raw[8:12] != b"WEBP"
    return "" if is_other or len(raw) > IMAGE_MAX else kind


def read_image(text: Any) -> dict[str, str] | None:
    """An image in base64 or as a data URL, as a model is given it; None: it is none."""
    if not isinstance(text, str):
        return None
    data = text.partition(",")[2] if text.startswith("data:") else text
    if len(data) > IMAGE_MAX * 4 // 3 + 4:
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = image_kind(raw)
    return {"media_type": kind, "data": data} if kind else None


def take_images(result: Any) -> tuple[Any, list[dict[str, str]]]:
    """A result without its images, and these: the parts `{"type": "image", "data": BASE64}`, as MCP tools give them."""
    found: list[dict[str, str]] = []
    return _walk(result, found, 0), found


def _walk(value: Any, found: list[dict[str, str]], depth: int) -> Any:
    if depth > 8:
        return value
    if isinstance(value, list):
        return [_walk(one, found, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    image = read_image(value.get("data")) if value.get("type") == "image" and len(found) < SEEN_MAX else None
    if image is None:
        return {name: _walk(one, found, depth + 1) for name, one in value.items()}
    found.append(image)
    return {"type": "image", "media_type": image["media_type"], "shown": True}


def keep_latest(facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Facts in which only the latest images are still there: each question to the model carries all of them again."""
    kept, room = list[dict[str, Any]](), SEEN_MAX
    for one in reversed(facts):
        room -= len(one.get("images") or ())
        kept.append(one if room >= 0 else {name: value for name, value in one.items() if name != "images"})
    return kept[::-1]
