"""Two hundred rounds of SIGKILL: nothing done twice, nothing lost."""

import json
import subprocess
import sys
from pathlib import Path


def test_two_hundred_kills_lose_nothing_and_repeat_nothing() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.sigkill", "200"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] > 100, found
    assert found["last_exit"] == 0, (found, done.stderr)
    nothing: dict[str, list[str]] = {"duplicates": [], "missing": [], "lost": [], "unfinished": [], "broken": []}
    assert {name: found[name] for name in nothing} == nothing, found


def test_runs_of_a_group_take_turns_through_kills() -> None:
    """`python -m tests.simulation.turns 1000 50` is the same at its full size."""
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "tests.simulation.turns", "30", "4"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = {"last_exit": 0, "in_order": True, "whole": True, "broken": []}
    assert {name: found[name] for name in wanted} == wanted, (found, done.stderr)
    assert found["killed"] > 0
