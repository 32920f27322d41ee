"""The effects of PLANNING and CONFIRMING: brief the planner, take its plan, present it, read it again when edited."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import (
    active_context,
    file_role,
    known_failure,
    plan,
    plan_parser,
    prompt,
    repository_survey,
    worker_process,
    worker_registry,
)
from detent.agents.coding import settings as configuration
from detent.agents.coding.clean_checkout import list_outside
from detent.agents.coding.effect_context import Stage, now, open_copy, set_stage
from detent.agents.coding.job import Blocked, Job, Planned, add_note
from detent.agents.coding.job_sandbox import arrange
from detent.agents.coding.knowledge import describe_knowledge
from detent.agents.coding.planner import FilePlanner, SinglePlanner, WorkerPlanner, parse_draft, refusal
from detent.agents.coding.port import Draft, PlanBrief, TaskPlanner, limits_of, usage_of
from detent.agents.coding.workspace import checkout, checkpoint_record
from detent.core.contract import Contract
from detent.core.effect_type import Outcome, effect
from detent.core.question import Question
from detent.errors import DetentError, Refused

PLAN_FILE, QUESTIONS = "plan.md", "questions.json"


def plan_path(root: str) -> Path:
    """Where the plan of the active job is."""
    return Path(root) / ".detent" / "code" / PLAN_FILE


@effect("code.brief", kind="idempotent", timeout_s=0.0)
async def brief(contract: Contract) -> Outcome:
    """Take in the requirement or the wish; where a model plans, write what it is asked."""
    async with set_stage(contract) as stage:
        job, asked = stage.job, stage.job.asked
        if asked is not None and asked.name == "USER_INPUT_REQUIREMENT":
            given = str(asked.data.get("requirement") or "").strip()
            job = replace(job, requirement=given[: plan.TEXT_MAX], wish="", answers=[], by=asked.by, started_at=now())
            job = replace(job, read_worker=_digest_of_worker(job.root))
        elif asked is not None and asked.name == "USER_MODIFY":
            found, names = configuration.read_again(Path(job.root), job.settings, job.read_worker)
            if names and not job.is_confirmed:
                job = add_note(replace(job, settings=found), now(), f"settings read again: {', '.join(names)}")
            job = replace(job, wish=str(asked.data.get("wish") or "").strip()[: plan.TEXT_MAX], answers=[])
        job = replace(job, asked=None, blocked=None, messages=[])
        if job.settings.planner.use == "model":
            text = prompt.for_planner(_brief(stage, job))
            job = replace(job, messages=[{"role": "user", "content": f"{text}\nFiles:\n{_files(job.root)}"}])
        return stage.outcome(job)


def _digest_of_worker(root: str) -> str:
    """Who works by the settings file: to see later whether somebody has changed that."""
    try:
        found = configuration.read(Path(root))
    except DetentError:
        return ""
    return configuration.digest_of_worker(found) if found is not None else ""


@effect("code.plan", kind="idempotent", timeout_s=0.0)
async def make_plan(contract: Contract) -> Outcome:
    """Get a plan; its questions go to a person, and a tree that the planner changed is put back."""
    async with set_stage(contract) as stage:
        job = stage.job
        if contract.answers:
            return _clarify(stage, contract)
        try:
            draft = await _draft(stage, contract)
        except DetentError as error:
            draft = Draft(error=str(error))
        usage, spent = usage_of(draft), job.spent
        spent = replace(
            spent,
            cost_usd=spent.cost_usd + draft.cost_usd,
            tokens=spent.tokens + draft.tokens,
            unpriced_calls=spent.unpriced_calls + draft.unpriced_calls,
        )
        job = replace(job, spent=spent)
        if draft.questions:
            # The contract forgets its question when it is answered, and the planner must hear it again.
            active_context.json_file(stage.folder / QUESTIONS, list(draft.questions))
            return Outcome(question=_questions(draft.questions), usage=usage)
        if not draft.error:
            try:
                return stage.conclude(_adopt_plan(stage, job, draft.text), usage=usage)
            except Refused as error:
                draft = replace(draft, error=refusal(error, draft.text))
        failed = replace(job, verdict="PLAN_FAILED", blocked=Blocked("plan", draft.error), messages=[])
        return stage.conclude(add_note(failed, now(), f"no plan: {draft.error}"), usage=usage)


def _brief(stage: Stage, job: Job, key: str = "") -> PlanBrief:
    revision = (job.plan.revision if job.plan else 0) + 1
    return PlanBrief(
        run_id=stage.run_id,
        requirement=job.requirement,
        root=job.root,
        folder=str(stage.folder / f"plan-{revision}"),
        revision=revision,
        previous=plan.write_plan(job.plan.body, {}) if job.plan and job.wish else "",
        wish=job.wish,
        answers=tuple(job.answers),
        checks=tuple(step.name for step in job.settings.verify),
        limits=limits_of(job.settings.limits),
        key=key,
        sandbox=job.settings.sandbox.wish,
        known=describe_knowledge(job.root),
    )


async def _draft(stage: Stage, contract: Contract) -> Draft:
    settings = stage.job.settings.planner
    if settings.use == "model":
        said = contract.input.get("said")
        said = said if isinstance(said, dict) else {}
        text = str(said.get("text") or "")
        return (
            parse_draft(text) if text else Draft(error="the model said nothing")
        )  # its cost is counted with its contract
    planner: TaskPlanner = SinglePlanner()
    if settings.use == "file":
        planner = FilePlanner(settings.file)
    elif settings.use == "worker":
        return await _draft_by_worker(stage, contract)
    return await planner.plan(_brief(stage, stage.job, contract.key), stage.hear)


async def _draft_by_worker(stage: Stage, contract: Contract) -> Draft:
    """A worker plans in a copy, seen at the project's own path: whatever it does to it is thrown away."""
    job = stage.job
    asked = _brief(stage, job, contract.key)
    worker_process.sweep(Path(asked.folder), contract.key)
    label = f"before plan {asked.revision}"
    known = [item for item in await stage.users.checkpoints(stage.run_id) if item.label == label]
    before = known[0] if known else await stage.users.checkpoint(stage.run_id, label)
    own = stage.folder / "planning"
    copy = open_copy(stage.users, own)
    site = arrange(job.root, copy.root, job.settings, list_outside(stage.users.place))
    facts = await checkpoint_record.facts(stage.users.place, before)
    await checkout.make_copy(stage.users.place, copy.place, facts, is_linked=site.is_mounted)
    asked = replace(asked, root=site.seen, tree=site.folder, project=job.root, sandbox=site.wish)
    try:
        planner = WorkerPlanner(worker_registry.hire(job.settings.planner.worker or job.settings.worker))
        return await planner.plan(asked, stage.hear)
    finally:
        changed = await stage.list_changed(before.tree, await copy.tree_id())
        if changed:
            names = ", ".join(changed[:5])
            stage.hear("plan", f"the planner changed {len(changed)} files of its copy, which are thrown away: {names}")
        await asyncio.to_thread(checkout.remove_tree, own)
        active_context.put_back(job.root, stage.run_id)


