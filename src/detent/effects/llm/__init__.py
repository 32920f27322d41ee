"""Language models: the effect `llm`, the small protocol behind it, and the one-JSON-object codec."""

from detent.effects.llm.codec import DecodedAnswer, decoded, spoken
from detent.effects.llm.effect import llm
from detent.effects.llm.model import Message, Model, Reply, Request, Tool, ToolCall
from detent.effects.llm.price import price_of
from detent.effects.llm.settings import Choice, chosen

__all__ = [
    "llm",
    "Model",
    "Request",
    "Message",
    "Tool",
    "ToolCall",
    "Reply",
    "Choice",
    "chosen",
    "price_of",
    "DecodedAnswer",
    "spoken",
    "decoded",
]
