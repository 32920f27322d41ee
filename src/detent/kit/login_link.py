"""Links that log somebody in once: made on the command line, used by a server of the same home."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from detent.core.people import Person
from detent.core.value import digest
from detent.errors import DetentError, Unknown
from detent.host.people import user_name
from detent.kit.one_time_token import TicketFolder, hash_secret
from detent.kit.people_file import TOKEN_VARIABLE, PeopleFile

if TYPE_CHECKING:
    from detent.core.identity import By
    from detent.host.port import Host

FOLDER = "links"
LINKS_MAX = 100
LIFE_S = 600.0


class LoginLink(msgspec.Struct, frozen=True):
    """What is known of a link: for whom, until when, and the credential it was made under."""

    name: str
    expires_at: float
    mark: str


def mark_credential(person: Person) -> str:
    """What changes when somebody gets a new token; links and sessions of the old one end with it."""
    return digest([person.name, person.token])[:32]


def make_link(home: Path, person: Person, now: Callable[[], float] = time.time) -> str:
    """A new secret that logs this person in once. Its beginning says for whom it is."""
    link = LoginLink(person.name, now() + LIFE_S, mark_credential(person))
    return TicketFolder(home / FOLDER, LINKS_MAX).issue(msgspec.json.encode(link), f"{person.name}.")


def use_link(home: Path, secret: str, now: Callable[[], float] = time.time) -> LoginLink | None:
    """What a link says, once; None for one that was used, is too old or never was."""
    content = TicketFolder(home / FOLDER, LINKS_MAX).take(hash_secret(secret))
    try:
        link = None if content is None else msgspec.json.decode(content, type=LoginLink)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return link if link is not None and now() < link.expires_at else None


async def order_link(host: "Host", home: Path, name: str, by: "By" = "") -> str:
    """A link for somebody, if whoever asks may make one; it is in the journal before it works."""
    await host.change_people({"do": "link", "name": name}, by=by)
    people = PeopleFile(home).current()
    person = people.by_name.get(name) if people is not None else None
    if person is None:
        raise Unknown(f"there is nobody called `{name}` here")
    return make_link(home, person)


async def make_own_link(host: "Host", home: Path) -> str:
    """A link for whoever runs this process; nothing if that is nobody here."""
    people = PeopleFile(home).current()
    token = os.environ.get(TOKEN_VARIABLE, "")
    if people is None:
        return ""
    person = people.by_name.get(token.rpartition(".")[0]) if token else people.of_os_user(user_name(os.getuid()))
    try:
        return "" if person is None else await order_link(host, home, person.name)
    except DetentError:
        return ""  # a convenience: whoever cannot have it logs in with a token
