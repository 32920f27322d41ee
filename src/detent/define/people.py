"""People files: who there is, what each of them may do, and how they are recognised.

Read as strictly as a workflow: every problem at once, each with its line and column. `write_people` gives the text
that is read here.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from detent.core.people import HASH, INCLUDES, MEMORY_MAX, NAME, ROLES, TAKEN, People, Person
from detent.define.compile_context import Page
from detent.define.document import Document, read_document, read_file
from detent.define.grammar import Key, Shape
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import lean
from detent.define.problem import cut, refuse
from detent.define.schema import DRAFT, shape_schema

TITLE = "detent people"
PEOPLE_MAX = 1_000
GROUP = re.compile(r"\w[\w.-]{0,63}")
SSH_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+|sk-\S+@openssh\.com) [A-Za-z0-9+/]+={0,3}( .*)?")
HEAD = """\
# The people of this home. `detent people` changes this file and writes every change into the journal; comments are not
# kept. After an edit by hand, `detent people adopt` puts that into the journal too.
"""

PEOPLE: Shape = {
    "version": Key("label", "The author's label; never interpreted."),
    "people": Key("named", "Everybody, by name.", is_needed=True, of="person"),
}
PERSON: Shape = {
    "roles": Key("names", "What they may do: viewer, operator, approver, admin.", is_needed=True),
    "groups": Key("names", "The groups they are in; approvers name one as `role:NAME`."),
    "speaks_for": Key("names", "People in whose name they may answer; journalled as both."),
    "os_user": Key("text", "Their user name on this machine."),
    "proxy": Key("text", "The name that a trusted reverse proxy passes on for them."),
    "token": Key("text", "The hash of their token; `detent people token NAME` makes a new one."),
    "keys": Key("names", "Their SSH public keys."),
}


def load_people(path: str | Path) -> People:
    """Read a people file; raises one DefinitionError with everything that is wrong with it."""
    return compile_people(read_document(read_file(Path(path)), str(path)))


def compile_people(document: Document) -> People:
    """The people a document describes."""
    page = Page(document)
    given = fields(page, (), page.value, PEOPLE, "a people file")
    persons: list[Person] = []
    if given is not None and "people" in given:
        persons = _persons(page, given)
    refuse(page.problems)
    return People(tuple(persons))


def people_schema() -> dict[str, Any]:
    """The JSON Schema of people files, for editors."""
    shapes = {"person": shape_schema("person", PERSON)}
    return {"$schema": DRAFT, "title": TITLE, **shape_schema("people", PEOPLE), "$defs": shapes}


def write_people(people: People) -> str:
    """A people file as text."""
    said: dict[str, Any] = {}
    for person in people.persons:
        told = msgspec.to_builtins(person)
        told.pop("name")
        said[person.name] = told
    return HEAD + yaml.safe_dump(
        {"people": said}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )


def _persons(page: Page, given: Fields) -> list[Person]:
    path, value = given.at("people"), given["people"]
    if not isinstance(value, dict):
        page.say(path, "`people` must be a mapping of names to what is known of them")
        return []
    if len(value) > PEOPLE_MAX:
        page.say(path, f"more than {PEOPLE_MAX:,} people")
        return []
    found: dict[str, Person] = {}
    for name, inner in value.items():
        place = (*path, name)
        if problem := name_problem(name):
            page.say(
                place,
                problem,
                "a name is letters, digits and `. @ + - _`, and none that detent signs with",
                at_key=True,
            )
            continue
        one = fields(page, place, inner, PERSON, f"`{cut(name)}`")
        if one is not None:
            found[name] = _person(page, one, name, value)
    _check_unique(page, path, found)
    if found and page.is_sound and not any(person.is_a("admin") for person in found.values()):
        page.say(path, "nobody is an admin, so nobody could ever change this", "give one of them the role `admin`")
    return list(found.values())


def name_problem(name: str) -> str:
    """Why somebody cannot be called like this; nothing when they can."""
    if not NAME.fullmatch(name) or name in TAKEN:
        return f"`{cut(name)}` cannot be a person's name"
    return ""


def _person(page: Page, given: Fields, name: str, known: dict[str, Any]) -> Person:
    for at, role in enumerate(given.get("roles", ())):
        if role not in INCLUDES:
            page.say(_item(given, "roles", at), *page.unknown("role", role, ROLES))
    for at, group in enumerate(given.get("groups", ())):
        if not GROUP.fullmatch(group):
            page.say(
                _item(given, "groups", at), f"`{cut(group)}` cannot be a group's name", "letters, digits and `. - _`"
            )
    for at, other in enumerate(given.get("speaks_for", ())):
        if other not in known:
            page.say(_item(given, "speaks_for", at), *page.unknown("person", other, known))
        elif other == name:
            page.say(_item(given, "speaks_for", at), f"`{cut(name)}` needs no leave to speak for themselves")
    for at, key in enumerate(given.get("keys", ())):
        if not SSH_KEY.fullmatch(key):
            page.say(
                _item(given, "keys", at),
                "this is no SSH public key",
                "a line of a `.pub` file, such as `ssh-ed25519 AAAA…`",
            )
    token = given.get("token", "")
    if token and hash_problem(token):
        given.say("token", hash_problem(token), f"`detent people token {name}` makes one and writes its hash here")
    return lean(
        Person, name=name, roles=given.get("roles", ()), groups=given.get("groups", ()),
        speaks_for=given.get("speaks_for", ()), os_user=given.get("os_user", ""), proxy=given.get("proxy", ""),
        token=token, keys=given.get("keys", ()),
    )  # fmt: skip


def hash_problem(kept: str) -> str:
    """Why this cannot be the hash of a token; nothing when it can."""
    found = HASH.fullmatch(kept)
    if found is None:
        return "this is no hash of a token"
    n, r, p = (int(part) for part in found.groups()[:3])
    if n < 2 or n & (n - 1) or not r or not p or 128 * n * r * p > MEMORY_MAX:
        return "this hash of a token takes too much memory, or has numbers that scrypt does not know"
    return ""


def _item(given: Fields, key: str, at: int) -> Any:
    raw = given.page.value
    for step in given.path:
        raw = raw[step]
    return given.at(key, at) if isinstance(raw[key], list) else given.at(key)


def _check_unique(page: Page, path: Any, found: dict[str, Person]) -> None:
    """One user, one proxy's name and one key stand for one person."""
    seen: dict[tuple[str, str], str] = {}
    for person in found.values():
        keys = [("keys", " ".join(key.split()[:2])) for key in person.keys]
        for kind, value in (("os_user", person.os_user), ("proxy", person.proxy), *keys):
            if value and (other := seen.setdefault((kind, value), person.name)) != person.name:
                page.say(
                    (*path, person.name, kind),
                    f"this {kind.replace('_', ' ')} is `{cut(other)}`'s already",
                    "it must say who somebody is",
                )
