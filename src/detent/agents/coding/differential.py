"""Would the tests notice? The same tests on other source: the old one, and the new one with small wrong changes.

A test that is new, or that failed before the job, vouches for the new source only if it fails with the old one. And
tests that pass whatever the new lines do say nothing about them.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from detent.agents.coding import mutation, testimony
from detent.agents.coding.check import Ran
from detent.agents.coding.court import Court, find_added_lines
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.workspace import checkout
from detent.agents.coding.workspace.checkout import Blob
from detent.agents.coding.workspace.difference import PathStep

LINK = "120000"
SECONDS_MAX = 30.0  # checks that take longer are not repeated for mutants
NAMES_MAX = 5


class TestDoubts(msgspec.Struct, frozen=True):
    """What other source says about the tests: which of them vouch for nothing, and how many mutants they noticed."""

    __test__ = False  # a name that pytest would take for its own

    empty: tuple[str, ...] = ()  # pass with the old source, too
    vouching: tuple[str, ...] = ()  # fail with it
    mutants: int = 0
    alive: tuple[str, ...] = ()  # mutants that no test noticed

    @property
    def is_weak(self) -> bool:
        """Whether the tests do not vouch for the change: they miss most mutants, or pass without it and notice none."""
        noticed = self.mutants - len(self.alive)
        return len(self.alive) * 2 > self.mutants or bool(self.empty and not self.vouching and not noticed)

    @property
    def notes(self) -> list[str]:
        """The same for people."""
        told = []
        if self.empty:
            more = f" and {len(self.empty) - NAMES_MAX} more" if len(self.empty) > NAMES_MAX else ""
            names = ", ".join(self.empty[:NAMES_MAX]) + more
            told.append(f"these tests pass with the old source, too, and count for nothing: {names}")
        if self.mutants:
            noticed = self.mutants - len(self.alive)
            told.append(f"the tests notice {noticed} of {self.mutants} wrong changes of the new lines")
        return told + [f"no test notices {name}" for name in self.alive]


async def try_old_source(
    court: Court, tree: str, steps: Sequence[CheckStep], source: Mapping[str, PathStep], names: Collection[str]
) -> TestDoubts:
    """Run the tests of these names with the source as it was: which of them pass all the same?"""
    steps = _list_witnessed(steps)
    if not names or not steps or not source:
        return TestDoubts()
    old = await checkout.adjust(court.project, tree, {path: before(step) for path, step in source.items()})
    ran, _ = await court.run(old, steps, rerun=False, only=names)
    passed = {test for one in ran for test in one.passed}
    return TestDoubts(
        tuple(name for name in sorted(names) if name in passed),
        tuple(name for name in sorted(names) if name not in passed),
    )


def before(step: PathStep) -> Blob | None:
    """What a path was; None: it was not there."""
    return None if step.status == "A" else (step.old_mode, step.old)


async def try_mutants(
    court: Court, tree: str, steps: Sequence[CheckStep], source: Mapping[str, PathStep], known: TestDoubts
) -> TestDoubts:
    """The same with how many of some wrong changes of the new lines the tests that count have noticed."""
    most, steps = court.job.settings.mutants, _list_witnessed(steps)
    mutants: list[tuple[str, mutation.Mutant]] = []
    for path, step in sorted(source.items()):
        if path.endswith(".py") and step.status != "D" and step.new_mode != LINK and len(mutants) < most:
            was = await court.read(step.old) if step.status != "A" else ""
            text = await court.read(step.new)
            made = mutation.make_mutants(text, find_added_lines(was, text), most - len(mutants))
            mutants += [(path, mutant) for mutant in made]
    alive = []
    for path, mutant in mutants:
        blob = await court.project.view.line("hash-object", "-w", "--stdin", stdin=mutant.text.encode())
        wrong = await checkout.adjust(court.project, tree, {path: (source[path].new_mode, blob)})
        ran, _ = await court.run(wrong, steps, rerun=False)
        if not any(_notices(one, known.empty) for one in ran):
            alive.append(f"{path}:{mutant.line} as {mutant.what}")
    return msgspec.structs.replace(known, mutants=len(mutants), alive=tuple(alive))


def _notices(ran: Ran, empty: Collection[str]) -> bool:
    """Whether a step went wrong, and not only by tests that count for nothing."""
    failing = ran.checked.failing_ids
    return not ran.checked.is_green and not (failing and set(failing) <= set(empty))


def _list_witnessed(steps: Sequence[CheckStep]) -> list[CheckStep]:
    return [step for step in steps if testimony.attach(step.argv) is not None]
