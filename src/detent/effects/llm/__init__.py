"""Language models: the effect `llm`, the small protocol behind it, and the one-JSON-object codec."""

from detent.effects.llm.effect import llm
from detent.effects.llm.json_answer import DecodedAnswer, decode_json, read_answer
from detent.effects.llm.model import Message, Model, Reply, Request, Tool, ToolCall
from detent.effects.llm.price import price_of
from detent.effects.llm.settings import Choice, choose_model

__all__ = [
    "llm",
    "Model",
    "Request",
    "Message",
    "Tool",
    "ToolCall",
    "Reply",
    "Choice",
    "choose_model",
    "price_of",
    "DecodedAnswer",
    "read_answer",
    "decode_json",
]
