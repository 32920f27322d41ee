"""Test results as tools write them, read into one form: JUnit XML, TAP, `go test -json`, `flutter test --machine`.

What a tool wrote is hostile: a broken or huge report is as good as none, and then the exit code and the output speak.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from detent.agents.coding.check_result import MESSAGE_MAX, Failing

REPORT_MAX = 32 * 1024 * 1024
_PLACE = re.compile(r"^(?P<file>[^\s:][^:\n]*?\.\w{1,6}):(?P<line>\d+)(?::\d+)?:?\s+(?P<message>\S.*)$", re.MULTILINE)
_TAP = re.compile(r"^(?P<indent>\s*)(?P<no>not )?ok\b\s*(?P<n>\d+)?\s*-?\s*(?P<name>.*?)(?:\s+#\s*(?P<directive>.*))?$")
_IN_TRACE = re.compile(r"^(?P<file>\S+\.py):(?P<line>\d+):", re.MULTILINE)


class Results(NamedTuple):
    """Counts, and what went wrong."""

    passed: int = 0
    skipped: int = 0
    failures: tuple[Failing, ...] = ()
    counted: bool = True
    names: tuple[str, ...] = ()  # of the tests that passed


def junit(report: str, _output: str) -> Results | None:
    """JUnit XML, as pytest and most others can write it."""
    if not report or "<!DOCTYPE" in report[:4096] or "<!ENTITY" in report:
        return None
    try:
        root = ElementTree.fromstring(report)  # noqa: S314  # no DTD, so no entities
    except ElementTree.ParseError:
        return None
    passed = skipped = 0
    failures = []
    names = []
    for case in root.iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        name = "::".join(part for part in (case.get("classname"), case.get("name")) if part) or "?"
        if bad is not None:
            said = (bad.text or "").strip()
            head = (bad.get("message") or "").strip()
            places = list(_IN_TRACE.finditer(said))
            file, line = case.get("file") or "", _number(case.get("line"))
            if places:
                file, line = places[-1]["file"], int(places[-1]["line"])
            failures.append(Failing(name, _message(head, said), file, line))
        elif any(child.tag == "skipped" for child in case):
            skipped += 1
        else:
            passed += 1
            names.append(name)
    return Results(passed, skipped, tuple(failures), names=tuple(names))


def tap(report: str, output: str) -> Results | None:
    """The Test Anything Protocol, versions 12 to 14; subtests are counted, their summaries are not."""
    passed = skipped = 0
    failures: list[Failing] = []
    names: list[str] = []
    lines = (report or output).split("\n")
    found = [(number, match) for number, line in enumerate(lines) if (match := _TAP.match(line))]
    if not found:
        return None
    for position, (number, match) in enumerate(found):
        depth = len(match["indent"])
        is_summary = position > 0 and len(found[position - 1][1]["indent"]) > depth
        if is_summary:
            continue
        directive = (match["directive"] or "").lower()
        if directive.startswith("skip"):
            skipped += 1
        elif match["no"] and not directive.startswith("todo"):
            after = found[position + 1][0] if position + 1 < len(found) else len(lines)
            failures.append(
                Failing(match["name"] or match["n"] or "?", _message("", "\n".join(lines[number + 1 : after])))
            )
        else:
            passed += 1
            names += [match["name"]] if match["name"] else []
    return Results(passed, skipped, tuple(failures), names=tuple(names))


def go_json(report: str, output: str) -> Results | None:
    """`go test -json`: one event per line."""
    said: dict[str, list[str]] = {}
    ended: dict[str, str] = {}
    for event in _events(report or output):
        test, action = event.get("Test"), event.get("Action")
        name = f"{event.get('Package', '')}::{test}" if test else str(event.get("Package", ""))
        if action == "output" and isinstance(event.get("Output"), str):
            said.setdefault(name, []).append(event["Output"])
        elif action in ("pass", "fail", "skip"):
            ended[name] = action
    if not ended:
        return None
    tests = {name: how for name, how in ended.items() if "::" in name}
    parents = {name.rpartition("/")[0] for name in tests if "/" in name.partition("::")[2]}
    tests = {name: how for name, how in tests.items() if name not in parents}
    failing = {name for name, how in tests.items() if how == "fail"}
    failing |= {
        n
        for n, how in ended.items()
        if how == "fail" and "::" not in n and not any(t.startswith(n + "::") for t in failing)
    }
    found = tuple(Failing(name, _message("", "".join(said.get(name, [])))) for name in sorted(failing))
    names = tuple(name for name, how in tests.items() if how == "pass")
    return Results(len(names), sum(h == "skip" for h in tests.values()), found, names=names)


def flutter_machine(report: str, output: str) -> Results | None:
    """`flutter test --machine` and `dart test --reporter=json`."""
    names: dict[Any, tuple[str, str, int]] = {}
    errors: dict[Any, list[str]] = {}
    passed = skipped = 0
    failures = []
    is_seen = False
    for event in _events(report or output):
        kind = event.get("type")
        if kind == "testStart" and isinstance(event.get("test"), dict):
            test = event["test"]
            names[test.get("id")] = (str(test.get("name", "?")), str(test.get("url") or ""), _number(test.get("line")))
        elif kind == "error":
            errors.setdefault(event.get("testID"), []).append(
                f"{event.get('error', '')}\n{event.get('stackTrace', '')}"
            )
        elif kind == "testDone":
            is_seen = True
            name, file, line = names.get(event.get("testID"), ("?", "", 0))
            if event.get("result") in ("failure", "error"):
                said = "\n".join(errors.get(event.get("testID"), []))
                failures.append(Failing(name, _message("", said), file.removeprefix("file://"), line))
            elif event.get("hidden"):
                continue
            elif event.get("skipped"):
                skipped += 1
            else:
                passed += 1
        elif kind == "done":
            is_seen = True
    return Results(passed, skipped, tuple(failures)) if is_seen else None


def lines(_report: str, output: str) -> Results:
    """Any other tool: lines that name a file and a line, as compilers and linters write them."""
    found: dict[str, Failing] = {}
    for match in _PLACE.finditer(output):
        message = match["message"][:MESSAGE_MAX]
        if message.startswith("note:"):
            continue
        test = f"{match['file']}: {message}"
        found.setdefault(test, Failing(test, message, match["file"], int(match["line"])))
    return Results(failures=tuple(found.values()), counted=False)


PARSERS: dict[str, Callable[[str, str], Results | None]] = {
    "junit": junit,
    "tap": tap,
    "go-json": go_json,
    "flutter-machine": flutter_machine,
    "none": lines,
}


def parse(how: str, report: str, output: str) -> Results:
    """What a step's report and output say; without a readable report, what its lines say, uncounted."""
    try:
        found = PARSERS[how](report[:REPORT_MAX], output)
    except (ValueError, RecursionError, AttributeError, TypeError):
        found = None
    return found if found is not None else lines("", output)


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        if not line.startswith(("{", "[{")):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list):
            yield from (item for item in value if isinstance(item, dict))
        elif isinstance(value, dict):
            yield value


def _message(head: str, said: str) -> str:
    """The first line and the end of what was said: that is where the reason stands."""
    said = said.strip()
    if len(said) > MESSAGE_MAX:
        said = "…" + said[-MESSAGE_MAX:]
    return f"{head[:MESSAGE_MAX]}\n{said}".strip() if head and head not in said else said or head


def _number(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError):
        return 0
