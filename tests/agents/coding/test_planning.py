"""Who plans: a worker that may only read, a model over its wire, and what happens when neither gives a plan."""

import json
from pathlib import Path

import pytest

from detent.core.status import Status
from tests.agents.coding.world import BAD, PLAN, configured, listing, office, project, worker
from tests.effects.llm.scripted import said, serving


async def test_a_worker_plans_and_what_it_changed_meanwhile_is_put_back(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    before = listing(root)
    script = f"assert os.environ['DETENT_ROLE'] == 'plan'\ncalc.write_text('ruined')\nsay(status='done', plan={PLAN!r})"
    async with office(root) as job:
        run = await job.start(configured(worker(tmp_path, script), planner={"use": "worker"}))
        assert run.state == "CONFIRMING"
        plan = (await job.job()).plan
    assert plan is not None
    assert plan.body.task("T-001").acceptance == ("2 + 3 is 5",)
    assert listing(root) == before
    assert (root / ".detent/code/plan.md").read_text().startswith("---\nrun: job\n")


async def test_a_planners_questions_are_answered_before_it_plans(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = f"""
if "the blue one" in sys.stdin.read(): print({PLAN!r})
else: print(json.dumps({{"questions": ["Which one?"]}}))
"""
    async with office(root) as job:
        run = await job.start(configured(worker(tmp_path, script), planner={"use": "worker"}))
        assert (run.state, run.status) == ("PLANNING", Status.WAITING)
        (contract,) = run.waiting
        assert contract.question is not None
        assert "1. Which one?" in contract.question.text
        await job.host.answer("job", contract.id, {"data": {"answers": ["the blue one"]}, "by": "kim"})
        run = await job.host.settled("job")
        assert run.state == "CONFIRMING"


async def test_no_plan_blocks_and_can_be_wished_for_again(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = f"print({PLAN!r} if 'with tasks' in sys.stdin.read() else 'I would rather not.')"
    async with office(root) as job:
        run = await job.start(configured(worker(tmp_path, script), planner={"use": "worker"}))
        assert run.state == "BLOCKED"
        blocked = (await job.job()).blocked
        assert blocked is not None
        assert "I would rather not." in blocked.detail
        run = await job.say("USER_MODIFY", wish="with tasks")
        assert run.state == "CONFIRMING"
        run = await job.say("USER_CANCEL")
        assert run.output["outcome"] == "cancelled"


async def test_a_model_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path)
    async with serving(said("```markdown\n", PLAN, "```")) as server:
        monkeypatch.setenv("DETENT_MODEL", "openai:gpt-test")
        monkeypatch.setenv("DETENT_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        async with office(root) as job:
            run = await job.start(configured(worker(tmp_path, "pass"), planner={"use": "model"}))
            assert run.state == "CONFIRMING", (await job.job()).blocked
            plan = (await job.job()).plan
        assert plan is not None
        assert plan.body.title == "Mend the calculator"
        asked = json.dumps(server.asked[0].body)
        assert "Mend it" in asked
        assert "calc.py" in asked
