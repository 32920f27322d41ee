"""Would the tests notice? The same tests on other source, and other tests on the same source.

A test that is new, or that failed before the job, vouches for the new source only if it fails with the old one. Tests
that pass whatever the new lines do say nothing about them. And a test that passes whatever it expects is not what
decides whether it passes.
"""

import functools
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from detent.agents.coding import changed_expectation, mutation, other_input, runner_report, side_branch
from detent.agents.coding.check import Ran
from detent.agents.coding.clean_checkout import Court, find_added_lines
from detent.agents.coding.file_role import CODE
from detent.agents.coding.settings import CheckStep
from detent.agents.coding.workspace import checkout, loose_object
from detent.agents.coding.workspace.checkout import Blob
from detent.agents.coding.workspace.difference import PathStep

LINK = "120000"
SECONDS_MAX = 30.0  # checks that take longer are not repeated for mutants
SIDES_MAX = 12
MUTANTS_SECONDS_MAX = 60.0  # after which no further one is begun
NAMES_MAX = 5
FILES_MAX = 50
TURNED_MAX, TURNS_MAX = 60, 3  # tests that are made to expect something else, and how often each of the new ones is
TURNED_SECONDS_MAX = 300.0  # only these few tests run, but everything is collected


class TestDoubts(msgspec.Struct, frozen=True):
    """What other source says about the tests: which of them vouch for nothing, and how many mutants they noticed."""

    __test__ = False  # a name that pytest would take for its own

    empty: tuple[str, ...] = ()  # pass with the old source, too
    vouching: tuple[str, ...] = ()  # fail with it
    mutants: int = 0
    alive: tuple[str, ...] = ()  # mutants that no test noticed
    aside: tuple[str, ...] = ()  # ways that the code takes by something it was not given, and no test goes
    deaf: tuple[str, ...] = ()  # pass whatever they expect
    is_silent: bool = False  # nothing could be tried that the tests of the change would have had to notice
    data: tuple[str, ...] = ()  # files that are no code, without whose change some of them fail
    fitted: tuple[str, ...] = ()  # of most tests that could be asked: nothing but the answer to their own input is new

    @property
    def is_weak(self) -> bool:
        """Whether the tests do not vouch for the change: they miss most mutants, pass without it, or pass anyway."""
        noticed = self.mutants - len(self.alive)
        is_blind = len(self.alive) * 2 > self.mutants or bool(self.empty and not self.vouching and not noticed)
        return is_blind or bool(self.deaf or self.aside or self.fitted) or (self.is_silent and not self.mutants)

    @property
    def notes(self) -> list[str]:
        """The same for people."""
        told = []
        if self.empty:
            told.append(f"these tests pass with the old source, too, and count for nothing: {_name_some(self.empty)}")
        if self.deaf:
            told.append(f"these tests pass whatever they expect: {_name_some(self.deaf)}")
        if self.fitted:
            told.append(f"with other input than theirs, the change makes no difference to: {_name_some(self.fitted)}")
        if self.mutants:
            noticed = self.mutants - len(self.alive)
            told.append(f"the tests notice {noticed} of {self.mutants} wrong changes of the new lines")
        told += [
            f"what happens at {place} hangs on something that is not given, and no test gets there"
            for place in self.aside
        ]
        return told + [f"no test notices {name}" for name in self.alive]


def _name_some(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - NAMES_MAX} more" if len(tests) > NAMES_MAX else ""
    return ", ".join(tests[:NAMES_MAX]) + more


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


async def try_old_data(
    court: Court, tree: str, steps: Sequence[CheckStep], source: Mapping[str, PathStep], known: TestDoubts
) -> TestDoubts:
    """Run the tests that vouch with the new code and the data as it was: do they hang on what was written there?"""
    steps = _list_witnessed(steps)
    data = {path: before(step) for path, step in source.items() if step.status != "A" and not path.endswith(CODE)}
    if not known.vouching or not data:
        return known
    old = await checkout.adjust(court.project, tree, data)
    ran, _ = await court.run(old, steps, rerun=False, only=known.vouching)
    passed = {test for one in ran for test in one.passed}
    return known if passed.issuperset(known.vouching) else msgspec.structs.replace(known, data=tuple(sorted(data)))


async def try_other_input(
    court: Court, tree: str, steps: Sequence[CheckStep], source: Mapping[str, PathStep], known: TestDoubts
) -> TestDoubts:
    """Make the calls of the tests that vouch with other values, on the old source and on the new."""
    steps, blobs = _list_witnessed(steps), await checkout.list_blobs(court.project, tree)
    turned, changed = await _rewrite(court, blobs, known.vouching[:TURNED_MAX], other_input.turn_tests)
    if not turned or not steps:
        return known
    old = {**changed, **{path: before(step) for path, step in source.items()}}
    told: list[dict[str, other_input.OtherAnswers]] = []
    for files in (old, changed):
        ran, _ = await court.run(await checkout.adjust(court.project, tree, files), steps, rerun=False, only=turned)
        said = {item.test: other_input.read_answers(item.message) for one in ran for item in one.checked.failures}
        told.append({test: answers for test, answers in said.items() if answers is not None})
    fitted, count = other_input.list_fitted(*told)
    return msgspec.structs.replace(known, fitted=tuple(fitted)) if len(fitted) * 2 > count else known


def before(step: PathStep) -> Blob | None:
    """What a path was; None: it was not there."""
    return None if step.status == "A" else (step.old_mode, step.old)


