"""`./run frameworks [TRIES] [NAME…]`: how often a payment is made under each framework, without and with detent.

Every try is a set of real processes that are killed, approved twice or run twice at once (`driver.py`). Prints the
table of docs/how-to/guard-your-agent.md as Markdown, and ends with 1 if a payment was made twice under detent or lost.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.agents.coding import fetch

TITLES = {
    "langgraph": "LangGraph",
    "openai-agents": "OpenAI Agents",
    "pydantic-ai": "Pydantic AI",
    "claude-agent-sdk": "Claude Agent SDK",
}
SCENARIOS = {
    "killed_before": "killed inside, before the payment",
    "killed_inside": "killed inside, after the payment",
    "killed_after": "killed after, before the agent kept it",
    "approved_twice": "approved twice",
    "twice_at_once": "resumed twice at once",
    "second_run": "a second run",
}
MAY_ASK = {"killed_before": 0, "killed_inside": 1}  # nobody can know: what was made of them, with a question
Found = dict[str, list[list[Any]]]


def measure(framework: str, way: str, tries: int, scenarios: list[str]) -> Found:
    """What came of each try of these scenarios: how often it was paid, and whether somebody is asked."""
    python = fetch.found(framework)
    if python is None:
        raise SystemExit(f"run: {framework} is not here; ./run agents {framework} fetches it")
    # a coding agent whose driver was killed may still write to its home
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": str(ROOT / "src")}
        driver = str(Path(__file__).with_name("driver.py"))
        command = [python, driver, framework, f"{folder}/tries", str(tries), way, *scenarios]
        found: Found = {}
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                found[told["scenario"]] = told["tries"]
                print(f"{framework} {way} {told['scenario']}: {render(told['tries'])}", file=sys.stderr, flush=True)
        if process.returncode or len(found) != len(scenarios):
            raise SystemExit(f"run: {framework} ({way}) ended with {process.returncode}")
        return found


def render(tries: list[list[Any]]) -> str:
    """`1`, or `1, asks`; where the tries differ, each with its number."""
    counted = Counter(f"{paid}, asks" if is_asked else str(paid) for paid, is_asked in tries)
    if len(counted) == 1:
        return next(iter(counted))
    return " / ".join(f"{told} ({number}×)" for told, number in counted.most_common())


def is_right(scenario: str, tries: list[list[Any]]) -> bool:
    """Whether each try came to one payment, or to what is known with a question."""
    wanted = [MAY_ASK[scenario], True] if scenario in MAY_ASK else [1, False]
    return all(one == wanted for one in tries)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="./run frameworks", description=__doc__)
    parser.add_argument("tries", nargs="?", type=int, default=5, metavar="TRIES")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--guarded-only", action="store_true", help="leave out what the frameworks do by themselves")
    parser.add_argument("--bare-only", action="store_true", help="leave out detent")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one, or these")
    given = parser.parse_args()
    scenarios = given.scenario or list(SCENARIOS)
    strange = [name for name in given.names if name not in TITLES]
    if strange:
        parser.error(f"there is no framework {strange[0]}; known: {', '.join(TITLES)}")
    names = given.names or [name for name in TITLES if fetch.found(name)]
    ways = ["guarded"] if given.guarded_only else ["bare"] if given.bare_only else ["bare", "guarded"]
    began, columns = time.monotonic(), [(name, way) for name in names for way in ways]
    found = {column: measure(*column, given.tries, scenarios) for column in columns}
    heads = ["with detent" if way == "guarded" else TITLES[name] for name, way in columns]
    print("| " + " | ".join(["", *heads]) + " |")
    print("|" + "---|" * (len(heads) + 1))
    for scenario in scenarios:
        print("| " + " | ".join([SCENARIOS[scenario], *(render(found[column][scenario]) for column in columns)]) + " |")
    wrong = [(name, one) for name, way in columns if way == "guarded" for one in scenarios
             if not is_right(one, found[name, way][one])]  # fmt: skip
    for name, scenario in wrong:
        print(f"run: {name}: {scenario} went wrong", file=sys.stderr)
    print(f"{given.tries} tries each, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
