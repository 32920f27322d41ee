"""The long version of the crash tests: every case with a death at every moment, then histories, SIGKILL and payments.

./run soak [MINUTES]
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

from detent.testing import crash_case, read_cases
from tests.simulation.history import check
from tests.simulation.payment import harm, played
from tests.simulation.sigkill import rounds

CASES = Path(__file__).parents[1] / "define" / "cases"
PAYMENTS = 10  # rounds of each scenario between two looks at the clock
HARM = ("duplicates", "missing", "lost", "unfinished", "broken")


def cases() -> bool:
    """Play every case with a death at every one of its moments."""
    found = [case for path in sorted(CASES.glob("*.test.yaml")) for case in read_cases(path)]
    broken = [(case.where, verdict) for case in found if not (verdict := crash_case(case)).ok]
    for where, verdict in broken:
        print(f"{where}: {verdict.id}: {verdict.problem}")
    print(f"{len(found)} cases, each with a death at every moment: {len(broken)} went wrong", flush=True)
    return not broken


def main(minutes: float) -> int:
    """Soak until the time is over or something breaks."""
    until = time.monotonic() + minutes * 60
    if not cases():
        return 1
    seed = random.randrange(2**31)
    histories = kills = payments = 0
    while time.monotonic() < until:
        for _ in range(200):
            seed += 1
            try:
                check(seed)
            except BaseException:
                print(f"history {seed} broke a law: tests.simulation.history.check({seed}) tells it again")
                raise
        histories += 200
        with tempfile.TemporaryDirectory(prefix="detent-soak-") as folder:
            found = rounds(50, seed, Path(folder))
        kills += int(str(found["killed"]))
        if any(found[name] for name in HARM):
            print(json.dumps(found))
            return 1
        if wrong := harm(played(PAYMENTS)):
            print("\n".join(wrong))
            return 1
        payments += PAYMENTS
        done = f"{histories} histories, {kills} kills, {payments} payments in each way"
        print(f"{done}: nothing lost, nothing repeated", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0))
