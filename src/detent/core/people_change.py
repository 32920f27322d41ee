"""Changes of people as data: what was wanted, and the people it leads to."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from detent.core.people import People, Person
from detent.errors import Refused, Unknown


class PeopleChange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change: somebody is added, changed or removed; or the file is adopted as it is.

    Two leave the people as they are and are only written down: a link that logs somebody in was made (`link`), and
    somebody was turned away (`refused`).
    """

    do: Literal["add", "change", "remove", "adopt", "link", "refused"]
    name: str = ""
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    speaks_for: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    drop_roles: tuple[str, ...] = ()
    drop_groups: tuple[str, ...] = ()
    drop_speaks_for: tuple[str, ...] = ()
    drop_keys: tuple[str, ...] = ()
    os_user: str | None = None  # an empty text takes it away
    proxy: str | None = None
    token: str | None = None  # a hash; the token itself never leaves whoever made it
    why: str = ""  # somebody was turned away

    @property
    def about(self) -> dict[str, object]:
        """What the journal keeps of it: everything but the hash."""
        told: dict[str, object] = msgspec.to_builtins(self)
        if told.pop("token", None) is not None:
            told["token"] = "taken away" if self.token == "" else "new"
        return told


def change_of(given: object) -> PeopleChange:
    """A change as somebody sent it."""
    try:
        return msgspec.convert(given, PeopleChange)
    except msgspec.ValidationError as error:
        raise Refused(f"the change does not fit: {error}") from None


def apply_change(people: People, change: PeopleChange) -> People:
    """The people after a change; Refused when it makes no sense to these people."""
    known = people.by_name
    if change.do == "adopt":
        return people
    if change.do == "add":
        if change.name in known:
            raise Refused(f"there is a `{change.name}` already; `detent people change {change.name}` changes them")
        return People((*people.persons, _merge(Person(change.name), change)))
    if change.name not in known:
        raise Unknown(f"there is nobody called `{change.name}`; known: {', '.join(known) or 'nobody'}")
    if change.do == "remove":
        left = tuple(
            replace(one, speaks_for=tuple(name for name in one.speaks_for if name != change.name))
            for one in people.persons
            if one.name != change.name
        )
        return _with_admin(People(left))
    return _with_admin(People(tuple(_merge(one, change) if one.name == change.name else one for one in people.persons)))


def _with_admin(people: People) -> People:
    if not any(person.is_a("admin") for person in people.persons):
        raise Refused("nobody would be an admin any more, and nobody could change that; make somebody else one first")
    return people


def _merge(person: Person, change: PeopleChange) -> Person:
    fields: dict[str, object] = {}
    for name in ("roles", "groups", "speaks_for", "keys"):
        dropped = getattr(change, f"drop_{name}")
        every = dict.fromkeys((*getattr(person, name), *getattr(change, name)))
        fields[name] = tuple(one for one in every if one not in dropped)
    for name in ("os_user", "proxy", "token"):
        if (said := getattr(change, name)) is not None:
            fields[name] = said
    return replace(person, **fields)
