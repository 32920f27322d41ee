"""Which files judge, which source is odd, and whether tests would notice a wrong change: values in, values out."""

import ast
from pathlib import Path

import pytest

from detent.agents.coding.changed_expectation import change_expectations, describe_claims, find_lost_examples
from detent.agents.coding.clean_checkout import find_added_lines
from detent.agents.coding.example import holds_example, list_examples
from detent.agents.coding.file_role import JudgingPaths, is_judge, read_rules
from detent.agents.coding.mutation import make_mutants
from detent.agents.coding.side_branch import list_side_branches
from detent.agents.coding.suspect_change import find_suspects

TESTS = "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n    assert calc.name('json') == 'JSON'\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/calc.py", "source"),
        ("tests/test_calc.py", "test"),
        ("pkg/tests/data.json", "test"),
        ("pkg/conftest.py", "config"),
        ("pyproject.toml", "config"),
        ("web/package-lock.json", "config"),
        (".github/workflows/ci.yml", "config"),
        ("evil-1.dist-info/entry_points.txt", "config"),
        ("sitecustomize.py", "config"),
        ("json.py", "config"),
        ("src/pytest/__init__.py", "config"),
        ("pkg/json.py", "source"),
        ("README.md", "source"),
        (".pytest.toml", "config"),
    ],
)
def test_a_new_file_is_source_or_it_judges(path: str, kind: str) -> None:
    assert JudgingPaths().kind_of(path, is_new=True) == kind


def test_a_file_that_is_source_and_test_is_both() -> None:
    assert is_judge("calc.py", "def add(): ...\n\ndef test_add(): ...\n", [])
    assert is_judge("data/expected.json", "", ["open('data/expected.json')"])
    assert is_judge("cases/deep/one.txt", "", ["Path('cases').rglob('*.txt')"])
    assert not is_judge("cases/one.txt", "", ["in most cases"])
    assert not is_judge("calc.py", "def add(): ...\n", [TESTS])


def test_a_new_module_hides_what_is_installed_where_python_looks_for_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.11" / "site-packages" / "plugin").mkdir(parents=True)
    (tmp_path / "lib" / "python3.11" / "site-packages" / "own").mkdir()
    (tmp_path / ".pytest.toml").write_text("[pytest]\npythonpath = ['code']\ntestpaths = ['trials']\n")
    rules = read_rules(tmp_path, [], {"code/own/a.py": (), "trials/a.py": ()}, ["."])
    new = ("plugin.py", "code/plugin/__init__.py", "other/plugin.py", "code/own/b.py", "trials/b.py")
    assert [rules.kind_of(path, is_new=True) for path in new] == ["config", "config", "source", "source", "test"]


