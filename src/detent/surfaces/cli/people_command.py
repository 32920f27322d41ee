"""The commands people …: who there is, what they may do, and how they are recognised."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from detent.core.people import ROLES, SALT_BYTES, hash_token
from detent.errors import Refused, Unknown
from detent.kit.language import _
from detent.kit.login_link import order_link
from detent.kit.people_file import PeopleFile
from detent.kit.safe_text import columns, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb

if TYPE_CHECKING:
    from detent.core.people import People, Person

TOKEN_BYTES = 32
ADDRESS = "http://127.0.0.1:8410"
KEY_MAX = 16_384
name_argument = click.argument("name", metavar="NAME")
drop_option = click.option("--drop", "is_drop", is_flag=True, help=_("Take it away instead."))


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What can be said of a person."""
    for option in reversed((
        click.option("--role", "roles", multiple=True, type=click.Choice(ROLES),
                     help=_("A role they have; may be repeated.")),
        click.option("--group", "groups", multiple=True, metavar="NAME",
                     help=_("A group they are in; may be repeated.")),
        click.option("--speaks-for", multiple=True, metavar="NAME", help=_("Somebody they may answer for.")),
        click.option("--key", "keys", multiple=True, metavar="FILE", help=_("A file with their SSH public key.")),
        click.option("--os-user", default=None, metavar="USER", help=_("Their user name on this machine.")),
        click.option("--proxy-name", "proxy", default=None, metavar="NAME",
                     help=_("Their name as a trusted proxy passes it on.")),
        click.option("--token", "has_token", is_flag=True, help=_("Make a token for them; it is shown once.")),
    )):  # fmt: skip
        function = option(function)
    return function


@verb("add", _("Add a person."))
@name_argument
@_options
@by_option
async def add(caller: Caller, name: str, has_token: bool, by: str, **given: Any) -> int:
    """Add a person; the first one makes the file."""
    if not given["roles"]:
        raise click.UsageError(_("say what they may do: --role {roles}", roles="|".join(ROLES)))
    return await _change(caller, {"do": "add", "name": name, **_collect_options(given)}, has_token, by)


@verb("change", _("Change what is known of a person."))
@name_argument
@_options
@click.option("--drop-role", "drop_roles", multiple=True, metavar="ROLE", help=_("A role they lose."))
@click.option("--drop-group", "drop_groups", multiple=True, metavar="NAME", help=_("A group they leave."))
@click.option("--drop-speaks-for", multiple=True, metavar="NAME", help=_("Somebody they no longer speak for."))
@click.option("--drop-key", "drop_keys", multiple=True, metavar="FILE", help=_("A key they lose."))
@by_option
async def change(caller: Caller, name: str, has_token: bool, by: str, **given: Any) -> int:
    """Change what is known of a person."""
    return await _change(caller, {"do": "change", "name": name, **_collect_options(given)}, has_token, by)


@verb("role", _("Give a person roles, or take them away."))
@name_argument
@click.argument("roles", nargs=-1, required=True, type=click.Choice(ROLES), metavar="ROLE…")
@drop_option
@by_option
async def role(caller: Caller, name: str, roles: tuple[str, ...], is_drop: bool, by: str) -> int:
    """Give roles or take them away."""
    return await _change(
        caller, {"do": "change", "name": name, "drop_roles" if is_drop else "roles": list(roles)}, False, by
    )


@verb("group", _("Put a person into groups, or take them out."))
@name_argument
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…")
@drop_option
@by_option
async def group(caller: Caller, name: str, groups: tuple[str, ...], is_drop: bool, by: str) -> int:
    """Put into groups or take out of them."""
    key = "drop_groups" if is_drop else "groups"
    return await _change(caller, {"do": "change", "name": name, key: list(groups)}, False, by)


@verb("token", _("Make a new token for a person; it is shown once, and the old one stops working."))
@name_argument
@drop_option
@by_option
async def token(caller: Caller, name: str, is_drop: bool, by: str) -> int:
    """Make a new token, or take the token away."""
    given = {"do": "change", "name": name} | ({"token": ""} if is_drop else {})
    return await _change(caller, given, not is_drop, by)


@verb("link", _("Make a link that logs a person in to the page; it works once, for ten minutes."))
@name_argument
@click.option("--address", default="", metavar="URL", help=_("Where the server is; http://127.0.0.1:8410 by default."))
@by_option
async def link(caller: Caller, name: str, address: str, by: str) -> int:
    """Make a link: everybody may for themselves, an admin for all."""
    async with caller.host() as host:
        secret = await order_link(host, caller.home, name, by)
    made = f"{(address or ADDRESS).rstrip('/')}/#login={quote(secret)}"
    if caller.is_json:
        emit({"ok": True, "link": made, "name": name, "error": None})
        return 0
    caller.say(_("This link logs {name} in, once and within ten minutes:", name=visible(name)))
    caller.say(f"  {made}")
    return 0


