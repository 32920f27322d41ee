"""The review before work lands: a person sees the whole difference, accepts it, or sends parts of it back.

The question names the tree and the digest of the difference; an answer is for these and nothing else. What was rejected
goes to the worker with the remarks, and what it makes of them is verified and shown again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.agents.coding import hunk as hunks
from detent.agents.coding import lifecycle
from detent.agents.coding.delivery import read_made
from detent.agents.coding.effect_context import Stage, now, set_stage
from detent.agents.coding.hunk import Hunk
from detent.agents.coding.job import Blocked, Job, add_note
from detent.agents.coding.prompt import cut
from detent.agents.coding.workspace import Repository
from detent.core.contract import Contract
from detent.core.effect_type import Outcome, effect
from detent.core.question import Answer, Question
from detent.errors import Refused, Unknown

PATHS_MAX = 50
PATCH_MAX = 2 * 1024 * 1024
CHANGE_CHARS = 12_000  # of the difference in the question itself; all of it is on the job's page
HUNK_CHARS = 1500
COMMENT_MAX = 2000


class RejectedHunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hunk that somebody does not want, and why."""

    hunk: str
    comment: str = ""


class ReviewWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an answer says besides yes or no; `diff` is the digest of what was shown."""

    diff: str = ""
    reject: tuple[RejectedHunk, ...] = ()
    stop: bool = False  # neither land it nor send it back: the job is blocked, and a person decides


class LandingReview(msgspec.Struct, frozen=True):
    """What would land."""

    tree: str
    diff: str  # the digest that an answer names
    hunks: tuple[Hunk, ...]
    is_cut: bool = False


async def read_review(users: Repository, base: str, tree: str) -> LandingReview:
    """The difference between the user's tree at the beginning and what was made of it, in hunks."""
    patch = await users.compare(base, tree)
    found = tuple(hunks.split_patch(patch[:PATCH_MAX]))
    return LandingReview(tree, hunks.digest_of(found), found, len(patch) > PATCH_MAX)


@effect("code.review", kind="idempotent", timeout_s=0.0)
async def review(contract: Contract) -> Outcome:
    """Ask whether the work may land; take what was said about it to the worker."""
    async with set_stage(contract) as stage:
        job = stage.job
        tree = job.final.tree if job.final else "nothing"
        if not job.workspace or job.reviewed == tree or job.landed is not None:
            return stage.outcome(replace(job, reviewed=tree))
        made = await read_made(stage, job, await stage.repository.look())
        shown = await read_review(stage.users, job.base, made.tree)
        if not shown.hunks:
            return stage.outcome(replace(job, reviewed=tree))
        said = contract.answers[-1] if contract.answers else None
        seen = contract.asked.get("diff"), contract.asked.get("tree")  # the tree also has what was too long to be shown
        if said is None or seen != (shown.diff, shown.tree):
            return Outcome(question=_ask(job, shown))
        return _take_answer(stage, job, shown, said)


def _ask(job: Job, shown: LandingReview) -> Question:
    paths = list(dict.fromkeys(one.path for one in shown.hunks))
    added, removed = (sum(getattr(one, name) for one in shown.hunks) for name in ("added", "removed"))
    word = job.final.word if job.final else ""
    text = f"May this change land? {len(paths)} files, {len(shown.hunks)} hunks, +{added} -{removed}"
    data = {"diff": shown.diff, "tree": shown.tree, "files": paths[:PATHS_MAX], "word": word}
    data["change"] = cut("\n".join(f"{one.path}\n{one.text}" for one in shown.hunks), CHANGE_CHARS)
    return Question(text, "approval", data=data, hears_no=True)


def _take_answer(stage: Stage, job: Job, shown: LandingReview, said: Answer) -> Outcome:
    try:
        words = read_words(said.data)
        comments = write_comments(shown.hunks, words.reject, said.comment)
    except Refused:  # nobody can act on it, so it was no answer
        return Outcome(question=_ask(job, shown))
    if words.diff and words.diff != shown.diff:
        return Outcome(question=_ask(job, shown))
    if words.stop:
        told = said.comment or "somebody stopped it at the review"
        return stage.conclude(replace(job, verdict="ARCHIVE_FAILED", reviewed="", blocked=Blocked("stopped", told)))
    if said.approved and not words.reject:
        tree = job.final.tree if job.final else ""
        job = add_note(replace(job, reviewed=tree), now(), f"reviewed by {said.by or 'somebody'}: {shown.diff}")
        return stage.outcome(job)
    return stage.conclude(lifecycle.reject_review(job, comments, said.by, now()))


def read_words(data: Any) -> ReviewWords:
    """What an answer says; one that says nothing more than yes or no is about the whole."""
    if not isinstance(data, Mapping):
        return ReviewWords()
    try:
        return msgspec.convert(data, ReviewWords)
    except msgspec.ValidationError as error:
        raise Refused(f"this is no review: {error}") from None


def write_comments(shown: Sequence[Hunk], rejected: Sequence[RejectedHunk], comment: str) -> list[str]:
    """What a worker is told: each rejected place with what was said about it, then what was said about the whole."""
    by_id = {one.id: one for one in shown}
    told = []
    for one in rejected:
        if one.hunk not in by_id:
            raise Unknown(f"there is no hunk `{one.hunk}` in this review; `detent code review` shows them")
        found, why = by_id[one.hunk], one.comment[:COMMENT_MAX] or "not like this"
        told.append(f"{found.path}: {why}\nIt is about this part of the change:\n{cut(found.text, HUNK_CHARS)}")
    if comment or not told:
        told.append(comment[:COMMENT_MAX] or "The change as a whole was rejected.")
    return told
