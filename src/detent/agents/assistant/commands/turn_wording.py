"""How turns of a conversation are spoken of on the terminal."""

from typing import Any

from detent.kit.terminal.run_wording import Manner


def _response(output: Any) -> str:
    said = output.get("response") if isinstance(output, dict) else None
    return said if isinstance(said, str) else ""


MANNER = Manner(has_own_retry=True, response=_response)
