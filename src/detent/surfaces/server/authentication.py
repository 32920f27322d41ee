"""Who sends a request: found out once, from what it brings, before anything is done for it.

Where the home has people, a request brings one of: the name and the secret of a trusted proxy, a person's token, the
cookie of a session, or on loopback its user of this machine. What is brought and does not hold is refused, never passed
over. Without people names are only claimed.
"""

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.datastructures import Headers

from detent.core.identity import Identity
from detent.core.people import People, Person
from detent.errors import DetentError, NotPermitted
from detent.host.people import identify_user
from detent.kit.login_link import LoginLink, mark_credential, use_link
from detent.kit.people_file import PeopleFile
from detent.surfaces.server.peer import ends_of, find_uid, is_loopback
from detent.surfaces.server.rate_limit import Pace
from detent.surfaces.server.refusal import Turned, too_early
from detent.surfaces.server.session import Sessions
from detent.surfaces.server.setting import Proxy, ServerSettings, secret
from detent.surfaces.server.wrong_token import WrongTokens

COOKIE = "detent_session"
SECURE = "__Host-"  # browsers take such a cookie over TLS only, and from this very host
# What proxies usually send a name in. Whoever believes in such a header must hear that nobody here does.
USUAL = frozenset({"remote-user", "x-remote-user", "x-forwarded-user", "x-auth-request-user", "x-authenticated-user"})
FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via"})
ONCE = ("authorization", "cookie")
HASHES_MAX = 2  # slow hashes at the same time: each takes 16 MiB
HASHES_WAITING_MAX = 16
TOKENS_MAX = 1_000
NOTED_MAX = 1_000
Note = Callable[[Identity, str], Awaitable[None]]


class Visitor(msgspec.Struct, frozen=True):
    """Who sends a request, and what it brought."""

    who: Identity | None = None  # None: names are only claimed here
    session: str = ""  # the key of the session it belongs to
    mark: str = ""  # of the credential, where it brought a token

    @property
    def is_proven(self) -> bool:
        """Whether it brought a proof of its own, beyond the user of its program."""
        return self.who is not None and self.who.known != "os_user"


