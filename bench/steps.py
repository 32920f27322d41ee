"""`steps:` files: 100 steps, durable, against one step, through the command line."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.engine import folder
from bench.figure import Figure, best
from bench.workflows import DETENT, called

STEPS = 100
ROUNDS = 3
MOST = 3.6  # of the program these files come from, which writes nothing down


def steps_file() -> Iterator[Figure]:
    """A run of 100 shell lines against a run of one, taking turns."""
    with folder() as home:
        for count in (1, STEPS):
            steps = [{"id": f"s{number}", "run": "true"} for number in range(count)]
            (home / f"{count}.lobster").write_text(json.dumps({"steps": steps}))
        _run(home, 1)  # compiles what is not compiled yet
        taken = [(best(lambda: _run(home, 1), 1), best(lambda: _run(home, STEPS), 1)) for _ in range(ROUNDS)]
    ratio = statistics.median(hundred / one for one, hundred in taken)
    one, hundred = (statistics.median(times) for times in zip(*taken, strict=True))
    yield Figure("steps-file", f"{STEPS} steps, durable", round(hundred * 1e3, 1), "ms", round(one * 1e3, 1),
                 round(ratio, 2), f"≤ {MOST}× one step", ratio <= MOST)  # fmt: skip


def _run(home: Path, count: int) -> None:
    called(home, str(DETENT), "run", f"{count}.lobster", "--envelope", "lobster")


GROUPS = {"steps-file": steps_file}
