"""Who plans: a worker that may only read, a model over its wire, and what happens when neither gives a plan."""

import json
from pathlib import Path

import pytest

from detent.agents.coding.repository_survey import survey_project
from detent.core.status import Status
from tests.agents.coding.world import BAD, PLAN, configured, listing, office, project, worker
from tests.effects.llm.scripted import said, serving


async def test_a_worker_plans_in_a_copy_and_what_it_changes_there_is_thrown_away(tmp_path: Path) -> None:
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


def test_the_built_in_planner_names_files_tests_and_risks(tmp_path: Path) -> None:
    for name, text in {
        "src/calc.py": "def total(a):\n    ...\n",
        "src/other.py": "def unrelated(): ...\n",
        "db/migrations/0001.py": "def up(): ...\n",
        "tests/test_calc.py": "import calc\n",
        "node_modules/x.js": "function total() {}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = survey_project(tmp_path, "Make total() right, and `db/migrations/0001.py`")
    assert found.files == {"db/migrations/0001.py": "it is named", "src/calc.py": "it defines `total`"}
    assert found.tests == ("tests/test_calc.py",)
    assert found.risks == ("it is about migrations: what they did to data cannot be rolled back",)
    (tmp_path / "src/sums.rs").write_text("fn add() {}\n")
    assert survey_project(tmp_path, "Make add() add").files == {"src/sums.rs": "it defines `add`"}
    assert "say which files" in survey_project(tmp_path, "Improve everything").risks[0]
    assert "db/migrations/0001.py" in survey_project(tmp_path, "Look at db.migrations.0001").files
