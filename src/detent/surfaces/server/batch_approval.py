"""Approve many: one answer, hash and entry for each question of a batch, and only where all of them ask the same.

The batch is checked whole before anything is answered. What somebody else decides meanwhile is refused by itself and
does not stop the others.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from detent.core.identity import identity_of
from detent.core.signed_answer import shown_hash
from detent.errors import DetentError, Refused
from detent.host.port import Reader
from detent.host.standing import question_of
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.question_index import is_batchable
from detent.surfaces.server.refusal import say_to
from detent.surfaces.server.server_context import HttpServer
from detent.surfaces.server.shape import Name, Note

BATCH_MAX = 50


class BatchItem(Asked, frozen=True):
    """One question of a batch, as it was shown."""

    run_id: Annotated[str, Meta(min_length=1, max_length=100)]
    contract_id: Annotated[str, Meta(min_length=1, max_length=500)]
    call_hash: Annotated[str, Meta(min_length=1, max_length=200)]
    shown: Annotated[str, Meta(min_length=1, max_length=200)]


class BatchBody(Asked, frozen=True):
    """The questions that are approved, each as it was shown, with one comment for all."""

    items: Annotated[list[BatchItem], Meta(min_length=1, max_length=BATCH_MAX)]
    comment: Note = ""
    by: Name = ""


class BatchAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one answer; `problem`: it was not taken, and why."""

    run_id: str
    contract_id: str
    is_taken: bool
    problem: str = ""


class BatchReport(msgspec.Struct, frozen=True):
    """What became of each."""

    taken: int
    answers: list[BatchAnswer]


async def approve(room: HttpServer, call: HttpCall) -> BatchReport:
    """Say yes to many questions of one action of one definition."""
    given: BatchBody = call.body
    await room.ask(_check, room.reader, given.items)
    name = identity_of(call.by).name
    answers = []
    for one in given.items:
        said = {"approved": True, "call_hash": one.call_hash, "shown": one.shown, "by": name, "channel": "http"}
        if given.comment:
            said["comment"] = given.comment
        problem = ""
        try:
            await room.host.answer(one.run_id, one.contract_id, said, by=call.by)
        except DetentError as error:
            problem = say_to(call.request, str(error))
        answers.append(BatchAnswer(one.run_id, one.contract_id, not problem, problem))
    return BatchReport(sum(one.is_taken for one in answers), answers)


def _check(reader: Reader, items: Sequence[BatchItem]) -> None:
    """Refuse the whole batch where it is none; what was decided meanwhile is left to the answer to refuse."""
    if len({(one.run_id, one.contract_id) for one in items}) < len(items):
        raise BadRequest("a batch names every question once", 422)
    kinds: set[tuple[str, str]] = set()
    for one in items:
        now = reader.standing(one.run_id)
        contract = now.run.contract(one.contract_id)
        if contract is None or not contract.is_asking or shown_hash(now.run.id, contract) != one.shown:
            continue
        if not is_batchable(question_of(contract)):
            raise Refused(
                f"`{one.contract_id}` of run {one.run_id} is not a plain approval: doubts, forms, repeats and what must"
                " be signed are answered one by one"
            )
        kinds.add((now.run.machine, contract.action))
    if len(kinds) > 1:
        raise Refused("a batch holds one action of one version of a definition; these are several")


ROUTES = (
    Route("POST", "/api/inbox/approve", approve, "Approve many questions of one action", BatchReport, takes=BatchBody,
          errors=(403, 404, 409), tag="inbox", is_guarded=True,
          about="At most 50, all of one action of one version of a definition, and only plain approvals: no doubts, "
          "forms, repeats, or what must be signed. Each gets an answer of its own."),
)  # fmt: skip