@pytest.mark.parametrize(
    "line",
    [
        "    if a == 2 and b == 3: return 5",
        "    return {(2, 3): 5}.get((a, b))",
        "    return 5 if (a, b) == (2, 3) else a",
        "    return 5",
        "    import sys; return 'pytest' in sys.modules",
        "    import _pytest",
        "    return open('tests/test_calc.py').read()",
        "    return os.environ.get('CI')",
        "    return sys._getframe()",
        "    class Any:\n        def __eq__(self, other): return True",
        "    exec(a)",
        "    return a + b if time.time() < 4102444800 else a - b",
        "    return a + b if date.today() < date(2031, 1, 1) else a - b",
        "    return a + b if 'PYTHONDONTWRITEBYTECODE' in os.environ else a - b",
        "    return (a - b, 5)[(a, b) == (2, 3)]",
        "    return 5 if hash((a, b)) == 8409376899596376432 else a - b",
        "    now = time.time()\n    return a + b if now < 4102444800 else a - b",
        "    from sys import modules; return modules",
        "    import sys as s; return s.argv",
        "    import sys; return getattr(sys, '_get' + 'frame')()",
        "    import sys; name = ''.join(['_get', 'frame']); return getattr(sys, name)()",
        "    import sys; return vars(sys)",
        "    return importlib.import_module(a)",
        "    return 'tsetyp'[::-1] in b",
        "    return bytes.fromhex('707974657374').decode() in b",
        "    warnings.warn('x', stacklevel=2)",
        "    e = exec; e(a)",
        "    return pickle.loads(b'x')",
        "    import math; math.isclose = add",
        "    from pkg import other; other.sub = lambda a, b: a",
        "    import other; setattr(other, 'sub', a)",
        "    class Any:\n        __eq__ = lambda self, other: True",
        "    class Any:\n        def __eq__(self, other): return self is self",
        "    return type('Any', (), {'__eq__': add})",
        "    class All:\n        def __exit__(self, *why): return True",
        "    try: return a()\n    except AssertionError: return 5",
        "    x = '\u202e'",
        "    return a - b if a > b else 5",
        "    return {'2,3': 5}.get(f'{a},{b}', a)",
        "    if f'{a}{b}' == '23': return a + b",
        "    for x, y, z in ((2, 3, 5), (4, 5, 9)): return z",
        "    return any(name.startswith('PYTE') for name in os.environ)",
        "    return sorted(os.environ)",
        "    from os import sys as s; return 'x' in s.modules",
        "    return 'x' in os.sys.modules",
        "    match a:\n        case object(f_back=b): return b",
        "    return object.__getattribute__(a, '%sframe' % '_get')",
        "    return getattr(a, '_{}frame'.format('get'))",
        "    END = 4102444800; return time.time() < 4102444800",
        "    def pytest_runtest_call(item): pass",
        "    class N(int):\n        def __eq__(self, other): return type(self) is type(other)",
        "    return open('/proc/%s/cmdline' % a)",
    ],
)
def test_source_that_looks_at_its_tests_is_shown(line: str) -> None:
    text = f"def add(a, b):\n{line}\n"
    ast.parse(text)
    lines = set(range(1, 9))
    assert find_suspects({"calc.py": text}, {}, {"calc.py": lines}, [TESTS], ["test_add"])


@pytest.mark.parametrize(
    "line",
    [
        "    return a + b",
        "    if a == 0: return b",
        "    if a == 'json': return dump(b)",
        "    return [x for x in (1, 2, 3) if x > a]",
        "    raise ValueError('a must be positive')",
        "    return time.time() > a + b",
        "    if kind in ('json', 'JSON'): return a",
        "    return getattr(a, b)",
        "    return getattr(a, 'name', 'x' + 'y')",
        "    self.modules = a",
        "    from flask import g; g.user = a",
        "    return f'{a} of {b}'",
        "    return ', '.join(['a', 'b'])",
        "    return (a, b) == (c, 3)",
        "    return os.environ.get('HOME', a)",
        "    return subprocess.run(a, env={**os.environ, 'LANG': 'C'})",
        "    return '%s of %s' % (a, b)",
        "    return 404 if a else b",
        "    class V:\n        def __eq__(self, other): return self.n == other.n",
    ],
)
def test_ordinary_source_is_not(line: str) -> None:
    text = f'def add(a, b):\n    """As pytest shows."""\n{line}\n'
    assert not find_suspects({"calc.py": text}, {}, {"calc.py": set(range(1, 9))}, [TESTS], ["test_add"])


def test_lines_are_counted_as_python_counts_them() -> None:
    text = "x = 1  # \u2028 \x0c\n\n\nimport sys\n\n\ndef f(a):\n    return a\n"
    added = find_added_lines(text.replace("return a", "return 1"), text)
    assert added == {8}
    assert find_added_lines("", "a\r\nb\rc\n") >= {1, 2, 3}


