"""What every model has in common: messages, tools and a schema go in; text, tool calls and usage come out.

A model knows one wire protocol. It does not retry, keeps nothing between calls, and says what went wrong with the
types below, so that a machine can decide what to do.
"""

import re
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from detent.core.effect_type import EffectFailed
from detent.effects.arguments import invalid

TEXT_MAX = 4 * 1024 * 1024  # of one answer; a server that never stops must not fill the memory
MESSAGE_MAX = 500  # of what a server says went wrong
PROBLEM_MAX = 1000  # of arguments that cannot be read, as they are told

# All but a refusal (`validation_error`) may be tried again.
RATE_LIMITED = "tool_failure.rate_limited"
UNAVAILABLE = "tool_failure.unavailable"
BAD_ANSWER = "tool_failure.bad_answer"
TIMEOUT = "timeout.action"

Hear = Callable[[str], None]


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something the model may ask for: a name, what it does, and the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model asks for; `problem` says why its arguments cannot be read, where the request wants to be told."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    problem: str = ""


class MessagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of a message that is not only text: `data` is the image in base64."""

    type: Literal["text", "image"]
    text: str = ""
    media_type: str = "image/png"
    data: str = ""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation; `tool_call_id` says which call a tool's result belongs to."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[MessagePart] | None = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def parts(self) -> list[MessagePart]:
        """The content as a list, without empty texts."""
        given = [MessagePart("text", self.content)] if isinstance(self.content, str) else self.content or []
        return [part for part in given if part.type == "image" or part.text]

    @property
    def text(self) -> str:
        """Only the words."""
        return "\n".join(part.text for part in self.parts if part.type == "text")


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of a model."""

    messages: tuple[Message, ...]
    model: str = ""
    tools: tuple[Tool, ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    malformed: Literal["fail", "tell"] = "fail"  # a tool call whose arguments are no JSON object: fail, or say so in it


class Reply(msgspec.Struct, frozen=True):
    """What a model said; tokens that the server did not count are None."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    finish: str = "stop"  # stop, tool_calls, length or refusal
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0  # of the input tokens, those read from the server's cache


class Model(Protocol):
    """One way to reach a model."""

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Ask once; every piece of text is also given to `hear` as it comes."""


def make_failure(message: str, type: str, **known: Any) -> EffectFailed:
    """The failure of a call to a model, with what is known of it."""
    return EffectFailed(message, type=type, result=known or None)


def status_failure(status: int, message: str, code: str = "", retry_after: str = "") -> EffectFailed:
    """What an HTTP status other than 2xx means for the machine."""
    known: dict[str, Any] = {"status": status}
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", retry_after):
        known["retry_after_s"] = float(retry_after)
    said = f"the model's server answered {status}: {message[:MESSAGE_MAX]}"
    if status == 429 and code != "insufficient_quota":
        return make_failure(f"{said} (rate limit)", RATE_LIMITED, **known)
    if status in (408, 504):
        return make_failure(said, TIMEOUT, **known)
    if status in (409, 425) or status >= 500:
        return make_failure(said, UNAVAILABLE, **known)
    if status in (401, 403):
        said += "; check the key in the environment (OPENAI_API_KEY or ANTHROPIC_API_KEY)"
    return make_failure(said, "validation_error", **known)


def make_cut_off() -> EffectFailed:
    """The stream ended in the middle of an answer."""
    return make_failure("the model's server closed the stream in the middle of its answer", UNAVAILABLE)


class Heard:
    """The text of an answer while it comes, up to a limit."""

    def __init__(self, hear: Hear) -> None:
        self._hear, self._pieces, self._length = hear, list[str](), 0

    def add(self, piece: str) -> None:
        """One more piece."""
        self.count(piece)
        self._pieces.append(piece)
        self._hear(piece)

    def count(self, piece: str) -> None:
        """Something else that comes with the answer and takes room."""
        self._length += len(piece)
        if self._length > TEXT_MAX:
            raise make_failure(f"the model's answer is longer than {TEXT_MAX:,} characters", BAD_ANSWER)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)


class Names:
    """Names of tools on the wire: providers take letters, digits, `_` and `-`, at most 64; ours have dots."""

    def __init__(self, request: Request) -> None:
        self._wire: dict[str, str] = {}
        self._ours: dict[str, str] = {}
        self._is_told = request.malformed == "tell"
        for tool in request.tools:
            if tool.name in self._wire:
                raise invalid(f"`tools` of `llm` has `{tool.name}` twice")
            self.wire(tool.name)

    def wire(self, name: str) -> str:
        """The name a provider is given."""
        if name not in self._wire:
            plain = base = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60] or "tool"
            number = 1
            while plain in self._ours:
                number += 1
                plain = f"{base}_{number}"
            self._wire[name], self._ours[plain] = plain, name
        return self._wire[name]

    def ours(self, name: str) -> str:
        """The tool a provider means; a name nobody offered stays as it is, and is not found later."""
        return self._ours.get(name, name)

    def call(self, id: str, name: str, arguments: str, position: int) -> ToolCall:
        """A call as it came over the wire; arguments that are no JSON object are the model's mistake."""
        given, cause = None, ""
        try:
            given = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, RecursionError) as error:
            cause = f" ({error})"
        id = id or f"call_{position + 1}"
        if name and isinstance(given, dict):
            return ToolCall(id, self.ours(name), given)
        if not self._is_told:
            raise make_failure(f"the model asked for `{name[:60]}` with arguments that are no JSON object", BAD_ANSWER)
        if not name:
            return ToolCall(id, "", {}, "the call names no tool")
        problem = f"its arguments are not one JSON object{cause}: {arguments[:PROBLEM_MAX]}"
        return ToolCall(id, self.ours(name), {}, problem)
