"""Chat completions: OpenAI and every server that speaks the same protocol, through the official SDK.

The SDK's own retries are off: the engine retries, and every attempt is journalled.
"""

import json
from typing import Any

from detent.core.effect_type import EffectFailed
from detent.effects.llm import sdk_exchange
from detent.effects.llm.model import Hear, Message, MessagePart, Names, Reply, Request, status_failure

FINISHES = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "refusal"}


class Completions:
    """A model behind `POST /chat/completions`."""

    def __init__(self, name: str, key: str, base_url: str | None) -> None:
        self._name, self._key, self._base_url = name, key, base_url

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Ask once and listen to the stream."""
        sdk, names = sdk_exchange.library("openai", "llm"), Names(request)
        with sdk_exchange.trouble(sdk, _explain_refusal, sdk.OpenAIError):
            key = self._key or "none"  # a local server wants none, the SDK does
            client = sdk_exchange.client(sdk.AsyncOpenAI, key, self._base_url)
            async with client, await client.chat.completions.create(**self._body(request, names)) as stream:
                return await _Answer(names, hear).read(stream)

    def _body(self, request: Request, names: Names) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "messages": _messages(request.messages, names),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": names.wire(tool.name),
                        "description": tool.description,
                        "parameters": tool.schema or {"type": "object", "properties": {}},
                    },
                }
                for tool in request.tools
            ]
        if request.schema is not None:
            answer = {"name": "answer", "schema": request.schema, "strict": _is_strict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": answer}
        if request.max_tokens is not None:
            # OpenAI's own newer models refuse the old word; other servers often know only that one.
            body["max_tokens" if self._base_url else "max_completion_tokens"] = request.max_tokens
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body


class _Answer(sdk_exchange.StreamedAnswer):
    """An answer while it comes in chunks."""

    is_refusal = False
    usage: Any = None

    def take(self, piece: Any) -> None:
        self.model = piece.model or self.model
        self.usage = piece.usage or self.usage
        for choice in piece.choices or ():
            self._hear(choice.delta)
            self.finish = choice.finish_reason or self.finish
        self.is_whole = bool(self.finish)

    def _hear(self, delta: Any) -> None:
        if delta is None:
            return
        if delta.content:
            self.heard.add(delta.content)
        if delta.refusal:
            self.is_refusal = True
            self.heard.add(delta.refusal)
        for call in delta.tool_calls or ():
            at, function = call.index or 0, call.function
            self.begin_call(at, call.id or "", (function.name or "") if function is not None else "")
            if function is not None:
                self.add_arguments(at, function.arguments or "")

    def reply(self) -> Reply:
        calls = self.collect_calls()
        finish = "refusal" if self.is_refusal else FINISHES.get(self.finish, "stop")
        details = getattr(self.usage, "prompt_tokens_details", None)
        return Reply(
            self.heard.text,
            calls,
            self.model,
            "tool_calls" if calls and finish == "stop" else finish,
            getattr(self.usage, "prompt_tokens", None),
            getattr(self.usage, "completion_tokens", None),
            getattr(details, "cached_tokens", None) or 0,
        )


def _explain_refusal(error: Any) -> EffectFailed:
    body = error.body
    said = str(body.get("message") or body) if isinstance(body, dict) else str(body or error.message)
    return status_failure(error.status_code, said, str(error.code or ""), error.response.headers.get("retry-after", ""))


def _messages(messages: tuple[Message, ...], names: Names) -> list[dict[str, Any]]:
    """The conversation; a tool's images are told by the user, after all results of the same answer, as texts alone
    may stand in a result."""
    said: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool" and seen:
            said.append({"role": "user", "content": seen})
            seen = []
        said.append(_message(message, names))
        images = [part for part in message.parts if part.type == "image"] if message.role == "tool" else []
        if images:
            seen.append({"type": "text", "text": f"Images of the tool result {message.tool_call_id}:"})
            seen += [_part(part) for part in images]
    return [*said, {"role": "user", "content": seen}] if seen else said


def _message(message: Message, names: Names) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    parts = message.parts
    plain = all(part.type == "text" for part in parts)
    said: dict[str, Any] = {"role": message.role, "content": message.text if plain else [_part(p) for p in parts]}
    if message.tool_calls:
        said["content"] = said["content"] or None
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": names.wire(call.name),
                    "arguments": json.dumps(call.arguments, ensure_ascii=False, sort_keys=True),
                },
            }
            for call in message.tool_calls
        ]
    return said


def _part(part: MessagePart) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _is_strict(schema: Any) -> bool:
    """Whether the provider can promise this schema: every object closed, every property required."""
    if isinstance(schema, list):
        return all(_is_strict(one) for one in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        wanted = set(properties) if isinstance(properties, dict) else set()
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != wanted:
            return False
    return all(_is_strict(one) for one in schema.values())
