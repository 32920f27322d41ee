"""Signed answers at the journal: checked before they become events, and again whenever a run is verified.

Both ask the same: whose keys were in force when the answer was given, as the run of the people's changes says. So a
key that is removed later does not make an old answer bad, and one that is added later makes no old answer good.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.core.answer import answer_of
from detent.core.contract import Contract
from detent.core.events import ContractMoved, Event, Signalled
from detent.core.identity import Identity
from detent.core.people import People
from detent.core.question import Answer
from detent.core.run import Run
from detent.core.signed_answer import (
    NEAR_S,
    SignedAnswer,
    expect_signed,
    find_difference,
    read_signed,
    unsigned_problem,
)
from detent.errors import BadSignature, JournalError, Refused
from detent.host.parts.journal_query import AnyJournal
from detent.host.people import RECORD_ID, Keys
from detent.host.ssh_signature import find_flaw, list_signers


class KeyRecord:
    """The SSH keys of the people as the journal knows them: whose were in force when."""

    def __init__(self, journal: AnyJournal) -> None:
        self._at: list[float] = []
        self._keys: list[Keys] = []
        record = journal.record(RECORD_ID)
        for _, event, _, _ in journal.events(record.no) if record is not None else ():
            keys = event.data.get("keys") if isinstance(event, Signalled) and event.name == "CHANGED" else None
            if isinstance(keys, dict):
                # Time that seems to go back does not bring back what was in force before.
                self._at.append(max(event.at, self._at[-1]) if self._at else event.at)
                self._keys.append({str(name): tuple(map(str, several)) for name, several in keys.items()})

    @property
    def last(self) -> Keys:
        """The keys after the last change."""
        return self._keys[-1] if self._keys else {}

    def in_force(self, at: float) -> Keys:
        """The keys at some time."""
        found = bisect_right(self._at, at)
        return self._keys[found - 1] if found else {}


async def check_signed(journal: AnyJournal, people: People | None, answer: Answer, who: Identity, at: float) -> None:
    """Have a signature checked: by whom it is and when it was made; BadSignature where it does not hold."""
    given = answer.signature
    if given is None:
        return
    said = _read(given.payload)
    if abs(said.time - at) > NEAR_S:
        raise BadSignature(f"the signature was made {abs(said.time - at):.0f} s away from now; sign this answer again")
    if people is None:
        raise BadSignature("this home knows nobody's keys; `detent people add NAME --role approver --key FILE`")
    person = people.by_name.get(who.speaker)
    listed = person.keys if person is not None else ()
    known = KeyRecord(journal).in_force(at).get(who.speaker, ())
    keys = [key for key in listed if key in known]
    if listed and not keys:
        raise BadSignature(f"the journal knows no key of `{who.speaker}`: `detent people adopt` puts the file into it")
    allowed = list_signers([(who.speaker, keys)])
    problem = await asyncio.to_thread(find_flaw, given.payload, given.signature, who.speaker, allowed)
    if problem:
        raise BadSignature(problem)


def check_meaning(journal: AnyJournal, run: Run, contract: Contract, answer: Answer, who: Identity) -> None:
    """Refuse an answer that must be signed and is not, and a signature for something else than this answer."""
    if problem := unsigned_problem(run.id, contract, answer):
        raise Refused(problem)
    if answer.signature is None:
        return
    identity = journal.identity()
    if identity is None:
        raise JournalError("this journal has no id that could be signed")
    said = _read(answer.signature.payload)
    expected = expect_signed(identity.journal_id, identity.epoch, run.id, contract, answer, who, said.time)
    if problem := find_difference(said, expected):
        raise BadSignature(problem)


def _read(payload: str) -> SignedAnswer:
    try:
        return read_signed(payload)
    except Refused as error:
        raise BadSignature(str(error)) from None


def keep_signed(said: Mapping[str, Any]) -> dict[str, Any]:
    """A signed answer as it is journalled: what was signed, who said it, and nothing beside."""
    answer = answer_of(said)
    call_hash = "" if answer.signature is None else _read(answer.signature.payload).call_hash
    kept: dict[str, Any] = msgspec.to_builtins(replace(answer, call_hash=call_hash, shown=""))
    return kept


class SignatureProof:
    """Checks the signatures of a run's answers while it is replayed."""

    def __init__(self, journal: AnyJournal, allowed: str = "") -> None:
        self._journal, self._allowed = journal, allowed
        self._record: KeyRecord | None = None
        self._identity = journal.identity()
        self.count = 0  # of the signatures that hold

    def find_problem(self, before: Run, seq: int, event: Event) -> str:
        """Why the signature of an event does not hold; nothing when it does, or where there is none."""
        if not isinstance(event, ContractMoved) or event.trigger != "resume" or not isinstance(event.result, dict):
            return ""
        if event.result.get("signature") is None or (contract := before.contract(event.contract_id)) is None:
            return ""
        answer = answer_of(event.result)
        problem = self._find_problem(before, contract, answer, event.at)
        if problem:
            return f"event {seq}: the answer of `{answer.spoken_by or answer.by}` is not signed as it says: {problem}"
        self.count += 1
        return ""

    def _find_problem(self, run: Run, contract: Contract, answer: Answer, at: float) -> str:
        given, who = answer.signature, Identity(answer.by, spoken_by=answer.spoken_by)
        if given is None or self._identity is None:
            return "the journal has no id"
        try:
            said = read_signed(given.payload)
        except Refused as error:
            return str(error)
        if not 1 <= said.epoch <= self._identity.epoch or abs(said.time - at) > NEAR_S:
            return "it was made at another time"
        journal_id = self._identity.journal_id
        expected = expect_signed(journal_id, said.epoch, run.id, contract, answer, who, said.time)
        if problem := find_difference(said, expected):
            return problem
        if not self._allowed and self._record is None:
            self._record = KeyRecord(self._journal)
        keys = self._record.in_force(at).get(who.speaker, ()) if self._record is not None else ()
        allowed = self._allowed or list_signers([(who.speaker, keys)])
        return find_flaw(given.payload, given.signature, who.speaker, allowed)
