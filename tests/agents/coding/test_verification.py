"""Verification: what is detected, how results are read, and what counts as wrong."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.agents.coding import check, check_detection, check_result, settings, test_report_parser
from detent.agents.coding.check_result import Checked, Evidence, Failing
from detent.agents.coding.job_sandbox import Workplace
from detent.agents.coding.settings import CheckStep
from detent.errors import DefinitionError

PACKAGE = '{"scripts": {"test": "vitest", "lint": "eslint"}}'
FLUTTER_APP = "dependencies:\n  flutter:\n    sdk: flutter\n"


def deaf(_stream: str, _line: str) -> None:
    return


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n[tool.pytest]\n"}, ["ruff", "mypy", "pytest"]),
        ({"tests/test_a.py": ""}, ["pytest"]),
        ({"package.json": PACKAGE, "pnpm-lock.yaml": ""}, ["lint", "pnpm test"]),
        ({"package.json": '{"scripts": {"test": "node --test"}}', "yarn.lock": ""}, ["yarn test"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"Cargo.toml": ""}, ["cargo test"]),
        ({"go.mod": "module x"}, ["go vet", "go test"]),
        ({"pubspec.yaml": FLUTTER_APP, "test/a_test.dart": ""}, ["flutter analyze", "flutter test"]),
        ({"pubspec.yaml": "name: x\n"}, ["dart analyze"]),
        ({"Makefile": "all:\n\ttrue\ntest: all\n\ttrue\n"}, ["make"]),
        ({"Makefile": "test := x\n"}, []),
        ({"package.json": "{broken", "pyproject.toml": "also = = broken"}, []),
        ({"README.md": ""}, []),
    ],
)  # fmt: skip
def test_the_checks_of_a_project_are_detected(files: dict[str, str], steps: list[str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = check_detection.detect(tmp_path)
    assert [step.name for step in found] == steps
    (tmp_path / settings.FILE).write_text(settings.write_settings(settings.Settings(verify=found)))
    again = settings.read(tmp_path)
    assert again is not None
    assert again.verify == found


def test_a_project_in_src_is_tried_where_it_lies(tmp_path: Path) -> None:
    def is_found() -> bool:
        return "pythonpath=src" in check_detection.detect(tmp_path)[-1].argv

    for name in ("src/calc/__init__.py", "tests/test_calc.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    assert is_found()
    (tmp_path / "src/calc/fast.pyx").write_text("")
    assert not is_found()
    (tmp_path / "src/calc/fast.pyx").unlink()
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = lib\n")
    assert not is_found()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("verfy: []", "did you mean `verify`"),
        ("verify: [{name: a, run: x}, {name: a, run: y}]", "two verification steps"),
        ("verify: [{name: a, run: ''}]", "is empty"),
        ('verify: [{name: a, run: "\'"}]', "not a command line"),
        ("verify: [{name: '../a', run: x}]", "regex"),
        ("fix: {attempts: -1}", "attempts"),
        ("version: 2", "version"),
        ("- 1", "object"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / settings.FILE).write_text(text)
    with pytest.raises(DefinitionError, match=problem):
        settings.read(tmp_path)


JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.test_a" name="test_ok"/>
<testcase classname="tests.test_a" name="test_bad"><failure message="assert 1 == 2">def test_bad():
>   assert 1 == 2
tests/test_a.py:7: AssertionError</failure></testcase>
<testcase classname="tests.test_b" name="test_error"><error message="boom"/></testcase>
<testcase classname="tests.test_b" name="test_skip"><skipped/></testcase>
</testsuite></testsuites>"""
TAP = """TAP version 14
1..4
ok 1 - fine
not ok 2 - broken
  ---
  message: it broke
  ...
ok 3 - later # SKIP not now
not ok 4 - one day # TODO
"""
GO = "\n".join(
    json.dumps(event)
    for event in [
        {"Action": "output", "Package": "p", "Test": "TestBad", "Output": "a_test.go:3: no\n"},
        {"Action": "fail", "Package": "p", "Test": "TestBad"},
        {"Action": "pass", "Package": "p", "Test": "TestOk/inner"},
        {"Action": "pass", "Package": "p", "Test": "TestOk"},
        {"Action": "skip", "Package": "p", "Test": "TestSkip"},
        {"Action": "fail", "Package": "p"},
        {"Action": "fail", "Package": "broken"},
    ]
)
FLUTTER = "\n".join(
    json.dumps(event)
    for event in [
        {"type": "testStart", "test": {"id": 1, "name": "loading", "line": None, "url": None}},
        {"type": "testDone", "testID": 1, "result": "success", "hidden": True, "skipped": False},
        {"type": "testStart", "test": {"id": 2, "name": "adds", "line": 5, "url": "file:///x_test.dart"}},
        {"type": "error", "testID": 2, "error": "Expected: 5", "stackTrace": "x"},
        {"type": "testDone", "testID": 2, "result": "failure", "hidden": False, "skipped": False},
        {"type": "testStart", "test": {"id": 3, "name": "ok"}},
        {"type": "testDone", "testID": 3, "result": "success", "hidden": False, "skipped": False},
        {"type": "done", "success": False},
    ]
)


