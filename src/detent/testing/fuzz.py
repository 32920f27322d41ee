"""Random stories of a workflow: what its tools answer, what people say, which events come, where the process dies.

hypothesis draws them, and shrinks one that fails to the smallest that still does. The values that tools answer lie
where the workflow's expressions read them, and are made of what those expressions compare them with, so that
conditions are met and missed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import hypothesis
from hypothesis import strategies as st

from detent.core.compiled_machine import flat
from detent.core.expression import names
from detent.core.machine import Action, Machine
from detent.errors import Refused
from detent.testing.case import CaseStep, Tools, make_answer
from detent.testing.case_run import CASE_ROUNDS, Told, list_called, play
from detent.testing.world import Stuck, simulate

UNMEANT = ("no_transition", "expression_error", "loop_limit", "engine_error")  # ends that no author has planned
RAISED = ("tool_failure", "tool_failure.exit", "tool_failure.http", "timeout.action")
STEPS_MAX = 6
ANSWERS_MAX = 3
DEATH_MAX = 60  # moments of a story at which the process may die
CONSTANT = re.compile(r"'([^'{}]{0,40})'|\"([^\"{}]{0,40})\"|(?<![\w.])(-?\d{1,9}(?:\.\d{1,6})?)(?![\w.])")


class FuzzedStory(NamedTuple):
    """What happens to a run, as a case file would say it."""

    input: dict[str, Any]
    tools: dict[str, list[dict[str, Any]]]
    script: list[dict[str, Any]]
    dies_at: list[int]

    def to_case(self, workflow: str, problem: str, told: Told | None) -> dict[str, Any]:
        """The story as a case that fails until the workflow is mended."""
        case: dict[str, Any] = {"id": "found-by-fuzz", "about": problem.splitlines()[0], "workflow": workflow}
        case |= {
            key: value
            for key, value in (("input", self.input), ("tools", self.tools), ("script", self.script))
            if value
        }
        is_unmeant = told is not None and told.run.error is not None and told.run.error.type in UNMEANT
        expect = (
            {"error": None}
            if is_unmeant or told is None
            else {"status": told.run.status.value, "state": told.run.state}
        )
        return case | {"expect": expect}


class FuzzReport(NamedTuple):
    """What came of the stories: the smallest that fails, why, and how many were played."""

    played: int
    problem: str = ""
    story: FuzzedStory | None = None
    told: Told | None = None


class _Broken(AssertionError):
    """A story that fails; hypothesis keeps the smallest."""


def fuzz(machine: Machine, count: int, seed: int = 0) -> FuzzReport:
    """Play so many random stories of a machine; the first that fails is shrunk."""
    found: list[FuzzReport] = []
    played = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(draw_stories(machine))
    def tell(story: FuzzedStory) -> None:
        nonlocal played
        played += 1
        problem, told = judge_story(machine, story)
        if problem:
            found.append(FuzzReport(played, problem, story, told))
            raise _Broken(problem.partition(":")[0])

    try:
        tell()
    except _Broken:
        return found[-1]._replace(played=played)
    return FuzzReport(played)


def judge_story(machine: Machine, story: FuzzedStory) -> tuple[str, Told | None]:
    """What is wrong with what came of a story; nothing when it ended, or waits, as somebody may have meant it."""
    script = [_make_step(one) for one in story.script]
    try:
        told = simulate(play(machine, _make_tools(story.tools), script, story.input, None, story.dies_at), CASE_ROUNDS)
    except Stuck as error:
        return f"it has no end: {error}", None
    except Refused:
        return "", None  # the input is refused: nothing has begun
    if told.problem:
        return told.problem, told
    failure = told.run.error
    if told.run.ended is not None and failure is not None and failure.type in UNMEANT:
        return f"it ends with {failure.type} in `{told.run.state}`: {failure.message}", told
    if told.repeats and not any(one.verb in ("approve", "settle") for one in script):
        return f"done more than once: {', '.join(key for key, _ in told.repeats)}", told
    return "", told


def _make_step(said: Mapping[str, Any]) -> CaseStep:
    verb = next(iter(said))
    if verb in ("approve", "reject"):
        return CaseStep(verb, said[verb], {"approved": verb == "approve"})
    if verb == "event":
        return CaseStep(verb, said[verb], {"data": said.get("data", {}), "id": ""})
    return CaseStep(verb, seconds=float(said["advance"]) if verb == "advance" else 0.0)


def _make_tools(tools: Mapping[str, list[dict[str, Any]]]) -> Tools:
    return {name: tuple(make_answer(one) for one in answers) for name, answers in tools.items()}


def draw_stories(machine: Machine) -> st.SearchStrategy[FuzzedStory]:
    """Stories of a machine: everything in them is something that it could meet."""
    reads = set(_list_reads(machine))
    values = _draw_values(machine)
    outputs = _find_outputs(machine, reads)
    tools = {
        name: st.lists(_draw_answers(outputs.get(name, set()), values), min_size=1, max_size=ANSWERS_MAX)
        for name in sorted(list_called(machine) - {"*"})
    }
    declared = machine.input_schema.get("properties") or {}
    read_too = () if declared else reads  # who says what a run is given means that, and sets the rest
    context = {read.split(".", 2)[1] for read in read_too if read.startswith("context.")}
    given = {name: _draw_of_type(declared.get(name), values) for name in sorted(context | set(declared))}
    needed = set(machine.input_schema.get("required") or ())
    inputs = st.fixed_dictionaries(
        {name: one for name, one in given.items() if name in needed},
        optional={name: one for name, one in given.items() if name not in needed},
    )
    deaths = st.lists(st.integers(1, DEATH_MAX), max_size=1)
    return st.builds(
        FuzzedStory, inputs, st.fixed_dictionaries({}, optional=tools), _draw_scripts(machine, values), deaths
    )


def _draw_scripts(machine: Machine, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    actions = [one.action for place in machine.chart.places.values() for one in flat(place.work)]
    asks = sorted(
        {one.id for one in actions if one.ask is not None or one.effect not in ("wait", "set", "log", "choose", "keep")}
    )
    events = sorted({name for place in machine.chart.places.values() for name in place.accepts})
    steps = [
        st.just({"crash": True}),
        st.just({"cancel": True}),
        st.builds(lambda s: {"advance": s}, st.integers(1, 10**6)),
    ]
    if asks:
        steps += [st.sampled_from([{verb: name} for name in asks for verb in ("approve", "reject")])]
    if events:
        data = st.dictionaries(st.sampled_from(_find_event_fields(machine) or ["value"]), values, max_size=3)
        steps += [st.builds(lambda name, data: {"event": name, "data": data}, st.sampled_from(events), data)]
    return st.lists(st.one_of(*reversed(steps)), max_size=STEPS_MAX)


def _draw_answers(paths: set[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    whole = st.fixed_dictionaries(dict.fromkeys(sorted(paths), values))
    partial = st.fixed_dictionaries({}, optional=dict.fromkeys(sorted(paths), values))
    outputs = [one.map(lambda flat: {"output": _nest(flat)}) for one in (partial, whole, whole)]
    failed = st.sampled_from(RAISED).map(lambda type: {"raise": "made up", "type": type})
    return st.one_of(*outputs, failed, st.just({"hang": True}))


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their paths as mappings in mappings; a path that leads through a value is left out."""
    made: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        here = made
        for part in above:
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            here = inner
        else:
            here.setdefault(last, value)
    return made


