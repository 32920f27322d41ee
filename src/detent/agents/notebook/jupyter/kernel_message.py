"""Messages of a kernel as they come over the wire."""

import hmac
import json
from typing import Any


def read_message(session: Any, frames: list[bytes]) -> tuple[str, str, dict[str, Any]]:
    """The kind of a message, which request it answers, and its content; one with a wrong signature raises.

    The library's own reading also turns every time in the headers into an object, which costs more than all the rest.
    It still reads what old kernels send.
    """
    parts = session.feed_identities(frames)[1]
    header = json.loads(parts[1])
    if not str(header.get("version", "")).startswith("5."):
        message = session.deserialize(parts)
        return message["header"]["msg_type"], message["parent_header"].get("msg_id", ""), message["content"]
    if session.auth is not None and not hmac.compare_digest(session.sign(parts[1:5]), parts[0]):
        raise ValueError("a message with a wrong signature")
    return header["msg_type"], json.loads(parts[2]).get("msg_id", ""), json.loads(parts[4])
