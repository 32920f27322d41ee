"""One call of a tool: what goes out, what comes back, and what it means when nothing does.

A request that the server refuses as such is evidence that nothing happened. An error that the tool reports is not: it
ran, and failed at some point. A lost line or a timeout says nothing at all: the call has left, its outcome is unknown.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.core.progress import Say, voice
from detent.effects.mcp import elicitation_form
from detent.effects.mcp.connection import Connection

if TYPE_CHECKING:
    from mcp.types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

KEY = "detent/idempotency-key"  # in `_meta` of every call
TEXT_MAX = 1024 * 1024
MEDIA_MAX = 12 * 1024 * 1024  # of images and other content that is no text; the journal keeps it
ROUNDS_MAX = 100
BACKOFF_S, BACKOFF_S_MAX = 0.05, 1.0
LOST = (-32000, -32001)  # connection closed, request timed out
REFUSED = (-32601, -32602)  # there is no such tool, or its arguments do not fit
URLS_WANTED = -32042  # a person has to open a page first; nothing was done
GARBLED = (-32600, -32700)  # the request was wrong; over HTTP the SDK says the same of an answer that it cannot read


Ask = Callable[[Any], Awaitable[Any]]  # a question for somebody else's user, and what they say


class _UrlsWanted(Exception):
    """The server wants a person to open pages before it does anything."""

    def __init__(self, pages: list[Any]) -> None:
        super().__init__("pages to open")
        self.pages = pages


class PendingCall:
    """A call that has been sent and may be waiting for a person's answer on its open line."""

    def __init__(self, connection: Connection, tool: str, contract: Contract) -> None:
        self.connection, self.tool, self.contract = connection, tool, contract
        self._say = voice(contract)  # the line's own task hears of progress, and it serves many calls
        self.token = secrets.token_hex(8)
        self.has_left = False
        self.task: asyncio.Task[Outcome | Exception] | None = None
        self.questions: asyncio.Queue[Any] = asyncio.Queue()
        self._answer: asyncio.Future[Any] | None = None
        self._is_given_up = False
        self._ask: Ask | None = None

    async def elicit(self, params: Any) -> Any:
        """The tool asks on the open line: hand the question up and wait for its answer."""
        from mcp.types import ElicitResult  # noqa: PLC0415

        if self._ask is not None:
            return await self._ask(self._hide_in_question(params))
        before = elicitation_form.question_of(self.contract)
        if self._is_given_up:
            return ElicitResult(action="cancel")
        if before.get("question") == elicitation_form.mark(
            params
        ):  # asked and answered before this host was started anew
            return self._make_answer()
        self._answer = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(params)
        return await self._answer

    def answer(self, contract: Contract) -> None:
        """Give the tool the answer it waits for."""
        self.contract, self._say = contract, voice(contract)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._make_answer())

    def _make_answer(self) -> Any:
        from mcp.types import ElicitResult  # noqa: PLC0415

        if elicitation_form.is_no(self.contract):
            return ElicitResult(action="decline")
        return ElicitResult(
            action="accept", content=elicitation_form.content(elicitation_form.answer_of(self.contract))
        )

    def give_up(self) -> None:
        """Nobody will answer any more."""
        from mcp.types import ElicitResult  # noqa: PLC0415

        self._is_given_up = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(ElicitResult(action="cancel"))

    async def perform(self) -> Outcome:
        """Send it and take what comes back."""
        from mcp.types import CallToolResult  # noqa: PLC0415

        left = elicitation_form.question_of(self.contract)
        state, keys = left.get("state"), left.get("keys") or []
        responses = elicitation_form.responses(keys, elicitation_form.answer_of(self.contract)) if keys else None
        pause_s = BACKOFF_S
        for _ in range(ROUNDS_MAX):
            try:
                result = await self._send(responses, state)
            except _UrlsWanted as wanted:
                return Outcome(question=self._ask_to_open(wanted.pages))
            if isinstance(result, CallToolResult):
                return self._outcome(result)
            responses, state = None, result.request_state
            if result.input_requests:
                return Outcome(question=self._question(result))
            await asyncio.sleep(pause_s)  # "not yet": the protocol wants it asked again
            pause_s = min(pause_s * 2, BACKOFF_S_MAX)
        raise OutcomeUnknown(f"`{self.tool}` said {ROUNDS_MAX} times that it is not done yet")

    async def relay(self, say: Say, ask: Ask) -> dict[str, Any]:
        """Send it for somebody else's client, and give back what came, as JSON, without anything that is secret.

        What the tool asks meanwhile is asked there.
        """
        self._say, self._ask = say, ask
        responses, state, pause_s = None, None, BACKOFF_S
        for _ in range(ROUNDS_MAX):
            try:
                result: dict[str, Any] = await self._send_as(_AsItCame, responses, state)
            except _UrlsWanted as wanted:
                await self._pass_on(dict(enumerate(wanted.pages)))
                continue
            if result.get("resultType") != "input_required":
                told: dict[str, Any] = self._hide(result)
                return told
            asked, state = _read_questions(self.tool, result)
            responses = await self._pass_on(asked) if asked else None
            if not asked:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, BACKOFF_S_MAX)
        raise OutcomeUnknown(f"`{self.tool}` said {ROUNDS_MAX} times that it is not done yet")

    async def _pass_on(self, asked: dict[Any, Any]) -> dict[Any, Any]:
        """What somebody else's user says to questions, one after the other."""
        said = {}
        for key, params in asked.items():
            reply = await self._ask(self._hide_in_question(params)) if self._ask is not None else None
            if reply is None or reply.action == "cancel":
                raise PartialFailure(f"`{self.tool}` asks its user something, and nobody has answered it")
            said[key] = reply
        return said

    def _hide_in_question(self, params: Any) -> Any:
        return params.model_copy(update={"message": self._hide(params.message)})

    async def _send(self, responses: Any, state: str | None) -> "CallToolResult | InputRequiredResult":
        answer: CallToolResult | InputRequiredResult = await self._send_as(_answer_type(), responses, state)
        return answer

    async def _send_as(self, answer_type: Any, responses: Any, state: str | None) -> Any:
        from mcp import MCPError  # noqa: PLC0415

        given, key = dict(self.contract.input), self.contract.key
        name = self.connection.server.tool(self.tool).key_argument
        if name and key:
            given.setdefault(name, key)
        params: dict[str, Any] = {"name": self.tool, "arguments": given}
        if key:
            params["_meta"] = {KEY: key}
        if responses is not None:
            told = {
                name: one.model_dump(by_alias=True, mode="json", exclude_none=True) for name, one in responses.items()
            }
            params["inputResponses"] = told
        if state is not None:
            params["requestState"] = state
        # Not `call_tool`: that one checks the result against the tool's schema and raises, when the deed is done.
        request: Any = _ReadyRequest({"method": "tools/call", "params": params})
        if not self.connection.is_open and not self.has_left:  # it died while others were at work on its line
            gone = f"the server `{self.connection.server.name}` is gone; nothing was sent"
            raise EffectFailed(gone, "tool_failure.unavailable")
        self.has_left = True
        try:
            return await self.connection.session.send_request(request, answer_type, progress_callback=self._progress)
        except MCPError as error:
            if error.error.code == URLS_WANTED and (pages := _read_pages(error.error.data)):
                raise _UrlsWanted(pages) from None
            raise self._failure(error.error.code, error.error.message) from None
        except Exception as error:  # noqa: BLE001  # whatever it is, the deed may be done
            raise OutcomeUnknown(self._hide(f"`{self.tool}` sent an answer that cannot be read: {error}")) from None

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._say({"progress": progress, "total": total, "text": self._hide(message or "")})

    def _failure(self, code: int, message: str) -> Exception:
        said = self._hide(f"`{self.connection.server.name}.{self.tool}`: {message}")
        if code in LOST or (code in GARBLED and self.connection.server.url):
            return OutcomeUnknown(f"{said} (error {code}); the call had been sent")
        if code in REFUSED or code in GARBLED:
            return EffectFailed(f"{said} (error {code})", "validation_error")
        return PartialFailure(f"{said} (error {code})")

    def _hide(self, value: Any) -> Any:
        return self.connection.resolver.hide(value)

    def _question(self, result: "InputRequiredResult") -> Any:
        requests = result.input_requests or {}
        params = {key: request.params for key, request in requests.items() if request.method == "elicitation/create"}
        if len(params) != len(requests):
            raise PartialFailure(f"`{self.tool}` wants a model or folders of detent's; it offers only people's answers")
        left = {"state": result.request_state, "keys": list(params)}
        return elicitation_form.question(self.connection.server.name, self.tool, params, left)

    def _ask_to_open(self, pages: list[Any]) -> Any:
        """Pages that a person opens before the call is made once more."""
        wanted = {f"page_{number}": page for number, page in enumerate(pages, 1)}
        return elicitation_form.question(self.connection.server.name, self.tool, wanted, {"pages": len(pages)})

    def open_question(self, params: Any) -> Any:
        """The question of a tool that waits on its open line."""
        left = {"call": self.token, "question": elicitation_form.mark(params)}
        return elicitation_form.question(self.connection.server.name, self.tool, {"answer": params}, left)

    def _outcome(self, result: "CallToolResult") -> Outcome:
        kept, is_cut = _content(result.content)
        text = "\n".join(block["text"] for block in kept if block["type"] == "text")
        told: dict[str, Any] = {"success": not result.is_error, "text": text, "truncated": is_cut}
        if any(block["type"] != "text" for block in kept):
            told["content"] = kept
        if result.structured_content is not None:
            told["structured"] = result.structured_content
        told = self._hide(told)
        if result.is_error:
            raise PartialFailure(told["text"][:2000] or f"`{self.tool}` reported an error", "tool_failure", told)
        return Outcome(told)


