"""The audit, backtests and suggestions over HTTP: they only read, and give what the command line gives."""

import csv
import io
import json
import sqlite3
from pathlib import Path

from tests.surfaces.server.stage import Stage, stage


async def decide(at: Stage, to: str, approved: bool) -> str:
    run_id = await at.start("plea", to=to)
    waiting = (await at.get(f"/api/runs/{run_id}"))["waiting"][0]
    await at.post(f"/api/runs/{run_id}/contracts/{waiting['contract_id']}/answer", {"approved": approved, "by": "ann"})
    await at.until(run_id, "completed", "rejected")
    return run_id


async def test_the_audit_streams_lines_that_are_closed(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        good, bad = await decide(at, "bob", True), await decide(at, "=eve", False)
        lines = [json.loads(line) for line in (await at.client.get("/api/audit")).text.splitlines()]
        assert lines[-1] == {"ok": True, "decisions": 2, "error": None}
        found = [(one["run_id"], one["answer"], one["by"], one["outcome"], one["channel"]) for one in lines[:-1]]
        assert found == [(good, "approve", "ann", "done", "http"), (bad, "reject", "ann", "refused", "http")]
        only = await at.client.get(f"/api/audit?run={bad}&who=ann&effect=mail.*&since=1h")
        assert len(only.text.splitlines()) == 2
        sheet = await at.client.get("/api/audit.csv?since=1h")
        assert sheet.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(sheet.text)))
        assert [row["arguments"] for row in rows] == ['{"to": "bob"}', '{"to": "=eve"}']
        assert "give a length of time" in (await at.get("/api/audit?since=soon", 422))["error"]["message"]
        await at.get("/api/audit?run=nothing", 404)


async def test_a_policy_is_tested_and_rules_suggested_without_changing_anything(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        bad = await decide(at, "eve", False)
        before = await at.get("/api/runs")
        law = "rules: [{name: all, decision: allow, tool: mail.*}]"
        report = await at.post("/api/policy/backtest", {"policy": law, "since": "1h"})
        assert (report["calls"], report["dangerous_count"], report["now"]["allow"]) == (1, 1, 1)
        assert report["dangerous"][0]["run_id"] == bad
        broken = await at.post("/api/policy/backtest", {"policy": "rules: [{name: a, decision: allw}]"}, 422)
        assert broken["error"]["problems"][0]["line"] == 1
        assert await at.get("/api/policy/suggest?at_least=2") == {"suggestions": [], "yaml": ""}
        await at.get("/api/policy/suggest?at_least=1", 422)
        assert await at.get("/api/runs") == before


async def test_a_damaged_run_is_told_in_the_last_line(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        bad = await decide(at, "bob", True)
        await decide(at, "eve", False)
    with sqlite3.connect(tmp_path / ".detent" / "journal.db") as db:
        db.execute(
            "update events set hash = x'00' where seq = 2 and run = (select no from runs where run_id = ?)", (bad,)
        )
    async with stage(tmp_path) as at:
        *found, end = [json.loads(line) for line in (await at.client.get("/api/audit")).text.splitlines()]
        assert (len(found), end["ok"], end["error"]["type"]) == (1, False, "journal_error")
        rows = list(csv.DictReader(io.StringIO((await at.client.get("/api/audit.csv")).text)))
        assert [row["decision"] for row in rows] == ["answer", "error"]