def test_reports_of_four_kinds_are_read() -> None:
    found = test_report_parser.parse("junit", JUNIT, "")
    assert (found.passed, found.skipped) == (1, 1)
    assert [(f.test, f.file, f.line) for f in found.failures] == [
        ("tests.test_a::test_bad", "tests/test_a.py", 7),
        ("tests.test_b::test_error", "", 0),
    ]
    found = test_report_parser.parse("tap", "", TAP)
    assert (found.passed, found.skipped, [f.test for f in found.failures]) == (2, 1, ["broken"])
    assert "it broke" in found.failures[0].message
    found = test_report_parser.parse("go-json", "", GO)
    assert (found.passed, found.skipped, [f.test for f in found.failures]) == (1, 1, ["broken", "p::TestBad"])
    found = test_report_parser.parse("flutter-machine", "", FLUTTER)
    assert (found.passed, [(f.test, f.file, f.line) for f in found.failures]) == (1, [("adds", "/x_test.dart", 5)])
    found = test_report_parser.parse("none", "", "src/a.py:3:1: F401 unused\nsrc/a.py:9: note: see\nFound 1 error.\n")
    assert [(f.file, f.line, f.message) for f in found.failures] == [("src/a.py", 3, "F401 unused")]
    assert not found.counted


@given(st.sampled_from(sorted(test_report_parser.PARSERS)), st.text(), st.text())
def test_no_report_makes_a_parser_fall_over(how: str, report: str, output: str) -> None:
    hostile = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>" + report
    for one in (report, hostile):
        assert isinstance(test_report_parser.parse(how, one, output), test_report_parser.Results)


def here(folder: Path) -> Workplace:
    return Workplace(str(folder), str(folder))


async def run(tmp_path: Path, code: str, **given: object) -> Checked:
    step = settings.settings({"verify": [{"name": "t", "run": [sys.executable, "-c", code], **given}]}, "t").verify[0]
    return (await check.run_steps([step], here(tmp_path), tmp_path / "out", "key", deaf))[0].checked


async def test_a_step_says_what_it_saw(tmp_path: Path) -> None:
    done = await run(tmp_path, "print('a.py:3: wrong'); raise SystemExit(2)")
    assert (done.exit, done.failing_ids, done.counted) == (2, ("a.py: wrong",), False)
    done = await run(tmp_path, "import time; time.sleep(60)", timeout=0.3)
    assert done.timed_out
    done = await run(tmp_path, "print('No space left on device'); raise SystemExit(1)")
    assert done.environment == "No space left on device"
    missing = (await check.run_steps([CheckStep("x", "no-such-tool")], here(tmp_path), tmp_path, "k", deaf))[0].checked
    assert "no-such-tool" in missing.environment


async def test_a_green_exit_with_failing_tests_is_not_green(tmp_path: Path) -> None:
    done = await run(tmp_path, "print('not ok 1 - a')", parse="tap")
    assert not done.is_green


async def test_a_check_does_not_see_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    done = await run(tmp_path, "import os; print(sorted(os.environ)); raise SystemExit('OPENAI_API_KEY' in os.environ)")
    assert done.exit == 0


async def test_a_flaky_step_may_be_run_once_more(tmp_path: Path) -> None:
    code = "import os, sys; seen = os.path.exists('m'); open('m', 'w'); sys.exit(0 if seen else 1)"
    step = CheckStep("t", [sys.executable, "-c", code])
    done = (await check.run_steps([step], here(tmp_path), tmp_path / "out", "k", deaf, rerun=True))[0].checked
    assert (done.exit, done.reran, done.first_exit) == (0, True, 1)


def red(*tests: str, **given: object) -> Evidence:
    failures = tuple(Failing(test, f"{test} failed at 0x7f{len(test)}") for test in tests)
    facts = {"name": "t", "command": "t", "exit": 1, "failures": failures, "failing_ids": tests, "counted": True}
    return Evidence("tree", steps=(Checked(**{**facts, **given}),))  # type: ignore[arg-type]


def test_only_what_was_not_wrong_before_counts() -> None:
    assert [f.test for f in check_result.faults(red("a", "b"), red("a"))] == ["b"]
    assert check_result.faults(red("a"), red("a", "b")) == ()
    assert [f.test for f in check_result.faults(red("a", is_strict=True), red("a"))] == ["a"]
    assert check_result.faults(red("a", is_required=False), None) == ()
    assert len(check_result.faults(red(tail="?"), None)) == 1
    assert check_result.faults(red(), red()) == ()  # red before, red now, no details: nobody can tell


def test_a_signature_does_not_see_numbers() -> None:
    one = [check_result.Fault("t", "at 0x7f12 line 3", "a")]
    two = [check_result.Fault("t", "at 0x9999 line 8", "a")]
    assert check_result.signature(one) == check_result.signature(two)
    assert check_result.signature(one) != check_result.signature([check_result.Fault("t", "at 0x7f12 line 3", "b")])


def test_tests_that_disappear_are_noticed() -> None:
    def counted(passed: int, skipped: int = 0) -> Evidence:
        return Evidence("t", steps=(Checked("t", "t", passed=passed, skipped=skipped, counted=True),))

    assert "9 tests ran; there were 10" in check_result.shrunk(counted(9), counted(10), 0)
    assert "1 tests were skipped" in check_result.shrunk(counted(10, 1), counted(10), 0)
    assert check_result.shrunk(counted(9), counted(10), 1) == ""
    assert check_result.shrunk(counted(11), counted(10), 0) == ""


def test_globs() -> None:
    globs = ("**/__pycache__/**", "detent.code.yaml", "migrations/**", "docs")
    paths = ["a/__pycache__/x.pyc", "__pycache__/x", "detent.code.yaml", "migrations/a/b", "docs/a", "src/docs.py", "a"]
    assert check_result.without(paths, globs) == ["src/docs.py", "a"]
    assert check_result.matching(paths, ()) == []
