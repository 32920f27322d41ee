"""People at a host: which role each verb needs, who a user or the owner of a token is, and where that is kept."""

import os
import pwd
from pathlib import Path
from typing import Protocol

from detent.core.identity import Identity
from detent.core.machine import Action, Machine, Transition
from detent.core.people import People
from detent.core.question import Question
from detent.core.run import Run
from detent.errors import NotPermitted

PEOPLE_FILE = "detent.people.yaml"  # in the home, beside the journal
# What each verb needs. Reading needs nothing here: whoever can open the journal's file can read it, and the server
# asks for a viewer itself. `recover` and `settled` only go on with what somebody has decided.
NEEDS = {
    "start": "operator",
    "signal": "operator",
    "cancel": "operator",
    "hold": "operator",
    "release": "operator",
    "retry": "operator",
    "fork": "operator",
    "migrate": "operator",
    "answer": "approver",
    "settle": "admin",
    "prune": "admin",
    "people": "admin",
    "anchor": "operator",
    "restore": "admin",
    "move": "admin",
    "forget": "admin",
    "assist": "operator",
    "edit": "admin",
}
WORDS = {
    "start": "start runs",
    "signal": "send signals",
    "cancel": "cancel runs",
    "hold": "pause runs",
    "release": "resume runs",
    "retry": "retry runs",
    "fork": "fork runs",
    "migrate": "migrate runs",
    "answer": "answer",
    "settle": "settle what is in doubt",
    "prune": "delete runs",
    "people": "change the people",
    "anchor": "anchor the journal",
    "restore": "restore",
    "move": "move the home",
    "forget": "forget a journal",
    "assist": "change what the assistant keeps",
    "edit": "edit workflow files",
}
GUARDED = frozenset(  # what nothing that a step has started may do
    {"answer", "settle", "prune", "people", "restore", "move", "forget"}
)
DOUBT = frozenset({"happened", "not_happened", "give_up"})  # outcomes that settle a doubt
PROGRAMS = frozenset(
    {"mcp", "hook", "trigger"}
)  # who has a name of its own, and the rights of whoever runs this process
NAMED = "approvers"  # where a question keeps whom it was for, with the groups by their names
TOKENS_MAX = 1_000
Keys = dict[str, tuple[str, ...]]  # SSH public keys by person
NAMED_MAX = 10
LONGEST = 200  # of a name that somebody gives, in a sentence

# Changes of the people are events of a run of its own, so they are in a hash chain like everything else: CHANGED, then
# the file is written, then WRITTEN. A file that was never written may be missing; one that was may not.
RECORD_ID = "detent_people"
RECORD = Machine(
    name=RECORD_ID,
    initial="kept",
    transitions=[
        Transition(
            "kept",
            "kept",
            on="CHANGED",
            then=(
                Action("digest", "set", {"name": "context.digest", "value": "{{ event.data.digest }}"}),
                Action("before", "set", {"name": "context.before", "value": "{{ event.data.before }}"}),
            ),
        ),
        Transition(
            "kept",
            "kept",
            on="WRITTEN",
            then=(Action("written", "set", {"name": "context.written", "value": "{{ event.data.digest }}"}),),
        ),
        Transition("kept", "kept", on="ATTEMPTED"),
        Transition("kept", "kept", on="LINKED"),
    ],
    title="Changes of the people of this home",
)


def keys_of(people: People | None) -> Keys:
    """Everybody's SSH keys; who has none is not there."""
    return {person.name: person.keys for person in people.persons if person.keys} if people is not None else {}


class PeopleSource(Protocol):
    """Where the people of a home are kept, and the token that this process brings, if any."""

    token: str

    def current(self) -> People | None:
        """The people as they are kept now; None where names are only claimed."""

    def check(self, people: People) -> None:
        """Refuse people who cannot be kept, with a sentence."""

    def write(self, people: People) -> None:
        """Keep these people from now on."""


