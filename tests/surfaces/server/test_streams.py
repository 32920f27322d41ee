"""Streams: every event once and in order, whatever is cut, slow or late."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from detent.surfaces.server.progress_feed import ProgressText
from detent.surfaces.server.setting import ServerLimits, ServerSettings
from tests.surfaces.server.stage import Stage, stage

TICKS = 400


async def ticked(at: Stage, run_id: str, count: int) -> None:
    for number in range(count):
        await at.room.host.signal(run_id, "TICK", {"n": number})


async def test_a_run_is_told_from_its_first_event_to_its_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        seen = []

        async def watch() -> None:
            async for event in at.events(f"/api/runs/{run_id}/events"):
                seen.append(event)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            await ticked(at, run_id, 20)
            await at.post(f"/api/runs/{run_id}/signals", {"name": "STOP"})
        assert [event.id for event in seen] == [*range(1, 23), None]
        assert seen[-1].kind == "end"
        assert seen[-2].data["delta"]["status"] == "completed"
        assert [event.data["seq"] for event in seen[:-1]] == list(range(1, 23))


async def test_a_stream_that_was_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        seen: list[int] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ticked(at, run_id, TICKS))
            while len(seen) < TICKS + 1:  # a connection that lives for a few messages only
                headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
                taken = 0
                async for event in at.events(f"/api/runs/{run_id}/events", **headers):
                    assert event.id is not None
                    seen.append(event.id)
                    taken += 1
                    if taken >= 60 or len(seen) >= TICKS + 1:
                        break
        assert seen == list(range(1, TICKS + 2))


async def test_the_list_is_told_once_in_order_and_after_a_cut(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        cursor = (await at.get("/api/runs"))["cursor"]
        runs = [await at.start("count") for _ in range(5)]
        told: list[tuple[str, int]] = []
        async with asyncio.TaskGroup() as tasks:
            for run_id in runs:
                tasks.create_task(ticked(at, run_id, 30))
            while len(told) < 5 * 31:
                messages = 0
                async for event in at.events(f"/api/events?after={cursor}"):
                    if event.kind == "hello":
                        assert event.id == cursor
                        continue
                    assert event.id is not None
                    assert event.id > cursor
                    cursor = event.id
                    told += [(run_id, seq) for run_id, seq in event.data["events"]]
                    assert {line["run_id"] for line in event.data["runs"]} == {one for one, _ in event.data["events"]}
                    messages += 1
                    if messages == 3 or len(told) >= 5 * 31:
                        break
        for run_id in runs:
            assert [seq for one, seq in told if one == run_id] == list(range(1, 32))


async def test_a_decided_question_disappears_for_everybody_who_looks_at_the_list(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("form")
        two = [at.events("/api/events") for _ in range(2)]
        for stream in two:
            assert (await anext(stream)).kind == "hello"
        await at.post(f"/api/runs/{run_id}/contracts/working/ask/1/answer", {"data": {"count": 1}})
        for stream in two:
            (line,) = (await anext(stream)).data["runs"]
            assert (line["run_id"], line["status"], line["waiting"]) == (run_id, "completed", [])
            await stream.aclose()  # type: ignore[attr-defined]


async def test_what_an_effect_says_is_heard_at_once_and_not_kept_after_its_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("talk")  # it speaks when it is told to, and again, until it is let go
        stream = at.events(f"/api/runs/{run_id}/events")
        heard = []
        async for event in stream:
            heard.append(event)
            if event.kind == "entry" and event.data["status"] == "running":
                (tmp_path / "speak").touch()
            if event.kind == "progress":
                (tmp_path / "go").touch()
        said = [event for event in heard if event.kind == "progress"]
        assert said[0].id is None
        assert said[0].data == {"contract_id": "working/talk/1", "data": {"text": "one"}}
        assert [event.kind for event in heard][-1] == "end"
        later = [event.kind async for event in at.events(f"/api/runs/{run_id}/events")]
        assert "progress" not in later


async def test_whoever_comes_late_hears_what_was_said_so_far_and_then_goes_on_live(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("talk")
        path = f"/api/runs/{run_id}/events"
        (tmp_path / "speak").touch()
        heard = 0
        async for event in at.events(path):  # nobody listened when the first word was said, or it came at once
            heard += event.kind in ("progress", "said")
            if heard == 3:
                break
        late = at.events(path, **{"Last-Event-ID": "1"})  # as after a cut: entries go on, words are told again in one
        first = await anext(late)
        assert (first.kind, first.id, first.data["contract_id"]) == ("said", None, "working/talk/1")
        (word,) = first.data["data"]  # the pieces of one text
        assert word["text"].startswith("one" * 3)
        assert (await anext(late)).data == {"contract_id": "working/talk/1", "data": {"text": "one"}}
        (tmp_path / "go").touch()
        assert [event.kind async for event in late if event.kind != "progress"] == ["entry", "end"]
        assert {event.kind async for event in at.events(path)} == {"entry", "end"}


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ([{"text": "a"}, {"text": "b"}, {"text": "c"}], [{"text": "abc"}]),
        ([{"text": "a", "stream": "stdout"}, {"text": "b", "stream": "stdout"}], None),
        ([{"text": "a"}, {"percent": 5}, {"text": "b"}], None),
        ([{"text": "x" * 40_000}, {"text": "y" * 40_000}], [{"text": "x" * 25_536 + "y" * 40_000}]),
        ([{"n": number} for number in range(600)], [{"n": number} for number in range(100, 600)]),
        (
            [{"n": number, "much": "z" * 90_000} for number in range(9)],
            [{"n": n, "much": "z" * 90_000} for n in (7, 8)],
        ),
    ],
)
def test_what_is_kept_of_words_is_bounded(words: list[dict[str, Any]], kept: list[dict[str, Any]] | None) -> None:
    spoken = ProgressText()
    for word in words:
        spoken.add(word, len(str(word)))
    assert spoken.words == (words if kept is None else kept)


async def test_a_reader_that_does_not_read_costs_nothing_and_misses_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port, limit=2**20)
        writer.write(f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        for number in range(700):  # 20 MB: more than any buffer on the way holds
            await at.room.host.signal(run_id, "TICK", {"n": number, "text": "x" * 30_000})
        feed = at.room.feeds.runs[run_id]
        assert sum(len(frame.body) for frame in feed._kept) < 2 * 1024 * 1024
        await at.room.host.signal(run_id, "STOP")
        seen = []
        while True:
            line = await reader.readuntil(b"\n")
            if line.startswith(b"id: "):
                seen.append(int(line[4:]))
            if line.startswith(b"event: end"):
                break
        writer.close()
        assert seen == list(range(1, 703))


async def test_a_quiet_stream_gives_signs_of_life(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(heartbeat_seconds=0.1))) as at:
        run_id = await at.start("count")
        for path in ("/api/events", f"/api/runs/{run_id}/events"):
            async with at.client.stream("GET", path) as answer:
                beats = 0
                async for line in answer.aiter_lines():
                    beats += line == ": beat"
                    if beats == 3:
                        break
                assert beats == 3


async def test_streams_have_a_limit_and_others_go_on(tmp_path: Path) -> None:
    async with stage(tmp_path, ServerSettings(limits=ServerLimits(streams=3))) as at:
        run_id = await at.start("count")
        streams = [at.events("/api/events") for _ in range(3)]
        for stream in streams:
            await anext(stream)
        for path in ("/api/events", f"/api/runs/{run_id}/events"):
            refused = await at.get(path, 429)
            assert "3 streams" in refused["error"]["message"]
        assert (await at.get("/healthz"))["streams"] == 3
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        while (await at.get("/healthz"))["streams"]:
            pass
        again = at.events("/api/events")
        assert (await anext(again)).kind == "hello"
        await again.aclose()  # type: ignore[attr-defined]


async def test_a_place_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        for said in ("-1", "abc", "1.5", "9" * 30, "٣"):
            answer = await at.client.get("/api/events", headers={b"Last-Event-ID": said.encode()})
            assert answer.status_code == 400, said
        await at.get("/api/events?after=-1", 422)
        await at.get("/api/runs/nobody/events", 404)


async def test_the_html_of_a_cell_is_clean_wherever_it_is_shown_and_whole_in_the_export(tmp_path: Path) -> None:
    evil = "<table onclick=x><tr><td>1</td></tr></table><script>x</script>"
    clean = "<table><tbody><tr><td>1</td></tr></tbody></table>"
    async with stage(tmp_path) as at:
        run_id = await at.start("cell", html=evil)
        heard: list[Any] = []
        for late in (False, True):  # one who heard it said, and one who was told of it
            async for event in at.events(f"/api/runs/{run_id}/events"):
                if event.kind in ("progress", "said"):
                    heard += event.data["data"] if event.kind == "said" else [event.data["data"]]
                    break
            assert heard[-1]["output"]["data"] == {"text/html": clean}, late
        (tmp_path / "go").touch()
        told = [event.data async for event in at.events(f"/api/runs/{run_id}/events") if event.kind == "entry"]
        page = await at.get(f"/api/runs/{run_id}/log")
        one = await at.get(f"/api/runs/{run_id}/log/{page['entries'][-1]['seq']}")
        for entry in (told[-1], page["entries"][-1], one):
            (cell,) = entry["event"]["result"]["changes"]["cells"]
            assert cell["outputs"][0]["data"] == {"text/html": clean}
        export = await at.client.get(f"/api/runs/{run_id}/log/export")
        assert evil in export.text.replace("\\", "")
