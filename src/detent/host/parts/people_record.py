"""Changing the people: first into the journal, then into their file; a crash between the two changes nobody's rights.

What is journalled is who changed what, and the digest the file then has: `difference_of` compares the two.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from detent.core.identity import By, Identity
from detent.core.machine import Machine
from detent.core.people import People
from detent.core.people_change import PeopleChange, apply_change, change_of
from detent.core.run import Run
from detent.core.value import digest
from detent.errors import NotPermitted, Unknown
from detent.host.parts.admission import Admission
from detent.host.parts.answer_signature import KeyRecord
from detent.host.parts.journal_query import AnyJournal
from detent.host.people import RECORD, RECORD_ID, keys_of, user_name

WHY_MAX = 300  # letters of a reason


class PeopleHost(Protocol):
    """What changing the people needs of a host."""

    admission: Admission

    @property
    def journal(self) -> AnyJournal:
        """The journal, for reading."""

    async def start(
        self, machine: Machine, input: Mapping[str, Any] | None = None, *, run_id: str = "", by: By = ""
    ) -> Run:
        """Begin a run."""

    async def tell_record(self, name: str, data: dict[str, Any], who: Identity, id: str = "") -> Run:
        """Write an event about people into the run that keeps them."""


async def change_people(host: PeopleHost, given: Any, by: By) -> dict[str, Any]:
    """Do a change: who did it and what it was is in the journal before it holds."""
    change = change_of(given)
    if change.do == "refused":
        return await _note_refusal(host, change, by)
    if change.do == "link":
        return await _note_link(host, change, by)
    source = host.admission.source
    people = source.current()
    if people is None and change.do == "adopt":
        who = host.admission.identify(by, None, is_guarded=True)
        if who.is_nobodys:
            raise NotPermitted("nothing that a step has started may change the people")
    else:
        who = await _admit(host, change, by)
    if people is None and change.do != "adopt":
        after = _first(apply_change(People(), change), os.getuid())
    else:
        after = apply_change(people or People(), change)
    is_kept = people is not None or change.do != "adopt"
    if is_kept and change.do != "adopt":
        host.admission.source.check(after)
    before = people.digest if people is not None else ""
    await _note(host, change, who, after if is_kept else None, before)
    if is_kept and change.do != "adopt":
        source.write(after)
    await host.tell_record("WRITTEN", {"digest": after.digest if is_kept else ""}, Identity("", "detent"))
    host.admission.was_known = is_kept
    return {"digest": after.digest if is_kept else "", "people": [one.about for one in after.persons]}


async def _admit(host: PeopleHost, change: PeopleChange, by: By) -> Identity:
    try:
        return host.admission.admit("people", by)
    except NotPermitted as error:
        tried = by if isinstance(by, Identity) else host.admission.identify_attempt(by)
        await note_attempt(host, tried, {"verb": "people", "change": change.about, "why": str(error)})
        raise


async def _note(host: PeopleHost, change: PeopleChange, who: Identity, after: People | None, before: str) -> None:
    await open_record(host)
    data: dict[str, Any] = {"digest": after.digest if after else "", "before": before, "change": change.about}
    keys = keys_of(after)
    if keys != KeyRecord(host.journal).last:  # whose signatures hold from now on
        data["keys"] = keys
    await host.tell_record("CHANGED", data, who)


async def _note_link(host: PeopleHost, change: PeopleChange, by: By) -> dict[str, Any]:
    """A link that logs somebody in is about to be made: everybody may for themselves, an admin for all."""
    people = host.admission.people()
    who = host.admission.identify(by, people, is_guarded=True)
    if who.is_nobodys or who.spoken_by or who.name != change.name:
        who = await _admit(host, change, by)
    if people is None or change.name not in people.by_name:
        raise Unknown(f"there is nobody called `{change.name}` here")
    await open_record(host)
    await host.tell_record("LINKED", {"name": change.name}, who)
    return {}


async def _note_refusal(host: PeopleHost, change: PeopleChange, by: By) -> dict[str, Any]:
    """A server says that somebody came with what no longer is theirs; only a server can."""
    if not isinstance(by, Identity) or by.known not in ("session", "token", "proxy"):
        raise NotPermitted("only a server says whom it has turned away")
    await note_attempt(host, by, {"verb": "log in", "why": change.why[:WHY_MAX]})
    return {}


async def note_attempt(host: PeopleHost, who: Identity, data: dict[str, Any]) -> None:
    """Write down that somebody tried what they may not; the same from the same person once."""
    await open_record(host)
    mark = digest([who.name, who.known, who.spoken_by, data])[:16]
    await host.tell_record("ATTEMPTED", data, who, f"attempt {mark}")


async def open_record(host: PeopleHost) -> Run:
    """The run that keeps the changes; begun with the first."""
    return await host.start(
        RECORD, {"digest": "", "before": "", "written": ""}, run_id=RECORD_ID, by=Identity("", "detent")
    )


def _first(people: People, uid: int) -> People:
    """The first people of a home: whoever makes them is their admin, unless they name another."""
    if any(person.is_a("admin") for person in people.persons):
        return people
    user = user_name(uid)
    do: Literal["change", "add"] = "change" if user in people.by_name else "add"
    return apply_change(people, PeopleChange(do=do, name=user, roles=("admin",), os_user=user))
