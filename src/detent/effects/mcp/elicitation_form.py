"""Questions that a tool asks a person, as our own: a flat schema in, an answer out."""

from typing import Any

from detent.core.contract import Contract
from detent.core.question import Question
from detent.core.value import digest

NAME = "mcp"  # where a question's `data` keeps what is needed to go on
TEXT_MAX = 4000
OPENED = {"type": "object", "properties": {"opened": {"type": "boolean", "title": "I have opened the page"}}}


def question_of(contract: Contract) -> dict[str, Any]:
    """What was left with the question that this contract's last answer is for."""
    found = contract.asked.get(NAME)
    return found if isinstance(found, dict) else {}


def answer_of(contract: Contract) -> Any:
    """What the person filled in; of a page that was opened the server is told nothing more."""
    if question_of(contract).get("is_page"):
        return None
    return contract.answers[-1].data if contract.answers else None


def is_no(contract: Contract) -> bool:
    """Whether the person rejected the question."""
    return bool(contract.answers) and contract.answers[-1].approved is False


def mark(params: Any) -> str:
    """The same for the same question."""
    return digest([params.message, getattr(params, "requested_schema", None), getattr(params, "url", None)])


def question(server: str, tool: str, requests: dict[str, Any], left: dict[str, Any]) -> Question:
    """One question for everything that a tool wants to know now; its words are the server's, and it says so."""
    words = []
    for params in requests.values():
        url = getattr(params, "url", None)
        words.append(f"{params.message[:TEXT_MAX]}\n{url}" if url else params.message[:TEXT_MAX])
    schemas = {key: _schema(params) for key, params in requests.items()}
    schema = next(iter(schemas.values()))
    if all(getattr(params, "url", None) for params in requests.values()):
        schema, left = OPENED, {**left, "is_page": True}
    elif len(schemas) > 1:
        schema = {"type": "object", "properties": schemas, "required": list(schemas)}
    text = f"The server `{server}` asks, for its tool `{tool}`:\n" + "\n".join(words)
    # A question on an open line must be answered whatever the person says; one that carries its own state need not.
    return Question(
        text, "form", schema=schema, data={"server": server, "tool": tool, NAME: left}, hears_no="call" in left
    )


def _schema(params: Any) -> dict[str, Any]:
    schema = getattr(params, "requested_schema", None)
    return dict(schema) if isinstance(schema, dict) else {"type": "object"}


def responses(keys: list[str], data: Any) -> dict[str, Any]:
    """The person's data as the answers to the requests of a question."""
    from mcp.types import ElicitResult  # noqa: PLC0415

    if len(keys) == 1:
        return {keys[0]: ElicitResult(action="accept", content=content(data))}
    given = data if isinstance(data, dict) else {}
    return {key: ElicitResult(action="accept", content=content(given.get(key))) for key in keys}


def content(data: Any) -> dict[str, Any]:
    """Form data as the protocol takes it: flat, and nothing else."""
    if not isinstance(data, dict):
        return {}
    plain = str | int | float | bool
    return {
        name: value
        for name, value in data.items()
        if value is None
        or isinstance(value, plain)
        or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    }
