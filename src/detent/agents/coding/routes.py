"""Addresses of coding runs that need the work tree: what a job, or one of its tasks, has changed."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from detent.agents.coding.effect_context import find_worked_on
from detent.agents.coding.job import Job, job_of
from detent.agents.coding.review import LandingReview, read_review
from detent.agents.coding.workspace import GitFailed, Repository
from detent.errors import Refused, Unknown
from detent.kit.agent import owner
from detent.kit.http.context import ServerContext
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route

PATCH_MAX = 1_000_000  # characters shown
PATIENCE_S = 30.0


class DiffQuery(Asked, frozen=True):
    """Of which task; empty: of the whole job."""

    task: Annotated[str, Meta(max_length=200)] = ""


class Patch(msgspec.Struct, frozen=True):
    """What was changed between two checkpoints; `until` empty: up to the files as they are."""

    since: str
    until: str
    diff: str
    is_cut: bool


async def review(room: ServerContext, call: HttpCall) -> LandingReview:
    """What waits for a person's word before it lands, hunk by hunk."""
    found = await room.find(call.path["run_id"])
    run = (await room.ask(room.reader.standing, found.run_id)).run
    if owner(found.source, found.parent) != "coding":
        raise Refused(f"run {run.id} is no coding run")
    asked = next((one.question for one in run.waiting if one.effect == "code.review" and one.question), None)
    if asked is None:
        raise Refused(f"nothing of run {run.id} waits for a review")
    try:
        job = job_of(run.context)
        async with asyncio.timeout(PATIENCE_S):
            return await read_review(await Repository.open(job.root), job.base, str(asked.data.get("tree")))
    except (msgspec.ValidationError, GitFailed, OSError, TimeoutError) as error:
        raise Refused(f"the work tree of run {run.id} cannot be compared: {str(error) or 'it took too long'}") from None


async def diff(room: ServerContext, call: HttpCall) -> Patch:
    """The difference a job or a task has made."""
    found = await room.find(call.path["run_id"])
    run = (await room.ask(room.reader.standing, found.run_id)).run
    if owner(found.source, found.parent) != "coding":
        raise Refused(f"run {run.id} is no coding run")
    try:
        job = job_of(run.context)
        since, until = span(job, call.query.task)
        async with asyncio.timeout(PATIENCE_S):
            repository = find_worked_on(await Repository.open(job.root), job, run.id)
            text = await repository.diff(since, until or None)
    except (msgspec.ValidationError, GitFailed, OSError, TimeoutError) as error:
        raise Refused(f"the work tree of run {run.id} cannot be compared: {str(error) or 'it took too long'}") from None
    return Patch(since, until, text[:PATCH_MAX], len(text) > PATCH_MAX)


def span(job: Job, task: str) -> tuple[str, str]:
    """From a task's checkpoint to the next task's; the last one, and the job as a whole, to the files as they are."""
    if not task:
        if not job.first_checkpoint:
            raise Refused("nothing was begun yet, so there is nothing to compare with")
        return job.first_checkpoint, ""
    begun = sorted(
        (one.checkpoint for one in job.tasks.values() if one.checkpoint), key=lambda id: int(id.rpartition("-")[2])
    )
    since = job.progress(task).checkpoint
    if not since:
        raise Unknown(f"task `{task}` has not begun")
    later = begun[begun.index(since) + 1 :]
    return since, later[0] if later else ""


ROUTES = (
    Route("GET", "/api/runs/{run_id}/diff", diff, "What a coding run has changed", Patch, query=DiffQuery,
          errors=(404, 409), tag="coding"),
    Route("GET", "/api/runs/{run_id}/review", review, "What of a coding run waits for a review before it lands",
          LandingReview, errors=(404, 409), tag="coding"),
)  # fmt: skip
