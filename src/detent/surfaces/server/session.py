"""Sessions of people in a browser: begun by a token or a link, ended by a log-out, by time, or with their credential.

The cookie holds 256 random bits; the home keeps their hash. An ended session is kept for a while: whoever comes with
its cookie has it from somewhere, and that is worth writing down.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from detent.core.identity import Identity
from detent.core.people import People, Person
from detent.kit.login_link import mark_credential
from detent.kit.one_time_token import TicketFolder, hash_secret
from detent.surfaces.server.setting import Login

FOLDER = "sessions"
SESSIONS_MAX = 10_000
PERSON_MAX = 50  # sessions of one person; the oldest end first
CACHE_MAX = 1_000
TOUCH_S = 60.0  # how exactly it is known when a session was last used
COOKIE_LENGTH = 43
SessionTrouble = Literal["", "unknown", "expired", "ended"]


class LoginSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the home keeps of a session."""

    name: str
    mark: str  # of the credential it was begun with
    begun_at: float
    ended: str = ""  # why it has ended


class FoundSession(msgspec.Struct, frozen=True):
    """What a cookie stands for."""

    trouble: SessionTrouble
    key: str = ""
    session: LoginSession | None = None

    @property
    def identity(self) -> Identity:
        """Who acts in it."""
        return Identity(self.name, "session")

    @property
    def name(self) -> str:
        """Whose it is or was."""
        return self.session.name if self.session is not None else ""


NOTHING = FoundSession("unknown")


class Sessions:
    """The sessions of a home, shared by all its servers."""

    def __init__(self, home: Path, limits: Login, now: Callable[[], float] = time.time) -> None:
        self._tickets = TicketFolder(home / FOLDER, SESSIONS_MAX)
        self._limits, self._now = limits, now
        self._read: OrderedDict[str, tuple[int, LoginSession]] = OrderedDict()

    def begin(self, person: Person) -> str:
        """A new session; what its cookie holds."""
        own = [key for key, one in self._all() if one.name == person.name]
        for key in own[PERSON_MAX - 1 :]:
            self._tickets.remove(key)
        return self._tickets.issue(msgspec.json.encode(LoginSession(person.name, mark_credential(person), self._now())))

    def find(self, cookie: str, people: People) -> FoundSession:
        """Whose session this is, if it still is one."""
        return self.look(hash_secret(cookie), people) if len(cookie) == COOKIE_LENGTH else NOTHING

    def look(self, key: str, people: People) -> FoundSession:
        """What has become of a session."""
        used = self._tickets.read_use(key)
        session = None if used is None else self._load(key, used[1])
        if used is None or session is None:
            return NOTHING
        now = self._now()
        if now - session.begun_at > self._limits.absolute_seconds:
            self._tickets.remove(key)
            return FoundSession("expired", key, session)
        if session.ended:
            return FoundSession("ended", key, session)
        person = people.by_name.get(session.name)
        if person is None or mark_credential(person) != session.mark:
            self.end(key, "removed" if person is None else "renewed")
            return FoundSession("ended", key, session)
        if now - used[0] > self._limits.idle_seconds:
            self._tickets.remove(key)
            return FoundSession("expired", key, session)
        if now - used[0] > TOUCH_S:
            self._tickets.touch(key, now)
        return FoundSession("", key, session)

    def end(self, key: str, why: str) -> None:
        """End a session everywhere, at once."""
        session = self._decode(self._tickets.read(key))
        if session is not None and not session.ended:
            self._tickets.write(key, msgspec.json.encode(replace(session, ended=why)))
        self._read.pop(key, None)

    def sweep(self) -> None:
        """Remove what has been of no use for long."""
        for key, session in self._all():
            if self._now() - session.begun_at > self._limits.absolute_seconds:
                self._tickets.remove(key)

    def _all(self) -> list[tuple[str, LoginSession]]:
        found = [(key, self._decode(self._tickets.read(key))) for key in self._tickets.list_keys()]
        return [(key, session) for key, session in found if session is not None]

    def _load(self, key: str, version: int) -> LoginSession | None:
        kept = self._read.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        session = self._decode(self._tickets.read(key))
        if session is not None:
            self._read[key] = version, session
            if len(self._read) > CACHE_MAX:
                self._read.popitem(last=False)
        return session

    def _decode(self, content: bytes | None) -> LoginSession | None:
        try:
            return None if content is None else msgspec.json.decode(content, type=LoginSession)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
