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
from detent.kit.trigger.armed_trigger import arm
from detent.kit.trigger.firing import begin_run, fire, plan_occasion
from detent.kit.trigger.trigger_driver import TriggerDriver

STEPS = 100
LONG = 10_000
WINDOW = 1_000  # steps that are timed together
TURNS = 3
ROUNDS = 25
NOW = 1_800_000_000.0  # when the triggers of the bench are armed
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
    states: list[str] = []
    rows: list[str] = []
    number = 0
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


EACH = """
states:
  a: {type: initial, actions: [{id: e, type: for_each, items: "{{ context.items }}", actions: [
    {id: n, python: "bench_tools:nothing", effect: pure}]}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def items() -> Iterator[Figure]:
    """What an item of a `for_each` over 10,000 costs against one of 100; processor time, as others load the machine."""

    async def spend(home: Path, count: int, times: int) -> float:
        machine = load(home / "each.yaml").machine
        with folder() as journal:
            async with EmbeddedHost(journal, builtin()) as host:
                began = time.process_time()
                for _ in range(times):
                    run = await host.settled((await host.start(machine, {"items": list(range(count))})).id)
                    assert len(run.results["e"]["items"]) == count, run.error
                return (time.process_time() - began) / times / count

    with folder() as home:
        (home / "bench_tools.py").write_text(TOOL)
        (home / "each.yaml").write_text(EACH)
        short = min(asyncio.run(spend(home, STEPS, 10)) for _ in range(TURNS))
        long = min(asyncio.run(spend(home, LONG, 1)) for _ in range(TURNS))
    yield Figure("workflows", "for_each of 10,000", round(long * 1e6, 1), "µs/item", round(short * 1e6, 1),
                 round(long / short, 2), "≤ 1.3× of 100 items", long / short <= 1.3)  # fmt: skip


TICKING = """
name: ticking
triggers: {tick: {every: 60s, start: "2026-01-01T00:00:00Z", catch_up: all}}
states:
  a: {type: initial, actions: [{id: l, type: log, message: hi}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def firing() -> Iterator[Figure]:
    """A planned time becomes a run: until the run has begun, one by one, and with its note, many at once."""

    async def fire_and_start(home: Path) -> tuple[float, float, float, float]:
        definition = load(home / "ticking.yaml")
        async with EmbeddedHost(home / "journal", builtin()) as host:
            (armed,) = await arm(host, definition, NOW, "ann")
            plain: list[float] = []
            fired: list[float] = []
            for number in range(STEPS):
                began = time.perf_counter()
                await host.start(definition.machine, {"n": number}, by="ann")
                plain.append(time.perf_counter() - began)
                occasion = plan_occasion(NOW + 60 * (number + 1))
                began = time.perf_counter()
                await begin_run(host, armed, occasion)
                fired.append(time.perf_counter() - began)
                await fire(host, armed, occasion)
            driver = TriggerDriver(host, lambda: NOW + 60 * STEPS * 3)
            began = time.perf_counter()
            count = len(await driver.run_due())
            many = (time.perf_counter() - began) / count
            began = time.perf_counter()
            for number in range(count):
                await host.start(definition.machine, {"n": number}, by="ann")
            after = (time.perf_counter() - began) / count
            return statistics.median(plain), statistics.median(fired), many, after

    with folder() as home:
        (home / "ticking.yaml").write_text(TICKING)
        plain, one, many, after = asyncio.run(fire_and_start(home))
    yield Figure("workflows", "firing, one", round(one * 1e3, 2), "ms", round(plain * 1e3, 2),
                 round(one / plain, 2), "≤ 2 ms over a start", one - plain <= 0.002)  # fmt: skip
    yield Figure("workflows", "firing, many", round(many * 1e3, 2), "ms", round(after * 1e3, 2),
                 round(many / after, 2), "≤ 2 ms over a start", many - after <= 0.002)  # fmt: skip


def workflows() -> Iterator[Figure]:
    """All of them."""
    yield from through_the_command_line()
    yield from growing()
    yield from items()
    yield from firing()
    yield from loading()


GROUPS = {"workflows": workflows}
