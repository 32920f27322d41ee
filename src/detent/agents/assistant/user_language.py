"""The language of whoever speaks to the assistant: questions and our own sentences follow what they write."""

import re
from typing import Any

_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")


def is_chinese(text: Any) -> bool:
    """Whether a message is written in Chinese."""
    return isinstance(text, str) and _CHINESE.search(text[:4000]) is not None


def pick(text: Any, english: str, chinese: str) -> str:
    """The one of two sentences that fits the language of a message."""
    return chinese if is_chinese(text) else english