def _draw_values(machine: Machine) -> st.SearchStrategy[Any]:
    """Values that the machine's expressions can tell apart."""
    constants: list[Any] = []
    for text in _list_sources(machine):
        for one, other, number in CONSTANT.findall(text):
            constants.append(float(number) if "." in number else int(number) if number else one or other)
    simple = st.one_of(st.booleans(), st.none(), st.integers(-3, 1000), st.sampled_from(["", "x", "no"]))
    others = st.one_of(simple, st.lists(simple, max_size=2)).map(lambda one: one)  # one of two kinds, not of many
    return st.one_of(st.sampled_from(sorted(set(constants), key=str)), others) if constants else others


def _draw_of_type(schema: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values that a schema allows, as far as its type, its choices and its default say it."""
    said = schema if isinstance(schema, dict) else {}
    if isinstance(said.get("enum"), list) and said["enum"]:
        return st.sampled_from(said["enum"])
    numbers = st.integers(int(said.get("minimum", -3)), int(said.get("maximum", 1000)))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(["x", "no", "a longer text"]),
        "integer": numbers,
        "number": numbers,
        "boolean": st.booleans(),
        "array": st.lists(values, max_size=3),
        "object": st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2),
    }
    return kinds.get(str(said.get("type")), values)


def _find_outputs(machine: Machine, reads: set[str]) -> dict[str, set[str]]:
    """For each effect, which parts of its result are read somewhere."""
    found: dict[str, set[str]] = {}
    for place in machine.chart.places.values():
        for one in flat(place.work):
            prefix = f"result.{one.action.id}."
            parts = {read.removeprefix(prefix) for read in reads if read.startswith(prefix)}
            found.setdefault(one.action.effect, set()).update(
                part for part in parts if part.partition(".")[0] != "error"
            )
    return found


def _find_event_fields(machine: Machine) -> list[str]:
    parts = [read.split(".") for read in _list_reads(machine)]
    return sorted({one[one.index("data") + 1] for one in parts if "data" in one[:-1]})


def _list_reads(machine: Machine) -> Iterator[str]:
    for text in _list_sources(machine):
        yield from names(text)


def _list_sources(machine: Machine) -> Iterator[str]:
    """Every text of a machine that is an expression, or has some in it."""
    pending: list[Any] = [row.when for row in machine.transitions] + [machine.output]
    actions: list[Action] = [one.action for place in machine.chart.places.values() for one in flat(place.work)]
    actions += [one for row in machine.transitions for one in row.then]
    for action in actions:
        pending += [action.input, action.when, action.key, action.each, action.repeat]
        pending += [one.match for one in action.wait.events] if action.wait is not None else []
    while pending:
        one = pending.pop()
        if isinstance(one, dict | list | tuple):
            pending.extend(one.values() if isinstance(one, dict) else one)
        elif isinstance(one, str) and "{{" in one:
            yield one