@verb("remove", _("Remove a person."))
@name_argument
@by_option
async def remove(caller: Caller, name: str, by: str) -> int:
    """Remove a person."""
    return await _change(caller, {"do": "remove", "name": name}, False, by)


@verb("adopt", _("Record a manual edit of the people file in the journal."))
@by_option
async def adopt(caller: Caller, by: str) -> int:
    """Take the file as it is."""
    return await _change(caller, {"do": "adopt"}, False, by)


@verb("list", _("List the people."))
def list_people(caller: Caller) -> int:
    """List everybody."""
    people = _people(caller)
    if caller.is_json:
        everybody = [] if people is None else [person.about for person in people.persons]
        emit({"ok": True, "people": everybody, "claimed": people is None, "error": None})
    elif people is None:
        caller.say(_("There are no people here: names are only claimed. Begin with: {command}", command=_begin(caller)))
    else:
        for line in columns([_row(person) for person in people.persons]):
            caller.say(line)
    return 0


@verb("show", _("Show a person."))
@name_argument
def show(caller: Caller, name: str) -> int:
    """Show one person."""
    people = _people(caller)
    person = people.by_name.get(name) if people is not None else None
    if people is None or person is None:
        known = ", ".join(people.by_name) if people is not None else "-"
        raise Unknown(_("there is nobody called `{name}`; known: {names}", name=name, names=known))
    if caller.is_json:
        emit({"ok": True, "person": person.about, "error": None})
        return 0
    for key, value in person.about.items():
        text = ", ".join(value) if isinstance(value, list | tuple) else _("yes") if value is True else str(value)
        caller.say(f"{key:<10} {visible(text)}")
    return 0


def _people(caller: Caller) -> "People | None":
    return PeopleFile(caller.home).current()


def _begin(caller: Caller) -> str:
    return caller.command("people", "add", "NAME", "--role", "admin", "--role", "approver", "--os-user", "USER")


def _row(person: "Person") -> list[str]:
    known = [f"os_user {person.os_user}"] if person.os_user else []
    known += [f"proxy {person.proxy}"] if person.proxy else []
    known += ["token"] if person.token else []
    known += [f"{len(person.keys)} ssh"] if person.keys else []
    groups = ", ".join(person.groups)
    speaks = f"→ {', '.join(person.speaks_for)}" if person.speaks_for else ""
    return [visible(person.name), ", ".join(person.roles), visible(groups), visible(speaks), visible(", ".join(known))]


def _collect_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as a change."""
    said = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in given.items()
        if value not in ((), None)
    }
    for key in ("keys", "drop_keys"):
        if key in said:
            said[key] = [_key(Path(file)) for file in said[key]]
    return said


def _key(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as source:
            lines = [line.strip() for line in source.read(KEY_MAX).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read a key from {file}: {getattr(error, 'strerror', None) or error}") from None
    if len(lines) != 1 or "PRIVATE KEY" in lines[0]:
        raise Refused(f"{file} is not one SSH public key; it is the file whose name ends in .pub")
    return lines[0]


async def _change(caller: Caller, given: dict[str, Any], has_token: bool, by: str) -> int:
    token = ""
    if has_token:
        token = f"{given['name']}.{secrets.token_urlsafe(TOKEN_BYTES)}"
        given["token"] = hash_token(token, secrets.token_bytes(SALT_BYTES))
    before = _people(caller)
    async with caller.host() as host:
        done = await host.change_people(given, by=by)
    if caller.is_json:
        emit({"ok": True, **done, **({"token": token} if token else {}), "error": None})
        return 0
    for person in done["people"] if before is None else ():
        if person["name"] != given.get("name"):
            caller.say(_("You ({name}) are an admin: somebody must be.", name=visible(person["name"])))
    count = len(done["people"])
    caller.say(
        _("changed; there is one person now")
        if count == 1
        else _("changed; there are {count} people now", count=count),
        "green",
    )
    if token:
        caller.say(_("The token of {name}; it is shown only once:", name=visible(given["name"])))
        caller.say(f"  {token}")
    return 0


people = click.Group(
    "people",
    help=_("Say who may do what here, and how each of them is recognised."),
    commands={
        one.name: one
        for one in (add, list_people, show, change, role, group, token, link, remove, adopt)
        if one.name is not None
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = {"people": people}
