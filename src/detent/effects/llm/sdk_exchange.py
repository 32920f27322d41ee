"""One exchange with a model's server through its official SDK: what both SDKs need, told once.

The SDK's own retries are off: the engine retries, and every attempt is journalled. Whatever goes wrong becomes one of
the types of `model`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from detent.core.effect_type import EffectFailed
from detent.effects.http import tls
from detent.effects.llm.model import (
    TIMEOUT,
    UNAVAILABLE,
    Hear,
    Heard,
    Names,
    Reply,
    ToolCall,
    make_cut_off,
    make_failure,
)

CONNECT_S = 10.0


def library(name: str, extra: str) -> Any:
    """An SDK, which takes a while to load and may not be there."""
    try:
        return import_module(name)
    except ImportError as error:
        message = f"this model needs the package {name}: pip install 'detent[{extra}]'"
        raise EffectFailed(message, type="tool_failure.not_found") from error


def client(kind: Any, key: str, base_url: str | None) -> Any:
    """A client of an SDK; the whole call is limited by its contract, so only connecting has a limit here."""
    import httpx2  # noqa: PLC0415  # comes with the SDK

    limits = httpx2.Timeout(None, connect=CONNECT_S)
    http = httpx2.AsyncClient(verify=tls(), timeout=limits)
    return kind(api_key=key, base_url=base_url, max_retries=0, timeout=limits, http_client=http)


@contextmanager
def trouble(sdk: Any, refused: Callable[[Any], EffectFailed], base: type[Exception]) -> Iterator[None]:
    """What an SDK raises, as what it means; `refused` reads a status that is no success, `base` is its widest error."""
    import httpx2  # noqa: PLC0415

    try:
        yield
    except sdk.APITimeoutError as error:
        raise make_failure("the model's server did not answer in time", TIMEOUT) from error
    except sdk.APIConnectionError as error:
        where, why = error.request.url.host, error.__cause__ or error
        raise make_failure(f"the model's server {where} cannot be reached: {why}", UNAVAILABLE) from error
    except sdk.APIStatusError as error:
        raise refused(error) from error
    except sdk.APIError as error:  # an error inside the stream
        raise make_failure(f"the model's server broke off: {error.message}", UNAVAILABLE) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise make_cut_off() from error
    except base as error:
        raise make_failure(f"the request cannot be made: {error}", "validation_error") from error


class StreamedAnswer(ABC):
    """An answer while it comes, piece by piece; each protocol says what a piece means, and what they come to."""

    def __init__(self, names: Names, hear: Hear) -> None:
        self.names = names
        self.heard = Heard(hear)
        self.calls: dict[int, dict[str, str]] = {}
        self.finish = self.model = ""
        self.is_whole = False  # until the server says that it is done

    async def read(self, stream: Any) -> Reply:
        """All of it."""
        try:
            async for piece in stream:
                self.take(piece)
        except (ValueError, AttributeError, TypeError) as error:  # decoding errors are among them
            raise make_failure("the model's server sent something that is not its protocol", UNAVAILABLE) from error
        if not self.is_whole:
            raise make_cut_off()
        return self.reply()

    @abstractmethod
    def take(self, piece: Any) -> None:
        """One more piece."""

    @abstractmethod
    def reply(self) -> Reply:
        """What it comes to."""

    def begin_call(self, at: int, id: str = "", name: str = "") -> dict[str, str]:
        """The tool call at this place, known or new."""
        known = self.calls.setdefault(at, {"id": "", "name": "", "arguments": ""})
        known["id"], known["name"] = id or known["id"], name or known["name"]
        return known

    def add_arguments(self, at: int, piece: str) -> None:
        """More of a tool call's arguments; they take room as words do."""
        self.heard.count(piece)
        self.calls[at]["arguments"] += piece

    def collect_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in their order."""
        found = [self.calls[at] for at in sorted(self.calls)]
        return tuple(self.names.call(one["id"], one["name"], one["arguments"], at) for at, one in enumerate(found))