def _questions(asked: tuple[str, ...]) -> Question:
    item = {"type": "string"}
    schema = {
        "type": "object",
        "required": ["answers"],
        "properties": {"answers": {"type": "array", "items": item, "minItems": len(asked)}},
    }
    text = "Before planning, please answer:\n" + "\n".join(f"{n}. {q}" for n, q in enumerate(asked, 1))
    return Question(text, "form", schema=schema, data={"questions": list(asked)})


def _clarify(stage: Stage, contract: Contract) -> Outcome:
    data: Any = contract.answers[-1].data
    said = data.get("answers", []) if isinstance(data, dict) else []
    try:
        asked = list(json.loads((stage.folder / QUESTIONS).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        asked = []
    numbered = [*asked, *(f"question {n}" for n in range(len(asked) + 1, len(said) + 1))]
    answers = [{"question": str(q), "answer": str(a)} for q, a in zip(numbered, said, strict=False)]
    job = replace(stage.job, answers=[*stage.job.answers, *answers], verdict="CLARIFIED", messages=[])
    return stage.conclude(job)


def _adopt_plan(stage: Stage, job: Job, text: str) -> Job:
    """The job with this plan, and the document in its canonical form."""
    body = known_failure.find_mends(
        plan_parser.read(text, title=job.requirement.partition("\n")[0][:200]), job.requirement
    )
    if all(task.is_done for task in body.tasks):
        raise Refused("every task of the plan is ticked off already")
    revision = (job.plan.revision if job.plan else 0) + 1
    file = str(plan_path(job.root).relative_to(job.root))
    planned = Planned(body, digest_of(job, body), revision, file, find_judges(job))
    job = replace(job, plan=planned, verdict="PRD_GENERATED", wish="", messages=[], answers=[])
    write_plan(job, stage.run_id)
    return add_note(job, now(), f"plan {revision}: {len(body.tasks)} task{'s' * (len(body.tasks) != 1)}")


def find_judges(job: Job) -> tuple[str, ...]:
    """What judges the work, as the project is now."""
    root = Path(job.root)
    return file_role.list_judges(root, job.settings.verify, list(repository_survey.list_files(root)))


def digest_of(job: Job, body: plan.TaskPlan) -> str:
    """What a person confirms: the plan, the checks, the bounds and who works."""
    return plan.digest(body, msgspec.to_builtins(replace(job.settings, planner=type(job.settings.planner)())))


def write_plan(job: Job, run_id: str) -> None:
    """The plan as the document people read and edit."""
    if job.plan is None:
        return
    checks = [{"name": step.name, "run": " ".join(step.argv), "when": step.when} for step in job.settings.verify]
    front = {
        "run": run_id,
        "revision": job.plan.revision,
        "digest": job.plan.digest,
        "requirement": job.requirement,
        "worker": job.settings.worker.use,
        "checks": checks,
        "judges": list(job.plan.judges),
    }
    path = plan_path(job.root)
    text = plan.write_plan(job.plan.body, front)
    active_context.write(path, text.encode())
    active_context.write(path.with_name(f".{path.name}"), text.encode())  # to see later what was edited


@effect("code.present", kind="idempotent", timeout_s=120.0)
async def present(contract: Contract) -> Outcome:
    """Show the plan to whoever has to confirm it; take in what was edited in its document."""
    async with set_stage(contract) as stage:
        job = stage.job
        asked = job.asked
        job = replace(job, asked=None)
        if asked is not None and asked.name == "PLAN_EDITED" and job.plan is not None:
            body = plan_parser.read(str(asked.data.get("text") or ""), title=job.plan.body.title)
            if body != job.plan.body:
                facts = {"body": body, "digest": digest_of(job, body), "revision": job.plan.revision + 1}
                planned = replace(job.plan, **facts)
                job = add_note(replace(job, plan=planned), now(), f"plan edited by {asked.by or 'somebody'}")
            write_plan(job, stage.run_id)
        hand = active_context.project(job, stage.run_id, stage.state)
        return stage.outcome(replace(job, scratchpad=hand.scratchpad))


def read_edits(job: Job) -> tuple[str, str]:
    """The plan document as it is now and as it was written; equal when nobody has edited it."""
    path = plan_path(job.root)
    try:
        now_text = path.read_text("utf-8", errors="replace")
        was = path.with_name(f".{path.name}").read_text("utf-8", errors="replace")
    except OSError:
        return "", ""
    return now_text, was


def _files(root: str) -> str:
    """The names of the project's files, as much of them as a model should see."""
    found = []
    for path in sorted(Path(root).rglob("*")):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") or part in ("node_modules", "__pycache__", "target") for part in parts):
            continue
        if path.is_file():
            found.append("/".join(parts))
        if len(found) >= 400:
            break
    return "\n".join(found)
