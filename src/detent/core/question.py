"""A question put to a person (or to the outside) before a contract goes on.

The question holds the exact resolved call; the answer is bound to its hash, so changed arguments need a new answer.
"""

from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr

from detent.core.value import intern_texts, sort_keys

Reason = Literal["approval", "form", "outcome_unknown", "callback", "event", "timer"]


class Question(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a WAITING contract waits for, and who may answer."""

    text: str = ""
    reason: Reason = "approval"
    schema: dict[str, Any] = {}  # JSON Schema of a form's data
    approvers: tuple[str, ...] = ()  # empty: anybody but the run itself
    quorum: int = 1
    separate: bool = False  # whoever started the run may not answer
    expires_s: float = 0.0  # 0: waits for ever
    hears_no: bool = False  # whoever asks is at work and must be told of a no as well
    data: dict[str, Any] = {}  # what the asker knows, shown with the question
    # the same deed, done or possible: {run_id, contract_id, status, at, by, approved_by, result, error}
    earlier: dict[str, Any] = {}
    require_signature: bool = False  # every answer must be signed with an SSH key of whoever says it
    # of an action: an expression that gives `approvers` and `separate` when it is asked, in the place of those above
    terms: str = ""

    def __post_init__(self) -> None:
        intern_texts(self, "reason")
        if self.schema or self.data or self.earlier:
            force_setattr(self, "schema", sort_keys(self.schema))
            force_setattr(self, "data", sort_keys(self.data))
            force_setattr(self, "earlier", sort_keys(self.earlier))


class AnswerSignature(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An SSH signature, with the very text that was signed (see `core.signed_answer`)."""

    payload: str
    signature: str


class Answer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What somebody said to a question, journalled as it was given."""

    approved: bool | None = None
    by: str = ""
    known_by: str = ""  # what vouches for the name; empty: nothing, it is claimed
    spoken_by: str = ""  # who said it in that name, where that is somebody else
    channel: str = ""
    comment: str = ""
    args: dict[str, Any] | None = None  # approve with these arguments instead
    patch: dict[str, Any] = {}  # values for the run's context
    call_hash: str = ""  # the call the person saw; must be the one that waits
    shown: str = ""  # the question the person saw (`signed_answer.shown_hash`); must be the one that is answered
    data: Any = None  # a form's data
    # `happened`, `not_happened`, `give_up` answer a doubt; `use`: the result of the earlier deed will do
    outcome: Literal["", "happened", "not_happened", "give_up", "use"] = ""
    result: Any = None  # with happened or use: what it gave
    signature: AnswerSignature | None = None
