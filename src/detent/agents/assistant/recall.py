"""Which memories matter for a message: the score that orders them, and the five that are taken."""

import math
from collections.abc import Iterable
from typing import Any

from detent.agents.assistant.memory_store import Memory, fold_text, terms

LIMIT = 5
DAY_S = 86_400.0
HALF_LIFE_DAYS = 7.0
OFTEN = 100  # uses that count as "all the time"
WEIGHTS = {"keyword": 0.40, "category": 0.20, "recency": 0.15, "frequency": 0.10, "confidence": 0.15}
CATEGORIES = {"preference": 1.5, "fact": 1.2, "pattern": 1.0}
OTHER_CATEGORY = 1.0
ON_TOPIC = 1.3


def score(memory: Memory, wanted: list[str], now: float, topic: str = "") -> float:
    """How much a memory matters: what it shares with the message, its kind, its age, its use, how sure it is."""
    text = fold_text(memory.text)
    parts: dict[str, float] = {
        "keyword": sum(term in text for term in wanted) / len(wanted) if wanted else 0.0,
        "category": CATEGORIES.get(memory.category, OTHER_CATEGORY),
        "recency": math.exp2(-max(0.0, now - memory.accessed_at) / DAY_S / HALF_LIFE_DAYS),
        "frequency": min(1.0, math.log1p(memory.access_count) / math.log1p(OFTEN)),
        "confidence": memory.confidence,
    }
    whole = sum(WEIGHTS[name] * value for name, value in parts.items())
    return whole * ON_TOPIC if is_on_topic(memory, wanted, topic) else whole


def is_on_topic(memory: Memory, wanted: list[str], topic: str) -> bool:
    """Whether the message is about just this: the same kind of thing, or all of its key."""
    key = terms(memory.key)
    return (bool(topic) and memory.category == topic) or (bool(key) and set(key) <= set(wanted))


def choose_memories(candidates: Iterable[Memory], text: str, now: float, topic: str = "") -> list[tuple[float, Memory]]:
    """The best of the candidates, best first."""
    wanted = terms(text)
    scored = [(score(memory, wanted, now, topic), memory) for memory in candidates]
    return sorted(scored, key=lambda pair: (-pair[0], -pair[1].id))[:LIMIT]


def describe_memory(memory: Memory, value: float) -> dict[str, Any]:
    """A memory as the rest of the turn sees it."""
    content = f"{memory.key}: {memory.value}"
    return {"id": memory.id, "content": content, "type": memory.category, "confidence": memory.confidence,
            "score": round(value, 4)}  # fmt: skip
