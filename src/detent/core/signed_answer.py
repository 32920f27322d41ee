"""What a signed answer says: the text under the signature, made from the question and the answer alone.

The text is canonical JSON and is kept as it was signed, so nobody who checks it has to make it again. The signature
itself is OpenSSH's (`ssh-keygen -Y sign`, namespace `detent`); hosts have it checked before an answer becomes an event.
"""

import shlex
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.identity import Identity
from detent.core.question import Answer, Question
from detent.core.value import canonical, digest
from detent.errors import Refused

NAMESPACE = "detent"
PAYLOAD_MAX = 1_000_000  # characters of a signed text
SIGNATURE_MAX = 16_384
NEAR_S = 600.0  # how far the time of a signature may be from the host's


class SignedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signed text as a value: to which question of which run in which journal, who says what, and when."""

    answer: dict[str, Any]
    by: str  # for whom it counts
    call_hash: str
    contract: str
    epoch: int
    format: Literal["detent-answer-1"]
    journal: str
    question: str  # see `question_hash`
    run: str
    signer: str  # who says it, and whose key it is
    time: int  # seconds since 1970


def sign_text(said: SignedAnswer) -> str:
    """The text to sign."""
    return canonical(said).decode()


def read_signed(text: str) -> SignedAnswer:
    """A signed text as a value; Refused where it is none, or not in the form in which detent writes it."""
    if len(text) > PAYLOAD_MAX:
        raise Refused(f"a signed text has at most {PAYLOAD_MAX:,} characters")
    try:
        said = msgspec.json.decode(text, type=SignedAnswer)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Refused(f"the signed text is not an answer: {error}") from None
    if sign_text(said) != text:
        raise Refused("the signed text is not canonical JSON: sorted keys, no blanks, every key once")
    return said


def signed_part(answer: Answer) -> dict[str, Any]:
    """What somebody says, without who says it and how it came."""
    bare = replace(answer, by="", known_by="", spoken_by="", channel="", call_hash="", shown="", signature=None)
    said: dict[str, Any] = msgspec.to_builtins(bare)
    return said


def question_hash(contract: Contract) -> str:
    """What tells one question from every other: what is asked, of which attempt, and since when.

    Without who may answer and until when: that may change while the question stands.
    """
    asked = replace(contract.question or Question(), approvers=(), expires_s=0.0)
    return digest([contract.id, contract.attempt, contract.moved_at, contract.answered, msgspec.to_builtins(asked)])


def shown_hash(run_id: str, contract: Contract) -> str:
    """One word for everything a person has before them: which run asks what, about which call, in which contract."""
    return digest([run_id, contract.call_hash, question_hash(contract)])


def expect_signed(
    journal: str, epoch: int, run_id: str, contract: Contract, answer: Answer, who: Identity, time: int
) -> SignedAnswer:
    """What whoever gives this answer to this question has to sign."""
    return SignedAnswer(
        answer=signed_part(answer),
        by=who.name,
        call_hash=contract.call_hash,
        contract=contract.id,
        epoch=epoch,
        format="detent-answer-1",
        journal=journal,
        question=question_hash(contract),
        run=run_id,
        signer=who.speaker,
        time=time,
    )


def find_difference(said: SignedAnswer, expected: SignedAnswer) -> str:
    """In what a signed text is about something else, as a sentence; nothing when it is about this."""
    for field, word in WORDS.items():
        if getattr(said, field) != getattr(expected, field):
            return f"the signature is for another {word}; sign this answer"
    return ""


WORDS = {
    "journal": "journal",
    "epoch": "state of the journal, before or after a restore",
    "run": "run",
    "contract": "contract",
    "call_hash": "call",
    "question": "question of this contract",
    "by": "person",
    "signer": "signer",
    "answer": "answer",
    "time": "time",
    "format": "format",
}


def unsigned_problem(run_id: str, contract: Contract, answer: Answer) -> str:
    """Why an answer without a signature does not do, with the command that signs it; nothing when it does."""
    question = contract.question
    if question is None or not question.require_signature or answer.signature is not None:
        return ""
    return f"the answer to `{contract.id}` must be signed, in a terminal: `{sign_command(run_id, contract.id, answer)}`"


def sign_command(run_id: str, contract_id: str, answer: Answer) -> str:
    """The command that gives and signs an answer like this one."""
    verb, *more = "approve" if answer.approved else "reject", "--sign"
    if answer.outcome:
        verb, more = "answer", ["--outcome", answer.outcome.replace("_", "-"), "--sign"]
    elif answer.data is not None or answer.approved is None:
        verb, more = "answer", ["--data", "JSON", "--sign"]
    return shlex.join(["detent", verb, run_id, contract_id, *more])
