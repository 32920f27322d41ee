"""Chat completions: OpenAI and every server that speaks the same protocol, through the official SDK.

The SDK's own retries are off: the engine retries, and every attempt is journalled.
"""

import json
from typing import Any

import msgspec

from detent.core.deed import EffectFailed
from detent.effects.http import tls
from detent.effects.llm.model import (
    TIMEOUT,
    UNAVAILABLE,
    Hear,
    Heard,
    Message,
    Names,
    Part,
    Reply,
    Request,
    ToolCall,
    cut_off,
    failed,
    status_failure,
)

CONNECT_S = 10.0
FINISHES = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "refusal"}


class Completions:
    """A model behind `POST /chat/completions`."""

    def __init__(self, name: str, key: str, base_url: str | None) -> None:
        self._name, self._key, self._base_url = name, key, base_url

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Ask once and listen to the stream."""
        library = _library()
        import httpx2  # noqa: PLC0415  # comes with the SDK

        names = Names(request)
        limits = httpx2.Timeout(None, connect=CONNECT_S)  # the whole call is limited by its contract
        try:
            client = library.AsyncOpenAI(
                api_key=self._key or "none",  # a local server wants none, the SDK does
                base_url=self._base_url,
                max_retries=0,
                timeout=limits,
                http_client=httpx2.AsyncClient(verify=tls(), timeout=limits),
            )
            async with client, await client.chat.completions.create(**self._body(request, names)) as stream:
                return await _Answer(names, hear).read(stream)
        except library.APITimeoutError as error:
            raise failed("the model's server did not answer in time", TIMEOUT) from error
        except library.APIConnectionError as error:
            cause = error.__cause__ or error
            raise failed(f"the model's server cannot be reached: {cause}", UNAVAILABLE) from error
        except library.APIStatusError as error:
            retry_after = error.response.headers.get("retry-after", "")
            raise status_failure(error.status_code, _said(error), str(error.code or ""), retry_after) from error
        except library.APIError as error:  # an error inside the stream
            raise failed(f"the model's server broke off: {error.message}", UNAVAILABLE) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise cut_off() from error
        except library.OpenAIError as error:
            raise failed(f"the request cannot be made: {error}", "validation_error") from error

    def _body(self, request: Request, names: Names) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._name,
            "messages": [_message(one, names) for one in request.messages],
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


class _Answer:
    """An answer while it comes in chunks."""

    def __init__(self, names: Names, hear: Hear) -> None:
        self.names = names
        self.heard = Heard(hear)
        self.calls: dict[int, dict[str, str]] = {}
        self.finish = self.model = ""
        self.is_refusal = False
        self.usage: Any = None

    async def read(self, stream: Any) -> Reply:
        try:
            async for chunk in stream:
                self._take(chunk)
        except (ValueError, msgspec.DecodeError, AttributeError, TypeError) as error:
            raise failed("the model's server sent something that is not its protocol", UNAVAILABLE) from error
        if not self.finish:
            raise cut_off()
        calls = tuple(self._call(at) for at in sorted(self.calls))
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

    def _take(self, chunk: Any) -> None:
        self.model = chunk.model or self.model
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices or ():
            delta = choice.delta
            if delta is not None and delta.content:
                self.heard.add(delta.content)
            if delta is not None and delta.refusal:
                self.is_refusal = True
                self.heard.add(delta.refusal)
            for call in (delta.tool_calls if delta is not None else None) or ():
                self._take_call(call)
            self.finish = choice.finish_reason or self.finish

    def _take_call(self, call: Any) -> None:
        known = self.calls.setdefault(call.index or 0, {"id": "", "name": "", "arguments": ""})
        known["id"] = call.id or known["id"]
        if call.function is not None:
            known["name"] = call.function.name or known["name"]
            known["arguments"] += call.function.arguments or ""
            self.heard.count(call.function.arguments or "")

    def _call(self, at: int) -> ToolCall:
        known = self.calls[at]
        return self.names.call(known["id"], known["name"], known["arguments"], at)


def _library() -> Any:
    try:
        import openai  # noqa: PLC0415  # takes a while to load
    except ImportError as error:
        message = "this model needs the package openai: pip install 'detent[llm]'"
        raise EffectFailed(message, type="tool_failure.not_found") from error
    return openai


def _said(error: Any) -> str:
    body = error.body
    return str(body.get("message") or body) if isinstance(body, dict) else str(body or error.message)


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


def _part(part: Part) -> dict[str, Any]:
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
