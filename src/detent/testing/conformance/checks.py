"""All checks by name."""

from detent.testing.conformance import (
    answers,
    artefacts,
    children,
    concurrency_groups,
    evidence,
    people,
    races,
    rate_limits,
    reading,
    restoring,
    signatures,
    triggers,
    verbs,
    work,
    worker_affinities,
)
from detent.testing.conformance.fixtures import Check

MODULES = (
    verbs, answers, people, signatures, work, children, evidence, reading, restoring, triggers,
    concurrency_groups, artefacts, rate_limits, worker_affinities, races,
)  # fmt: skip
CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check
    for module in MODULES
    for name, check in sorted(vars(module).items())
    if name.startswith("check_") and not name.startswith("check_place_")
}
