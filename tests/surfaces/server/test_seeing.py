"""Seeing where the time of runs went: bars, two runs side by side, figures over time, and what a monitor reads."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from detent.kit.run_statistics import class_of
from detent.surfaces.server.run_comparison import compare_bars
from detent.surfaces.server.setting import ServerSettings, Traces
from detent.surfaces.server.waterfall import Bar, BarSpan
from tests.effort import PATIENCE_S, examples
from tests.surfaces.server.stage import Stage, stage
from tests.surfaces.server.workflows import SIGN, write_loop

JOB = """\
name: job
input: {count: integer, fail: boolean}
states:
  begin:
    type: initial
    actions:
      - {id: say, type: log, message: "counting to {{ context.count }}"}
      - {id: count, tool: shell, effect: pure, params: {argv: [echo, "up to {{ context.count }}"]}}
  sign:
    actions:
      - {id: sign, tool: ask, approval: {question: "Go on?"}}
  think:
    actions:
      - {id: model, tool: llm, params: {messages: [{role: user, content: "Hello"}]}}
  parts:
    actions:
      - id: try
        tool: shell
        effect: idempotent
        retry: {max_retries: 1, delay: 0}
        params: {argv: [sh, -c, "exit {{ 3 if context.fail else 0 }}"]}
  done: {type: final}
  broken: {type: error}
transitions:
  - {from: begin, to: sign}
  - {from: sign, to: think}
  - {from: think, to: parts}
  - {from: parts, to: done, condition: "{{ result.try.success }}"}
  - {from: parts, to: broken, condition: "{{ not result.try.success }}"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DETENT_MODEL", "builtin:rules")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


async def finish(at: Stage, **given: Any) -> str:
    """A run of the job, signed and brought to its end."""
    run_id = await at.start("job", **given)
    asked = (await at.until(run_id, "waiting"))["waiting"][0]
    await at.post(f"/api/runs/{run_id}/contracts/{asked['contract_id']}/answer", {"approved": True})
    await at.until(run_id, "completed", "failed")
    return run_id


async def test_a_run_is_bars_over_time(folder: Path) -> None:
    async with stage(folder) as at:
        run_id = await finish(at, count=3, fail=True)
        page = await at.get(f"/api/runs/{run_id}/waterfall")
        states = [bar["name"] for bar in page["bars"] if bar["kind"] == "state"]
        assert states == ["begin", "sign", "think", "parts", "broken"]
        by_id = {bar["id"]: bar for bar in page["bars"]}
        lived = [status for status, _ in by_id["sign/sign/1"]["spans"]]
        assert lived == [
            "pending",
            "running",
            "waiting",
            "running",
            "completed",
        ]
        assert by_id["sign/sign/1"]["asks"]
        tries = [bar for bar in page["bars"] if bar["name"] == "try"]
        assert [(bar.get("attempt", 1), bar["error"]) for bar in tries] == [
            (1, "tool_failure.exit"),
            (2, "tool_failure.exit"),
        ]
        assert by_id["think/model/1"]["model"].startswith("builtin:")
        assert [line["text"] for line in page["logs"]] == ["counting to 3"]
        assert sum(page["begun"]) == page["total"] == len(page["bars"])
        assert {one["name"]: one["count"] for one in page["actions"]} == {"count": 1, "sign": 1, "model": 1, "try": 2}
        for only, names in (("asked", ["sign"]), ("failed", ["try", "try"]), ("models", ["model"])):
            found = await at.get(f"/api/runs/{run_id}/waterfall?only={only}")
            assert [bar["name"] for bar in found["bars"] if bar["kind"] != "state"] == names
            assert found["total"] == page["total"], "sums are over the whole run"
        last = await at.get(f"/api/runs/{run_id}/waterfall?offset={page['total'] - 1}&limit=5")
        assert len(last["bars"]) == 1
        assert (await at.get(f"/api/runs/{run_id}/waterfall?sort=longest"))["matching"] == page["total"]
        # What was kept for the next process is the same.
        assert [bar["id"] for bar in (await at.get(f"/api/runs/{run_id}/waterfall?find=TRY"))["bars"]] == [
            "parts/try/1",
            "parts/try/2",
        ]


async def test_a_child_run_is_a_bar_with_the_way_to_its_own(folder: Path) -> None:
    async with stage(folder) as at:
        run_id = await at.start("both")
        page = await at.get(f"/api/runs/{run_id}/waterfall?only=children")
        (kid,) = page["bars"]
        assert (await at.get(f"/api/runs/{kid['run_id']}"))["parent"].split()[0] == run_id


async def test_two_runs_stand_side_by_side(folder: Path) -> None:
    async with stage(folder) as at:
        one, same, other = [
            await finish(at, count=count, fail=fail) for count, fail in ((1, False), (1, False), (1, True))
        ]
        found = await at.get(f"/api/runs/{one}/difference?other={same}")
        assert (found["first"], found["differing"]) == (None, 0)
        found = await at.get(f"/api/runs/{one}/difference?other={other}")
        first = found["pairs"][found["first"] - found["offset"]]
        assert first["left"]["id"] == first["right"]["id"] == "parts/try/1"
        assert set(first["differs"]) >= {"input", "status", "error"}
        assert found["right"]["input"] == {"count": 1, "fail": True}
        assert [pair["right"]["name"] for pair in found["pairs"] if "left" not in pair] == ["try", "broken"]
        await at.get(f"/api/runs/{one}/difference?other=nobody", 404)
        await at.get(f"/api/runs/{one}/difference", 422)


BARS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["state", "contract"]), st.sampled_from("xy")), max_size=12
)


