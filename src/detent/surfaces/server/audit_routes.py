"""Addresses of the audit: who allowed what, what another policy would have done, which rules suggest themselves.

All of them only read. Each goes through the whole journal, so one at a time is answered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from detent.core.policy import Policy
from detent.define.document import read_document
from detent.define.policy import compile_policy
from detent.errors import JournalError, Refused
from detent.kit.audit.backtest import LISTED_MAX, BacktestReport, Period, run_backtest
from detent.kit.audit.decision import AuditDecision
from detent.kit.audit.decision_sheet import COLUMNS, write_csv, write_row
from detent.kit.audit.decision_trail import AuditFilter, parse_time, read_decisions
from detent.kit.audit.suggestion import AT_LEAST, SuggestReport, suggest_rules
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked, Count
from detent.kit.http.route import HttpCall, Route
from detent.kit.safe_text import visible
from detent.surfaces.server import shape
from detent.surfaces.server.server_context import HttpServer

AT_ONCE = 200  # rows in one piece of an answer
Moment = Annotated[str, Meta(max_length=100, description="so long ago, like 30d, or a date like 2026-01-31")]
R = TypeVar("R")


class AuditQuery(Asked, frozen=True):
    """Which decisions; what is left empty does not matter."""

    since: Moment = ""
    until: Moment = ""
    who: shape.Name = ""
    effect: Annotated[str, Meta(max_length=200, description="a pattern with `*`, `?` and `[…]`")] = ""
    run: shape.Name = ""


class BacktestBody(Asked, frozen=True):
    """A policy file's text, and the time whose calls it is tested on."""

    policy: str
    since: Moment = ""
    until: Moment = ""
    limit: Count = LISTED_MAX


class SuggestQuery(Asked, frozen=True):
    """Since when, and how many approvals a rule needs."""

    since: Moment = ""
    at_least: Annotated[int, Meta(ge=2, le=1_000_000)] = AT_LEAST


async def audit(room: HttpServer, call: HttpCall) -> StreamingResponse:
    """Every decision as a line of JSON; the last line says how many there were, or what could not be read."""
    found = read_decisions(room.reader, await _filter(room, call.query))
    return await _stream(room, _json_lines(found), found, "application/x-ndjson", "audit.jsonl")


async def audit_csv(room: HttpServer, call: HttpCall) -> StreamingResponse:
    """Every decision as a row of CSV."""
    found = read_decisions(room.reader, await _filter(room, call.query))
    return await _stream(room, _csv_lines(found), found, "text/csv", "audit.csv")


async def backtest(room: HttpServer, call: HttpCall) -> BacktestReport:
    """What a policy would have done with past calls."""
    period = Period(_moment(call.body.since, "since"), _moment(call.body.until, "until"))

    def read() -> BacktestReport:
        policy: Policy = compile_policy(read_document(call.body.policy, "policy"))
        return run_backtest(room.reader, policy, period, call.body.limit)

    return await _ask_alone(room, read)


async def suggest(room: HttpServer, call: HttpCall) -> SuggestReport:
    """Rules that people's answers suggest; nothing is adopted."""
    since, at_least = _moment(call.query.since, "since"), call.query.at_least
    return await _ask_alone(room, lambda: suggest_rules(room.reader, room.host.policy, since, at_least))


async def _filter(room: HttpServer, asked: AuditQuery) -> AuditFilter:
    run_id = (await room.find(asked.run)).run_id if asked.run else ""
    return AuditFilter(_moment(asked.since, "since"), _moment(asked.until, "until"), asked.who, asked.effect, run_id)


def _moment(text: str, name: str) -> float | None:
    try:
        return parse_time(text, name)
    except Refused as error:
        raise BadRequest(str(error), 422) from None


async def _ask_alone(room: HttpServer, read: Callable[[], R]) -> R:
    """Ask what goes through the whole journal; others who do wait meanwhile, and nobody else."""
    turn: asyncio.Semaphore = room.extras.setdefault("audit", asyncio.Semaphore(1))
    async with turn:
        return await room.ask(read)


async def _stream(
    room: HttpServer, lines: Iterator[str], found: Generator[AuditDecision, None, None], media: str, name: str
) -> StreamingResponse:
    def read() -> bytes:
        return "".join(islice(lines, AT_ONCE)).encode()

    first = await _ask_alone(room, read)  # here the journal is read; what follows lies sorted already

    async def chunks() -> AsyncIterator[bytes]:
        try:
            part = first
            while part:
                yield part
                part = await room.ask(read)
        finally:
            with suppress(ValueError):  # a thread is still at it; it ends by itself
                found.close()

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(chunks(), media_type=media, headers=headers)


def _json_lines(found: Iterator[AuditDecision]) -> Iterator[str]:
    count, error = 0, None
    try:
        for one in found:
            yield msgspec.json.encode(one).decode() + "\n"
            count += 1
    except JournalError as problem:
        error = {"type": "journal_error", "message": str(problem)}
    yield msgspec.json.encode({"ok": error is None, "decisions": count, "error": error}).decode() + "\n"


def _csv_lines(found: Iterator[AuditDecision]) -> Iterator[str]:
    """The rows; a last one with the decision `error` says what could not be read."""
    try:
        yield from write_csv(found)
    except JournalError as problem:
        said = {"decision": "error", "reason": visible(str(problem))}
        yield write_row(said.get(column, "") for column in COLUMNS)


SOME = (404, 409)
ROUTES = (
    Route("GET", "/api/audit", audit, "Who allowed what, and what came of it", kind="lines", query=AuditQuery,
          errors=SOME, tag="audit", about="One decision a line, oldest first; the last line closes them."),
    Route("GET", "/api/audit.csv", audit_csv, "The audit for a spreadsheet", kind="csv", query=AuditQuery,
          errors=SOME, tag="audit"),
    Route("POST", "/api/policy/backtest", backtest, "What a policy would have done with past calls", BacktestReport,
          takes=BacktestBody, errors=SOME, tag="audit", about="It only reads; the policy in force stays as it is."),
    Route("GET", "/api/policy/suggest", suggest, "Rules that people's answers suggest", SuggestReport,
          query=SuggestQuery, errors=SOME, tag="audit", about="Text for a person to adopt; nothing is changed."),
)  # fmt: skip
