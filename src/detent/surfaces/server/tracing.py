"""Traces: what runs did as spans of OpenTelemetry, sent to a collector over OTLP.

A run is a span, the states it was in are its parts, and contracts are parts of those; a child run hangs under the
contract that it carries out. Spans are made of what the journal holds, when the thing they are about is over. Their ids
are digests of what they are about, so what is sent again after a crash is the same span, and nothing has to be kept.
"""

import asyncio
import hashlib
import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from detent.core.status import TERMINAL
from detent.errors import DetentError, Refused
from detent.host.reading import Step, Summary
from detent.host.system_run import HOUSEKEEPING
from detent.kit.agent import owner
from detent.surfaces.server.bookmark import read_on
from detent.surfaces.server.setting import Traces, read_headers
from detent.surfaces.server.waterfall import Bar, RunBars

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from detent.surfaces.server.server_context import HttpServer

SPANS_MAX = 500  # in one message
TRY_AGAIN_S = 5.0
TIMEOUT_S = 10.0
BAD = ("failed", "rejected")


class RunTracer:
    """Sends the spans of everything that ends."""

    def __init__(self, room: "HttpServer", settings: Traces) -> None:
        self._room, self._settings = room, settings
        self._exporter = _open_exporter(settings)

    async def run(self) -> None:
        """Go on until cancelled."""
        await read_on(self._room, "traces", self._look)

    async def _look(self, steps: Sequence[Step]) -> None:
        spans = await self._room.ask(self._list_spans, steps)
        for at in range(0, len(spans), SPANS_MAX):
            await self._send(spans[at : at + SPANS_MAX])

    async def _send(self, spans: "Sequence[ReadableSpan]") -> None:
        """Send until somebody has taken them: the bookmark does not move before."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        is_told = False
        while await asyncio.to_thread(self._exporter.export, spans) is not SpanExportResult.SUCCESS:
            if not is_told:
                sys.stderr.write("detent traces: the collector takes nothing; trying again\n")
                is_told = True
            await asyncio.sleep(TRY_AGAIN_S)

    def _list_spans(self, steps: Sequence[Step]) -> "list[ReadableSpan]":
        moved: dict[str, list[int]] = {}
        for step in steps:
            if step.name not in HOUSEKEEPING and step.name in (self._settings.machines or (step.name,)):
                moved.setdefault(step.run_id, []).append(step.seq)
        spans: list[ReadableSpan] = []
        for run_id, seqs in moved.items():
            try:
                spans += self._spans_of(run_id, min(seqs), max(seqs))
            except DetentError:
                continue  # a damaged run must not keep the others back
        return spans

    def _spans_of(self, run_id: str, first: int, last: int) -> "list[ReadableSpan]":
        """The spans of what ended with one of these events."""
        reader = self._room.reader
        bars, summary = reader.project(run_id, RunBars), reader.summary(run_id)
        over, states = list(bars.ended), [bar for bar in bars.bars if bar.kind == "state"]
        ended = over[bisect_left(over, first, key=lambda bar: bar.end_seq) :]
        ended = [bar for bar in ended if bar.end_seq <= last]
        is_whole = summary is not None and summary.status in TERMINAL and first <= summary.seq <= last
        if summary is None or not (ended or is_whole):
            return []
        made = SpanMaker(summary, reader.first_of(run_id), self._settings.service)
        spans = [made.of_bar(bar, states) for bar in ended]
        return [*spans, made.of_run()] if is_whole else spans


class SpanMaker:
    """Makes the spans of one run."""

    def __init__(self, run: Summary, first_run: str, service: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._run = run
        self._trace = _number(f"trace {first_run}", 16)
        self._resource = Resource.create({"service.name": service})
        self._scope = InstrumentationScope("detent")

    def of_run(self) -> "ReadableSpan":
        """The span of the whole run."""
        run = self._run
        parent = ""
        if run.parent:
            parent_run, _, contract = run.parent.partition(" ")
            parent = f"{parent_run} {contract}"
        agent = owner(run.source, run.parent)
        known = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent} if agent else {}
        attributes = {
            "detent.run_id": run.run_id,
            "detent.machine": run.name,
            "detent.digest": run.machine,
            "detent.status": run.status.value,
            "detent.started_by": run.by,
            "detent.cost_usd": run.cost_usd,
            **known,
        }
        name = f"invoke_agent {agent}" if agent else run.name
        error = run.error["type"] if run.error is not None and run.status.value in BAD else ""
        return self._make(name, run.run_id, parent, (run.started_at, run.updated_at), attributes, error=error)

    def of_bar(self, bar: Bar, states: Sequence[Bar]) -> "ReadableSpan":
        """The span of a state or of a contract."""
        id = self._id(bar)
        attributes: dict[str, Any] = {"detent.run_id": self._run.run_id, "detent.status": bar.status}
        events = [(span.status, span.at) for span in bar.spans[1:]]
        times = (bar.begin, bar.end if bar.end is not None else bar.begin)
        if bar.kind == "state":
            attributes |= {"detent.state": bar.name, "detent.left_by": bar.left_by}
            return self._make(bar.name, id, self._run.run_id, times, attributes)
        holder = next((one for one in reversed(states) if one.seq <= bar.seq), None)
        attributes |= {
            "detent.contract_id": bar.id,
            "detent.action": bar.name,
            "detent.effect": bar.effect,
            "detent.attempt": bar.attempt,
            "detent.asked": bar.asks,
            **({"detent.lane": bar.lane} if bar.lane else {}),
            **({"detent.cost_usd": bar.cost_usd} if bar.cost_usd else {}),
            **_describe_model(bar),
        }
        parent = self._id(holder) if holder is not None else self._run.run_id
        error = (bar.error or bar.status) if bar.status in BAD else ""
        name = f"chat {_split_model(bar.model)[1]}" if bar.model else f"{bar.name} {bar.effect}".strip()
        return self._make(name, id, parent, times, attributes, error=error, events=events, is_call=bool(bar.model))

    def _id(self, bar: Bar) -> str:
        return f"{self._run.run_id} {bar.id}"

    def _make(
        self,
        name: str,
        id: str,
        parent: str,
        times: tuple[float, float],
        attributes: dict[str, Any],
        *,
        error: str = "",
        events: Iterable[tuple[str, float]] = (),
        is_call: bool = False,
    ) -> "ReadableSpan":
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def place(of: str) -> SpanContext:
            return SpanContext(self._trace, _number(f"span {of}", 8), is_remote=False, trace_flags=TraceFlags(1))

        return ReadableSpan(
            name=name,
            context=place(id),
            parent=place(parent) if parent else None,
            resource=self._resource,
            attributes={**attributes, **({"error.type": error} if error else {})},
            events=[Event(status, timestamp=_nanoseconds(at)) for status, at in events],
            kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.UNSET),
            start_time=_nanoseconds(times[0]),
            end_time=_nanoseconds(max(times)),
            instrumentation_scope=self._scope,
        )


def _describe_model(bar: Bar) -> dict[str, Any]:
    """A model call in the words of the GenAI conventions."""
    if not bar.model:
        return {}
    provider, model = _split_model(bar.model)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": int(bar.tokens_in),
        "gen_ai.usage.output_tokens": int(bar.tokens_out),
    }


def _split_model(spec: str) -> tuple[str, str]:
    provider, _, model = spec.partition(":")
    return (provider, model) if model else ("unknown", spec)


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size]) or 1


def _nanoseconds(at: float) -> int:
    return round(at * 1_000_000) * 1000  # the journal knows microseconds


def _open_exporter(settings: Traces) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise Refused("`traces` needs the extra `otel`: pip install 'detent[otel]'") from None
    return OTLPSpanExporter(endpoint=settings.to, headers=read_headers(settings.headers_env), timeout=TIMEOUT_S)
