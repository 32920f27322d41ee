"""`detent test`: the cases of every rule hold, and what does not hold or cannot be read is told plainly."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from detent.core.expression import compile_template
from detent.define.document import read_document
from detent.errors import DefinitionError, ExpressionError
from detent.testing import read_cases, read_tools, try_case, try_cases
from tests.define.test_problems import grafted, mutated
from tests.surfaces.command import Detent

CASES = sorted((Path(__file__).parent / "cases").glob("*.test.yaml"))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.test.yaml"))
FLOW = """\
- id: it-holds
  definition:
    states: {a: {type: initial, actions: [{id: pay, tool: bank, side_effect: true}]}, z: {type: final}}
    transitions: [{from: a, to: z}]
"""


def file(folder: Path, text: str) -> str:
    (folder / "flow.test.yaml").write_text(text, encoding="utf-8")
    return "flow.test.yaml"


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


@pytest.mark.parametrize("path", [*CASES, *EXAMPLES], ids=lambda path: path.name)
def test_the_cases_hold(path: Path, detent: Detent) -> None:
    said = detent("test", str(path))
    assert "FAIL" not in said.out
    assert not detent.has(".detent"), "nothing is left behind"


def test_cases_can_say_that_a_call_failed_after_its_deed() -> None:
    """Not among the others: those are played with deaths too, and a death in such a call is a doubt of its own."""
    verdicts = try_cases(Path(__file__).parent / "evidence.test.yaml")
    assert [verdict.id for verdict in verdicts if not verdict.ok] == []
    assert len(verdicts) == 11


def test_there_are_cases_for_every_rule() -> None:
    ids = [case.id for path in CASES for case in read_cases(path)]
    assert len(ids) == len(set(ids)) >= 40
    said = "\n".join(ids)
    assert {f"r{n}" for n in range(1, 15)} <= set(re.findall(r"(?m)^(r\d+)-", said))
    assert {f"block-{n}" for n in range(1, 5)} <= set(re.findall(r"(?m)^(block-\d)-", said))


def test_a_case_gives_the_same_verdict_every_time() -> None:
    for path in CASES:
        assert try_cases(path) == try_cases(path)


def test_a_failing_case_shows_what_was_expected_and_what_came(detent: Detent) -> None:
    text = FLOW + "  script: [{approve: nobody}]\n  expect: {status: completed, state: a, calls: {bank: 1}}\n"
    said = detent("test", file(detent.folder, text), code=1)
    assert said.out.splitlines() == [
        "FAIL  it-holds  flow.test.yaml:1:3",
        '        status: expected "completed"',
        '        status: came     "waiting"',
        "        calls.bank: expected 1",
        "        calls.bank: came     0",
        "        the script was refused: approve nobody: `nobody` does not wait for an answer; waiting: pay",
        "0 passed, 1 failed",
    ]


def test_json_has_the_whole_story(detent: Detent) -> None:
    text = FLOW + "  expect: {status: waiting}\n" + FLOW.replace("it-holds", "it-fails") + "  expect: {state: z}\n"
    assert detent("test", file(detent.folder, text), "--json", code=1).json == {
        "ok": False,
        "passed": 1,
        "failed": 1,
        "cases": [
            {"id": "it-holds", "ok": True, "expected": {"status": "waiting"}, "actual": {"status": "waiting"}},
            {"id": "it-fails", "ok": False, "expected": {"state": "z"}, "actual": {"state": "a"}},
        ],
    }


def test_a_workflow_that_does_not_load_fails_its_case(detent: Detent) -> None:
    text = FLOW.replace("to: z", "to: y") + "  expect: {status: waiting}\n"
    said = detent("test", file(detent.folder, text), code=1)
    assert "load_error: came     flow.test.yaml:4:33: unknown state `y`" in said.out


def test_a_workflow_that_should_not_load_but_does_fails_too(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(FLOW + "  expect: {load_error: true}\n")
    (verdict,) = try_cases(tmp_path / "x.yaml")
    assert (verdict.ok, verdict.differs) == (False, ("load_error",))


def test_merged_keys_keep_their_lines(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(FLOW + "  merge:\n    limits: {max_visit: 3}\n  expect: {load_error: true}\n")
    (verdict,) = try_cases(tmp_path / "x.yaml")
    assert verdict.ok
    assert ":6:14: unknown key" in verdict.actual["load_error"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1:1: the file is empty"),
        ("a: 1", "1:1: a case file must be a list"),
        ("states: {}", "1:1: this is a workflow, not a list of cases"),
    ],
)
def test_a_file_that_holds_no_cases_is_refused_with_its_place(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DefinitionError, match=re.escape(f"x.yaml:{complaint}")):
        read_cases(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- 7", "1:3: a case must be a mapping"),
        ("- {id: x, definition: {}}", "1:3: a case needs `expect`"),
        ("- {id: x, definition: , expect: {}}", "1:23: `definition` must be a mapping with `states`"),
        ("- {id: x, expect: {}}", "1:3: a case needs either `workflow` or `definition`"),
        ("- {id: x, workflow: no.yaml, expect: {}}", "1:21: there is no file"),
        ("- {id: x, definition: {}, expects: {}, expect: {}}", "1:27: unknown key of a case: `expects`"),
        ("- {id: x, definition: {}, expect: {statu: x}}", "1:36: unknown key of `expect`: `statu`; did you mean"),
        ("- {id: x, definition: {}, expect: {status: done}}", "1:44: `status` must be one of pending, running"),
        ("- {id: x, definition: {}, expect: {calls: {a: x}}}", "1:43: `calls` must be a mapping from tools"),
        ("- {id: x, definition: {}, expect: {}, script: [{aprove: x}]}", "1:48: a step has exactly one of"),
        ("- {id: x, definition: {}, expect: {}, script: [{approve: x, to: y}]}", "1:61: unknown key of a step"),
        ("- {id: x, definition: {}, expect: {}, script: [{advance: -1}]}", "1:58: `advance` must be a number"),
        ("- {id: x, definition: {}, expect: {}, script: [{crash: false}]}", "1:56: `crash` must be true"),
        ("- {id: x, definition: {}, expect: {}, tools: {a: {output: {}}}}", "1:50: the answers of `a` must be a list"),
        ("- {id: x, definition: {}, expect: {}, tools: {a: []}}", "1:50: `a` has no answers"),
        ("- {id: x, definition: {}, expect: {}, tools: {a: [{out: {}}]}}", "1:51: an answer has exactly one of"),
        ("- {id: x, definition: {}, expect: {}, fragment: perhaps}", "1:49: `fragment` must be true or false"),
        ("- {id: x, definition: {}, expect: {}}\n- {id: x, definition: {}, expect: {}}", "2:8: a second case"),
        ("- {id: x, id: y, definition: {}, expect: {}}", "1:11: the key `id` is there twice"),
    ],
)
def test_a_broken_case_fails_with_its_place_and_the_others_are_played(
    text: str, complaint: str, tmp_path: Path
) -> None:
    line, _, rest = complaint.partition(":")
    sound = FLOW + "  expect: {status: waiting}\n"
    (tmp_path / "x.yaml").write_text(sound + text + "\n" + sound.replace("it-holds", "it-holds-too"))
    first, *broken, last = try_cases(tmp_path / "x.yaml")
    assert (first.ok, last.ok) == (True, True)
    assert not broken[-1].ok
    assert f"x.yaml:{int(line) + 5}:{rest}" in broken[-1].problem
    assert broken[-1].differs == ()


def test_what_is_wrong_with_a_case_is_told_as_its_failure(detent: Detent) -> None:
    sound = FLOW + "  expect: {status: waiting}\n"
    wrong = "- {id: x, definition: {}, expects: {}, expect: {statu: x}}\n- 7\n"
    said = detent("test", file(detent.folder, sound + wrong), code=1)
    assert said.out.splitlines() == [
        "ok    it-holds",
        "FAIL  x  flow.test.yaml:6:3",
        "        flow.test.yaml:6:27: unknown key of a case: `expects`; did you mean `expect`?",
        "        flow.test.yaml:6:49: unknown key of `expect`: `statu`; did you mean `status`?",
        "FAIL  #3  flow.test.yaml:7:3",
        "        flow.test.yaml:7:3: a case must be a mapping, not the number 7; known keys: id, about, workflow,"
        " definition, merge, fragment, input, tools, policy, script, expect",
        "1 passed, 2 failed",
    ]
    told = detent("test", "flow.test.yaml", "--json", code=1).json
    assert (told["ok"], told["passed"], told["failed"]) == (False, 1, 2)
    assert [one["ok"] for one in told["cases"]] == [True, False, False]
    assert told["cases"][1]["problem"].startswith("flow.test.yaml:6:27: unknown key")
    assert detent("test", "flow.test.yaml", "--crash", code=1).out.splitlines()[-1] == "1 passed, 2 failed"


def test_files_that_hold_no_cases_are_told_all_at_once(detent: Detent) -> None:
    (detent.folder / "one.yaml").write_text("states: {}\n")
    (detent.folder / "two.yaml").write_text("7\n")
    said = detent("test", "one.yaml", "two.yaml", "--json", code=2).json
    assert (said["ok"], said["error"]["type"]) == (False, "definition_error")
    assert [(one["file"], one["line"]) for one in said["problems"]] == [("one.yaml", 1), ("two.yaml", 1)]
    assert "there is no such file" in detent("test", "none.yaml", code=2).err
    detent("test", code=2)


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"logs": 2}, True),
        ({"logs": 1}, False),
        ({"logs": ["one"]}, True),
        ({"logs": ["one", "two"]}, True),
        ({"logs": ["two", "one"]}, False),
        ({"logs": []}, False),
        ({"notes": []}, True),
        ({"notes": False}, True),
        ({"logs": True}, True),
        ({"calls": {"bank": 0}}, True),
        ({"calls": {"bank": None}}, True),
        ({"context": {"x": 1, "y": None}}, True),
        ({"context": {"x": 2}}, False),
        ({"error": None}, True),
        ({"error": "timeout"}, False),
        ({"path": ["a", "z"]}, True),
        ({"path": ["z"]}, False),
    ],
)
def test_what_is_expected_is_a_part_of_what_came(expect: dict[str, Any], holds: bool, tmp_path: Path) -> None:
    actions = [{"type": "log", "message": "one 1"}, {"type": "log", "message": "two"}]
    states = {"a": {"type": "initial", "actions": actions}, "z": {"type": "final"}}
    definition = {"states": states, "transitions": [{"from": "a", "to": "z"}]}
    case = {"id": "x", "definition": definition, "input": {"x": 1}, "expect": expect}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump([case]))
    (read,) = read_cases(tmp_path / "x.yaml")
    assert try_case(read).ok is holds


def test_a_hanging_call_is_left_hanging_once_the_script_moves_time(tmp_path: Path) -> None:
    text = """
