"""Case files: what a workflow is given, what happens to it, and what must come of it.

Everything that is wrong with a case is found before any is played, and told with its place; it fails that case and no
other. The format is a table: every key, what may stand there, and what would be right.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.effect_type import EffectFailed, OutcomeUnknown, PartialFailure
from detent.core.status import Status
from detent.define.compile_context import Page, items, kind_of
from detent.define.document import Document, Route, read_document, read_file
from detent.define.problem import Problem, refuse

Tools = dict[str, tuple[Any, ...]]  # per tool the answers of successive calls: a result, an exception, or "hang"
UNKNOWN_OUTCOME = "tool_failure.unknown_outcome"
OUTCOMES = ("happened", "not_happened", "give_up", "use")  # what somebody may say to a doubt, or to a repeat


class CaseStep(NamedTuple):
    """One entry of a case's script: an answer, a signal, time that passes, a cancellation or a crash."""

    verb: str
    name: str = ""
    said: Mapping[str, Any] = {}
    seconds: float = 0.0


class Case(NamedTuple):
    """One case of a workflow: its input, scripted tools, what happens to it, and what must come of it."""

    id: str
    about: str
    where: str
    file: Path | None  # the workflow's own file
    definition: Document | None  # or the document, inline
    merge: Document | None
    folder: Path
    is_fragment: bool
    input: dict[str, Any]
    tools: Tools
    script: tuple[CaseStep, ...]
    expect: dict[str, Any]
    policy: Document | None = None
    problems: tuple[Problem, ...] = ()  # what is wrong with the case itself, so that it cannot be played


class Want(NamedTuple):
    """What may stand somewhere."""

    holds: Callable[[Any], bool]
    words: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_told(value: Any) -> bool:
    return isinstance(value, bool) or _is_count(value) or (isinstance(value, list))


def _is_calls(value: Any) -> bool:
    return isinstance(value, dict) and all(count is None or _is_count(count) for count in value.values())


STATUSES = tuple(status.value for status in Status)
TEXT = Want(lambda value: isinstance(value, str) and bool(value), "a text")
LABEL = Want(lambda value: isinstance(value, str | int | float) and not isinstance(value, bool), "a name")
MAPPING = Want(lambda value: isinstance(value, dict), "a mapping")
LIST = Want(lambda value: isinstance(value, list), "a list")
FLAG = Want(lambda value: isinstance(value, bool), "true or false")
YES = Want(lambda value: value is True, "true")
NUMBER = Want(_is_number, "a number of seconds")
ANY = Want(lambda _: True, "a value")
TEXTS = Want(_is_texts, "a list of names")
TOLD = Want(_is_told, "a number, or a list of texts that occur in this order")

