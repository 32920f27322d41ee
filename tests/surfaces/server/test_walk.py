"""How much the server folds to answer: what memory has is not folded again."""

from pathlib import Path
from typing import Any

import pytest

from bench import walk
from detent.core import engine
from detent.host.parts import fold
from detent.host.parts import loaded_run as live
from tests.surfaces.server.stage import Stage, stage


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were folded, once for each event."""
    seen: list[str] = []

    def counted(machine: Any, run: Any, event: Any) -> Any:
        seen.append(run.id)
        return engine.advance(machine, run, event)

    for module in (fold, live):
        monkeypatch.setattr(module, "advance", counted)
    return seen


async def asked(at: Stage) -> tuple[str, dict[str, Any]]:
    run_id = await at.start("mail", to="kim@example.org")
    run = await at.post(f"/api/runs/{run_id}/signals", {"name": "SEND"})
    (question,) = run["waiting"]
    return run_id, question


def test_approving_from_the_page_folds_at_most_twice() -> None:
    tally = walk.count()
    assert 0 < tally.folds <= walk.FOLDS_MAX
    assert tally.calls <= 2 * walk.CALLS_MAX  # a loop that is busy with other things calls a little more


async def test_whoever_approves_from_the_inbox_has_nothing_folded_but_the_answer(
    tmp_path: Path, folds: list[str]
) -> None:
    async with stage(tmp_path) as at:
        run_id, question = await asked(at)
        (item,) = (await at.get("/api/inbox"))["items"]
        folds.clear()
        path = f"/api/runs/{run_id}/contracts/{item['question']['contract_id']}/answer"
        run = await at.post(path, {"approved": True, "call_hash": question["call_hash"]})
        assert len(folds) <= 2  # the answer, and what the mail gave if that was quicker
        assert [entry["seq"] for entry in run["why"]] == sorted(entry["seq"] for entry in run["why"])
        assert run["why"][-1]["seq"] == run["seq"]


async def test_a_run_that_is_looked_at_again_is_not_folded_again(tmp_path: Path, folds: list[str]) -> None:
    async with stage(tmp_path) as at:
        run_id, _ = await asked(at)
        before = await at.get(f"/api/runs/{run_id}")
        folds.clear()
        assert await at.get(f"/api/runs/{run_id}") == before
        assert folds == []


async def test_a_run_that_has_ended_is_still_at_hand(tmp_path: Path, folds: list[str]) -> None:
    async with stage(tmp_path) as at:
        run_id = await at.start("count")
        await at.post(f"/api/runs/{run_id}/signals", {"name": "STOP"})
        folds.clear()
        run = await at.get(f"/api/runs/{run_id}")
        assert (run["status"], run["state"], folds) == ("completed", "off", [])