def bars_of(rows: list[tuple[str, Any, str]]) -> list[Bar]:
    made: dict[str, int] = {}
    bars = []
    for seq, (name, kind, gave) in enumerate(rows, 1):
        made[name] = made.get(name, 0) + 1
        bars.append(Bar(f"{name}/{kind}/{made[name]}", kind, name, seq, [BarSpan("completed", 1.0)], 2.0, gave=gave))
    return bars


@settings(max_examples=examples(100))
@given(BARS, BARS)
def test_every_bar_of_both_runs_stands_in_one_row(left: list[Any], right: list[Any]) -> None:
    ours, theirs = bars_of(left), bars_of(right)
    compared = compare_bars(ours, theirs)
    assert [pair.left.id for pair in compared.pairs if pair.left is not None] == [bar.id for bar in ours]
    assert sorted(pair.right.id for pair in compared.pairs if pair.right is not None) == sorted(
        bar.id for bar in theirs
    )
    assert (compared.first is None) == (compared.differing == 0)
    assert compare_bars(ours, ours).first is None


async def test_figures_over_time_are_counted_once(folder: Path) -> None:
    async with stage(folder) as at:
        await finish(at, count=1, fail=False)
        for _ in range(2):  # a second look counts nothing again
            found = await at.get("/api/figures?days=7")
        await finish(at, count=1, fail=True)
        await at.start("mail", to="ann")
        found = await at.get("/api/figures?days=7")
        total = {name: sum(step[name] for step in found["steps"]) for name in ("started", "ended", "failed", "asked")}
        assert total == {"started": 3, "ended": 2, "failed": 1, "asked": 2}
        assert found["ends"] == {"completed": 1, "failed": 1}
        assert [(row["machine"], row["count"]) for row in found["runs"]] == [("job", 2)]
        assert {row["name"]: row["count"] for row in found["states"]} == {
            "begin": 2, "sign": 2, "think": 2, "parts": 2, "done": 1, "broken": 1,
        }  # fmt: skip
        assert [(row["name"], row["count"]) for row in found["questions"]] == [("sign", 2)]
        assert all(row["p50"] <= row["p95"] for row in found["states"])
        assert sum(step["started"] for step in (await at.get("/api/figures?machine=mail"))["steps"]) == 1
        assert len((await at.get("/api/figures?days=1"))["steps"]) == 24
        # Made anew from the journal, they are the same.
        (folder / ".detent" / "search.db").unlink()
        assert await at.get("/api/figures?days=7") == found
        await at.get("/api/figures?days=0", 422)


