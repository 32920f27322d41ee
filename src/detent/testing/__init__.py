"""For your own tests: scripted effects, virtual time, a simulated host, crash-anywhere, and cases for workflow files.

The host under test is the real one on a real SQLite file; only time, the outside world and the moment of death are
made up. Time jumps to the next alarm as soon as nothing else can happen, so a week of waiting takes no time at all.

    world = World(seed=7)
    pay = world.effect("bank.pay", kind="irreversible")
    report = crash_anywhere(Story(MACHINE, input={...}), world_factory)
"""

from detent.testing.case import Case, CaseStep, read_cases, read_tools
from detent.testing.case_record import record_case
from detent.testing.case_run import CaseVerdict, Told, crash_case, play, try_case, try_cases
from detent.testing.coverage import CaseCoverage, measure_coverage
from detent.testing.crash_test import (
    Operator,
    Report,
    Story,
    assert_laws,
    crash_anywhere,
    honest,
    is_settled,
    tell,
    tell_all,
)
from detent.testing.dry_run import Beat, Rehearsal, rehearse
from detent.testing.world import (
    WAYS_TO_FAIL,
    MortalHost,
    ScriptedDeed,
    Stuck,
    VirtualClock,
    VirtualLoop,
    World,
    simulate,
)

__all__ = [
    "World",
    "WAYS_TO_FAIL",
    "ScriptedDeed",
    "MortalHost",
    "Stuck",
    "VirtualClock",
    "VirtualLoop",
    "simulate",
    "Operator",
    "Story",
    "Report",
    "honest",
    "tell",
    "tell_all",
    "assert_laws",
    "crash_anywhere",
    "is_settled",
    "Case",
    "CaseStep",
    "Told",
    "CaseVerdict",
    "read_cases",
    "read_tools",
    "crash_case",
    "record_case",
    "play",
    "try_case",
    "try_cases",
    "CaseCoverage",
    "measure_coverage",
    "Beat",
    "Rehearsal",
    "rehearse",
]
