"""The effects of a job that came from an issue: push its branch, open a draft, take what CI says.

Pushing and opening cannot be taken back: each is asked about, and done once. After a crash the server is asked whether
it has happened. What CI finds wrong goes to the worker like a failing check of our own.
"""

import asyncio
import time
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import lifecycle
from detent.agents.coding.check_result import Evidence, Fault
from detent.agents.coding.effect_context import Stage, now, open_repository, set_stage
from detent.agents.coding.execution import commit_verified
from detent.agents.coding.github_api import CiResult, Forge
from detent.agents.coding.job import FINAL, Job, Published, add_note, job_of
from detent.agents.coding.prompt import cut
from detent.agents.coding.workspace import Repository
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, effect
from detent.errors import DetentError, Refused

FAULTS_MAX = 20
MESSAGE_MAX = 2000
QUIET_S = 60.0  # after so long without any check of CI there is none


def find_place(job: Job) -> Published:
    """Where a job is to be published."""
    if job.publish is None:
        raise Refused("this job is not to be published")
    return job.publish


async def _find_pushed(users: Repository, place: Published) -> str:
    """The commit that the branch has on the server now; empty: it is not there."""
    ref = f"refs/heads/{place.branch}"
    found = (await users.place.plain("ls-remote", place.remote, ref)).decode("utf-8", "replace")
    return next((line.split("\t")[0] for line in found.splitlines() if line.endswith(f"\t{ref}")), "")


async def probe_push(contract: Contract) -> Outcome | None:
    """After a crash: has the branch arrived?"""
    job = job_of(contract.input["job"])
    place, users = find_place(job), await open_repository(job.root)
    try:
        ours = await users.place.users.line("rev-parse", "--verify", "-q", f"refs/heads/{place.branch}^{{commit}}")
        theirs = await _find_pushed(users, place)
    except DetentError:
        return None
    if ours and ours == theirs:
        return Outcome({"commit": ours}, patch=_patch(replace(place, pushed=_tree(job), commit=ours)))
    raise EffectFailed(f"the branch {place.branch} has not arrived")


def _tree(job: Job) -> str:
    return job.final.tree if job.final else ""


def _patch(place: Published) -> dict[str, Any]:
    return {"publish": msgspec.to_builtins(place)}


@effect("code.push", kind="irreversible", timeout_s=300.0, settle_s=0.0, scope="global", reconcile=probe_push)
async def push(contract: Contract) -> Outcome:
    """Commit what was verified on the job's branch, and push it; never by force."""
    async with set_stage(contract) as stage:
        job = await commit_verified(stage, stage.job)
        place = find_place(job)
        ref, users = f"refs/heads/{place.branch}", stage.users.place
        exit_code, answer, _ = await users.users.run("rev-parse", "--verify", "-q", f"{ref}^{{commit}}")
        commit = answer.decode().strip()
        if exit_code or not commit:
            told = next((one.commit for one in job.tasks.values() if one.commit), "nothing was committed")
            raise EffectFailed(f"there is no branch {place.branch} to push: {told}")
        code, _, stderr = await users.plain.run("push", "--no-verify", place.remote, f"{ref}:{ref}")
        if code:
            await _explain_push(stage, place, commit, stderr.decode("utf-8", "replace").strip())
        job = replace(job, publish=replace(place, pushed=_tree(job), commit=commit))
        job = add_note(job, now(), f"pushed {commit[:12]} to {place.branch} on {place.remote}")
        return stage.outcome(job, {"commit": commit, "branch": place.branch})


async def _explain_push(stage: Stage, place: Published, commit: str, said: str) -> None:
    """git says that it failed: the server knows whether it did."""
    try:
        theirs = await _find_pushed(stage.users, place)
    except DetentError as error:
        raise OutcomeUnknown(f"git push ended with an error, and the server cannot be asked: {said}") from error
    if theirs != commit:
        raise EffectFailed(f"git push of {place.branch} to {place.remote} was refused: {said[-500:]}")


async def probe_pull(contract: Contract) -> Outcome | None:
    """After a crash: is there a pull request of the branch?"""
    job = job_of(contract.input["job"])
    place = find_place(job)
    found = await Forge(job.settings.forge).find_pull(place.repo, place.branch)
    if found is None:
        raise EffectFailed("there is no such pull request")
    return Outcome(
        {"number": found.number, "url": found.url}, patch=_patch(replace(place, pull=found.number, url=found.url))
    )


