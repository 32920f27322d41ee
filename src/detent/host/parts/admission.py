"""Who is it, and may they: the one place where a name becomes an identity and a role is asked for.

Every verb of the embedded host passes here, whatever surface it comes from. Without people every name is claimed and
everything is open, except that nothing which a step has started may answer.
"""

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from detent.core.identity import By, Identity
from detent.core.people import People
from detent.core.policy import ROLE, SPEAKER
from detent.errors import JournalError, NotPermitted, Refused
from detent.host.parts.journal_query import AnyJournal
from detent.host.parts.loaded_run import load
from detent.host.people import (
    GUARDED,
    LONGEST,
    RECORD_ID,
    WORDS,
    PeopleSource,
    Tokens,
    check_role,
    identify_user,
    user_name,
)
from detent.host.process_origin import Origin, can_know, origin_of


class Admission:
    """Lets people in; one for each host."""

    def __init__(self, source: PeopleSource | None) -> None:
        self._source, self._token = source, "" if source is None else source.token
        self._tokens = Tokens()
        self._own: Origin | None = None
        self.was_known = False  # whether the journal knows of people

    def look(self, journal: AnyJournal) -> None:
        """Find out whether the journal knows of people: their file must then not just vanish."""
        if self._source is None or journal.record(RECORD_ID) is None:
            return
        self.was_known = bool(load(journal, RECORD_ID).run.context.get("written"))

    def people(self, *, is_lenient: bool = False) -> People | None:
        """The people; None where names are only claimed. `is_lenient`: also where their file has vanished."""
        if self._source is None:
            return None
        found = self._source.current()
        if found is None and self.was_known and not is_lenient:
            raise JournalError(
                "this home has people, and their file is gone; put `detent.people.yaml` back into the home,"
                " or begin anew with `detent people adopt`"
            )
        return found

    @property
    def source(self) -> PeopleSource:
        """Where the people are kept."""
        if self._source is None:
            raise Refused("this host keeps no people")
        return self._source

    def admit(self, verb: str, by: By, run_id: str = "") -> Identity:
        """Who does this, if they may; NotPermitted otherwise."""
        if type(by) is Identity and by.known == "detent":
            return by
        if run_id == RECORD_ID:
            raise Refused(f"run {RECORD_ID} keeps the changes of the people; `detent people` makes them")
        people = self.people()
        who = self.identify(by, people, is_guarded=verb in GUARDED)
        if who.is_nobodys and (verb in GUARDED or people is not None):
            raise NotPermitted(_describe_refusal(who, verb))
        if people is not None:
            check_role(people, verb, who, user_name(os.getuid()))
        return who

    def identify(self, by: By, people: People | None, *, is_guarded: bool = False) -> Identity:
        """Who this is: what a surface has found out, or for a plain name whoever runs this process."""
        wish = by.name if type(by) is Identity else by
        if not isinstance(wish, str):
            raise Refused(f"by is {wish!r}; it must be a name, or an Identity")
        is_checked = type(by) is Identity and by.is_checked
        if is_guarded and not is_checked and self._origin() == "step":
            return Identity(wish, "step")
        if type(by) is Identity and by.known != "claimed":
            # A program has the rights of whoever runs it: the owner of our token, unless it came from another process.
            is_ours = by.known == "mcp" and bool(self._token) and not by.is_checked
            return self.of_process(people, "", os.getuid(), self._token) if is_ours and people is not None else by
        if wish.startswith(SPEAKER):
            raise Refused(f"`{wish[:LONGEST]}`: names that begin with `{SPEAKER}` are the policy's own")
        if wish.startswith(ROLE):
            raise Refused(f"`{wish[:LONGEST]}` is a group and nobody's name; say who you are")
        if people is None:
            return Identity(wish)
        return self.of_process(people, wish, os.getuid(), self._token)

    def identify_attempt(self, by: str = "") -> Identity:
        """Who tried something they may not: the one we know them as, and otherwise nobody; a step under its claim."""
        if self._origin() == "step":
            return Identity(by, "step")
        try:
            return self.identify("", self.people())
        except NotPermitted:
            return Identity(user_name(os.getuid()), "os_user")

    def of_peer(
        self, wish: str, token: str, uid: int, pid: int, *, is_guarded: bool, is_lenient: bool = False
    ) -> Identity:
        """Whoever hands a verb over: the kernel says which user and which process that is, not the message."""
        if is_guarded and (origin := origin_of(pid)) != "person":
            if origin == "step":
                return Identity(wish, "step")
            if can_know() and not token:
                return Identity(wish, "unknown")
        people = self.people(is_lenient=is_lenient)
        if people is None:
            return Identity(wish, is_checked=True)
        return replace(self.of_process(people, wish, os.getuid() if uid < 0 else uid, token), is_checked=True)

    def of_process(self, people: People, wish: str, uid: int, token: str = "") -> Identity:
        """A user of this machine or the owner of a token, in their own name or in one they may speak for."""
        return self._tokens.identify(people, token, wish) if token else identify_user(people, uid, wish)

    def _origin(self) -> Origin:
        if self._own is None:
            self._own = origin_of(os.getpid())
        return self._own


def _describe_refusal(who: Identity, verb: str) -> str:
    if who.known == "step":
        return f"nothing that a step has started may {WORDS[verb]}; a person has to, outside of it"
    return f"the system does not show where this comes from, so it may not {WORDS[verb]}; log in, or give a token"


def describe_voucher(who: Identity) -> str:
    """What vouches for a name, as an event keeps it; what one run does to another is nobody's word."""
    return "" if who.known == "detent" else who.known_by


def sign_answer(answer: Mapping[str, Any], who: Identity) -> dict[str, Any]:
    """An answer with who gave it, in place of whatever it says about that itself."""
    about = {"by": who.name, "known_by": describe_voucher(who), "spoken_by": who.spoken_by}
    return {name: value for name, value in {**answer, **about}.items() if value or name not in about}
