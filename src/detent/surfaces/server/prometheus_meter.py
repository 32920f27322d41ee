"""What a monitor reads: counters of the journal and of this process, in the format of Prometheus."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from detent.surfaces.server.question_index import DeskFilter

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

Total = tuple[str, str, str, int, float]  # machine, what, name, how often, how much
SPREADS = {
    "ran": ("detent_run_duration_seconds", "How long runs took that have ended", ("machine",)),
    "stayed": ("detent_state_duration_seconds", "How long runs stayed in a state", ("machine", "state")),
    "asked": ("detent_question_wait_seconds", "How long questions waited for people", ("machine", "action")),
}
COUNTS = {
    "started": ("detent_runs_started", "Runs that began", ("machine",)),
    "ended": ("detent_runs_ended", "Runs that ended, by how", ("machine", "status")),
}
SUMS = {
    "cost": ("detent_cost_usd", "What calls of models cost, as far as it is known"),
    "tokens": ("detent_tokens", "Tokens that calls of models used"),
}


class Meter:
    """The figures of one server."""

    def __init__(self, room: "HttpServer") -> None:
        self._room = room
        self._totals: Sequence[Total] = ()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._requests = Counter(
            "detent_http_requests",
            "Requests that were answered",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "detent_http_request_seconds",
            "How long answers took; streams are left out",
            ("method", "route"),
            registry=self.registry,
        )
        self.registry.register(self)  # all that is asked of it is `collect`

    def note(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """One request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(method, route).observe(seconds)

    def expose(self, totals: Sequence[Total]) -> tuple[str, str]:
        """Everything as text, and the type of that text."""
        self._totals = totals
        return generate_latest(self.registry).decode(), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """What the journal says, when it is asked."""
        from importlib.metadata import version

        yield InfoMetricFamily("detent", "Which detent this is", {"version": version("detent")})
        yield from self._of_journal()
        desk = self._room.desk.read(DeskFilter(), limit=1)
        oldest = max(0.0, time.time() - desk.lines[0].since) if desk.lines else 0.0
        for name, about, value in (
            ("detent_open_questions", "Questions that wait for people now", desk.total),
            ("detent_oldest_question_seconds", "How long the oldest of them has waited", oldest),
            ("detent_streams", "Streams that are open", self._room.streams),
            ("detent_is_holder", "Whether this process drives the runs", int(self._room.host.is_holder)),
        ):
            yield GaugeMetricFamily(name, about, value)
        yield CounterMetricFamily("detent_events", "Events in the journal", self._room.reader.cursor())

    def _of_journal(self) -> Iterator[Metric]:
        for what, (metric, about, labels) in COUNTS.items():
            counted = CounterMetricFamily(metric, about, labels=labels)
            for machine, _, name, count, _ in self._list_rows(what):
                counted.add_metric([machine, name][: len(labels)], count)
            yield counted
        for what, (metric, about) in SUMS.items():
            summed = CounterMetricFamily(metric, about, labels=("machine",))
            for machine, _, _, _, total in self._list_rows(what):
                summed.add_metric([machine], total)
            yield summed
        for what, (metric, about, labels) in SPREADS.items():
            spread = SummaryMetricFamily(metric, about, labels=labels)
            for machine, _, name, count, total in self._list_rows(what):
                spread.add_metric([machine, name][: len(labels)], count, total)
            yield spread

    def _list_rows(self, what: str) -> Iterator[Total]:
        return (row for row in self._totals if row[1] == what)