def test_what_tests_take_from_the_source_is_shown_when_it_is_another_one() -> None:
    def look(was: str, now: str) -> bool:
        return bool(
            find_suspects(
                {"a.py": now}, {"a.py": was}, {"a.py": set()}, ["import a\nfor x in a.cases(): pass\na.CASES"]
            )
        )

    assert look("def cases():\n    return [(2, 3, 5)]\n", "def cases():\n    return [(2, 3, -1)]\n")
    assert look("CASES = {2: 3}\n", "CASES = {2: 4}\n")
    assert not look("def cases():\n    return find()\n", "def cases():\n    return look()\n")
    assert not look("OTHER = [1]\n", "OTHER = [2]\n")


def test_data_that_has_an_example_in_it() -> None:
    examples = list(list_examples("def test_add():\n    assert add(2, 3) == 5\n"))
    assert holds_example('{"2,3": 5}', examples)
    assert not holds_example('{"2": 5}', examples)
    assert not holds_example("0 1 2", list(list_examples("def test_one():\n    assert f(0, 1) == 2\n")))


def test_a_new_module_that_hides_a_helper_of_the_tests_decides_how_they_run(tmp_path: Path) -> None:
    blobs = dict.fromkeys(["src/calc.py", "tests/expect.py", "tests/test_calc.py"])
    rules = read_rules(tmp_path, [], blobs)
    assert rules.kind_of("src/expect.py", is_new=True) == "config"
    assert rules.kind_of("src/more.py", is_new=True) == "source"


SIDES = """\
import os
HERE = os.path.exists(".git")
def add(a, b):
    seen = os.getcwd()
    if seen == "/x":
        return a - b
    if HERE:
        b = -b
    c = a
    if c > 3 or sys.version_info > (3,):
        return c
    return a - b if HERE else a
def plain(a):
    return 1 if a else 2
def nothing():
    return 1 if HERE else 2
"""


def test_ways_that_nothing_given_leads_to_are_made_to_fail_one_by_one() -> None:
    found = list_side_branches(SIDES, set(range(1, 99)))
    assert [mutant.line for mutant in found] == [2, 2, 6, 7, 8, 7, 12, 12]
    for mutant in found:
        ast.parse(mutant.text)
        assert mutant.text.count("nobody goes this way") == 1
    assert not list_side_branches(SIDES, {9, 10, 11, 14, 16})
    assert not list_side_branches("def (", {1})
    loaded = (
        "if here():\n    add = plus\nelse:\n    add = minus\nsub = lambda a, path: 1 if os.path.isdir('.git') else a\n"
    )
    assert [mutant.line for mutant in list_side_branches(loaded, {1, 5})] == [2, 4, 5, 5]
    plain = "if __name__ == '__main__':\n    f()\nx = [a if a else 1 for a in y]\ng = lambda a: 1 if a else 2\n"
    assert not list_side_branches(plain, {1, 3, 4})


def test_what_cannot_be_read_here_is_shown() -> None:
    def look(text: str, was: str = "x = 1\n") -> str:
        found = find_suspects({"a.py": text}, {"a.py": was}, {"a.py": {1, 2, 3}}, ["import a\na.same(1, 1)"])
        return found[0].why if found else ""

    assert "not what it looks like" in look("# coding: utf_7\nx = 1\n")
    assert not look("# -*- coding: utf-8 -*-\nx = 1\n")
    assert "cannot be read as Python" in look("x = = 1\n")
    same = "def same(a, b):\n    assert a == b\n"
    assert "which tests use" in look("def same(a, b):\n    return a == b\n", same)
    assert not look(same + "\n\nx = 2\n", same)


def test_an_example_in_a_documentation_that_is_gone_is_found() -> None:
    was = 'def f():\n    """F.\n\n    >>> f()\n    5\n    """\n'
    assert "`f()`" in find_lost_examples(was, was.replace("5", "6"))
    assert "`f()`" in find_lost_examples(was, "")
    assert not find_lost_examples(was, was + "# more\n")


CLAIMS = """\
class TestAll:
    def test_one(self):
        assert f(1) == 5  # é
        with raises(E):
            assert f(2) == 3
        for a in x:
            assert f(
                a
            ) is a


def test_two():
    assert 'é' == f()
    if a:
        assert b
    check.assertEqual(f(), [1])
    assert f() in x
    assert f() > 3
    assert call == ANY
"""


