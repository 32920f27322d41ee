"""Offline repairs: what each rule does, what it leaves alone, and three of them in a real kernel."""

from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.port import Advisers
from detent.agents.notebook.repair_rule import repair
from detent.agents.notebook.script_planner import advise_by_script
from detent.core.status import Status
from tests.agents.notebook.studio import code, script, studio


def failure(code: str, ename: str, evalue: str, **variables: Any) -> dict[str, Any]:
    return {"code": code, "error": {"ename": ename, "evalue": evalue, "traceback": []}, "variables": variables}


@pytest.mark.parametrize(
    ("code", "ename", "evalue", "better"),
    [
        ("np.zeros(3)", "NameError", "name 'np' is not defined", "import numpy as np\nnp.zeros(3)"),
        ("json.dumps(1)", "NameError", "name 'json' is not defined", "import json\njson.dumps(1)"),
        ("print(totl)", "NameError", "name 'totl' is not defined", "print(total)"),
        ("é = 1; print(DF, DF)", "NameError", "name 'DF' is not defined", "é = 1; print(df, df)"),
        (
            "t = pd.read_csv('a.csv')",
            "UnicodeDecodeError",
            "'utf-8' codec can't decode byte 0xfc in position 10: invalid start byte",
            "t = pd.read_csv('a.csv', encoding='gb2312')",
        ),
        (
            "t = pd.read_csv(\n    'ä.csv',\n    encoding='gb2312',\n)",
            "UnicodeDecodeError",
            "'gb2312' codec can't decode byte 0xfc in position 10: illegal multibyte sequence",
            "t = pd.read_csv(\n    'ä.csv',\n    encoding='cp1252',\n)",
        ),
        (
            "t = pd.read_csv(f, encoding=e)",
            "UnicodeDecodeError",
            "'charmap' codec can't decode byte 0x81 in position 10: character maps to <undefined>",
            "t = pd.read_csv(f, encoding='latin-1')",
        ),
        (
            "open('a.txt').read()",
            "UnicodeDecodeError",
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            "open('a.txt', encoding='utf-16').read()",
        ),
        (
            "df.heads()",
            "AttributeError",
            "'DataFrame' object has no attribute 'heads'. Did you mean: 'head'?",
            "df.head()",
        ),
    ],
)
def test_a_rule_changes_as_little_as_it_can(code: str, ename: str, evalue: str, better: str) -> None:
    found = repair(failure(code, ename, evalue, df="DataFrame(3×2)", total=3))
    assert found is not None
    assert found["code"] == better
    assert found["why"]


@pytest.mark.parametrize(
    ("code", "ename", "evalue"),
    [
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("quark", "NameError", "name 'quark' is not defined"),
        ("open('a', 'rb')", "UnicodeDecodeError", "'utf-8' codec can't decode byte 0xfc in position 10: no"),
        ("x = (", "SyntaxError", "'(' was never closed"),
        ("df['pric']", "KeyError", "'pric'"),
        ("", "", ""),
    ],
)
def test_what_no_rule_knows_is_left_alone(code: str, ename: str, evalue: str) -> None:
    assert repair(failure(code, ename, evalue, df="DataFrame(3×2)")) is None


async def test_a_repair_that_would_do_more_than_the_cell_is_left_out(tmp_path: Path) -> None:
    class Eager:
        async def repair(self, failure: dict[str, Any]) -> dict[str, Any] | None:
            assert failure["attempt"] == 1
            return {"code": "import subprocess\ndone = 1", "why": "found another way"}

    def eager(settings: dict[str, Any]) -> Advisers:
        return advise_by_script(settings)._replace(debugger=Eager())

    async with studio(tmp_path, sources={"builtin:script": eager}) as here:
        await here.begin(script(*code("1 / 0", auto_debug=True), on_cell_error="continue", review="risky"))
        (cell,) = here.book.cells
        assert (cell.content, cell.ran, cell.repairs) == ("1 / 0", "error", ())
        assert here.book.warnings == [f"a repair of {cell.id} was left out: the cell then starts a program"]


async def test_cells_are_repaired_at_most_three_times_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("name;ort\nMüller;Köln \x81\n".encode("latin-1"))
    path = str(tmp_path / "latin.csv")
    actions = [
        *code("total = 41"),
        *code(f"frame = pd.read_csv({path!r}, sep=';')\nprint(frame.iat[0, 0], totl)", auto_debug=True),
        *code(f"import pandas\nprint(pandas.read_csv({path!r}, sep=';').iat[0, 0])", auto_debug=True),
    ]
    async with studio(tmp_path / "home") as here:
        run = await here.begin(script(*actions, on_cell_error="continue"))
        assert run.status is Status.COMPLETED
        _, bounded, fixed = (cell for cell in here.book.cells if cell.type == "code")
        # Five faults in a row are two more than the bound: it stops there, and says what it tried.
        assert (bounded.ran, len(bounded.repairs)) == ("error", 3)
        assert bounded.repairs[0] == "added the missing import: import pandas as pd"
        assert (fixed.ran, len(fixed.repairs)) == ("ok", 3)
        assert "encoding='latin-1'" in fixed.content
        assert fixed.outputs[0].text.startswith("Müller")
