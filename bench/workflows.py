"""The figures of workflow files: durable steps through the command line, long runs, loading, start-up."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from bench.engine import folder, raw_commits
from bench.figure import Figure, best
from detent.define import load
from detent.define.workflow import load_workflow
from detent.effects import builtin
from detent.host.embedded import EmbeddedHost

STEPS = 100
LONG = 10_000
WINDOW = 1_000  # steps that are timed together
TURNS = 3
ROUNDS = 25
LINES = 1_200
DETENT = Path(sys.executable).with_name("detent")
TOOL = "async def nothing(**given):\n    return {}\n"
TIMED_TOOL = """
import time
BEGUN = []
async def nothing(**given):
    BEGUN.append(time.perf_counter())
    return {}
"""


def chain(length: int, *, is_cut: bool = False) -> str:
    """A workflow of that many trivial `python` steps; cut short, the same file leads to its end after the first."""
    cut = f"  - {{from: s0, to: s{length}}}\n" if is_cut else ""
    states = [f"  s{n}: {{type: normal, actions: [{_step(n)}]}}\n" for n in range(1, length)]
    rows = [f"  - {{from: s{n}, to: s{n + 1}}}\n" for n in range(length)]
    first, last = f"  s0: {{type: initial, actions: [{_step(0)}]}}\n", f"  s{length}: {{type: final}}\n"
    limits = f"limits: {{max_transitions: {length + 10}}}\n"
    return f"{limits}states:\n{first}{''.join(states)}{last}transitions:\n{cut}{''.join(rows)}"


def loop(rounds: int) -> str:
    """A workflow that makes the same trivial step that often."""
    return (
        f"limits: {{max_transitions: {rounds + 10}}}\n"
        f"states:\n  a: {{type: initial, variables: {{n: 1}}, actions: [{_step(0)}]}}\n  z: {{type: final}}\n"
        f"transitions:\n"
        f'  - {{from: a, to: a, condition: "{{{{ state.n < {rounds} }}}}",'
        f" on_transition: [{{action: increment_variable, variable: state.n}}]}}\n"
        f"  - {{from: a, to: z}}\n"
    )


def _step(number: int) -> str:
    return f"{{id: t{number}, python: 'bench_tools:nothing', effect: pure}}"


def long_file(lines: int) -> str:
    """A workflow as people write it, of that many lines."""
    states, rows, number = [], [], 0
    while len(states) + len(rows) < lines - 8:
        states += [
            f"  step{number}:",
            f"    type: {'normal' if number else 'initial'}",
            "    actions:",
            f"      - id: act{number}",
            "        type: tool_call",
            "        tool: http",
            "        params:",
            f'          url: "https://example.org/{{{{ context.item }}}}/{number}"',
        ]
        rows += [
            f"  - from: step{number}",
            f"    to: step{number + 1}",
            f'    condition: "{{{{ result.act{number}.success }}}}"',
            f"  - {{from: step{number}, to: error}}",
        ]
        number += 1
    return "\n".join(["states:", *states, f"  step{number}:", "    type: final", "transitions:", *rows, ""])


def called(home: Path, *argv: str) -> None:
    """One command to its end."""
    # As it is for a user: compiled modules are kept.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"NO_COLOR": "1"}
    done = subprocess.run(argv, cwd=home, capture_output=True, env=env, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())


def _fresh(home: Path, file: str) -> Callable[[], None]:
    """A run in a journal of its own each time."""
    count = iter(range(10_000))
    return lambda: called(home, str(DETENT), "run", file, "--home", f"home{next(count)}-{file}")


def through_the_command_line() -> Iterator[Figure]:
    """`detent run` of 100 steps against 100 raw commits, and of one step against starting Python.

    Start-up is all that comes before the steps, so it is that of the same file, cut short. What is compared takes turns
    and the middle of the rounds counts: a machine that is busy for a while is busy for all of them, and a disk
    that is quick for a moment is quick only for the shortest.
    """
    with folder() as home:
        (home / "bench_tools.py").write_text(TOOL)
        (home / "hundred.yaml").write_text(chain(STEPS))
        (home / "cut.yaml").write_text(chain(STEPS, is_cut=True))
        (home / "one.yaml").write_text(chain(1))
        _fresh(home, "one.yaml")()  # compiles what is not compiled yet
        begin, long, short = (_fresh(home, file) for file in ("cut.yaml", "hundred.yaml", "one.yaml"))
        taken = []
        for _ in range(ROUNDS):
            allowed = 1.5 * raw_commits(STEPS)[0] + best(begin, 1)
            taken.append((best(long, 1), allowed))
        ratio = statistics.median(hundred / allowed for hundred, allowed in taken)
        hundred, allowed = (statistics.median(one) for one in zip(*taken, strict=True))
        pairs = [(best(lambda: called(home, sys.executable, "-c", "pass"), 1), best(short, 1)) for _ in range(ROUNDS)]
        bare, one = map(min, zip(*pairs, strict=True))
    yield Figure("workflows", "100 steps, CLI", round(hundred * 1e3, 1), "ms", round(allowed * 1e3, 1),
                 round(ratio, 2), "≤ 1.5× raw commits + start-up", ratio <= 1)  # fmt: skip
    yield Figure("workflows", "one step, CLI", round(one * 1e3, 1), "ms", round(bare * 1e3, 1),
                 round(one / bare, 2), "< 250 ms (ratio: python -c pass)", one < 0.25)  # fmt: skip


def growing() -> Iterator[Figure]:
    """What a transition costs late in a run of 10,000 steps against one in runs of 100.

    1,000 steps of the long run's second half and ten whole short runs are as many commits, snapshots and checkpoints,
    so one is as likely to be disturbed as the other. There are as many of each, they take turns, and the least
    disturbed counts.
    """

    async def begun(home: Path, rounds: int, times: int) -> list[float]:
        """When each step of so many runs of so many steps began, and when the last run had ended."""
        sys.modules.pop("bench_tools", None)
        (home / "loop.yaml").write_text(loop(rounds))
        machine = load(home / "loop.yaml").machine  # and its folder is where the tool is found
        with folder() as journal:
            async with EmbeddedHost(journal, builtin()) as host:
                for _ in range(times):
                    run = await host.settled((await host.start(machine)).id)
                    assert run.transitions == rounds, run
                end = time.perf_counter()
        return [*sys.modules["bench_tools"].BEGUN, end]

    def windows(at: list[float]) -> list[float]:
        """What a step took in each thousand of the last 5,000."""
        return [(at[end] - at[end - WINDOW]) / WINDOW for end in range(-1, -1 - LONG // 2, -WINDOW)]

    with folder() as home:
        (home / "bench_tools.py").write_text(TIMED_TOOL)
        short: list[float] = []
        long: list[float] = []
        for _ in range(TURNS):
            short += windows(asyncio.run(begun(home, STEPS, LONG // 2 // STEPS)))
            long += windows(asyncio.run(begun(home, LONG, 1)))
    ratio = min(long) / min(short)
    yield Figure("workflows", "10,000 steps", round(min(long) * 1e6, 1), "µs/step", round(min(short) * 1e6, 1),
                 round(ratio, 2), "≤ 1.3× of 100 steps", ratio <= 1.3)  # fmt: skip


def loading() -> Iterator[Figure]:
    """A file of 1,200 lines, read, compiled and checked, against PyYAML's C loader alone."""
    with folder() as home:
        file = home / "long.yaml"
        file.write_text(long_file(LINES))
        lines = file.read_text().count("\n")
        bare = best(lambda: yaml.load(file.read_bytes(), yaml.CSafeLoader), 15)
        ours = best(lambda: load_workflow(file), 15)
    ratio = ours / bare
    yield Figure("workflows", f"load {lines:,} lines", round(ours * 1e3, 1), "ms", round(bare * 1e3, 1),
                 round(ratio, 2), "< 3× C loader", ratio < 3)  # fmt: skip


def workflows() -> Iterator[Figure]:
    """All of them."""
    yield from through_the_command_line()
    yield from growing()
    yield from loading()


GROUPS = {"workflows": workflows}
