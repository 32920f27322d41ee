"""The Messages API of Anthropic, through the official SDK.

The SDK's own retries are off: the engine retries, and every attempt is journalled. The API has no `temperature` any
more; it is left out.
"""

from typing import Any

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
    cut_off,
    failed,
    status_failure,
)

CONNECT_S = 10.0
MAX_TOKENS = 4096  # the API wants a number
FINISHES = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "refusal"}


class Messages:
    """A model behind `POST /v1/messages`."""

    def __init__(self, name: str, key: str, base_url: str | None) -> None:
        self._name, self._key, self._base_url = name, key, base_url

    async def answer(self, request: Request, hear: Hear) -> Reply:
        """Ask once and listen to the stream."""
        library = _library()
        import httpx2  # noqa: PLC0415  # comes with the SDK

        names = Names(request)
        limits = httpx2.Timeout(None, connect=CONNECT_S)  # the whole call is limited by its contract
        try:
            client = library.AsyncAnthropic(
                api_key=self._key,
                base_url=self._base_url,
                max_retries=0,
                timeout=limits,
                http_client=httpx2.AsyncClient(verify=tls(), timeout=limits),
            )
            async with client, await client.messages.create(**self._body(request, names)) as stream:
                return await _Answer(names, hear).read(stream)
        except library.APITimeoutError as error:
            raise failed("the model's server did not answer in time", TIMEOUT) from error
        except library.APIConnectionError as error:
            cause = error.__cause__ or error
            raise failed(f"the model's server cannot be reached: {cause}", UNAVAILABLE) from error
        except library.APIStatusError as error:
            raise _refused(error) from error
        except library.APIError as error:
            raise failed(f"the model's server broke off: {error.message}", UNAVAILABLE) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise cut_off() from error
        except library.AnthropicError as error:
            raise failed(f"the request cannot be made: {error}", "validation_error") from error

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


class _Answer:
    """An answer while it comes, event by event."""

    def __init__(self, names: Names, hear: Hear) -> None:
        self.names = names
        self.heard = Heard(hear)
        self.calls: dict[int, dict[str, str]] = {}
        self.finish = self.model = ""
        self.is_over = False
        self.input = self.cached = 0
        self.output: int | None = None

    async def read(self, stream: Any) -> Reply:
        try:
            async for event in stream:
                self._take(event)
        except (ValueError, AttributeError, TypeError) as error:
            raise failed("the model's server sent something that is not its protocol", UNAVAILABLE) from error
        if not self.is_over:
            raise cut_off()
        found = [self.calls[at] for at in sorted(self.calls)]
        calls = tuple(self.names.call(one["id"], one["name"], one["arguments"], at) for at, one in enumerate(found))
        finish = FINISHES.get(self.finish, "stop")
        known = None if self.output is None else self.input
        return Reply(self.heard.text, calls, self.model, finish, known, self.output, self.cached)

    def _take(self, event: Any) -> None:
        match event.type:
            case "message_start":
                usage = event.message.usage
                self.model = event.message.model
                self.cached = usage.cache_read_input_tokens or 0
                # This API counts what the cache took and gave beside the rest.
                self.input = usage.input_tokens + self.cached + (usage.cache_creation_input_tokens or 0)
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                self.calls[event.index] = {"id": block.id, "name": block.name, "arguments": ""}
            case "content_block_delta" if event.delta.type == "text_delta":
                self.heard.add(event.delta.text)
            case "content_block_delta" if event.delta.type == "input_json_delta":
                self.heard.count(event.delta.partial_json)
                self.calls[event.index]["arguments"] += event.delta.partial_json
            case "message_delta":
                self.finish = event.delta.stop_reason or self.finish
                self.output = event.usage.output_tokens
            case "message_stop":
                self.is_over = True


def _library() -> Any:
    try:
        import anthropic  # noqa: PLC0415  # takes a while to load
    except ImportError as error:
        message = "this model needs the package anthropic: pip install 'detent[anthropic]'"
        raise EffectFailed(message, type="tool_failure.not_found") from error
    return anthropic


def _refused(error: Any) -> EffectFailed:
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
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}]
    blocks = [_block(part) for part in message.parts]
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": names.wire(call.name), "input": call.arguments}
        for call in message.tool_calls
    ]


def _block(part: Part) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
