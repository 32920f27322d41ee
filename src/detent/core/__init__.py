"""The pure core: machines, runs, contracts, and the one function that moves them. No clock, no I/O."""

from detent.core.commands import Abort, Ask, Command, Finish, Perform, Wake
from detent.core.contract import CONTRACT, Contract, Failure
from detent.core.effect_type import (
    Declared,
    Declined,
    Effect,
    EffectFailed,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
    StillRunning,
    effect,
)
from detent.core.engine import advance
from detent.core.events import ContractMoved, Event, Signalled, Started
from detent.core.history import Consequence, Entry, trace
from detent.core.machine import Action, Await, Branch, Limits, Machine, Retry, Transition, Wait, table
from detent.core.question import Answer, Question
from detent.core.run import Run
from detent.core.status import Status

__all__ = [
    "CONTRACT",
    "Abort",
    "Action",
    "Answer",
    "Ask",
    "Await",
    "Branch",
    "Command",
    "Contract",
    "ContractMoved",
    "Declared",
    "Effect",
    "EffectFailed",
    "Declined",
    "Entry",
    "Event",
    "Failure",
    "Finish",
    "Limits",
    "Machine",
    "Outcome",
    "OutcomeUnknown",
    "PartialFailure",
    "Perform",
    "Question",
    "Retry",
    "Run",
    "Signalled",
    "Started",
    "Status",
    "StillRunning",
    "Consequence",
    "Transition",
    "Wait",
    "Wake",
    "advance",
    "effect",
    "table",
    "trace",
]