- id: still-at-work
  definition:
    states: {a: {type: initial, actions: [{id: t, tool: t, timeout: 30s}]}, z: {type: final}}
    transitions: [{from: a, to: z, condition: "{{ result.t.success }}"}]
  tools: {t: [{hang: true}]}
  script: [{advance: 29}]
  expect: {status: running}
"""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert try_cases(path)[0].ok
    path.write_text(text.replace("29", "30").replace("running", "failed, error: timeout"))
    assert try_cases(path)[0].ok


RETRYING = """
- id: timed
  definition:
    states: {a: {type: initial, actions: [{id: t, tool: t, RETRY}]}, z: {type: final}}
    transitions: [{from: a, to: z}]
  tools: {t: [{raise: no}, {output: {}}]}
  script: SCRIPT
  expect: EXPECT
"""
PATIENT = "retry: {max_retries: 1, delay: 10s}"  # with full jitter: at some moment of these ten seconds


@pytest.mark.parametrize(
    ("script", "expect"),
    [
        ("[]", "{status: completed, calls: {t: 2}}"),
        ("[{advance: 0}]", "{status: running, calls: {t: 1}}"),
        ("[{advance: 10}]", "{status: completed, calls: {t: 2}}"),
        ("[{advance: 0}, {crash: true}, {advance: 0}]", "{status: running, calls: {t: 1}}"),
        ("[{advance: 0}, {crash: true}, {advance: 10}]", "{status: completed, calls: {t: 2}}"),
        ("[{cancel: true}, {advance: 10}]", "{status: cancelled, calls: {t: 1}}"),
    ],
)
def test_in_a_script_that_moves_time_a_retry_waits_for_it(script: str, expect: str, tmp_path: Path) -> None:
    text = RETRYING.replace("RETRY", PATIENT).replace("SCRIPT", script).replace("EXPECT", expect)
    (tmp_path / "x.yaml").write_text(text)
    (verdict,) = try_cases(tmp_path / "x.yaml")
    assert verdict.ok, verdict


def test_in_a_script_that_moves_time_nothing_else_brings_a_wait_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("""
- id: two-clocks
  definition:
    states:
      a: {type: initial, actions: [{id: t, tool: t, timeout: 30s, retry: {max_retries: 1, delay: 60s}}]}
      w: {type: wait, for: paid, timeout: 1h}
      z: {type: final}
      late: {type: final}
    transitions: [{from: a, to: w}, {from: w, on: paid, to: z}, {from: w, to: late, condition: "{{ error }}"}]
  tools: {t: [{hang: true}, {output: {}}]}
  script: [{advance: 30}, {advance: 60}, {advance: 3500}, {event: paid}]
  expect: {status: completed, state: z, calls: {t: 2}}
