"""Keeping secrets out of what is kept and shown: their encodings, known formats of tokens, the environment.

What is promised and what is not stands in docs/security.md, section "Secrets".
"""

from detent.redaction.environment import (
    AMBIENT_MIN,
    ambient_redactor,
    declare_value,
    declare_variable,
    declared_redactor,
)
from detent.redaction.redactor import HIDDEN, Redactor
from detent.redaction.stream import RedactionStream

__all__ = [
    "AMBIENT_MIN",
    "HIDDEN",
    "RedactionStream",
    "Redactor",
    "ambient_redactor",
    "declare_value",
    "declare_variable",
    "declared_redactor",
]
