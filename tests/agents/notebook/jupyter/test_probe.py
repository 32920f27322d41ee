"""The probe as a module of this process: what it shows of values, and how fast it gives up."""

import collections
import datetime
import decimal
import json
import sys
import types
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from detent.agents.notebook.jupyter import variable_detail, variable_inspector
from tests.agents.notebook.jupyter.kit import library, needs
from tests.effort import examples


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables of a user; the probe starts fresh."""
    names: dict[str, Any] = {}
    monkeypatch.setattr(variable_inspector, "_shell", types.SimpleNamespace(user_ns=names, user_ns_hidden={}))
    monkeypatch.setattr(variable_inspector, "_rows", {})
    monkeypatch.setattr(variable_inspector, "_seen", set())
    monkeypatch.setattr(variable_inspector, "_details", {})
    monkeypatch.setattr(variable_inspector, "_seq", 0)
    monkeypatch.setattr(variable_inspector, "summary", variable_detail.summary)
    return names


def look(**asked: Any) -> dict[str, Any]:
    text = variable_inspector.look(json.dumps(asked)).text
    assert text.isascii()
    found: dict[str, Any] = json.loads(text)
    return found


CASES: list[tuple[Any, Any]] = [
    (None, (None, True)),
    (True, (True, True)),
    (0.5, (0.5, True)),
    ([1, "a", {"b": (None,)}], ([1, "a", {"b": [None]}], True)),
    ({"b", "a"}, (["a", "b"], True)),
    (collections.Counter("aab"), ({"a": 2, "b": 1}, True)),
    (collections.deque([1]), ([1], True)),
    ({1: "a", None: "b", (1, 2): "c"}, ({"1": "a", "null": "b", "[1, 2]": "c"}, True)),
    ({1: "a", "1": "b"}, ([["1", "a"], ["1", "b"]], False)),
    ("x" * 200, ("x" * 200, True)),
    ("x" * 201, ("x" * 200 + "...", False)),
    (list(range(1000)), (json.dumps(list(range(70)))[:200] + "...", False)),
    (float("inf"), ("inf", False)),
    (2**63, (str(2**63), False)),
    (1 << 16_609, ("int(16610 bits)", False)),
    (b"abc", ("bytes(3)", False)),
    (range(3), ("range(0, 3)", False)),
    (datetime.date(2020, 1, 2), ("2020-01-02", False)),
    (decimal.Decimal("1.50"), ("1.50", False)),
    (PurePosixPath("/a"), ("PurePosixPath", False)),
    (int, ("class int", False)),
    (len, ("builtin_function_or_method", False)),
]


@pytest.mark.parametrize(("value", "found"), CASES, ids=map(str, range(len(CASES))))
def test_what_is_shown_of_a_value(value: Any, found: Any) -> None:
    assert variable_inspector.show(value) == found


values = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(some.characters(codec=None))
    | some.binary(),
    lambda inner: (
        some.lists(inner) | some.tuples(inner) | some.dictionaries(some.integers() | some.text() | some.none(), inner)
    ),
    max_leaves=300,
)


@settings(max_examples=examples(60))
@given(values)
def test_any_builtin_value_is_shown_as_short_json(value: Any) -> None:
    shown, is_whole = variable_inspector.show(value)
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False)
    assert len(text) <= 2 * 203 + 2  # a text that quotes itself
    if is_whole and type(value) in (int, float, bool, str, type(None)):
        assert shown == value


def test_a_look_reports_changes_only(namespace: dict[str, Any]) -> None:
    namespace.update(a=1, b=[1], _private=1, module=json, imported=json.dumps, imported_class=json.JSONDecoder)
    first = look()
    assert (first["is_full"], list(first["changed"]), first["gone"]) == (True, ["a", "b"], [])
    assert look(seq=first["seq"])["changed"] == {}
    namespace["b"].append(2)  # in place, and nobody mentions it
    namespace["c"] = True
    del namespace["a"]
    third = look(seq=2)
    assert third["changed"] == {"b": ["list", [1, 2], True], "c": ["bool", True, True]}
    assert third["gone"] == ["a"]
    namespace["b"][0] = True
    assert look(seq=3)["changed"] == {}, "not mentioned, the same object, the same length"
    assert look(seq=4, mentioned=["b"])["changed"] == {"b": ["list", [True, 2], True]}, "1 and True are not the same"
    namespace["alias"] = namespace["b"]
    look(seq=5)
    namespace["b"][0] = 7
    assert list(look(seq=6, mentioned=["alias"])["changed"]) == ["b", "alias"], "what is mentioned has two names"
    namespace["b"][0] = 8
    assert list(look(seq=7, is_wild=True)["changed"]) == ["b", "alias"]
    assert list(look(seq=99)["changed"]) == ["b", "c", "alias"], "who lost the thread gets everything"


def test_names_are_found_however_they_come_and_go(namespace: dict[Any, Any]) -> None:
    namespace.update(a=1, x=1)
    look()
    del namespace["x"]
    namespace.update(y=2, x=1)  # x stands behind y now, and it is no new name
    assert list(look(seq=1)["changed"]) == ["y"]
    namespace["x"] = json
    assert look(seq=2)["gone"] == ["x"], "a module is no variable"
    namespace["x"] = 3
    assert list(look(seq=3)["changed"]) == ["x"]
    del namespace["a"]
    assert look(seq=4)["gone"] == ["a"]
    namespace["a"] = 1
    assert list(look(seq=5)["changed"]) == ["a"]
    namespace[5] = namespace["_i9"] = 1
    assert look(seq=6)["changed"] == {}


def test_functions_of_the_user_make_everything_suspect(namespace: dict[str, Any]) -> None:
    namespace["__name__"] = "__main__"
    exec("rows = [1]\ndef change(): rows[0] += 1\nclass Thing: pass\nthing = Thing()", namespace)  # noqa: S102
    assert list(look()["changed"]) == ["rows", "change", "Thing", "thing"]
    for seq, name in enumerate(("change", "thing", "Thing"), 1):
        namespace["change"]()
        assert look(seq=seq, mentioned=[name])["changed"] == {"rows": ["list", [seq + 1], True]}


def test_a_look_keeps_its_budget_and_says_so(namespace: dict[str, Any]) -> None:
    namespace.update({f"v{n}": [n] * 100 for n in range(1500)})
    everything = look(budget_s=60.0)
    assert (everything["is_complete"], len(everything["changed"])) == (True, 1500)
    found = look(budget_s=0.002)  # without a number: everything again
    while not found["changed"]:  # another process had the core all that time
        found = look(budget_s=0.002)
    assert not found["is_complete"]
    assert len(found["changed"]) < 1500
    assert "v1499" in found["changed"], "the newest first"
    later = look(seq=found["seq"], budget_s=0.0)
    assert later["gone"] == [], "not looked at is not gone"


def test_expressions_give_a_value_or_an_error_and_never_an_exception(namespace: dict[str, Any]) -> None:
    namespace.update(rmse=22_807.0, rows=[1, 2, 3])
    asked = {
        "goal": "rmse < 25000",
        "all": "all(row > 0 for row in rows)",
        "none": "nobody",
        "zero": "1 / 0",
        "syntax": "1 +",
        "exit": "exit(3)" if hasattr(__builtins__, "exit") else "(_ for _ in ()).throw(SystemExit(3))",
        "interrupt": "(_ for _ in ()).throw(KeyboardInterrupt())",
        "object": "object()",
        "walrus": "(leaked := 5)",
        "empty": "",
    }
    found = look(expressions=asked)["expressions"]
    assert found["goal"] == {"value": True, "type": "bool", "is_whole": True}
    assert found["all"]["value"] is True
    assert found["none"] == {"error": {"ename": "NameError", "evalue": "name 'nobody' is not defined"}}
    names = {key: row["error"]["ename"] for key, row in found.items() if "error" in row}
    assert names == {
        "none": "NameError",
        "zero": "ZeroDivisionError",
        "syntax": "SyntaxError",
        "exit": "SystemExit",
        "interrupt": "KeyboardInterrupt",
        "empty": "SyntaxError",
    }
    assert found["object"]["value"] == "object"
    assert (found["walrus"]["value"], "leaked" in namespace) == (5, False)


def test_strategies_for_builtins(namespace: dict[str, Any]) -> None:
    namespace.update(many=list(range(100_000)), table={n: n for n in range(9)}, word="abcdef", odd=object())
    asked = {
        "many": "last_2_only",
        "table": "head_only",
        "word": "last_3_only",
        "odd": "describe_only",
        "gone": "head_only",
    }
    assert look(strategies=asked)["details"] == {
        "many": {"shape": "list(100000)", "last": [99_998, 99_999]},
        "table": {"shape": "dict(9)", "head": {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4}},
        "word": "def",
        "odd": "object",
    }
    described = look(strategies={"many": "describe_only"})["details"]["many"]
    assert (described["count"], described["min"], described["note"]) == (
        20_000,
        0.0,
        "figures from a sample of 20,000 of 100,000 rows",
    )
    assert look(strategies={"many": "shape_only"})["details"]["many"] == "list(100000)"
    for nonsense in ("last_x_only", "last_0_only", "everything"):
        assert "there is no strategy" in look(strategies={"word": nonsense})["details"]["word"]


@needs("numpy", "pandas")
def test_frames_and_arrays(namespace: dict[str, Any]) -> None:
    np, pd = library("numpy"), library("pandas")
    frame = pd.DataFrame({"n": np.arange(50_000) / 2, "t": ["a", "b"] * 25_000, "o": [object()] * 50_000})
    frame["d"] = pd.date_range("2020", periods=50_000, freq="h")
    namespace.update(
        frame=frame,
        series=frame["n"],
        array=np.zeros((3, 4)),
        point=np.array(5),
        number=np.float64(0.25),
        truth=np.bool_(True),
        when=pd.Timestamp("2020-01-01"),
    )
    found = look()["changed"]
    assert {name: row[1] for name, row in found.items()} == {
        "frame": "DataFrame(50000×4)",
        "series": "Series(50000)",
        "array": "ndarray(3×4)",
        "point": "ndarray()",
        "number": 0.25,
        "truth": True,
        "when": "2020-01-01 00:00:00",
    }
    described = look(strategies={"frame": "describe_only"})["details"]["frame"]
    assert described["shape"] == "DataFrame(50000×4)"
    assert described["note"] == "figures from a sample of 16,667 of 50,000 rows"
    assert described["columns"]["n"]["mean"] == pytest.approx(12_500, rel=0.01)
    assert described["columns"]["n"]["50%"] == pytest.approx(12_500, rel=0.01)
    assert described["columns"]["t"]["unique"] == 2
    assert described["columns"]["d"]["min"] == "2020-01-01 00:00:00"
    assert described["columns"]["o"] == {"dtype": "object", "missing": 0}
    assert look(strategies={"frame": "head_only"})["details"]["frame"]["head"][1] == [
        0.5,
        "b",
        "object",
        "2020-01-01 01:00:00",
    ]
    assert look(strategies={"frame": "last_1_only"})["details"]["frame"]["last"][0][0] == 24_999.5
    assert look(strategies={"array": "head_only"})["details"]["array"]["head"] == [[0.0] * 4] * 3
    small = pd.DataFrame({"x": [1.0, 2.0, 4.0, None]})
    namespace["small"] = small
    figures = look(strategies={"small": "describe_only"})["details"]["small"]["columns"]["x"]
    for key, value in small["x"].describe().items():
        assert figures[key] == pytest.approx(value, rel=1e-5), key
    assert figures["missing"] == 1


@needs("numpy", "pandas")
def test_a_detail_is_worked_out_again_only_when_something_changed(namespace: dict[str, Any]) -> None:
    pd = library("pandas")
    namespace["frame"] = frame = pd.DataFrame({"x": [1.0, 2.0]})

    def mean(**asked: Any) -> Any:
        return look(strategies={"frame": "describe_only"}, **asked)["details"]["frame"]["columns"]["x"]["mean"]

    assert mean() == 1.5
    frame.loc[0, "x"] = 5.0
    assert mean() == 1.5, "same object, same shape, not mentioned: the last answer"
    assert mean(mentioned=["frame"]) == 3.5
    namespace["frame"] = pd.DataFrame({"x": [9.0, 9.0]})
    assert mean() == 9.0


@needs("polars")
def test_polars(namespace: dict[str, Any]) -> None:
    pl = library("polars")
    namespace.update(frame=pl.DataFrame({"a": [1, 2], "b": ["x", None]}), series=pl.Series([1, 2]), lazy=pl.LazyFrame())
    assert {name: row[1] for name, row in look()["changed"].items()} == {
        "frame": "DataFrame(2×2)",
        "series": "Series(2)",
        "lazy": "LazyFrame",
    }
    described = look(strategies={"frame": "describe_only"})["details"]["frame"]["columns"]
    assert (described["a"]["mean"], described["b"]["missing"]) == (1.5, 1)
    assert look(strategies={"frame": "head_only"})["details"]["frame"]["head"] == [[1, "x"], [2, None]]
    assert look(strategies={"series": "last_1_only"})["details"]["series"]["last"] == [2]


@needs("scipy", "sklearn")
def test_sparse_matrices_and_estimators(namespace: dict[str, Any]) -> None:
    sparse, linear = library("scipy.sparse"), library("sklearn.linear_model")
    new, fitted = linear.LinearRegression(), linear.LinearRegression().fit([[1], [2]], [1, 2])
    namespace.update(matrix=sparse.csr_matrix((3, 4)), array=sparse.coo_array((2, 2)), new=new, fitted=fitted)
    assert [row[1] for row in look()["changed"].values()] == [
        "csr_matrix(3×4)",
        "coo_array(2×2)",
        "LinearRegression",
        "LinearRegression(fitted)",
    ]


def test_a_class_that_only_claims_to_be_a_frame_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shape:
        def __get__(self, *_: object) -> Any:
            raise AssertionError("touched")

    fake = type("DataFrame", (), {"__module__": "pandas", "shape": Shape()})
    assert variable_inspector.show(fake()) == ("DataFrame", False)
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=None))
    assert variable_inspector.show(type("DataFrame", (), {"__module__": "pandas", "shape": Shape()})()) == (
        "DataFrame",
        False,
    )
