"""All checks by name."""

from detent.testing.conformance import (
    answers,
    artefacts,
    children,
    evidence,
    groups,
    paces,
    people,
    places,
    races,
    reading,
    restoring,
    signatures,
    triggers,
    verbs,
    work,
)
from detent.testing.conformance.stage import Check

MODULES = (
    verbs, answers, people, signatures, work, children, evidence, reading, restoring, triggers, groups, artefacts,
    paces, places, races,
)  # fmt: skip
CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check
    for module in MODULES
    for name, check in sorted(vars(module).items())
    if name.startswith("check_") and not name.startswith("check_place_")
}
