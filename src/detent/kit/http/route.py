"""One row of the route table: from it come Starlette's routes, the OpenAPI document and the checks of what is sent.

A handler takes the room and one call, calls one verb, and returns a value of the type its row promises.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from detent.core.identity import By

if TYPE_CHECKING:
    from starlette.requests import Request


Method = Literal["GET", "POST"]
Kind = Literal["json", "stream", "svg", "lines", "csv", "text", "file"]


class HttpCall(msgspec.Struct):
    """One request, read and checked: what stands in its path, its query and its body, and who sends it."""

    path: dict[str, str]
    query: Any
    body: Any
    by: By
    request: "Request"


Handle = Callable[[Any, HttpCall], Awaitable[Any]]  # a `ServerContext`, or the server itself for its own routes


class Route(msgspec.Struct, frozen=True):
    """What one address does, takes and gives."""

    method: Method
    path: str  # `{name}` takes one part, `{name:path}` also those with a slash in them
    handle: Handle
    summary: str
    gives: Any = None  # the type of the answer; nothing for a stream
    query: Any = None  # a Struct whose fields are the parameters
    takes: Any = None  # a Struct, the JSON body
    status: int = 200
    errors: tuple[int, ...] = ()  # besides those every address may give
    kind: Kind = "json"
    about: str = ""  # more than the summary says, for the OpenAPI document
    tag: str = "runs"
    is_open: bool = False  # works without a token, and for senders that are no browsers: it checks a signature itself
    is_guarded: bool = False  # answers or settles: refused to anything that a step has started
    needs: str = ""  # the verb whose role it takes, where no verb of the host asks for one
    is_raw: bool = False  # the handler reads the body itself

    @property
    def address(self) -> str:
        """The path as OpenAPI writes it."""
        return re.sub(r":path\}", "}", self.path)

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return re.findall(r"\{(\w+)\}", self.address)


def bare(struct: Any) -> Any:
    """A query or body of a row that takes none: an empty one."""
    return struct() if struct is not None else None
