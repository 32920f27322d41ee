"""Who sends a request: its connection's user on this machine, or the owner of the token it brings.

Without people a name is only claimed. What answers is refused to anything that a step has started, whatever it says:
the kernel tells which process holds the other end of a connection from this machine.
"""

import ipaddress
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from detent.core.identity import By, Identity
from detent.errors import NotPermitted
from detent.host.ancestry import can_know, origin_of_connection, user_of_connection
from detent.host.people import Tokens, identify_user
from detent.kit.people import PeopleFile

if TYPE_CHECKING:
    from starlette.requests import Request

    from detent.surfaces.server.server_context import HttpServer

HELD = "people"  # where the server keeps its people


class KnownPeople:
    """The people as a server knows them."""

    def __init__(self, file: PeopleFile) -> None:
        self.file, self.tokens = file, Tokens()

    def has_token(self, token: str) -> bool:
        """Whether a token is one of a person."""
        people = self.file.current() if "." in token else None
        try:
            return people is not None and bool(self.tokens.identify(people, token))
        except NotPermitted:
            return False


def people_of(room: "HttpServer") -> KnownPeople:
    """The people of the home that is served."""
    found: KnownPeople = room.extras.setdefault(HELD, KnownPeople(PeopleFile(room.home)))
    return found


def identify_request(room: "HttpServer", request: "Request", wish: str, *, is_guarded: bool) -> By:
    """Who sends this; a plain name where names are only claimed."""
    is_near = is_loopback_request(request)
    token = bearer_of(request)
    held = people_of(room)
    people = held.file.current()
    if is_guarded and is_near and (told := _origin(request)) != "person":
        if told == "step":
            return Identity(wish, "step")
        if people is None or not token:
            raise NotPermitted("the system does not show which program asks; give a person's token")
    if people is None:
        return Identity(wish, is_checked=True) if is_guarded else wish
    if token:
        who = held.tokens.identify(people, token, _own(room, wish))
    elif is_near:
        who = identify_user(people, _uid(request), _own(room, wish))
    else:
        raise NotPermitted("say who you are: `Authorization: Bearer …` with your token")
    return replace(who, is_checked=is_guarded)


def _own(room: "HttpServer", wish: str) -> str:
    return "" if wish == room.extras["user"] else wish


def _origin(request: "Request") -> str:
    if not can_know():
        return "person"  # docs/security.md: on such a system this cannot be known
    client, server = request.scope["client"], request.scope["server"]
    return origin_of_connection((client[0], client[1]), (server[0], server[1]))


def _uid(request: "Request") -> int:
    client, server = request.scope["client"], request.scope["server"]
    uid = user_of_connection((client[0], client[1]), (server[0], server[1])) if can_know() else -1
    return os.getuid() if uid < 0 else uid


def is_loopback_request(request: "Request") -> bool:
    """Whether a request comes from this machine."""
    client = request.scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0].partition("%")[0]).is_loopback
    except ValueError:
        return False


def bearer_of(request: "Request") -> str:
    """The token a request brings, if it is one of a person: those have a name before them."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    given = given.strip()
    return given if scheme.lower() == "bearer" and "." in given else ""