async def try_mutants(
    court: Court, tree: str, steps: Sequence[CheckStep], source: Mapping[str, PathStep], known: TestDoubts
) -> TestDoubts:
    """The same with how many of some wrong changes of the new lines the tests that count have noticed."""
    most, steps = court.job.settings.mutants, _list_witnessed(steps)
    if not known.empty:  # else what fails first might count for nothing
        steps = [msgspec.structs.replace(step, run=runner_report.stop_at_first(step.argv)) for step in steps]
    sides, mutants = await _choose_mutants(court, source, most)
    begun, tried, alive, aside = time.monotonic(), 0, list[str](), list[str]()
    for path, mutant in (*sides, *mutants):
        if time.monotonic() - begun > MUTANTS_SECONDS_MAX and (path, mutant) not in sides:
            break
        blob = loose_object.write_object(court.project, "blob", mutant.text.encode())
        wrong = await checkout.adjust(court.project, tree, {path: (source[path].new_mode, blob)})
        ran, _ = await court.run(wrong, steps, rerun=False)
        is_noticed = any(_notices(one, known.empty) for one in ran)
        if (path, mutant) in sides:
            aside += [] if is_noticed else [f"{path}:{mutant.line}"]
        else:
            tried += 1
            alive += [] if is_noticed else [f"{path}:{mutant.line} as {mutant.what}"]
    return msgspec.structs.replace(known, mutants=tried, alive=tuple(alive), aside=tuple(dict.fromkeys(aside)))


Placed = tuple[str, mutation.Mutant]  # in which file


async def _choose_mutants(court: Court, source: Mapping[str, PathStep], most: int) -> tuple[list[Placed], list[Placed]]:
    """Ways that nothing given leads to, made to fail; and wrong changes of the new lines, of every file in turn."""
    sides, rows = list[Placed](), list[list[Placed]]()
    for path, step in sorted(source.items())[:FILES_MAX] if most else ():
        if path.endswith(".py") and step.status != "D" and step.new_mode != LINK:
            was = await court.read(step.old) if step.status != "A" else ""
            text = await court.read(step.new)
            lines = find_added_lines(was, text)
            rows.append([(path, one) for one in mutation.make_mutants(text, lines, most)])
            sides += [(path, one) for one in side_branch.list_side_branches(text, lines, was)]
    rows.sort(key=lambda row: -len(row))  # what has most to be mistaken about comes first
    turns = [one for turn in itertools.zip_longest(*rows) for one in turn if one is not None]
    return sides[:SIDES_MAX], turns[:most]


async def try_expectations(
    court: Court, tree: str, steps: Sequence[CheckStep], new: Collection[str], known: Collection[str]
) -> tuple[tuple[str, ...], bool]:
    """Tests that pass whatever they expect, of all new or mended ones and some others; whether a new one was asked."""
    steps, blobs = _list_witnessed(steps), await checkout.list_blobs(court.project, tree)
    others = sorted(set(known) - set(new))
    spread = others[:: max(1, len(others) // max(1, TURNED_MAX - len(new)))]
    tests = [*sorted(new), *spread][:TURNED_MAX] if steps else []
    deaf, asked = set[str](), set[str]()
    for turn in range(TURNS_MAX):
        chosen = [test for test in tests if turn == 0 or test in new]
        expect = functools.partial(changed_expectation.change_expectations, turn=turn)
        turned, changed = await _rewrite(court, blobs, chosen, expect)
        if not changed:
            break
        other = await checkout.adjust(court.project, tree, changed)
        ran, _ = await court.run(other, steps, rerun=False, only=turned)
        deaf |= {test for one in ran for test in one.passed if test in turned}
        asked |= turned
    return tuple(sorted(deaf)), bool(asked.intersection(new))


Rewrite = Callable[[str, Collection[str]], tuple[str, set[str]]]  # of a file of tests: the text, the changed functions


async def _rewrite(
    court: Court, blobs: Mapping[str, Blob], tests: Sequence[str], how: Rewrite
) -> tuple[set[str], dict[str, Blob | None]]:
    """Which of the tests are other ones now, and the files in which they are."""
    turned, changed = set[str](), dict[str, Blob | None]()
    for file in sorted({changed_expectation.split_name(test)[0] for test in tests}):
        if not file.endswith(".py") or file not in blobs or blobs[file][0] == LINK:
            continue
        mode, blob = blobs[file]
        names = {
            test: changed_expectation.split_name(test)[1]
            for test in tests
            if changed_expectation.split_name(test)[0] == file
        }
        text, functions = how(await court.read(blob), set(names.values()))
        if functions:
            stored = loose_object.write_object(court.project, "blob", text.encode())
            changed[file] = (mode, stored)
            turned |= {test for test, name in names.items() if name in functions}
    return turned, changed


async def list_replaced(
    court: Court, tree: str, steps: Sequence[CheckStep], judging: Mapping[str, PathStep], approved: Collection[str]
) -> list[str]:
    """Tests that fail with the new source as they were, where a person has approved what became of them."""
    steps = _list_witnessed(steps)
    names = [test for tests in court.known.values() for test in tests if test.partition("::")[0] in approved]
    if not names or not steps:
        return []
    old = await checkout.adjust(court.project, tree, {path: before(step) for path, step in judging.items()})
    ran, _ = await court.run(old, steps, rerun=False, only=names)
    passed = {test for one in ran for test in one.passed}
    failing = [name for name in names if name not in passed]
    return [f"as they were, these tests fail; their change was approved: {_name_some(failing)}"] if failing else []


def _notices(ran: Ran, empty: Collection[str]) -> bool:
    """Whether a step went wrong, and not only by tests that count for nothing."""
    failing = ran.checked.failing_ids
    return not ran.checked.is_green and not (failing and set(failing) <= set(empty))


def _list_witnessed(steps: Sequence[CheckStep]) -> list[CheckStep]:
    return [step for step in steps if runner_report.attach(step.argv) is not None]
