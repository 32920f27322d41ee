"""In whose name a request acts: what was found out at the gate, and never what the request says of it.

Where there are people, the body's `by` may name the caller, or somebody the caller may speak for. What answers is
refused to anything that a step has started, whatever it brings.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from detent.core.identity import By, Identity
from detent.host.people import check_role, speak
from detent.surfaces.server.authentication import Visitor
from detent.surfaces.server.peer import find_origin, is_from_here
from detent.surfaces.server.request_gate import VISITOR

if TYPE_CHECKING:
    from starlette.requests import Request

    from detent.core.people import People
    from detent.surfaces.server.server_context import HttpServer


def visitor_of(request: "Request") -> Visitor:
    """Who sends this, as the gate found out."""
    return request.scope.get(VISITOR) or Visitor()


def viewer_of(room: "HttpServer", request: "Request") -> tuple[Identity, "People | None"]:
    """Who looks at something, and the people there are."""
    who = visitor_of(request).who
    return who or Identity(room.user), room.reception.people()


def name_caller(room: "HttpServer", request: "Request", wish: str, *, is_guarded: bool) -> By:
    """Who does this; a plain name where names are only claimed."""
    visitor = visitor_of(request)
    if is_guarded and is_from_here(request.scope) and (origin := find_origin(request.scope)) != "person":
        if origin == "step":
            return Identity(wish or room.user, "step")
        if not visitor.is_proven:
            return Identity(wish or room.user, "unknown")
    people = room.reception.people()
    if visitor.who is None or people is None:
        name = wish or room.user
        return Identity(name, is_checked=True) if is_guarded else name
    return replace(speak(visitor.who, wish), is_checked=is_guarded)


def check_verb(room: "HttpServer", verb: str, by: By) -> None:
    """Refuse who lacks the role for something that no verb of the host does."""
    people = room.reception.people()
    if verb and people is not None and isinstance(by, Identity):
        check_role(people, verb, by, room.user)
