"""Broken and hostile files: each gives one clear DefinitionError with line and column, quickly, and nothing else."""

# ruff: noqa: E501 - a file of a few words reads best on one line

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.define import load
from detent.define.document import read_document
from detent.define.grammar import SHAPES
from detent.define.problem import BrokenDefinition, Problem
from detent.define.proof import MachineProof
from detent.define.workflow import load_workflow, read_workflow
from detent.errors import DefinitionError
from tests.define.stage import FILES

HEAD = "states: {a: {type: initial}, z: {type: final}}\ntransitions: [{from: a, to: z}]\n"


def states(inner: str) -> str:
    return f"states:\n  a: {{type: initial}}\n  z: {{type: final}}\n{inner}\ntransitions: [{{from: a, to: z}}]\n"


def action(inner: str) -> str:
    return f"states:\n  a:\n    type: initial\n    actions:\n      - {inner}\n  z: {{type: final}}\ntransitions: [{{from: a, to: z}}]\n"


def way(inner: str) -> str:
    return f"states: {{a: {{type: initial}}, z: {{type: final}}}}\ntransitions:\n  - {{from: a, to: z}}\n  - {inner}\n"


def handler(inner: str) -> str:
    return f"{HEAD}error_handlers:\n  - {inner}\n"


# name: (content, where, what it says)
BROKEN: dict[str, tuple[str | bytes, str, str]] = {
    "default of another type": (
        HEAD + "input: {n: {type: integer, default: x}}\n",
        "3:34",
        "the default must be integer, not string",
    ),
    "letters that look alike": (
        HEAD.replace("z:", "pаy:").replace("to: z", "to: pay"),
        "2:29",
        "other letters that look like these",
    ),
    # the text itself
    "empty": ("", "1:1", "the file is empty"),
    "only a comment": ("# nothing\n", "1:1", "the file is empty"),
    "null": ("~\n", "1:1", "needs `states`"),
    "a list": ("- a\n- b\n", "1:1", "must be a mapping, not a list"),
    "a text": ("hello\n", "1:1", "must be a mapping, not the text"),
    "a number": ("7\n", "1:1", "must be a mapping, not the number"),
    "utf-16": (HEAD.encode("utf-16"), "1:1", "UTF-16"),
    "utf-16 without a mark": (HEAD.encode("utf-16-le"), "1:1", "UTF-16"),
    "utf-32": (HEAD.encode("utf-32"), "1:1", "UTF-8"),
    "latin-1": (f"{HEAD}name: Grüße\n".encode("latin-1"), "3:9", "byte 0xfc is not UTF-8"),
    "binary": (bytes(range(256)) * 4, "1:1", "binary"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "1:1", "not UTF-8"),
    "a NUL": (f"{HEAD}name: a\0b\n", "3:8", "NUL"),
    "an escape character": (f"{HEAD}name: a\x1b[2Jb\n", "3:8", "U+001B"),
    "a tab": ("states:\n\ta: {type: initial}\n", "2:1", "tabs"),
    "two documents": (f"{HEAD}---\n{HEAD}", "3:1", "second document"),
    "a directive": (f"%YAML 1.1\n---\n{HEAD}", "1:1", "directives"),
    "many directives": ("%TAG !a! x\n" * 60_000 + "---\na: 1\n", "1:1", "directives"),
    "an open quote": (f'{HEAD}name: "never closed\n', "", "not YAML"),
    "an open bracket": ("states: {a: {type: initial}\n", "", "not YAML"),
    "two colons": (f"{HEAD}name: a: b\n", "3:8", "needs quotes"),
    "a key twice": (f"{HEAD}name: x\nname: y\n", "4:1", "`name` is there twice, in lines 3 and 4"),
    "a state twice": (states("  z: {type: error}"), "4:3", "`z` is there twice, in lines 3 and 4"),
    "an anchor and an alias": (f"{HEAD}name: &n x\ndescription: *n\n", "3:7", "anchor"),
    "a tag": (f"{HEAD}name: !!python/object/apply:os.system [ls]\n", "3:7", "tag `!!python/object/apply:os.system`"),
    "a tag of its own": (f"{HEAD}name: !x y\n", "3:7", "tag `!x`"),
    "a merge key": (f"{HEAD}limits:\n  <<: {{max_visits: 1}}\n", "4:3", "merge keys"),
    "a key that is a number": (states("  1: {type: normal}"), "4:3", "the key `1` is not text"),
    "a key that is true": (states("  true: {type: normal}"), "4:3", "the key `true` is not text"),
    "a key that is a list": (f"{HEAD}variables: {{[a]: 1}}\n", "3:13", "cannot be a key"),
    "an expression without quotes": (way("{from: a, to: z, condition: {{ true }}}"), "4:34", "in quotes"),
    "infinite": (f"{HEAD}variables: {{x: .inf}}\n", "3:16", "`.inf` is not a number"),
    "not a number": (f"{HEAD}variables: {{x: .nan}}\n", "3:16", "`.nan` is not a number"),
    "a huge float": (f"{HEAD}variables: {{x: 1e999}}\n", "3:16", "too large"),
    "a huge integer": (f"{HEAD}variables: {{x: {'9' * 5000}}}\n", "3:16", "more than 18 digits"),
    "deep brackets": ("[" * 400_000, "1:65", "nested more than 64 deep"),
    "deep mappings": ("{a: " * 200_000, "", "nested more than 64 deep"),
    "deep dashes": ("- " * 300_000, "", "nested more than 64 deep"),
    "deep questions": ("? " * 300_000, "", ""),
    "a bomb of aliases": ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n", "1:4", "anchor"),
    "a huge text": (f"{HEAD}name: {'x' * 200_000}\n", "3:7", "more than 100,000 characters"),
    "a huge file": (f"{HEAD}# {'x' * 2_000_000}\n", "1:1", "more than 1,048,576"),
    "many values": (f"{HEAD}variables: {{x: [{'1,' * 100_000}]}}\n", "", "more than 50,000 values"),
    "many keys": ("".join(f"k{i}: 1\n" for i in range(20_000)), "1:1", "unknown key"),
    "half a character": (f'{HEAD}name: "\\ud800"\n', "3:", ""),
    # the grammar
    "no states": ("transitions: []\n", "1:1", "needs `states`"),
    "empty states": ("states: {}\n", "1:9", "there are no states"),
    "states as a list": ("states: [a, b]\n", "1:9", "must be a mapping from names to states"),
    "an unknown key": (f"{HEAD}transitons: []\n", "3:1", "did you mean `transitions`?"),
    "an unknown key of a state": (states("  b: {tpye: normal}"), "4:7", "did you mean `type`?"),
    "an unknown type of state": (states("  b: {type: finall}"), "4:13", "did you mean `final`?"),
    "a state that is a text": (states("  b: normal"), "4:6", "must be a mapping, not the text `normal`"),
    "a state name with a dash": (states("  my-state: {}"), "4:3", "for example `my_state`"),
    "no initial state": ("states: {a: {}}\n", "1:9", "no state is `type: initial`"),
    "two initial states": (states("  b: {type: initial}"), "4:13", "a second initial state"),
    "an unknown action": (action("{id: x, type: tool_cal}"), "5:23", "did you mean `tool_call`?"),
    "an action without type": (action("{id: x}"), "5:9", "needs `type`"),
    "an action that is a text": (action("shell"), "5:9", "must be a mapping"),
    "actions as a mapping": ("states: {a: {type: initial, actions: {id: x}}}\n", "1:38", "must be a list"),
    "a call without a tool": (action("{id: x, type: tool_call}"), "5:9", "needs one of `tool`"),
    "a call of two tools": (action("{id: x, tool: a, python: b}"), "5:9", "needs one of `tool`"),
    "a tool with a blank": (action("{id: x, tool: rm -rf}"), "5:23", "the name of a tool"),
    "a tool of the engine": (action("{id: x, tool: branches}"), "5:23", "use `type: parallel`"),
    "an action without id": (action("{tool: x}"), "5:9", "needs an `id`"),
    "an id twice": (action("{id: x, tool: y}\n      - {id: x, tool: y}"), "6:14", "used twice"),
    "an id with a blank": (action("{id: a b, tool: y}"), "5:14", "for example `a_b`"),
    "params as a list": (action("{id: x, tool: y, params: [1]}"), "5:34", "must be a mapping, not a list"),
    "a key of another type": (action("{id: x, type: log, message: m, tool: y}"), "5:40", "belongs to `tool_call`"),
    "side_effect: yes": (action("{id: x, tool: y, side_effect: yes}"), "5:39", "`yes`, `no`, `on` and `off` are texts"),
    "an unknown effect": (action("{id: x, tool: y, effect: purr}"), "5:34", "did you mean `pure`?"),
    "a negative timeout": (action("{id: x, tool: y, timeout: -1}"), "5:35", "`90s`"),
    "a timeout of words": (action("{id: x, tool: y, timeout: soon}"), "5:35", "`90s`"),
    "a timeout nobody knows": (
        action('{id: x, tool: y, timeout: "{{ context.t }}"}'),
        "5:35",
        "when the file is loaded",
    ),
    "a quorum of nobody": (
        action("{id: x, tool: y, approval: {approvers: [ann], quorum: 2}}"),
        "5:63",
        "can never be reached",
    ),
    "an approval that is a text": (action("{id: x, tool: y, approval: ann}"), "5:36", "must be a mapping"),
    "a side effect that is not asked": (
        action("{id: x, tool: y, side_effect: true, approval: false}"),
        "5:55",
        "asked about first",
    ),
    "a private variable": (action("{type: set_variable, name: _x, value: 1}"), "5:36", "names joined by dots"),
    "a variable that is nothing": (action("{type: set_variable, value: 1}"), "5:9", "needs `variable`"),
    "a variable of the engine": (action("{type: set_variable, name: result.x, value: 1}"), "5:36", "read and not set"),
    "a key that is misspelt": (action("{id: x, tol: y}"), "5:17", "did you mean `tool`?"),
    "approvers nobody knows": (action('{id: x, tool: y, approval: {approvers: "{{ a }}"}}'), "5:48", "not computed"),
    "a log of nothing": (action("{type: log}"), "5:9", "needs `message`"),
    "a condition of nothing": (action("{id: x, type: conditional}"), "5:9", "needs `condition`"),
    "for_each of nothing": (action("{id: x, type: for_each, actions: [{id: y, tool: z}]}"), "5:9", "needs `items`"),
    "for_each without actions": (action('{id: x, for_each: "{{ context.l }}"}'), "5:9", "nothing to do"),
    "for_each over a number": (action("{id: x, for_each: 7, actions: []}"), "5:27", "a list, or an expression"),
    "for_each with a key beside it": (
        action("{id: x, for_each: {items: [1], actions: [{id: y, tool: z}]}, tolerate: 1}"),
        "5:80",
        "inside `for_each`",
    ),
    "a join nobody reaches": (
        action("{id: x, type: parallel, join: 3, actions: [{id: y, tool: z}]}"),
        "5:39",
        "never be reached",
    ),
    "a join of words": (
        action("{id: x, type: parallel, join: most, actions: [{id: y, tool: z}]}"),
        "5:39",
        "`all`, `any`",
    ),
    "branches in branches in branches": (
        action("{id: p, type: parallel, actions: [" * 12 + "{id: y, tool: z}" + "]}" * 12),
        "5:",
        "nested deeper than 8",
    ),
    "a parallel state without branches": (states("  p: {type: parallel}"), "4:6", "needs `branches`"),
    "a branch that is a text": (states("  p: {type: parallel, branches: {b: x}}"), "4:37", "must be a list"),
    "a branch of two names": (
        states("  p: {type: parallel, branches: [{id: l, name: r, actions: [{id: x, tool: t}]}]}"),
        "4:48",
        "called both `l` and `r`; one name is enough",
    ),
    "a branch that is called otherwise": (
        states("  p: {type: parallel, branches: {l: {id: r, actions: [{id: x, tool: t}]}}}"),
        "4:42",
        "called both `l` and `r`",
    ),
    "two branches of one name": (
        states(
            "  p: {type: parallel, branches: [{id: l, actions: [{id: x, tool: t}]}, {name: l, actions: [{id: y, tool: t}]}]}"
        ),
        "4:72",
        "the branch `l` is there twice",
    ),
    "a wait for nothing": (states("  w: {type: wait}"), "4:6", "waits for nothing"),
    "a wait for two things": (states("  w: {type: wait, for: x, duration: 1h}"), "4:24", "not `duration` and `for`"),
    "a match that is none": (states('  w: {type: wait, for: [{event: x, match: "{{ ( }}"}]}'), "4:43", "not closed"),
    "a transition without a target": (way("{from: a}"), "4:5", "needs `to`"),
    "an unknown target": (way("{from: a, to: y}"), "4:19", "unknown state `y`"),
    "an unknown source": (way("{from: b, to: z}"), "4:12", "unknown state `b`"),
    "leaving an end": (way("{from: z, to: a}"), "4:12", "`z` is an end"),
    "a retry of all states": (way('{from: "*", to: retry}'), "4:21", "`*` is not a state"),
    "a condition with a call": (way('{from: a, to: z, condition: "{{ context.x.y() }}"}'), "4:33", "not allowed"),
    "a condition that imports": (way("{from: a, to: z, condition: \"{{ ''.__class__ }}\"}"), "4:33", "private"),
    "a condition with a statement": (
        way('{from: a, to: z, condition: "{% for x in y %}{% endfor %}"}'),
        "4:33",
        "statements",
    ),
    "a condition of brackets": (way('{from: a, to: z, condition: "{{ ' + "(" * 3000 + '"}'), "4:33", ""),
    "a long condition": (way('{from: a, to: z, condition: "{{ ' + "a or " * 2000 + 'a }}"}'), "4:33", "4,000"),
    "half a condition": (way('{from: a, to: z, condition: "{{ a < }}"}'), "4:33", "`a <`"),
    "a condition that is a number": (way("{from: a, to: z, condition: 7}"), "4:33", "must be an expression"),
    "an unknown filter": (way('{from: a, to: z, condition: "{{ a | lenght }}"}'), "4:33", "length"),
    "an unknown step": (
        way("{from: a, to: z, on_transition: [{action: increment}]}"),
        "4:47",
        "did you mean `increment_variable`?",
    ),
    "a step that calls": (way("{from: a, to: z, on_transition: [{action: tool_call}]}"), "4:47", "unknown `action`"),
    "priority in words": (way("{from: a, to: z, priority: high}"), "4:32", "a whole number"),
    "an unknown handler": (handler("{action: retry}"), "4:14", "did you mean `retry_with_backoff`?"),
    "an unknown error type": (handler("{error_type: time_out, action: log_error}"), "4:18", "did you mean `timeout`?"),
    "a handler for an end": (handler("{on_state: z, action: log_error}"), "4:16", "`z` is an end"),
    "a handler for nobody": (handler("{on_state: y, action: log_error}"), "4:16", "unknown state `y`"),
    "a fallback to nowhere": (handler("{action: log_error, fallback_state: y}"), "4:41", "unknown state `y`"),
    "a fallback to retry": (handler("{action: log_error, fallback_state: retry}"), "4:41", "unknown state `retry`"),
    "retries of another handler": (
        handler("{action: log_error, max_retries: 3}"),
        "4:25",
        "belongs to `retry_with_backoff`",
    ),
    "an unknown limit": (f"{HEAD}limits: {{max_transition: 3}}\n", "3:10", "did you mean `max_transitions`?"),
    "no limit": (f"{HEAD}limits: {{max_transitions: 0}}\n", "3:27", "of at least 1"),
    "another grammar": (f"{HEAD}grammar: 2\n", "3:10", "grammar 2 is not known"),
    "an input of no type": (f"{HEAD}input: {{n: int}}\n", "3:12", "did you mean `integer`?"),
    "a circle that does nothing": (
        "states: {a: {type: initial}, b: {}}\ntransitions: [{from: a, to: b}, {from: b, to: a}]\n",
        "2:",
        "circle",
    ),
    "a child that is no file": (f"{action('{id: x, workflow: nowhere.yaml}')}", "5:27", "no such file"),
    "a child that is a program": (action("{id: x, workflow: ../../bin/sh}"), "5:27", "ends in .yaml"),
    "a child with a NUL": (action('{id: x, workflow: "a\\0b.yaml"}'), "5:27", ""),
    "a child of itself": (action("{id: x, workflow: broken.yaml}"), "5:27", "circle: broken.yaml → broken.yaml"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gives_a_clear_error_with_its_place(name: str, tmp_path: Path) -> None:
    content, where, says = BROKEN[name]
    file = tmp_path / "broken.yaml"
    file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    with pytest.raises(DefinitionError) as caught:
        load(str(file))
    told = str(caught.value)
    places = re.findall(r"broken\.yaml:(\d+:\d+): ", told)
    assert places, f"no place in: {told[:300]}"
    assert any(place.startswith(where) for place in places), told[:600]
    assert says in told, told[:600]
    assert len(told) < 20_000


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 60


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    with pytest.raises(BrokenDefinition) as caught:
        load_workflow(FILES / "broken" / "many.yaml")
    found = [(problem.line, problem.column, problem.message) for problem in caught.value.problems]
    assert found == sorted(found)
    assert [(line, column) for line, column, _ in found] == [(2, 1), (4, 3), (7, 14), (12, 17), (14, 11)]
    assert str(caught.value).count("\n") == len(found) - 1


def test_a_folder_a_missing_file_and_a_name_are_clear_errors(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for path, says in ((tmp_path / "folder.yaml", "folder"), (tmp_path / "no.yaml", "no such file")):
        for read in (load, load_workflow):
            with pytest.raises(DefinitionError, match=says):
                read(path)
    with pytest.raises(DefinitionError, match="no names"):
        load(f"{FILES / 'seed_1_basic.yaml'}:name")


def test_children_in_a_circle_are_refused(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{one}.yaml").write_text(action(f"{{id: x, workflow: {other}.yaml}}"))
    with pytest.raises(DefinitionError, match=r"circle: a\.yaml → b\.yaml → c\.yaml → a\.yaml"):
        load_workflow(tmp_path / "a.yaml")


def test_children_that_double_do_not_grow_without_end(tmp_path: Path) -> None:
    last = 15
    for number in range(last):
        calls = "".join(f"\n      - {{id: x{i}, workflow: w{number + 1}.yaml}}" for i in range(8))
        (tmp_path / f"w{number}.yaml").write_text(action(f"{{type: log, message: x}}{calls}"))
    (tmp_path / f"w{last}.yaml").write_text(HEAD)
    with pytest.raises(DefinitionError, match="larger than"):
        load_workflow(tmp_path / "w0.yaml")


def test_a_childs_problems_are_told_with_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text("states: {a: {type: intial}}\n")
    (tmp_path / "a.yaml").write_text(action("{id: x, workflow: child.yaml}"))
    with pytest.raises(BrokenDefinition) as caught:
        load_workflow(tmp_path / "a.yaml")
    assert {(Path(p.file).name, p.line) for p in caught.value.problems} == {("a.yaml", 5), ("child.yaml", 1)}


WARNED = {
    "a way behind an open one": (f"{HEAD[:-2]}, {{from: a, to: error}}]\n", "2:33: warning: `a` → `error` is never taken"),
    "a state nobody reaches": (states("  b: {type: final}"), "4:3: warning: the state `b` can never be reached"),
    "no default branch": ('states: {a: {type: initial}, z: {type: final}}\ntransitions: [{from: a, to: z, condition: "{{ context.x }}"}]', "1:10: warning: `a` has no default branch"),
    "an unused variable": (f"variables: {{x: 1}}\n{HEAD}", "1:13: warning: the variable `x` is never read"),
    "an unused variable of a state": ("states: {a: {type: initial, variables: {x: 1}}, z: {type: final}}\ntransitions: [{from: a, to: z}]", "the variable `x` is never read"),
    "a dead end": ("states: {a: {type: initial}, b: {}}\ntransitions: [{from: a, to: b}]", "nothing leads on from `b`"),
    "an unknown field of run": (action('{id: x, tool: y, params: {p: "{{ run.idd }}"}}'), "5:38: warning: `run` has no `idd`, so this is null; did you mean `id`?"),
    "an unknown root": (action('{id: x, tool: y, params: {p: "{{ contxt.x }}"}}'), "5:38: warning: nothing is called `contxt`, so this is null; did you mean `context`?"),
    "a bare variable": ("variables: {n: 1}\n" + action('{id: x, tool: y, params: {p: "{{ n + variables.n }}"}}'), "did you mean `variables.n`?"),
    "an unknown action's result": (action('{id: check, tool: y, params: {p: "{{ result.chek.x }}"}}'), "there is no action `chek` whose result could be read; did you mean `check`?"),
    "an unknown variable": ("variables: {limit: 1}\n" + action('{id: x, tool: y, params: {p: "{{ variables.limti + variables.limit }}"}}'), "did you mean `limit`?"),
    "an open way after a question": (action("{id: x, tool: y, side_effect: true}").replace("to: z", "to: z, condition: true"), "it is taken after a no too"),
    "a default branch that is none": (action("{id: x, tool: y}").replace("[{", '[{from: a, to: error, condition: "{{ result.x.n > 1 }}"}, {'), "7:72: warning: without a condition `a` → `z` is taken only when the work succeeded"),
    "a retry after success": (action("{id: x, tool: y}").replace("to: z", "to: retry"), "this enters `a` again when its work succeeded"),
    "a way behind every success": (action("{id: x, tool: y}").replace("to: z}", 'to: z}, {from: a, to: error, condition: "{{ context.x }}"}'), "is taken only after a failure: line 7 takes every success"),
    "a way behind all failures": (action("{id: x, tool: y}").replace("to: z}", "to: z}, {from: a, to: error, on: error}, {from: a, to: error_state, on: error}"), "`a` → `error_state` is never taken"),
    "a way behind everything": (action("{id: x, tool: y}").replace("to: z}", "to: z, condition: true}, {from: a, to: error, on: error}"), "`a` → `error` is never taken"),
    "an unknown child of an error type": (handler("{error_type: timeout.actoin, action: log_error}"), "did you mean `timeout.action`?"),
    "an expression that is not computed": (f'variables: {{x: "{{{{ 1 }}}}"}}\n{HEAD}', "expressions are not computed here"),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNED)
def test_what_is_probably_not_meant_is_a_warning(name: str) -> None:
    text, says = WARNED[name]
    told = "\n".join(str(warning) for warning in read_workflow(text).warnings)
    assert says in told, told


def test_a_tool_nobody_knows_is_a_problem_where_the_tools_are_known() -> None:
    with pytest.raises(BrokenDefinition) as caught:
        read_workflow(action("{id: x, tool: shel}"), known_effects=["shell", "http"])
    assert [problem.hint for problem in caught.value.problems] == ["did you mean `shell`?"]
    assert not read_workflow(action("{id: x, tool: shel}")).warnings, "a case may stub any tool"
    assert not read_workflow(action("{id: x, tool: shell}"), known_effects=["shell", "http"]).warnings


def test_who_shows_no_warnings_need_not_have_them_looked_for() -> None:
    file = FILES / "seed_1_basic.yaml"
    assert load(str(file)).warnings
    assert load(str(file), warn=False) == load(str(file))._replace(warnings=(), advice=(), proof=MachineProof())


def test_a_clean_file_has_no_warnings() -> None:
    assert load_workflow(FILES / "release.yaml", known_effects=["shell", "mail.send", "http"]).warnings == ()
    assert load_workflow(FILES / "seed_2_branches.yaml", fragment=True).warnings == ()


def test_a_problem_says_where_what_and_how_to_mend_it() -> None:
    problem = Problem("f.yaml", 3, 7, "unknown state `x`", "did you mean `y`?")
    assert str(problem) == "f.yaml:3:7: unknown state `x`; did you mean `y`?"
    assert "warning: " in str(problem._replace(severity="warning"))


PIECES = ["{{", "}}", "{% x %}", "*", "&a ", "*a", "!!x ", "<<: ", "[", "]", "{", "}", ": ", "- ", "? ", "\n", "\t", "'", '"', "|\n",
          ">\n", "#", "%", "@", "`", ",", "~", "null", "true", "1e999", ".inf", "0x", "-1", "9" * 30, "\0", "\ufeff", "\ud7ff", "é",
          "type: wait\n", "type: parallel\n", "for: x\n", "branches: {}\n", "on: go\n", "to: retry\n", "workflow: x.yaml\n",
          "for_each: []\n", "retry: 3\n", "approval: {quorum: 0}\n", "duration: 1h\n", "(" * 50, "not " * 50]  # fmt: skip
FUZZED = 1_500


def test_whatever_happens_to_a_file_gives_a_workflow_or_a_definition_error() -> None:
    seed = 20_251_115
    chance = random.Random(seed)
    sources = [file.read_text() for file in sorted(FILES.glob("*.yaml"))]
    sources = sources * 12 + [text for text, _, _ in BROKEN.values() if isinstance(text, str) and len(text) < 2_000]
    trees = [read_document(file.read_text(), file.name).value for file in sorted(FILES.glob("*.yaml"))]
    outcomes = {"workflow": 0, "refused": 0}
    placeless: list[str] = []
    for number in range(FUZZED):
        text = mutated(chance.choice(sources), chance) if number % 2 else grafted(chance.choice(trees), chance)
        try:
            read_workflow(text, fragment=chance.random() < 0.5)
            outcomes["workflow"] += 1
        except DefinitionError as error:
            outcomes["refused"] += 1
            placeless += [] if re.search(r":\d+:\d+: ", str(error)) else [f"input {number}: {error}"]
        except BaseException as error:
            error.add_note(f"seed {seed}, input {number}: {text!r}")
            raise
    assert not placeless
    assert min(outcomes.values()) > FUZZED / 50, outcomes


def mutated(text: str, chance: random.Random) -> str:
    """A text with a few lines and pieces moved, doubled, cut or put in."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        lines = text.splitlines(keepends=True) or [""]
        at = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                lines[at] = ""
            case 1:
                lines.insert(at, chance.choice(lines))
            case 2:
                lines[at] = lines[at].replace(": ", f": {chance.choice(PIECES)}", 1)
            case 3:
                lines[at] = " " * chance.randint(0, 8) + lines[at].lstrip()
            case 4:
                lines[at] = (
                    " " * (len(lines[at]) - len(lines[at].lstrip())) + chance.choice(PIECES) + lines[at].lstrip()
                )
            case 5:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(" ".join(lines).split() or [""])
                lines[at] = " ".join(words)
            case _:
                cut = chance.randint(0, len(lines[at]))
                lines[at] = lines[at][:cut] + chance.choice(PIECES) + lines[at][cut:]
        text = "".join(lines)
    return text


ODD: list[Any] = [None, True, 0, -1, 3, 1.5, "", "x", "*", "retry", "error", "{{ x }}", "{{", "{{ variables.max_retries }}", [], [None],
       ["a", "a"], {}, {"a": 1}, {"event": "x"}, {"states": {"a": {"type": "initial"}}}, "all", "1h", 10**17, [[]], "_x", "a-b",
       "wait", "parallel", "for_each", {"items": [1], "actions": [{"id": "q", "tool": "t"}]}]  # fmt: skip
KEYS = sorted({key for shape in SHAPES.values() for key in shape})


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*path, key))


def grafted(tree: Any, chance: random.Random) -> str:
    """A document whose parts are exchanged, taken out, or put where they do not belong; JSON is YAML."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice((1, 1, 2, 3))):
        found = [path for path in paths(tree) if path]
        if not found:
            break
        *above, last = chance.choice(found)
        parent = at(tree, above)
        match chance.randrange(4):
            case 0:
                parent[last] = copy.deepcopy(chance.choice(ODD))
            case 1:
                del parent[last]
            case 2:
                parent[last] = copy.deepcopy(at(tree, chance.choice(found)))
            case _ if isinstance(parent, dict):
                parent[chance.choice(KEYS)] = copy.deepcopy(chance.choice(ODD))
            case _:
                parent.append(copy.deepcopy(parent[last]))
    return json.dumps(tree, ensure_ascii=False)


def at(tree: Any, path: Any) -> Any:
    for key in path:
        tree = tree[key]
    return tree
