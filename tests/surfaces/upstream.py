"""A small MCP server for tests of the gateway: `upstream.py NOTES DESCRIPTION`."""

import base64
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp import UrlElicitationRequiredError
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Completion, CompletionArgument, ElicitRequestURLParams, ToolAnnotations
from pydantic import BaseModel

notes, about = Path(sys.argv[1]), sys.argv[2]
server = MCPServer("upstream")
READ = ToolAnnotations(read_only_hint=True)
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@server.tool(annotations=READ)
async def look(word: str, ctx: Context) -> str:
    """Look at a word."""
    await ctx.report_progress(1, 2, "half")
    return f"seen {word}"


class Seen(BaseModel):
    word: str


@server.tool(annotations=READ, title="See a word")
def see(word: str) -> Seen:
    """See a word."""
    return Seen(word=word)


@server.tool(annotations=READ)
def draw() -> Image:
    """Draw a pixel."""
    return Image(data=PIXEL, format="png")


@server.tool(annotations=READ)
def draw_much() -> Image:
    """Draw three megabytes."""
    return Image(data=PIXEL + bytes(3_000_000), format="png")


class Name(BaseModel):
    name: str


def want_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(annotations=READ)
def greet_user(answer: Annotated[ElicitationResult[Name], Resolve(want_name)]) -> str:
    """Ask the user's name, and greet them."""
    return f"hello {answer.data.name}" if isinstance(answer, AcceptedElicitation) else "hello nobody"


@server.tool(annotations=READ)
def see_account() -> str:
    """What is in the account of whoever has opened the page."""
    if not notes.with_name("opened").exists():
        page = ElicitRequestURLParams(message="Log in first.", url="https://bank.example/login", elicitation_id="e1")
        raise UrlElicitationRequiredError([page])
    return "all of it"


@server.tool(annotations=READ)
def fail() -> str:
    """Report an error."""
    raise ToolError("not today")


@server.tool(annotations=READ)
async def grow(ctx: Context) -> str:
    """Offer one tool more."""

    def more() -> str:
        """More."""
        return "more"

    server.add_tool(more, annotations=READ)
    await ctx.notify_tools_changed()
    return "grown"


@server.tool(annotations=READ)
def die() -> str:
    """Die at once."""
    os._exit(1)


@server.tool()
def pay_and_die(amount: int) -> str:
    """Pay, and die before anybody knows."""
    with notes.open("a", encoding="utf-8") as out:
        out.write(f"paid {amount}\n")
    os._exit(1)


@server.tool(description=about)
def pay(amount: int) -> str:
    with notes.open("a", encoding="utf-8") as out:
        out.write(f"paid {amount}\n")
    return f"paid {amount}"


@server.resource("note://one", mime_type="text/plain")
def one() -> str:
    """A note."""
    return "the note"


@server.resource("word://{name}", mime_type="text/plain")
def word(name: str) -> str:
    """A word of whoever asks, and what must not be told."""
    return f"{name} of {notes.name} {os.environ.get('UPSTREAM_TOKEN', '')}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: object, argument: CompletionArgument, context: object) -> Completion:
    """Names that begin so."""
    return Completion(values=[name for name in ("ann", "bob") if name.startswith(argument.value)])


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


server.run()
