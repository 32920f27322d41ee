"""A dry run before the start: what a run of a definition would do with this input, and nothing touched."""

from collections import ChainMap
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from detent.core.effect_type import Effect
from detent.core.identity import identity_of
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.schema import leave_out_secrets, problems
from detent.effects import Known
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server import api_view, shape
from detent.surfaces.server.server_context import HttpServer

STEPS_MAX = 300


class RehearseBody(Asked, frozen=True):
    """Which definition, and what a run of it would be given."""

    definition: Annotated[str, Meta(min_length=1, max_length=1000)]
    input: dict[str, Any] = {}  # noqa: RUF012  # a struct copies its defaults
    by: shape.Name = ""


class RehearsedStep(msgspec.Struct, frozen=True):
    """One step: a `state`, a `rule` of the policy, a `call`, `ask`, `sleep` or `wait`, a call that is `left` out, …"""

    kind: str
    name: str
    detail: Any = None


class Rehearsed(msgspec.Struct, frozen=True):
    """Where the run would stand, and how it would have come there; every question answered with yes."""

    state: str
    status: shape.StatusName
    steps: list[RehearsedStep]
    is_cut: bool
    output: Any
    error: shape.Failed | None


async def rehearse_start(room: HttpServer, call: HttpCall) -> Rehearsed:
    """Walk through a definition without touching anything."""
    given: RehearseBody = call.body
    definition = await room.library.load(given.definition)
    found = problems(leave_out_secrets(definition.input), definition.machine.take_secrets(given.input)[0], "input")
    if found:
        raise BadRequest("; ".join(found), 422)
    policy, by = room.host.policy, identity_of(call.by).name

    known: Mapping[str, Effect] = ChainMap(dict(definition.effects), Known())  # type: ignore[arg-type]  # only read
    return await room.ask(walk, definition.machine, known, given.input, policy, by)


def walk(
    machine: Machine, known: Mapping[str, Effect], input: Mapping[str, Any], policy: Policy | None, by: str
) -> Rehearsed:
    """What a run of a machine would do; `known` are the effects it would call."""
    from detent.testing import rehearse

    made = rehearse(machine, {}, input, policy=policy, known=known, by=by)
    steps = [RehearsedStep(*beat) for beat in made.beats[:STEPS_MAX]]
    run, is_cut = made.run, len(made.beats) > STEPS_MAX
    return Rehearsed(run.state, run.status.value, steps, is_cut, run.output, api_view.describe_failure(run.error))


ROUTES = (
    Route("POST", "/api/rehearsals", rehearse_start, "What a run would do", Rehearsed, takes=RehearseBody,
          errors=(404,), tag="definitions",
          about="A dry run with made-up answers of tools and every question answered with yes, under the policy that "
          "holds here; nothing is called and nothing is journalled."),
)  # fmt: skip