@effect("code.open_pull", kind="irreversible", timeout_s=120.0, settle_s=0.0, scope="global", reconcile=probe_pull)
async def open_pull(contract: Contract) -> Outcome:
    """Open a draft with the plan, the evidence and the costs."""
    async with set_stage(contract) as stage:
        job, place = stage.job, find_place(stage.job)
        forge = Forge(job.settings.forge)
        found = await forge.find_pull(place.repo, place.branch)
        if found is None:
            base = job.settings.forge.base or await forge.find_base(place.repo)
            title = (job.plan.body.title if job.plan else job.requirement).partition("\n")[0][:200]
            found = await forge.open_pull(place.repo, place.branch, base, title, describe(stage.run_id, job))
        job = replace(job, publish=replace(place, pull=found.number, url=found.url))
        job = add_note(job, now(), f"pull request #{found.number}: {found.url}")
        return stage.outcome(job, {"number": found.number, "url": found.url})


def describe(run_id: str, job: Job) -> str:
    """The text of a pull request: what was wanted, the plan, the evidence as a table, and what it has cost."""
    place, body = find_place(job), job.plan.body if job.plan else None
    lines = [f"Closes #{place.issue}" if place.issue else "", "", "## Plan", "", body.goal if body else ""]
    for task in body.tasks if body else ():
        progress = job.progress(task.id)
        word = f" – {_line(progress.summary)}" if progress.summary else ""
        lines.append(f"- [{'x' if progress.status == 'DONE' else ' '}] {_line(task.title)}{word}")
    lines += ["", "## Evidence", "", *_table(job.final)]
    spent = job.spent
    cost = "cost not known" if spent.unpriced_calls else f"{spent.cost_usd:.2f} USD"
    used = f"{cost}, {spent.tokens} tokens, {spent.seconds:g} s of work and checks, {spent.changed_lines} lines"
    lines += ["", "## Cost", "", f"{used}; job {run_id}"]
    return "\n".join(lines).strip() + "\n"


def _table(found: Evidence | None) -> list[str]:
    if found is None:
        return ["nothing was verified"]
    head = "| check | exit | passed | failed | skipped | seconds |"
    rows = [f"**{found.word or 'verified'}**, tree `{found.tree[:12]}`", "", head, "|---|---|---|---|---|---|"]
    for step in found.steps:
        counts = (step.passed, step.failed, step.skipped) if step.counted else ("–", "–", "–")
        cells = (step.name, step.exit, *counts, f"{step.seconds:g}")
        rows.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return [*rows, "", *(f"- {_line(note)}" for note in found.notes)]


def _line(text: str) -> str:
    return " ".join(text.split())[:500]


@effect("code.ci", kind="idempotent", timeout_s=0.0)
async def ask_ci(contract: Contract) -> Outcome:
    """Wait for what CI says of the pushed commit; what it finds wrong is a failing check."""
    async with set_stage(contract) as stage:
        job, place, chosen = stage.job, find_place(stage.job), stage.job.settings.forge
        forge, begun = Forge(chosen), time.monotonic()
        while True:
            results = await forge.list_results(place.repo, place.commit)
            waited = time.monotonic() - begun
            is_quiet = not results and waited > min(QUIET_S, chosen.wait_minutes * 60)
            if is_quiet or (results and all(one.state != "running" for one in results)):
                break
            if waited > chosen.wait_minutes * 60:
                told = f"CI had not ended after {chosen.wait_minutes:g} minutes; look at {place.url}"
                return stage.outcome(_accept_ci(job, place, told))
            stage.hear(
                "ci", f"{sum(one.state == 'running' for one in results)} of {len(results)} checks of CI are running"
            )
            await asyncio.sleep(chosen.poll_s)
        red = [one for one in results if one.state == "red"]
        if red:
            return stage.conclude(lifecycle.hear_ci(job, list_faults(red), now()))
        told = f"CI: {len(results)} checks are green" if results else "CI has said nothing about it"
        return stage.outcome(_accept_ci(job, place, told))


def _accept_ci(job: Job, place: Published, told: str) -> Job:
    return add_note(replace(job, publish=replace(place, checked=place.pushed)), now(), told, FINAL)


def list_faults(red: list[CiResult]) -> tuple[Fault, ...]:
    """What CI found wrong, as the worker is shown it: written by others, and cut."""
    return tuple(Fault("ci", cut(f"{one.text}\n{one.url}".strip(), MESSAGE_MAX), one.name) for one in red[:FAULTS_MAX])