class Reception:
    """Finds out who somebody is; one for each server."""

    def __init__(self, home: Path, settings: ServerSettings, note: Note) -> None:
        self._home, self._file, self._note = home, PeopleFile(home), note
        self.settings, self.cookie_name = settings, COOKIE
        self.sessions = Sessions(home, settings.login)
        limits = settings.limits
        self._attempts = Pace(limits.attempts_per_minute / 60, limits.attempts_burst)
        self._hashing, self._waiting = asyncio.Semaphore(HASHES_MAX), 0
        self._known: dict[tuple[str, bytes], str] = {}  # whose a right token is; not hashed again
        self._noted: set[str] = set()
        self._wrong = WrongTokens()
        self._had_people = False

    def people(self) -> People | None:
        """The people as their file says now; None where names are only claimed."""
        try:
            found = self._file.current()
        except DetentError as error:
            raise Turned(503, "people_unreadable", f"the people of this home cannot be read: {error}") from None
        if found is None and self._had_people:
            raise Turned(503, "people_unreadable", "the file of the people is gone; an admin has to put it back")
        self._had_people = found is not None
        return found

    async def identify(self, scope: Any, headers: Headers, *, is_login: bool = False) -> Visitor | None:
        """Who this is; None for nobody, and for whoever is about to log in. What does not hold is turned away."""
        people = self.people()
        if people is None:
            return Visitor()
        for name in ONCE:
            if len(headers.getlist(name)) > 1:
                raise Turned(400, "bad_request", f"the header `{name}` is there twice")
        passed_on = self._find_passed_on(scope, headers, people)
        if passed_on is not None:
            return Visitor(passed_on)
        if is_login:
            return None  # an old cookie must not keep anybody from getting a new one
        if "authorization" in headers:
            who = await self._identify_token(people, headers["authorization"], _address(scope))
            return Visitor(who, mark=mark_credential(people.by_name[who.name]))
        name, cookies = self.find_cookies(headers)
        if cookies:
            return await self._identify_session(people, name, cookies)
        return self._identify_user(people, scope, headers)

    def is_valid(self, visitor: Visitor) -> bool:
        """Whether somebody still is who they were when they came."""
        if visitor.who is None:
            return True
        try:
            people = self.people()
        except Turned:
            return False
        person = None if people is None else people.by_name.get(visitor.who.name)
        if people is None or person is None or not person.is_a("viewer"):
            return False
        if visitor.session:
            return not self.sessions.look(visitor.session, people).trouble
        return not visitor.mark or visitor.mark == mark_credential(person)

    async def log_in(self, scope: Any, *, token: str = "", link: str = "") -> tuple[Person, str]:
        """Begin a session with a token or a link; the person, and what their cookie holds."""
        people = self.people()
        if people is None:
            raise Turned(409, "refused", "there are no people here, so nobody needs to log in")
        if token:
            name = (await self._identify_token(people, f"Bearer {token}", _address(scope))).name
        else:
            name = self._use_link(people, link, _address(scope)).name
        person = people.by_name[name]
        return person, self.sessions.begin(person)

    def _use_link(self, people: People, link: str, address: str) -> LoginLink:
        if wait := self._attempts.take(("address", address)):
            raise too_early(wait, "too many attempts to log in; wait a moment")
        found = use_link(self._home, link)
        person = people.by_name.get(found.name) if found is not None else None
        if found is None or person is None or mark_credential(person) != found.mark:
            raise Turned(401, "login_wanted", "this link was used already, is too old, or is none; ask for a new one")
        self._attempts.give_back(("address", address))
        return found

    def _find_passed_on(self, scope: Any, headers: Headers, people: People) -> Identity | None:
        """The person a trusted proxy names. Such a header from anybody else is refused."""
        proxy = self.settings.proxy
        named = USUAL if proxy is None else {proxy.name_header.lower(), proxy.secret_header.lower()}
        brought = [name for name in headers if name in named]
        if not brought:
            return None
        if proxy is None:
            raise Turned(403, "foreign_proxy", f"nobody may name people here with `{brought[0]}`: no proxy is trusted")
        names, secrets = headers.getlist(proxy.name_header), headers.getlist(proxy.secret_header)
        if len(names) > 1 or len(secrets) > 1:
            raise Turned(400, "bad_request", "the proxy's header is there twice")
        if not secrets or not _is_secret(proxy, secrets[0]) or not _is_among(_address(scope), proxy.addresses):
            raise Turned(403, "foreign_proxy", f"`{brought[0]}` is believed from the trusted proxy only")
        if not names or not names[0]:
            return None  # the proxy itself says that nobody is logged in
        person = people.of_proxy(_decode(names[0]))
        if person is None:
            raise Turned(403, "not_permitted", "nobody here has the name that the proxy passes on; an admin can say"
                                               " `detent people change NAME --proxy-name …`")  # fmt: skip
        return Identity(person.name, "proxy")

    async def _identify_token(self, people: People, said: str, address: str) -> Identity:
        scheme, _, token = said.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _demand_login("this server takes `Authorization: Bearer TOKEN`")
        mark = people.digest, hashlib.sha256(token.encode("utf-8", "replace")).digest()
        if (name := self._known.get(mark)) is not None:
            return Identity(name, "token")
        senders = [("address", address), ("name", token.rpartition(".")[0][:64])]
        for sender in senders:
            if wait := self._attempts.take(sender):
                raise too_early(wait, "too many wrong tokens; wait a moment")
        person = await self._hash(people, token)
        if person is None:
            named = token.rpartition(".")[0]
            if why := self._wrong.describe(address, named if named in people.by_name else ""):
                await self._note(Identity("", "token"), why)
            raise _demand_login("this token is nobody's; an admin can give a new one: `detent people token NAME`")
        for sender in senders:
            self._attempts.give_back(sender)
        if len(self._known) >= TOKENS_MAX:
            self._known.clear()
        self._known[mark] = person.name
        return Identity(person.name, "token")

    async def _hash(self, people: People, token: str) -> Person | None:
        """Whose a token is: one slow hash, in a thread, and few at a time, so that nobody can keep this server busy."""
        if self._waiting >= HASHES_WAITING_MAX:
            raise too_early(1.0, "too many tokens are being checked; wait a moment")
        self._waiting += 1
        try:
            async with self._hashing:
                return await asyncio.to_thread(people.of_token, token)
        except UnicodeError:
            return None
        finally:
            self._waiting -= 1

    def find_cookies(self, headers: Headers) -> tuple[str, list[str]]:
        """The values of the session's cookie, and its name: over TLS one that no other server can set."""
        pairs = [part.strip().partition("=") for text in headers.getlist("cookie") for part in text.split(";")]
        for wanted in (f"{SECURE}{self.cookie_name}", self.cookie_name):
            if found := [value for name, _, value in pairs if name == wanted]:
                return wanted, found
        return "", []

    async def _identify_session(self, people: People, name: str, cookies: Sequence[str]) -> Visitor:
        if len(cookies) > 1:
            raise Turned(400, "bad_request", "the cookie of the session is there twice")
        found = self.sessions.find(cookies[0], people)
        if not found.trouble:
            return Visitor(found.identity, found.key)
        if found.trouble == "ended" and found.key not in self._noted:
            if len(self._noted) >= NOTED_MAX:
                self._noted.clear()
            self._noted.add(found.key)
            await self._note(found.identity, f"the ended session {found.key[:12]} was used again")
        message = "this session has ended; log in again"
        raise Turned(401, "login_wanted", message, **{"Set-Cookie": clear_cookie(name), "WWW-Authenticate": "Bearer"})

    def _identify_user(self, people: People, scope: Any, headers: Headers) -> Visitor | None:
        """The user of this machine whose program asks, if that is a person, and nothing stands in between."""
        ends = ends_of(scope)
        if not self.settings.login.os_user or self.settings.proxy is not None or ends is None:
            return None
        if not is_loopback(ends[0][0]) or any(name in FORWARDED for name in headers):
            return None
        uid = find_uid(scope)
        try:
            return None if uid is None else Visitor(identify_user(people, uid))
        except NotPermitted:
            return None


def clear_cookie(name: str) -> str:
    """What makes a browser forget a cookie."""
    mark = "; Secure" if name.startswith(SECURE) else ""
    return f"{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{mark}"


def write_cookie(name: str, value: str, seconds: int, *, is_secure: bool) -> str:
    """A cookie that only this server's own pages send, and no script reads."""
    prefix, mark = (SECURE, "; Secure") if is_secure else ("", "")
    return f"{prefix}{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{mark}"


def _demand_login(message: str) -> Turned:
    return Turned(401, "login_wanted", message, **{"WWW-Authenticate": "Bearer"})


def _address(scope: Any) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


def _is_secret(proxy: Proxy, said: str) -> bool:
    try:
        return hmac.compare_digest(said.encode("latin-1", "replace"), secret(proxy.secret_env))
    except DetentError:
        return False


def _is_among(address: str, networks: Sequence[str]) -> bool:
    try:
        here = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(here, "ipv4_mapped", None) or here
    return any(mapped in ipaddress.ip_network(one) for one in networks)


def _decode(name: str) -> str:
    """A header's text: proxies send UTF-8, and the server reads every byte as a letter."""
    try:
        return name.encode("latin-1").decode()
    except UnicodeError:
        return name