""")
    (verdict,) = try_cases(tmp_path / "x.yaml")
    assert verdict.ok, verdict


def test_answers_can_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("bank: [{output: {n: 1}}, {hang: true}]\n")
    assert read_tools(tmp_path / "a.yaml") == {"bank": ({"n": 1}, "hang")}
    (tmp_path / "a.yaml").write_text("[]")
    with pytest.raises(DefinitionError, match="must be a mapping from tools"):
        read_tools(tmp_path / "a.yaml")


def test_a_case_that_never_ends_is_told_and_stopped(tmp_path: Path) -> None:
    (tmp_path / "endless.yaml").write_text("""
- id: endless
  definition:
    limits: {max_transitions: 100000000}
    states: {a: {type: initial, actions: [{id: t, type: tool_call, tool: x}]}, z: {type: final}}
    transitions: [{from: a, to: a, condition: "{{ true }}"}, {from: a, to: z}]
  expect: {status: completed}
""")
    (verdict,) = try_cases(tmp_path / "endless.yaml")
    assert not verdict.ok
    assert "goes on and on" in verdict.problem


FUZZED = 300


def test_whatever_happens_to_a_case_file_gives_verdicts_or_a_definition_error(tmp_path: Path) -> None:
    seed = 20_261_116
    chance = random.Random(seed)
    (tmp_path / "release.yaml").write_text((CASES[0].parent / "release.yaml").read_text())
    trees = [read_document(path.read_text(), path.name).value for path in CASES]
    singles = [[case] for tree in trees for case in tree if "../" not in str(case.get("workflow", ""))]
    outcomes = {"played": 0, "refused": 0}
    placeless: list[str] = []
    for number in range(FUZZED):
        tree = chance.choice(singles)
        text = grafted(tree, chance) if number % 3 else mutated(yaml.safe_dump(tree), chance)
        (tmp_path / "x.test.yaml").write_text(text, encoding="utf-8")
        try:
            try_cases(tmp_path / "x.test.yaml")
            outcomes["played"] += 1
        except DefinitionError as error:
            outcomes["refused"] += 1
            placeless += [] if re.search(r":\d+:\d+: ", str(error)) else [f"input {number}: {error}"]
        except BaseException as error:
            error.add_note(f"seed {seed}, input {number}: {text!r}")
            raise
    assert not placeless
    assert min(outcomes.values()) > FUZZED / 20, outcomes


WORDS = [
    *"context a.b 1 2.5 't' [1] ( ) [ ] { } + - * / // % ** < == in not and or is none defined if else".split(),  # noqa: SIM905
    *"| default(1) result.x length join(',') tojson round ~ . , : _x __class__ range(9) {{ }} \\ é true".split(),  # noqa: SIM905
    *("{'a': 1}", "9" * 400, "'''", "\0"),
]


def test_whatever_is_written_as_an_expression_gives_a_value_or_an_error_of_ours() -> None:
    seed = 20_261_116
    chance = random.Random(seed)
    scope = {"context": {"n": 3, "t": "text", "l": [1, 2]}, "result": {"x": {"success": True}}, "a": {"b": None}}
    values = 0
    for number in range(4_000):
        text = " ".join(chance.choice(WORDS) for _ in range(chance.choice((1, 2, 3, 5, 8, 40))))
        try:
            compile_template(f"{{{{ {text} }}}}")(scope)
            values += 1
        except (DefinitionError, ExpressionError):
            continue
        except BaseException as error:
            error.add_note(f"seed {seed}, input {number}: {text!r}")
            raise
    assert values > 50
