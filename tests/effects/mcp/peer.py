"""A small MCP server of our own, over stdio or streamable HTTP, with tools that behave and tools that do not."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from mcp import MCPError, UrlElicitationRequiredError
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    MCPServer,
    RequestStateSecurity,
    Resolve,
)
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

# A key of its own lets a sealed question outlive the process that asked it.
server = MCPServer("peer", request_state_security=RequestStateSecurity(keys=["peer-" * 8]))
READ = ToolAnnotations(read_only_hint=True)
SAME = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)


class Name(BaseModel):
    name: str
    age: int = 3


def note(text: str) -> None:
    with Path(os.environ["PEER_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(text + "\n")


@server.tool(annotations=READ)
def look(word: str) -> str:
    """Look at a word."""
    return f"seen {word}"


@server.tool(annotations=SAME)
def put(word: str) -> str:
    """Put a word."""
    note(f"put {word}")
    return "put"


@server.tool()
def pay(amount: int, ctx: Context) -> str:
    """Pay; nothing is said about how dangerous that is."""
    meta: Any = ctx.request_context.meta or {}
    note(f"pay {amount} {dict(meta).get('detent/idempotency-key', '')}")
    print("paid on stderr", file=sys.stderr, flush=True)  # noqa: T201
    return "paid"


@server.tool()
def refuse(why: str) -> str:
    """Always fails."""
    raise ValueError(f"no: {why}")


@server.tool()
def half(amount: int) -> str:
    """Do the deed and then fail."""
    note(f"half {amount}")
    raise ValueError("no receipt")


@server.tool()
def code(number: int) -> str:
    """Answer with an error of the protocol."""
    raise MCPError(number, f"number {number}")


@server.tool()
def think(amount: int) -> InputRequiredResult:
    """Do the deed and then want a model."""
    note(f"think {amount}")
    words = SamplingMessage(role="user", content=TextContent(text="?"))
    wanted = CreateMessageRequest(params=CreateMessageRequestParams(messages=[words], max_tokens=1))
    return InputRequiredResult(input_requests={"model": wanted})


# A tool that says of itself what its environment wants it to say.
@server.tool(annotations={"read": READ, "same": SAME}.get(os.environ.get("PEER_SHIFTY", "")))
def shifty(word: str) -> str:
    """Be what it likes."""
    note(f"shifty {word}")
    return "done"


@server.tool()
def die(amount: int) -> str:
    """Do the deed and die before saying so."""
    note(f"die {amount}")
    os._exit(1)


@server.tool()
def sleep(seconds: float) -> str:
    """Do the deed and take very long to say so."""
    note("sleep")
    time.sleep(seconds)
    return "slept"


@server.tool()
def secret() -> str:
    """Tell what should not be told."""
    return f"it is {os.environ.get('PEER_SECRET', 'nothing')}"


def ask_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool()
def greet(person: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Greet somebody, after asking who it is."""
    note("greet" if isinstance(person, AcceptedElicitation) else f"greet {person.action}")
    if isinstance(person, AcceptedElicitation):
        return f"hello {person.data.name}, {person.data.age}"
    return "hello nobody"


@server.tool()
def withdraw(ctx: Context) -> str:
    """Give money to whoever has logged in on the page."""
    if not Path(os.environ["PEER_NOTES"]).with_name("opened").exists():
        page = ElicitRequestURLParams(message="Log in first.", url="https://bank.example/login", elicitation_id="e1")
        raise UrlElicitationRequiredError([page])
    note("withdrawn")
    return "withdrawn"


@server.tool()
async def pay_on_page(ctx: Context) -> str:
    """Let somebody pay on a page."""
    reply = await ctx.elicit_url("Pay there.", "https://bank.example/pay", "e2")
    note(f"paid {reply.action}")
    return reply.action


@server.tool()
def enrol(person: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Enrol somebody, after asking who it is; without a name that is an error."""
    if isinstance(person, AcceptedElicitation):
        note(f"enrol {person.data.name}")
        return "enrolled"
    note(f"enrol {person.action}")
    raise ValueError("nobody was enrolled")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
