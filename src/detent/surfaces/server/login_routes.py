"""Addresses for logging in and out, and for asking who one is."""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from detent.core.people import Role
from detent.errors import NotPermitted
from detent.host.people import NEEDS
from detent.kit.http.http_error import BadRequest
from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.authentication import Visitor, clear_cookie, write_cookie
from detent.surfaces.server.peer import find_origin, is_from_here
from detent.surfaces.server.requester import visitor_of
from detent.surfaces.server.server_context import HttpServer

Secret = Annotated[str, Meta(max_length=400)]


class LoginRequest(Asked, frozen=True):
    """A person's token, or what stands in a link that logs in once."""

    token: Secret = ""
    link: Secret = ""


class LogoutRequest(Asked, frozen=True):
    """Nothing to say."""


class Me(msgspec.Struct, frozen=True):
    """Who asks, as this server knows them."""

    has_people: bool  # whether this home says who is who; else names are claimed and everything is open
    name: str  # empty: not logged in
    known_by: str  # os_user, token, session or proxy
    roles: list[Role]
    groups: list[str]
    speaks_for: list[str]
    may: list[str]  # the verbs their roles let them do; what a question asks may still be for others
    log_out: str  # "session": POST /api/logout ends it; an address: the proxy ends it there; empty: there is no way


async def show_me(room: HttpServer, call: HttpCall) -> Me:
    """Who asks."""
    return _describe(room, visitor_of(call.request))


async def log_in(room: HttpServer, call: HttpCall) -> Response:
    """Begin a session; whatever session the browser had before ends."""
    from detent.surfaces.server.application import respond

    given: LoginRequest = call.body
    if bool(given.token) == bool(given.link):
        raise BadRequest("say `token` or `link`", 422)
    request, reception = call.request, room.reception
    if is_from_here(request.scope) and find_origin(request.scope) == "step":
        raise NotPermitted("nothing that a step has started may log in")
    _, cookie = await reception.log_in(request.scope, token=given.token, link=given.link)
    _end_session(room, call, "replaced")
    origin, scheme = request.headers.get("origin", ""), request.headers.get("x-forwarded-proto", "")
    # Who lies about TLS only keeps the browser from sending the cookie without it.
    is_secure = origin.lower().startswith("https://") or scheme.lower() == "https"
    found = reception.sessions.find(cookie, reception.people())  # type: ignore[arg-type]  # it has just begun
    response = respond(_describe(room, Visitor(found.identity, found.key)))
    seconds = reception.settings.login.absolute_seconds
    response.headers["Set-Cookie"] = write_cookie(reception.cookie_name, cookie, seconds, is_secure=is_secure)
    return response


async def log_out(room: HttpServer, call: HttpCall) -> Response:
    """End the session, here and now: its cookie is worth nothing any more, wherever it is."""
    from detent.surfaces.server.application import respond

    name = _end_session(room, call, "logged out")
    response = respond(_describe(room, Visitor()))
    if name:
        response.headers["Set-Cookie"] = clear_cookie(name)
    return response


def _end_session(room: HttpServer, call: HttpCall, why: str) -> str:
    """End the session whose cookie a request brings; the cookie's name."""
    reception = room.reception
    people = reception.people()
    name, cookies = reception.find_cookies(call.request.headers)
    for cookie in cookies if people is not None else ():
        if (found := reception.sessions.find(cookie, people)).key:  # type: ignore[arg-type]  # there are people
            reception.sessions.end(found.key, why)
    return name


def _describe(room: HttpServer, visitor: Visitor) -> Me:
    people = room.reception.people()
    person = people.by_name.get(visitor.who.name) if people is not None and visitor.who is not None else None
    if people is None:
        return Me(False, room.user, "", [], [], [], list(NEEDS), "")
    if person is None or visitor.who is None:
        return Me(True, "", "", [], [], [], [], "")
    proxy = room.settings.proxy
    way = {"session": "session", "proxy": proxy.log_out if proxy is not None else ""}.get(visitor.who.known, "")
    may = [verb for verb, role in NEEDS.items() if person.is_a(role)]
    groups, speaks_for = list(person.groups), list(person.speaks_for)
    return Me(True, person.name, visitor.who.known, list(person.roles), groups, speaks_for, may, way)


ROUTES = (
    Route("GET", "/api/me", show_me, "Who asks", Me, tag="login"),
    Route("POST", "/api/login", log_in, "Begin a session", Me, takes=LoginRequest, errors=(409,), tag="login",
          about="The answer sets the cookie of the session. Programs need no session: they send their token."),
    Route("POST", "/api/logout", log_out, "End the session", Me, takes=LogoutRequest, tag="login"),
)  # fmt: skip