CASE: dict[str, Want] = {
    "id": LABEL,
    "about": TEXT,
    "workflow": TEXT,
    "definition": Want(lambda value: isinstance(value, dict), "a mapping with `states` and `transitions`"),
    "merge": MAPPING,
    "fragment": FLAG,
    "input": MAPPING,
    "tools": MAPPING,
    "policy": MAPPING,
    "script": LIST,
    "expect": MAPPING,
}
ANSWER: dict[str, dict[str, Want]] = {
    "output": {"output": ANY},
    "raise": {"raise": Want(lambda value: isinstance(value, str), "a text"), "type": TEXT},
    "did_then_raise": {"did_then_raise": Want(lambda value: isinstance(value, str), "a text"), "type": TEXT},
    "hang": {"hang": YES},
}
STEP: dict[str, dict[str, Want]] = {
    "approve": {
        "approve": TEXT,
        "by": TEXT,
        "comment": TEXT,
        "context": MAPPING,
        "args": MAPPING,
        "hash": TEXT,
        "data": ANY,
    },
    "reject": {"reject": TEXT, "by": TEXT, "comment": TEXT},
    "settle": {
        "settle": TEXT,
        "outcome": Want(lambda value: value in OUTCOMES, f"one of {', '.join(OUTCOMES)}"),
        "result": ANY,
        "by": TEXT,
        "comment": TEXT,
    },
    "event": {"event": TEXT, "id": LABEL, "data": MAPPING},
    "advance": {"advance": NUMBER},
    "cancel": {"cancel": YES},
    "crash": {"crash": YES},
}
EXPECT: dict[str, Want] = {
    "status": Want(lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    "state": TEXT,
    "path": TEXTS,
    "calls": Want(_is_calls, "a mapping from tools to numbers; null means never"),
    "error": Want(lambda value: value is None or (isinstance(value, str) and bool(value)), "an error type, or null"),
    "pending": TEXTS,
    "context": MAPPING,
    "notes": TOLD,
    "logs": TOLD,
    "warnings": TOLD,
    "cancelled": TOLD,
    "unique_keys": Want(_is_count, "a number"),
    "load_error": Want(lambda value: value is True or (isinstance(value, str) and bool(value)), "a text, or true"),
}


def read_cases(path: str | Path) -> list[Case]:
    """Read a case file. Raises DefinitionError if it is no case file; a case with mistakes fails when it is played."""
    file = Path(path)
    document = read_document(read_file(file), str(file))
    page = Page(document)
    listed = _list_cases(page)
    found = [_case(page, document, place, value, file.parent) for place, value in listed]
    seen: dict[str, str] = {}
    for case, (place, _) in zip(found, listed, strict=True):
        if seen.setdefault(case.id, case.where) is not case.where:
            page.say((*place, "id"), f"a second case is called `{case.id}`", f"the first is at {seen[case.id]}")
    return _judge_cases(page, found, [page.places[place] for place, _ in listed])


def _judge_cases(page: Page, cases: list[Case], starts: list[tuple[int, int]]) -> list[Case]:
    """The cases with what is wrong with each; what stands before the first of them is wrong with the file."""
    errors = [problem for problem in page.problems if problem.severity == "error"]
    owners = [bisect_right(starts, (problem.line, problem.column)) - 1 for problem in errors]
    refuse(problem for problem, owner in zip(errors, owners, strict=True) if owner < 0)
    return [
        case._replace(problems=tuple(one for one, owner in zip(errors, owners, strict=True) if owner == number))
        for number, case in enumerate(cases)
    ]


def read_tools(path: str | Path) -> Tools:
    """Read the answers of tools from a file that holds what a case has under `tools`."""
    file = Path(path)
    page = Page(read_document(read_file(file), str(file)))
    if not isinstance(page.value, dict):
        page.say((), f"this must be a mapping from tools to their answers, not {kind_of(page.value)}")
    tools = _tools(page, (), page.value)
    refuse(page.problems)
    return tools


def _list_cases(page: Page) -> list[tuple[Route, Any]]:
    if page.value is None:
        page.say((), "there is no case in it", "begin each case with `- id:`")
        return []
    if isinstance(page.value, dict) and "states" in page.value:
        cases = Path(page.file).with_suffix(".test.yaml").name
        page.say(
            (), "this is a workflow, not a list of cases", f"its cases are in a file of their own, such as {cases}"
        )
        return []
    return list(items(page, (), page.value, "a case file"))


def _case(page: Page, document: Document, path: Route, value: Any, folder: Path) -> Case:
    given = _mapping(page, path, value, CASE, "a case") or {}
    if isinstance(value, dict):
        for needed in ("id", "expect"):
            if needed not in value:
                page.say(path, f"a case needs `{needed}`")
        if ("workflow" in value) == ("definition" in value):
            page.say(path, "a case needs either `workflow` or `definition`", "a path, or the document itself")
    file = folder / given["workflow"] if "workflow" in given else None
    if file is not None and not file.is_file():
        page.say((*path, "workflow"), f"there is no file {file}", "the path is relative to the case file")
    tools = _tools(page, (*path, "tools"), given.get("tools", {}))
    script = [_step(page, *one) for one in items(page, (*path, "script"), given.get("script"), "`script`")]
    expect = _mapping(page, (*path, "expect"), given.get("expect", {}), EXPECT, "`expect`") or {}
    line, column = page.places[path]
    return Case(
        id=str(given.get("id") or f"#{int(path[-1]) + 1}"),
        about=given.get("about", ""),
        where=f"{page.file}:{line}:{column}",
        file=file,
        definition=document.part(*path, "definition") if "definition" in given else None,
        merge=document.part(*path, "merge") if "merge" in given else None,
        folder=folder,
        is_fragment=given.get("fragment", False),
        input=given.get("input", {}),
        tools=tools,
        script=tuple(step for step in script if step is not None),
        expect=expect,
        policy=document.part(*path, "policy") if "policy" in given else None,
    )


def _mapping(page: Page, path: Route, value: Any, table: Mapping[str, Want], what: str) -> dict[str, Any] | None:
    """The keys whose values are what the table wants; a note for each of the others."""
    if not isinstance(value, dict):
        page.say(path, f"{what} must be a mapping, not {kind_of(value)}", f"known keys: {', '.join(table)}")
        return None
    good: dict[str, Any] = {}
    for key, inner in value.items():
        if key not in table:
            page.say((*path, key), *page.unknown(f"key of {what}:", key, table), at_key=True)
        elif table[key].holds(inner):
            good[key] = inner
        elif inner is not None or table[key] not in (MAPPING, LIST):  # a key with nothing behind it is left out
            page.say((*path, key), f"`{key}` must be {table[key].words}, not {kind_of(inner)}")
    return good


def _one_of(page: Page, path: Route, value: Any, tables: Mapping[str, Mapping[str, Want]], what: str) -> Any:
    """The key that says what a mapping is, and the mapping checked for that."""
    known = ", ".join(f"`{one}`" for one in tables)
    if not isinstance(value, dict):
        page.say(path, f"{what} must be a mapping, not {kind_of(value)}", f"it has one of {known}")
        return None
    said = [key for key in value if key in tables]
    if len(said) != 1:
        meant = next((page.suggest(str(key), tables) for key in value if page.suggest(str(key), tables)), "")
        page.say(path, f"{what} has exactly one of {known}", "" if said else meant)
        return None
    good = _mapping(page, path, value, tables[said[0]], what)
    return (said[0], good) if good is not None and said[0] in good else None


def _tools(page: Page, path: Route, value: Any) -> Tools:
    tools: Tools = {}
    for name, answers in value.items() if isinstance(value, dict) else ():
        listed = list(items(page, (*path, name), answers, f"the answers of `{name}`"))
        if answers is None or answers == []:
            page.say((*path, name), f"`{name}` has no answers", "leave it out, and it answers an empty mapping")
        found = [_answer(page, place, one) for place, one in listed]
        tools[name] = tuple(found)
    return tools


def _answer(page: Page, path: Route, value: Any) -> Any:
    checked = _one_of(page, path, value, ANSWER, "an answer")
    return {} if checked is None else make_answer(checked[1])


def make_answer(given: Mapping[str, Any]) -> Any:
    """What a made-up tool does, from what a case says: a result, an exception, or "hang"."""
    kind = next(kind for kind in ANSWER if kind in given)
    if kind == "hang":
        return "hang"
    if kind == "output":
        return {} if given["output"] is None else given["output"]
    type = given.get("type", "")
    if kind == "did_then_raise":
        return OutcomeUnknown(given[kind]) if _is_doubt(type) else PartialFailure(given[kind], type)
    if type == UNKNOWN_OUTCOME:
        return OutcomeUnknown(given[kind])
    return EffectFailed(given["raise"], type or "tool_failure")


def _is_doubt(type: str) -> bool:
    """Whether nobody knows what happened after a failure of this type; any other is the tool's word that it failed."""
    return type != "tool_failure.exit" and type.partition(".")[0] in ("", "tool_failure", "timeout")


def _step(page: Page, path: Route, value: Any) -> CaseStep | None:
    checked = _one_of(page, path, value, STEP, "a step")
    if checked is None:
        return None
    verb, given = checked
    if verb in ("approve", "reject"):
        names = {"context": "patch", "hash": "call_hash"}
        said = {names.get(key, key): inner for key, inner in given.items() if key != verb}
        return CaseStep(verb, given[verb], {"approved": verb == "approve", **said})
    if verb == "settle":
        if "outcome" not in given:
            page.say(path, "a `settle` needs `outcome`", f"one of {', '.join(OUTCOMES)}")
            return None
        return CaseStep(verb, given[verb], {key: inner for key, inner in given.items() if key != verb})
    if verb == "event":
        return CaseStep(verb, given["event"], {"data": given.get("data", {}), "id": str(given.get("id", ""))})
    return CaseStep(verb, seconds=float(given["advance"]) if verb == "advance" else 0.0)


def differences(expect: Mapping[str, Any], actual: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of what was expected that did not come."""
    return tuple(key for key, value in expect.items() if not _is_met(key, value, actual.get(key)))


def _is_met(key: str, expected: Any, actual: Any) -> bool:
    if key == "error" and isinstance(expected, str) and isinstance(actual, str):
        return actual == expected or actual.startswith(f"{expected}.")
    if key == "load_error" and isinstance(actual, str):
        return expected is True or expected in actual
    if key == "pending":
        return sorted(expected) == sorted(actual or ())
    if EXPECT[key] is TOLD and isinstance(expected, list) and isinstance(actual, list):
        return _occur(expected, actual) if expected else not actual
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)


def _occur(wanted: Iterable[Any], told: Iterable[Any]) -> bool:
    """Whether each of these occurs in what was told, in this order."""
    rest = iter(told)
    return all(any(one == said or str(one) in str(said) for said in rest) for one in wanted)