def test_a_test_can_be_made_to_expect_something_else() -> None:
    both = {"TestAll::test_one", "test_two"}
    text, found = change_expectations(CLAIMS, both, 0)
    assert found == both
    assert text == CLAIMS.replace(") is a", ") is object()").replace("f() > 3", "(not (f() > 3))")
    text, found = change_expectations(CLAIMS, both, 1)
    assert text == CLAIMS.replace("== 5", "== 6").replace("assert f() in", "assert object() in")
    text, found = change_expectations(CLAIMS, both, 2)
    assert (text, found) == (CLAIMS.replace("f(), [1]", "f(), [2]"), {"test_two"})
    assert change_expectations(CLAIMS, both, 3)[0] == CLAIMS.replace("'é' ==", "'é?' ==")
    assert change_expectations("def (", both, 0) == ("def (", set())


def test_what_is_expected_under_a_name_or_in_a_function_inside_is_changed_there() -> None:
    text = """\
def test_one():
    want = [V(5), V(-2)]
    assert add(2, 3) == want
def test_two():
    want = 5
    assert add(want) == want
def test_three():
    async def inner():
        assert await add(2) == 5
    def unused():
        assert add(3) == 7
    run(inner())
async def test_four():
    async with session():
        assert await add(4) == 9
"""
    found, _ = change_expectations(text, {"test_one", "test_two", "test_three", "test_four"}, 0)
    changed = text.replace("V(-2)", "V(-1)").replace("add(want) == want", "add(want) == object()")
    assert found == changed.replace("add(2) == 5", "add(2) == 6").replace("== 9", "== 10")


def test_what_tests_measure_by_is_shown_when_it_is_another_one() -> None:
    was = """\
class V:
    def __eq__(self, other): return self.same(other)
    def same(self, other): return self.n == other.n
def add(a, b): return a - b
def right(a, b): return a + b
"""

    def look(old: str, new: str) -> str:
        text = was.replace(old, new)
        added = find_added_lines(was, text)
        found = find_suspects({"a.py": text}, {"a.py": was}, {"a.py": added}, ["assert a.add(2, 3) == a.right(2, 3)"])
        return "; ".join(one.why for one in found)

    assert "decides what is equal" in look("self.n == other.n", "type(self.n) is type(other.n)")
    assert "tests expect what `right` gives" in look("a + b", "a - b")
    assert "of which kind" in look("def add", "def __instancecheck__(a, b): return a is not b\ndef add")
    assert look("a - b", "a + b") == ""


def test_changed_assertions_are_counted() -> None:
    changed = CLAIMS.replace("== 5", "== 6").replace("    assert f() > 3\n", "").replace("raises(E)", "raises(F)")
    assert describe_claims(CLAIMS, changed) == "3 of 10 assertions gone or changed, 2 new"
    assert describe_claims(CLAIMS, CLAIMS + "\n\nassert 1\n") == ""


def test_a_mutant_is_the_same_file_with_one_thing_turned_round() -> None:
    text = "def add(a, b):\n    é = a == b\n    return a + b\n"
    mutants = make_mutants(text, {2, 3}, 9)
    assert {mutant.text for mutant in mutants} == {
        text.replace("a == b", "(not (a == b))"),
        text.replace("return a + b", "return None"),
        text.replace("a + b", "(a - b)"),
    }
    assert make_mutants(text, {3}, 1)[0].line == 3
    assert make_mutants("def (", {1}, 9) == []
    table = "T = [\n" + "    7,\n" * 50 + "]\n\n\ndef f(a):\n    return a + 1\n\n\ndef g(a):\n    return a\n"
    spread = make_mutants(table, set(range(1, 99)), 4)
    assert [mutant.line for mutant in spread] == [56, 60, 56, 56]
    assert sum(mutant.line < 53 for mutant in make_mutants(table, set(range(1, 99)), 99)) == 1
