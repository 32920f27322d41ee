"""Planners: a file the user gives, a worker that may only read, or nobody. A model is asked by the machine itself."""

import asyncio
import json
from pathlib import Path

import msgspec

from detent.agents.coding import prompt
from detent.agents.coding.plan import Task, TaskPlan, write_plan
from detent.agents.coding.port import Assignment, Draft, Hear, PlanBrief, Worker, WorkerReport
from detent.agents.coding.repository_survey import survey_project
from detent.errors import Refused

FILE_MAX = 2 * 1024 * 1024


class FilePlanner:
    """The plan is a file that somebody has written."""

    name = "file"

    def __init__(self, file: str) -> None:
        self._file = file

    async def plan(self, brief: PlanBrief, hear: Hear) -> Draft:
        """Read it."""
        try:
            body = _bytes(Path(brief.root, self._file))
        except OSError as error:
            return Draft(error=f"the plan {self._file} cannot be read: {error.strerror}")
        if len(body) > FILE_MAX:
            return Draft(error=f"the plan {self._file} has more than {FILE_MAX:,} bytes")
        hear("plan", f"read {self._file}")
        return Draft(text=body.decode("utf-8", "replace"))


class SinglePlanner:
    """No model and no agent plans: the requirement is one task, with what the repository says about it."""

    name = "single"

    async def plan(self, brief: PlanBrief, hear: Hear) -> Draft:
        """One task; the files and tests that it seems to be about, and what is risky about them."""
        lines = [line for line in (brief.requirement, brief.wish) if line]
        title, _, about = brief.requirement.strip().partition("\n")
        about = "\n".join([about.strip(), brief.wish]).strip()
        found = await asyncio.to_thread(survey_project, Path(brief.root), "\n".join(lines))
        plan = TaskPlan(
            title=title[:200],
            goal="\n".join(lines),
            scope=found.scope,
            risks=found.risks,
            tasks=(Task("T-001", title[:200], about=about),),
        )
        hear("plan", f"the requirement is the only task; it seems to be about {len(found.files)} files")
        return Draft(text=write_plan(plan, {"planner": self.name}))


class WorkerPlanner:
    """A worker asked for a plan; whoever calls it makes sure that nothing was changed."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def name(self) -> str:
        """The worker's own name."""
        return self._worker.name

    async def plan(self, brief: PlanBrief, hear: Hear) -> Draft:
        """Ask it."""
        assignment = Assignment(
            run_id=brief.run_id,
            task_id="PLAN",
            attempt=brief.revision,
            root=brief.root,
            folder=brief.folder,
            prompt=prompt.for_planner(brief),
            role="plan",
            limits=brief.limits,
            key=brief.key,
            sandbox=brief.sandbox,
            tree=brief.tree,
            project=brief.project,
        )
        report = await self._worker.work(assignment, hear)
        if report.status == "question":
            return _add_cost(Draft(questions=(report.question,)), report)
        text = report.plan or _output(report.output_file)
        if report.ended != "exited" or not text.strip():
            said = report.error or report.summary or f"it ended with {report.exit} and said nothing"
            error = f"`{self.name}` gave no plan: {said}"
            return _add_cost(Draft(error=error), report)
        return _add_cost(parse_draft(text), report)


def _add_cost(draft: Draft, report: WorkerReport) -> Draft:
    used = {"cost_usd": report.cost_usd, "tokens": report.tokens, "unpriced_calls": report.unpriced_calls}
    return msgspec.structs.replace(draft, **used)


def _output(file: str) -> str:
    """What a planner wrote, when it used its output instead of its result file."""
    try:
        return _bytes(Path(file)).decode("utf-8", "replace")
    except OSError:
        return ""


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_MAX + 1)


def parse_draft(text: str) -> Draft:
    """A plan or questions in what a model or an agent said."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```"):
        body = body.partition("\n")[2].rpartition("```")[0].strip()
    if body.startswith("{"):
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        asked = value.get("questions") if isinstance(value, dict) else None
        if isinstance(asked, list) and asked:
            questions = tuple(str(item)[:2000] for item in asked[:10])
            return Draft(questions=questions)
    return Draft(text=body)


def refusal(error: Refused, text: str) -> str:
    """Why something is no plan, with its beginning, so that a person sees what came."""
    shown = " ".join(text.split())[:300]
    return f"{error} (it begins: {shown})" if shown else str(error)
