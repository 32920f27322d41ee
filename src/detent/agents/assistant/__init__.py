"""The assistant: a conversation with tools whose deeds are contracts."""

from detent.agents.assistant.execution_ledger import Execution, Ledger, trace
from detent.agents.assistant.legacy_idempotency_key import old_key
from detent.agents.assistant.machine import ASSISTANT
from detent.agents.assistant.node_effects import effects
from detent.agents.assistant.turn import (
    check_session,
    find_cancelled_calls,
    from_client,
    new_session,
    new_turn,
    offer_tools,
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
    "offer_tools",
    "past",
    "find_cancelled_calls",
    "from_client",
    "new_session",
    "check_session",
    "new_turn",
]
