"""The Messages API of Anthropic, through the official SDK.

The SDK's own retries are off: the engine retries, and every attempt is journalled. The API has no `temperature` any
more; it is left out.
"""

from typing import Any

from detent.core.effect_type import EffectFailed
from detent.effects.llm import sdk_exchange
from detent.effects.llm.model import Hear, Message, MessagePart, Names, Reply, Request, status_failure

MAX_TOKENS = 4096  # the API wants a number
FINISHES = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "refusal"}


class Messages:
    """A model behind `POST /v1/messages`."""

    def __init__(self, name: str, key: str, base_url: str | None) -> None:
        self._name, self._key, self._base_url = name, key, base_url

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Ask once and listen to the stream."""
        sdk, names = sdk_exchange.library("anthropic", "anthropic"), Names(request)
        with sdk_exchange.trouble(sdk, _explain_refusal, sdk.AnthropicError):
            client = sdk_exchange.client(sdk.AsyncAnthropic, self._key, self._base_url)
            async with client, await client.messages.create(**self._body(request, names)) as stream:
                return await _Answer(names, hear).read(stream)

    def _body(self, request: Request, names: Names) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "max_tokens": request.max_tokens or MAX_TOKENS,
            "messages": _turns(request.messages, names),
            "stream": True,
        }
        system = "\n\n".join(one.text for one in request.messages if one.role == "system" and one.text)
        if system:
            body["system"] = system
        if request.tools:
            body["tools"] = [
                {
                    "name": names.wire(tool.name),
                    "description": tool.description,
                    "input_schema": {"type": "object", **tool.schema},
                }
                for tool in request.tools
            ]
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        return body


class _Answer(sdk_exchange.StreamedAnswer):
    """An answer while it comes, event by event."""

    input = cached = 0
    output: int | None = None

    def take(self, piece: Any) -> None:
        match piece.type:
            case "message_start":
                usage = piece.message.usage
                self.model = piece.message.model
                self.cached = usage.cache_read_input_tokens or 0
                # This API counts what the cache took and gave beside the rest.
                self.input = usage.input_tokens + self.cached + (usage.cache_creation_input_tokens or 0)
            case "content_block_start" if piece.content_block.type == "tool_use":
                self.begin_call(piece.index, piece.content_block.id, piece.content_block.name)
            case "content_block_delta" if piece.delta.type == "text_delta":
                self.heard.add(piece.delta.text)
            case "content_block_delta" if piece.delta.type == "input_json_delta":
                self.add_arguments(piece.index, piece.delta.partial_json)
            case "message_delta":
                self.finish = piece.delta.stop_reason or self.finish
                self.output = piece.usage.output_tokens
            case "message_stop":
                self.is_whole = True

    def reply(self) -> Reply:
        known = None if self.output is None else self.input
        finish = FINISHES.get(self.finish, "stop")
        return Reply(self.heard.text, self.collect_calls(), self.model, finish, known, self.output, self.cached)


def _explain_refusal(error: Any) -> EffectFailed:
    inner = error.body.get("error") if isinstance(error.body, dict) else None
    said = inner.get("message") if isinstance(inner, dict) else error.body
    kind = str(inner.get("type") or "") if isinstance(inner, dict) else ""
    status = error.status_code
    if status < 400:  # told inside a stream that began well
        status = {"rate_limit_error": 429, "invalid_request_error": 400, "authentication_error": 401}.get(kind, 500)
    return status_failure(status, str(said or error.message), kind, error.response.headers.get("retry-after", ""))


def _turns(messages: tuple[Message, ...], names: Names) -> list[dict[str, Any]]:
    """The conversation without system messages; results of tools are told by the user, in one turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, names)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, names: Names) -> list[dict[str, Any]]:
    if message.role == "tool":
        is_plain = all(part.type == "text" for part in message.parts)
        told = message.text if is_plain else [_block(part) for part in message.parts]
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": told}]
    blocks = [_block(part) for part in message.parts]
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": names.wire(call.name), "input": call.arguments}
        for call in message.tool_calls
    ]


def _block(part: MessagePart) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