@given(st.floats(0.0011, 1e8), st.floats(0.0011, 1e8))
def test_longer_times_are_in_no_lower_class(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert class_of(low) <= class_of(high)


async def test_a_monitor_reads_the_metrics_with_a_token(folder: Path) -> None:
    token = "0123456789abcdef0123"
    async with stage(folder, token=token) as at:
        assert (await at.client.get("/metrics")).status_code == 401
        at.client.headers["Authorization"] = f"Bearer {token}"
        await finish(at, count=1, fail=False)
        await at.start("plea", to="ann")
        answer = await at.client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        found = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
        assert found["detent_runs_started_total", "job"] == 1
        assert found["detent_runs_ended_total", "completed", "job"] == 1
        assert found["detent_question_wait_seconds_count", "job", "sign"] == 1
        assert found["detent_open_questions",] == 1
        assert found["detent_http_requests_total", "/api/runs", "201", "POST"] == 2


class Collector:
    """An OTLP server that keeps what it is sent, and can refuse it."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.refusals = 1
        self.has_run = threading.Event()
        self.headers: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.headers.append(self.headers.get("x-key", ""))
                outer.refusals -= 1
                if outer.refusals < 0:
                    told = ExportTraceServiceRequest.FromString(body)
                    outer.spans += [s for r in told.resource_spans for scope in r.scope_spans for s in scope.spans]
                if any(span.name == "job" for span in outer.spans):
                    outer.has_run.set()
                self.send_response(200 if outer.refusals < 0 else 400)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"


async def test_what_ends_is_sent_to_a_collector_as_spans(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent.surfaces.server.tracing.TRY_AGAIN_S", 0.01)
    monkeypatch.setenv("COLLECTOR_HEADERS", "x-key=abc")
    collector = Collector()
    wanted = ServerSettings(traces=Traces(collector.address, "COLLECTOR_HEADERS"))
    try:
        async with stage(folder, wanted) as at:
            run_id = await finish(at, count=1, fail=True)
            assert await asyncio.to_thread(collector.has_run.wait, PATIENCE_S)
    finally:
        collector.server.shutdown()
        collector.server.server_close()
    spans = {span.name: span for span in collector.spans}
    told = {name: {a.key: a.value for a in span.attributes} for name, span in spans.items()}
    assert set(collector.headers) == {"abc"}
    assert len({span.trace_id for span in collector.spans}) == 1
    assert told["job"]["detent.run_id"].string_value == run_id
    assert not spans["job"].parent_span_id
    assert spans["sign"].parent_span_id == spans["job"].span_id
    assert spans["sign ask"].parent_span_id == spans["sign"].span_id
    (model,) = [span for span in collector.spans if span.name.startswith("chat ")]
    known = {a.key: a.value for a in model.attributes}
    assert known["gen_ai.operation.name"].string_value == "chat"
    assert known["gen_ai.provider.name"].string_value == "builtin"
    assert known["gen_ai.usage.input_tokens"].int_value >= 0
    failed = [span for span in collector.spans if span.name == "try shell"]
    assert [span.status.code for span in failed] == [2, 2]
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)


SLOW = """\
name: slow
input: {path: string}
states:
  work:
    type: initial
    actions:
      - id: work
        tool: shell
        effect: pure
        params: {argv: [sh, -c, "printf '\\\\033[32mbegun'; while [ ! -e {{ context.path }} ]; do sleep 0.02; done"]}
  done: {type: final}
transitions: [{from: work, to: done}]
"""


async def test_what_a_program_writes_is_heard_while_it_runs(folder: Path) -> None:
    (folder / "slow.yaml").write_text(SLOW)
    async with stage(folder) as at:
        run_id = await at.start("slow", path=str(folder / "go"))
        async for event in at.events(f"/api/runs/{run_id}/events"):
            if event.kind in ("progress", "said"):
                said = event.data["data"] if isinstance(event.data["data"], list) else [event.data["data"]]
                assert said[0]["text"].endswith("begun")
                assert "\x1b[32m" in said[0]["text"], "with its colours"
                break
        (page,) = [await at.get(f"/api/runs/{run_id}/waterfall?find=work/work")]
        assert [bar["spans"][-1][0] for bar in page["bars"] if bar["kind"] == "contract"] == ["running"]
        assert not page["is_over"]
        (folder / "go").touch()
        await at.until(run_id, "completed")


WEIGH = '{id: weigh, tool: shell, effect: pure, params: {argv: [test, "{{ branch.item }}", "!=", bad]}}'


async def until_marked(at: Stage, run_id: str, marks: str) -> Any:
    """The run, once its lanes stand like this."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await at.get(f"/api/runs/{run_id}")
            if found["lanes"] and found["lanes"][0]["marks"] == marks:
                return found
            await asyncio.sleep(0.01)


async def test_a_loop_is_seen_item_by_item_now_and_as_it_was(folder: Path) -> None:
    (folder / "packing.yaml").write_text(write_loop(WEIGH, SIGN, concurrency=2, tolerate=9))
    async with stage(folder) as at:
        run_id = await at.start("packing", items=["bad", "one", "two", "three", "four"])
        now = await until_marked(at, run_id, "fwwpp")
        (found,) = now["lanes"]
        assert (found["action"], found["total"], found["begun"], found["failed"]) == ("boxes", 5, 3, 1)
        page = await at.get(f"/api/runs/{run_id}/lanes")
        assert [lane["status"] for lane in page["lanes"]] == ["failed", "waiting", "waiting", "pending", "pending"]
        assert [lane["name"] for lane in page["lanes"]] == ["bad", "one", "two", "three", "four"]
        assert page["lanes"][0]["error"] == "tool_failure.exit"
        first = page["lanes"][1]["contract_id"]
        assert first in [one["contract_id"] for one in now["waiting"]]
        await at.post(f"/api/runs/{run_id}/contracts/{first}/answer", {"approved": True})
        await until_marked(at, run_id, "fcwwp")
        only = await at.get(f"/api/runs/{run_id}/lanes?only=waiting&limit=1&offset=1")
        assert ([lane["name"] for lane in only["lanes"]], only["matching"]) == (["three"], 2)
        was = await at.get(f"/api/runs/{run_id}/lanes?at={now['seq']}")
        assert was["lanes"] == page["lanes"]
        none = await at.get(f"/api/runs/{run_id}/lanes?path=/boxes.1")  # it has none of its own: an answer, no error
        assert (none["sum"], none["lanes"], none["matching"]) == (None, [], 0)


async def test_a_part_of_a_long_run_is_shown_at_once_and_more_with_each_look(folder: Path) -> None:
    async with stage(folder) as at:
        run_id = await finish(at, count=1, fail=True)
        for address in ("waterfall", "graph", "contracts"):
            whole = await at.get(f"/api/runs/{run_id}/{address}")
            last, part = whole["upto"], {"upto": 0}
            while part["upto"] < last:
                part = await at.get(f"/api/runs/{run_id}/{address}?within=0.000001")
            assert part == whole, address
        lives = await at.get(f"/api/runs/{run_id}/contracts?newest=true&limit=2")
        assert [one["contract"]["id"] for one in lives["contracts"]] == ["parts/try/1", "parts/try/2"]
        assert (lives["offset"], lives["total"]) == (3, 5)
