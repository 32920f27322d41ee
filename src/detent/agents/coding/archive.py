"""The record of a finished job: a folder with everything, a line in the month's file, a text for a pull request."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding import active_context, knowledge
from detent.agents.coding import plan as plans
from detent.agents.coding.effect_context import Stage
from detent.agents.coding.job import FINAL, Job
from detent.agents.coding.workspace import difference
from detent.errors import Refused, Unknown

PATCH_MAX = 4 * 1024 * 1024


def home_of(root: str) -> Path:
    """Where the archive is."""
    return Path(root) / ".detent" / "archive"


async def write(stage: Stage, job: Job) -> Path:
    """Write the record; doing it again writes the same."""
    at = job.final.at if job.final else job.started_at
    month = time.strftime("%Y-%m", time.gmtime(at))
    folder = home_of(job.root) / month / stage.run_id
    if job.plan is None:
        raise Refused("there is no plan to archive")
    write_text(folder / "plan.md", plans.write_plan(job.plan.body, {"run": stage.run_id, "digest": job.plan.digest}))
    evidence = {
        task: msgspec.to_builtins(progress.evidence) for task, progress in job.tasks.items() if progress.evidence
    }
    active_context.json_file(
        folder / "evidence.json", {"baseline": msgspec.to_builtins(job.baseline), "tasks": evidence}
    )
    active_context.json_file(folder / "job.json", _facts(stage.run_id, job))
    checkpoints = await stage.repository.checkpoints(stage.run_id)
    active_context.json_file(
        folder / "checkpoints.json", [{"id": c.id, "label": c.label, "tree": c.tree} for c in checkpoints]
    )
    patch = await stage.repository.diff(job.first_checkpoint) if job.first_checkpoint else ""
    write_text(folder / "job.patch", patch[:PATCH_MAX])
    await _task_patches(stage, job, folder)
    write_text(folder / "trace.md", "\n".join(f"- {_clock(note.at)} {note.text}" for note in job.log) + "\n")
    write_text(folder / "summary.md", summary(stage.run_id, job))
    _monthly(job, stage.run_id, month, folder)
    knowledge.learn(job.root, knowledge.list_lessons(job, stage.run_id, "archived", at))
    return folder


async def write_ended(stage: Stage, job: Job, outcome: str, at: float) -> None:
    """The record of a job that came to nothing, and what it taught: the next one shall know."""
    month = time.strftime("%Y-%m", time.gmtime(job.started_at or at))
    folder = home_of(job.root) / month / stage.run_id
    since = job.first_checkpoint
    if since and job.undo and job.undo != since:
        patch = await stage.users.diff(since, job.undo)
        await asyncio.to_thread(write_text, folder / "job.patch", patch[:PATCH_MAX])
    await asyncio.to_thread(record_ended, stage.run_id, job, outcome, at)


def record_ended(run_id: str, job: Job, outcome: str, at: float) -> None:
    """The same without its patch; doing it again changes nothing."""
    month = time.strftime("%Y-%m", time.gmtime(job.started_at or at))
    folder = home_of(job.root) / month / run_id
    if (folder / "job.json").exists():
        return
    if job.plan is not None:
        text = plans.write_plan(job.plan.body, {"run": run_id, "digest": job.plan.digest})
        write_text(folder / "plan.md", text)
    write_text(folder / "trace.md", "\n".join(f"- {_clock(note.at)} {note.text}" for note in job.log) + "\n")
    write_text(folder / "summary.md", f"{summary(run_id, job)}\n{outcome}\n")
    active_context.json_file(folder / "job.json", {**_facts(run_id, job), "finished_at": at, "outcome": outcome})
    knowledge.learn(job.root, knowledge.list_lessons(job, run_id, outcome, at))


async def _task_patches(stage: Stage, job: Job, folder: Path) -> None:
    """What each task changed: from its checkpoint to the next task's, the last one to the end."""
    begun = [(int(p.checkpoint.rpartition("-")[2]), p.tree, task) for task, p in job.tasks.items() if p.checkpoint]
    begun.sort()
    last = job.final.tree if job.final else ""
    for number, (_, tree, task) in enumerate(begun):
        after = begun[number + 1][1] if number + 1 < len(begun) else last or tree
        patch = await difference.patch(stage.repository.place, tree, after)
        write_text(folder / "tasks" / f"{task}.patch", patch[:PATCH_MAX])


