"""What the tools answer: models, so that clients get structured content with a schema."""

from typing import Any

from pydantic import BaseModel, Field


class Question(BaseModel):
    """Something a run waits for a person to say."""

    run_id: str
    contract_id: str
    action: str = ""
    reason: str = Field(description="approval, form or outcome_unknown")
    question: str
    call: dict[str, Any] = Field(default={}, description="The exact call that waits; an answer is bound to its hash.")
    call_hash: str = ""
    irreversible: bool = False
    require_signature: bool = Field(default=False, description="Answered in a terminal: `detent approve … --sign`.")
    data: dict[str, Any] = Field(default={}, description="Of a doubt: cause, result, lands_until (epoch seconds).")
    earlier: dict[str, Any] = Field(default={}, description="The same deed, done or possibly done before.")


class Standing(BaseModel):
    """Where a run stands."""

    run_id: str
    machine: str
    state: str
    status: str = Field(description="pending, running, waiting, completed, failed, rejected or cancelled")
    waiting: list[Question] = []
    accepts: list[str] = Field(default=[], description="Events that `signal` may tell it now.")
    output: Any = None
    error: dict[str, Any] | None = None
    alarms: list[str] = Field(default=[], description="Deeds done twice perhaps, or left standing: tell your user.")
    failed: int = Field(default=0, description="What a completed run went on without: items, branches or calls.")
    checkpoint: str = ""
    cost_usd: float | None = Field(default=0.0, description="null when the cost of a call is not known")


class Line(BaseModel):
    """One run of a list."""

    run_id: str
    machine: str
    state: str
    status: str
    started_at: float
    updated_at: float
    failed: int = 0
    alarms: list[str] = []


class Lines(BaseModel):
    """Runs, newest first."""

    runs: list[Line]


class Events(BaseModel):
    """Events of a run in their order."""

    run_id: str
    events: list[dict[str, Any]]
    last: int = Field(description="Ask for what comes `after` this number next time.")
    has_more: bool = False


class MadeDocument(BaseModel):
    """Something that a run has made."""

    uri: str = Field(description="Read it as a resource.")
    run_id: str
    agent: str
    mime: str


class Documents(BaseModel):
    """What the latest runs have made."""

    documents: list[MadeDocument]


class Questions(BaseModel):
    """Everything that waits for a person."""

    questions: list[Question]


class Decision(BaseModel):
    """What came of asking the user."""

    is_decided: bool
    answer: str = Field(description="approved, rejected, filled_in, settled or open")
    by: str = ""
    run: Standing


class Approval(BaseModel):
    """What a person is asked before something is done."""

    approve: bool = Field(title="Do it?", description="Yes: it is done exactly as shown. No: it is rejected.")
    comment: str = Field(default="", title="Why", description="Kept in the journal.")


class Again(Approval):
    """What a person is asked before something is done that was done before; its result is used on stronger channels."""

    approve: bool = Field(title="Do it again?", description="Yes: it is done once more, as shown. No: it is rejected.")