def _read_pages(data: Any) -> list[Any]:
    """The pages that a refusal names; none where it cannot be read."""
    from mcp.types import ElicitRequestURLParams  # noqa: PLC0415

    named = data.get("elicitations") if isinstance(data, dict) else None
    try:
        return [ElicitRequestURLParams.model_validate(one) for one in named or ()]
    except ValueError:
        return []


def _read_questions(tool: str, result: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What a tool wants to know before it goes on, and its own state."""
    from mcp.types import InputRequiredResult  # noqa: PLC0415

    try:
        found = InputRequiredResult.model_validate(result)
    except ValueError:
        raise OutcomeUnknown(f"`{tool}` asks something that cannot be read") from None
    asked = {k: one.params for k, one in (found.input_requests or {}).items() if one.method == "elicitation/create"}
    if len(asked) != len(found.input_requests or {}):
        raise PartialFailure(f"`{tool}` wants a model or folders of its client; only what people answer is passed on")
    return asked, found.request_state


class _ReadyRequest:
    """A request as it is sent; the SDK would make the same of its own models, which takes as long as journalling it."""

    name_param = None  # its headers know the tool's name

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._data


class _AsItCame:
    """An answer that is passed on: the SDK has checked it, and makes of it what this says."""

    @staticmethod
    def model_validate(answer: dict[str, Any], **_: Any) -> dict[str, Any]:
        return answer


@cache
def _answer_type() -> "TypeAdapter[CallToolResult | InputRequiredResult]":
    from mcp.types import CallToolResult, InputRequiredResult  # noqa: PLC0415
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(CallToolResult | InputRequiredResult)  # making one takes longer than a call


def _content(blocks: Any) -> tuple[list[dict[str, Any]], bool]:
    """What a tool gave, up to a limit; what does not fit is named."""
    kept: list[dict[str, Any]] = []
    room, is_cut = {True: TEXT_MAX, False: MEDIA_MAX}, False
    for block in blocks:
        told: dict[str, Any] = block.model_dump(mode="json", by_alias=True, exclude_none=True)
        size, is_text = len(str(told)), told["type"] == "text"
        if size > room[is_text]:
            left_out = {"type": told["type"], "characters_left_out": size}
            told, is_cut = {"type": "text", "text": told["text"][: room[True]]} if is_text else left_out, True
        room[is_text] -= min(size, room[is_text])
        kept.append(told)
    return kept, is_cut