def _facts(run_id: str, job: Job) -> dict[str, Any]:
    tasks = []
    for task in job.plan.body.tasks if job.plan else ():
        progress = job.progress(task.id)
        tasks.append(
            {
                "id": task.id,
                "title": task.title,
                "status": progress.status,
                "attempts": progress.attempts,
                "failed_repairs": progress.repairs,
                "interruptions": progress.interruptions,
                "seconds": progress.seconds,
                "cost_usd": progress.cost_usd,
                "summary": progress.summary,
                "changed": list(progress.changed),
                "tree": progress.evidence.tree if progress.evidence else "",
                "tests": progress.evidence.tests if progress.evidence else 0,
            }
        )
    return {
        "run": run_id,
        "requirement": job.requirement,
        "by": job.by,
        "started_at": job.started_at,
        "finished_at": job.final.at if job.final else 0,
        "plan_digest": job.plan.digest if job.plan else "",
        "spent": msgspec.to_builtins(job.spent),
        "first_checkpoint": job.first_checkpoint,
        "last_checkpoint": job.last_checkpoint,
        "tree": job.final.tree if job.final else "",
        "outcome": "archived",
        "pull_request": job.publish.url if job.publish else "",
        "tasks": tasks,
    }


def summary(run_id: str, job: Job) -> str:
    """A text that people can paste into a pull request."""
    body = job.plan.body if job.plan else plans.TaskPlan(job.requirement)
    lines = [f"# {body.title}", "", body.goal or job.requirement, "", "## Done", ""]
    for task in body.tasks:
        progress = job.progress(task.id)
        word = f" – {progress.summary}" if progress.summary else ""
        lines.append(f"- [{'x' if progress.status == 'DONE' else ' '}] {task.title}{word}".rstrip())
    found = job.final
    if found is not None:
        lines += ["", f"## {(found.word or 'verified').capitalize()}", "", f"Tree `{found.tree}`:", ""]
        for step in found.steps:
            counts = f", {step.passed} passed, {step.failed} failed, {step.skipped} skipped" if step.counted else ""
            lines.append(f"- `{step.command}`: exit {step.exit}{counts} ({step.seconds:g} s)")
            lines += [f"  - fails as before the job: {test}" for test in step.failing_ids[:20]]
    changed = sorted({path for task, p in job.tasks.items() if task != FINAL for path in p.changed})
    lines += ["", "## Changed", "", *(f"- {path}" for path in changed[:100])]
    spent = job.spent
    cost = "cost not known" if spent.unpriced_calls else f"{spent.cost_usd:.2f} USD"
    lines += [
        "",
        f"{spent.changed_lines} lines, {spent.seconds:g} s of work and checks, {cost}; job {run_id}.",
    ]
    return "\n".join(lines) + "\n"


def _monthly(job: Job, run_id: str, month: str, folder: Path) -> None:
    """The file of the month: a paragraph per job, each once."""
    path = home_of(job.root) / f"task_archive_{month.replace('-', '')}.md"
    text = path.read_text("utf-8", errors="replace") if path.exists() else f"# Archive {month}\n"
    if f"\n<!-- {run_id} -->" in text:
        return
    title = job.plan.body.title if job.plan else job.requirement
    count = sum(progress.status == "DONE" for task, progress in job.tasks.items() if task != FINAL)
    changed = {path for progress in job.tasks.values() for path in progress.changed}
    finished = _clock(job.final.at if job.final else 0)
    link = f"[record]({folder.relative_to(path.parent)}/summary.md)"
    text += f"\n<!-- {run_id} -->\n## {title}\n\nFinished {finished}; {count} tasks, {len(changed)} files; {link}\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """A text file, atomically."""
    active_context.write(path, text.encode())


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def every(root: str) -> list[dict[str, Any]]:
    """The archived jobs, newest first."""
    found = []
    for path in home_of(root).glob("*/*/job.json"):
        try:
            facts = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(facts, dict) and isinstance(facts.get("run"), str):
            found.append({**facts, "folder": str(path.parent)})
    return sorted(found, key=lambda item: float(item.get("finished_at") or 0), reverse=True)


def find(root: str, name: str) -> dict[str, Any]:
    """One archived job by its run, the beginning of it, or `last`."""
    known = every(root)
    near = known[:1] if name == "last" else [item for item in known if str(item["run"]).startswith(name)]
    if not near:
        raise Unknown(f"there is no archived job `{name}` here; `detent code archive list` shows them")
    if len(near) > 1:
        raise Refused(f"`{name}` is the beginning of {len(near)} archived jobs; give more letters")
    return near[0]
