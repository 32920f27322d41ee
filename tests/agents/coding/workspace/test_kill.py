"""kill -9 inside a checkpoint or a rollback: nobody's file is lost, and asked for once more it arrives.

`DETENT_GIT_KILLS=20` plays that many random trees and dies everywhere in each.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
TREES = int(os.environ.get("DETENT_GIT_KILLS", "0"))
SHARES = 1 if TREES else 2  # of the places to die, one for each tree


@pytest.mark.skipif(sys.platform != "linux", reason="finds the children of a process in /proc")
@pytest.mark.parametrize("seed", range(TREES or SHARES))
def test_a_checkpoint_and_a_rollback_can_die_anywhere(seed: int, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.agents.coding.workspace.mortal", str(tmp_path), str(seed), str(SHARES)]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=280 * (SHARES > 1) or None, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(told["checkpoint"].values()) >= 1, told
    assert sum(told["rollback"].values()) >= 4, told
