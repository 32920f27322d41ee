"""The assistant: a conversation with tools whose deeds are contracts."""

from detent.agents.assistant.execution import Execution, Ledger, trace
from detent.agents.assistant.key import old_key
from detent.agents.assistant.machine import ASSISTANT
from detent.agents.assistant.node import effects
from detent.agents.assistant.turn import (
    checked_session,
    from_client,
    left,
    new_session,
    new_turn,
    offered,
    past,
    turn_input,
)

__all__ = [
    "ASSISTANT",
    "effects",
    "Execution",
    "Ledger",
    "trace",
    "old_key",
    "turn_input",
    "offered",
    "past",
    "left",
    "from_client",
    "new_session",
    "checked_session",
    "new_turn",
]