def difference_of(people: People | None, record: Run | None) -> str:
    """How the people's file and the journal disagree, as a sentence; nothing when they agree."""
    digest = people.digest if people is not None else ""
    known = str(record.context.get("digest") or "") if record is not None else ""
    if digest == known:
        return ""
    if record is not None and known and digest == str(record.context.get("before") or ""):
        return "the last change of the people is in the journal and not in the file: make it again"
    if not digest:
        return "the file of the people is gone, and the journal knows of one: put it back"
    if not known:
        return "the people were written by hand, and the journal knows of none: `detent people adopt`"
    return "the file of the people was changed by hand: `detent people adopt` puts that into the journal"


def has_people(home: Path) -> bool:
    """Whether a home knows people; one that cannot be looked at does."""
    try:
        os.lstat(home / PEOPLE_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


class Tokens:
    """Whose a token is; one that was right is not hashed again as long as the people are the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def identify(self, people: People, token: str, wish: str = "") -> Identity:
        """The owner of a token, in their own name or in one they may speak for."""
        mark = (people.digest, token)
        name = self._known.get(mark)
        if name is None:
            person = people.of_token(token)
            if person is None:
                raise NotPermitted("this token is nobody's; an admin can give a new one: `detent people token NAME`")
            name = person.name
            if len(self._known) >= TOKENS_MAX:
                self._known.clear()
            self._known[mark] = name
        return speak(Identity(name, "token"), wish)


def identify_user(people: People, uid: int, wish: str = "") -> Identity:
    """A user of this machine, in their own name or in one they may speak for."""
    user = user_name(uid)
    person = people.of_os_user(user)
    if person is None:
        raise NotPermitted(
            f"the user `{user}` of this machine is nobody among the people of this home; an admin can say"
            f" `detent people add NAME --os-user {user} --role …`, or use a token (`DETENT_TOKEN`)"
            f"{who_is('admin', people)}"
        )
    return speak(Identity(person.name, "os_user"), "" if wish == user else wish)


def speak(who: Identity, wish: str) -> Identity:
    """Somebody in their own name, or in the one they wish; whether they may is asked where every verb is let in."""
    return who if wish in ("", who.name) else Identity(wish[:LONGEST], who.known, who.name)


def check_speaker(people: People, who: Identity) -> None:
    """Refuse whoever is not there, or speaks for somebody they may not speak for."""
    person = people.by_name.get(who.speaker)
    if person is None:
        raise NotPermitted(f"`{who.speaker}` is not among the people of this home{who_is('admin', people)}")
    if who.spoken_by and who.name not in person.speaks_for:
        allowed = f", and for {', '.join(person.speaks_for)}" if person.speaks_for else ""
        raise NotPermitted(f"you are `{person.name}` and may speak for yourself{allowed}, not for `{who.name}`")


def check_role(people: People, verb: str, who: Identity, user: str = "") -> None:
    """Refuse who lacks the role for a verb; `user` is who runs this process, with whose rights programs act."""
    role = NEEDS[verb]
    if who.known in PROGRAMS:
        is_trusted = who.known in ("hook", "trigger")
        person = None if is_trusted else people.of_os_user(user)
        if is_trusted and role == "operator":
            return  # a signature was checked, or an operator has armed it: whoever did may send signals and start runs
    else:
        check_speaker(people, who)
        person = people.by_name.get(who.name)
    if person is None or not person.is_a(role):
        has = ", ".join(person.roles) if person is not None and person.roles else "nothing"
        raise NotPermitted(f"`{who}` is {has}; to {WORDS[verb]} takes the role {role}{who_is(role, people)}")


def find_approvers(asked: Question, people: People) -> tuple[str, ...]:
    """Who may answer a question: the people who are in its groups now."""
    lists = asked.data.get(NAMED)
    if not isinstance(lists, list):
        return asked.approvers
    found = [people.resolve(str(name) for name in names) for names in lists if names]
    now = found[0] if found else ()
    if len(found) > 1:
        now = tuple(name for name in found[0] if name in found[1]) or found[1]
    return now or asked.approvers


def user_name(uid: int) -> str:
    """The name of a user of this machine."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def who_is(role: str, people: People) -> str:
    """Who has a role, as the end of a sentence."""
    names = people.holders(role)
    if not names:
        return f"; nobody is {role}"
    return f"; {role}: {', '.join(names[:NAMED_MAX])}{', …' if len(names) > NAMED_MAX else ''}"
