"""Variables of a real kernel, read on the cell's own request."""

from typing import Any

import pytest

from detent.agents.notebook.jupyter.variable import VariableTable, list_mentioned
from tests.agents.notebook.jupyter.kit import kernel, needs, needs_kernel, notes, values


def test_the_names_a_cell_mentions() -> None:
    assert list_mentioned("x = y + 1\n%time df = load(path)  # größe") == {
        "x",
        "y",
        "time",
        "df",
        "load",
        "path",
        "größe",
    }


@pytest.mark.parametrize(
    "reply", [None, {}, {"user_expressions": {}}, {"user_expressions": {"detent": {"status": "error"}}}]
)
def test_a_reply_without_an_answer_says_nothing(reply: Any) -> None:
    assert VariableTable().take_reply(reply) is None


@needs_kernel
async def test_variables_follow_the_cells() -> None:
    async with kernel() as it:
        done = await it.execute(
            "import json as j\na = [1, 2]\ndef f(): a.append(3)\nfrom math import pi, sqrt\n_hidden = 1"
        )
        assert values(done) == {"a": [1, 2], "f": "function", "pi": 3.141592653589793}
        assert values(await it.execute("f()"))["a"] == [1, 2, 3]
        assert values(await it.execute("a[0] = 9"))["a"] == [9, 2, 3]  # the same object, as long as before
        assert "a" not in values(await it.execute("del a"))
        assert values(await it.execute("raise ValueError"))["pi"] > 3
        assert set(values(await it.look())) == {"f", "pi"}


@needs_kernel
async def test_expressions_and_strategies_ride_on_the_cell() -> None:
    async with kernel() as it:
        done = await it.execute(
            "rmse = 22807.0\nrows = list(range(100))",
            expressions={"goal": "rmse < 25000", "broken": "nobody > 1"},
            strategies={"rows": "last_2_only", "missing": "head_only"},
        )
        assert done.expressions["goal"]["value"] is True
        assert done.expressions["broken"]["error"]["ename"] == "NameError"
        assert done.variables["rows"].detail == {"shape": "list(100)", "last": [98, 99]}
        assert "missing" not in done.variables
        assert done.execution_count == 1
        failed = await it.execute("1 / 0", expressions={"goal": "rmse < 25000"}, strategies={"rows": "head_only"})
        assert failed.status == "error"
        assert failed.expressions["goal"]["value"] is True
        assert failed.variables["rows"].detail["head"] == [0, 1, 2, 3, 4]
        looked = await it.look(expressions={"n": "len(rows)"})
        assert (looked.expressions["n"]["value"], looked.outputs) == (100, [])
        assert looked.variables["rows"].detail is None


@needs_kernel
async def test_an_expression_that_hangs_is_ended_by_the_cells_own_limit() -> None:
    async with kernel() as it:
        given = {"slow": "__import__('time').sleep(100)", "after": "1 + 1"}
        for limit_s in (0.5, 2, 8, 20):  # a slow machine may not get as far as the expression
            done = await it.execute("x = 1", timeout_s=limit_s, grace_s=30, expressions=given)
            if "slow" in done.expressions:
                break
        assert (done.status, done.is_restarted) == ("timeout", False)
        assert done.expressions["slow"]["error"]["ename"] == "KeyboardInterrupt"
        assert done.expressions["after"]["value"] == 2
        assert values(done)["x"] == 1


@needs_kernel
async def test_a_probe_that_somebody_removed_comes_back() -> None:
    async with kernel() as it:
        done = await it.execute("import sys\ndel sys.modules['_detent_probe']\nx = 1")
        assert values(done) == {"x": 1}
        assert values(await it.execute("y = 2")) == {"x": 1, "y": 2}
        blinded = await it.execute("__import__ = None\nz = 3")
        assert (blinded.status, blinded.variables) == ("ok", {})
        assert notes(blinded) == ["the variables could not be read after this cell"]
        assert not blinded.has_all_variables
        assert values(await it.execute("del __import__"))["z"] == 3


@needs_kernel
async def test_too_many_variables_are_not_all_looked_at_and_that_is_said() -> None:
    async with kernel() as it:
        done = await it.execute("for n in range(3_000): globals()[f'v{n}'] = n")
        assert not done.has_all_variables
        assert 1_000 < len(done.variables) <= 2_000
        assert values(done)["v2999"] == 2999, "the newest are there"
        done = await it.execute("for n in range(2_999): del globals()[f'v{n}']")
        assert (values(done), done.has_all_variables) == ({"v2999": 2999, "n": 2998}, True)


@needs_kernel
async def test_nobody_needs_to_look() -> None:
    async with kernel() as it:
        it.looks = False
        assert (await it.execute("x = 1")).variables == {}
        it.looks = True
        assert values(await it.execute("y = 1")) == {"x": 1, "y": 1}


@needs_kernel
@needs("numpy", "pandas")
async def test_frames_in_a_kernel() -> None:
    async with kernel() as it:
        code = "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.zeros((1460, 79)))\nscore = np.float64(0.918)"
        done = await it.execute(code, strategies={"df": "shape_only"})
        assert values(done) == {"df": "DataFrame(1460×79)", "score": 0.918}
        assert done.variables["df"].detail == "DataFrame(1460×79)"
        assert values(await it.execute("df = df.iloc[:10]"))["df"] == "DataFrame(10×79)"
        big = await it.execute("df = pd.DataFrame(np.zeros((200_000, 5)))", strategies={"df": "describe_only"})
        assert big.variables["df"].detail["note"] == "figures from a sample of 20,000 of 200,000 rows"
