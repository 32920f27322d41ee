"""All checks by name."""

from detent.testing.conformance import (
    answers,
    children,
    evidence,
    groups,
    people,
    reading,
    restoring,
    signatures,
    triggers,
    verbs,
    work,
)
from detent.testing.conformance.stage import Check

CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check
    for module in (verbs, answers, people, signatures, work, children, evidence, reading, restoring, triggers, groups)
    for name, check in sorted(vars(module).items())
    if name.startswith("check_")
}
