"""Several processes on one home, stopped, woken and killed in an order that a seed decides; their clocks are apart."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.effort import examples
from tests.faults.library import build_library

ROOT = Path(__file__).parents[2]


def test_whatever_happens_to_the_processes_no_deed_is_repeated_and_nothing_is_lost(tmp_path: Path) -> None:
    library, seed = build_library(tmp_path), random.randrange(2**32)
    print(f"seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.crowd", str(examples(6)), str(seed), library],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": library},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [one for one in rounds if one["wrong"]]
    assert sum(one["deeds"] for one in rounds) > 0
    assert sum(one["stopped"] for one in rounds) > 0
