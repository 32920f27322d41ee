"""Addresses of doubts: every deed nobody is sure about, and settling many of them at once."""

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.identity import identity_of
from detent.host.port import Reader
from detent.kit.http.http_error import BadRequest
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.doubt_settlement import Doubt, Settled, choose_doubts, open_doubts, settle
from detent.surfaces.server import shape
from detent.surfaces.server.server_context import HttpServer

AT_ONCE = 1000  # runs asked about in one query


class Doubts(msgspec.Struct, frozen=True):
    """The open doubts, oldest runs first, and how many there are about each effect."""

    doubts: list[Doubt]
    effects: dict[str, int]


class Settlement(msgspec.Struct, frozen=True):
    """What became of each; what is left was refused, and says why."""

    settled: int
    left: int
    doubts: list[Settled]


async def doubts(room: HttpServer, _: HttpCall) -> Doubts:
    """Every open doubt."""
    found = await room.ask(open_doubts, room.reader)
    return Doubts(found, dict(Counter(one.effect for one in found)))


async def settle_doubts(room: HttpServer, call: HttpCall) -> Settlement:
    """Settle the doubts that are meant, each on its own."""
    given: shape.Settle = call.body
    _check(given)
    runs = [(await room.find(name)).run_id for name in given.runs]
    meant, idle = await room.ask(choose_doubts, room.reader, runs, given.effect)
    found = await settle(
        room.host, meant, None if given.probe else _make_answer(given, identity_of(call.by).name), call.by
    )
    found += [Settled(run_id, "", given.effect, False, f"run {run_id} has no open doubt") for run_id in idle]
    now = await room.ask(_statuses, room.reader, [one.run_id for one in found])
    found = [replace(one, status=now.get(one.run_id, "")) for one in found]
    settled = sum(one.is_settled for one in found)
    return Settlement(settled, len(found) - settled, found)


def _check(given: shape.Settle) -> None:
    if bool(given.outcome) == given.probe:
        raise BadRequest("say either `outcome` or `probe`")
    if given.all == bool(given.runs or given.effect):
        raise BadRequest("say which doubts: `runs`, `effect`, or `all` alone")
    if given.result is not None and given.outcome != "happened":
        raise BadRequest("`result` goes with `outcome: happened`")


def _make_answer(given: shape.Settle, by: str) -> dict[str, Any]:
    said: dict[str, Any] = {"outcome": given.outcome, "by": by, "channel": "http"}
    if given.comment:
        said["comment"] = given.comment
    return said if given.result is None else {**said, "result": given.result}


def _statuses(reader: Reader, runs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(runs), AT_ONCE):
        some = reader.summaries(dict.fromkeys(runs[start : start + AT_ONCE]))
        found |= {one.run_id: one.status.value for one in some}
    return found


TAG = "inbox"
ROUTES = (
    Route("GET", "/api/doubts", doubts, "Every deed nobody is sure about", Doubts, tag=TAG),
    Route("POST", "/api/settle", settle_doubts, "Settle many doubts at once", Settlement, takes=shape.Settle,
          errors=(404,), tag=TAG, is_guarded=True,
          about="Each is answered on its own, and recorded so. What is refused says why and does not stop the others: "
                "look at `left`."),
)  # fmt: skip
