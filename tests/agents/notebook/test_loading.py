"""Files as people keep them: whatever they look like, the table in them is read, and what was done to it is said."""

import bz2
import gzip
import importlib
import lzma
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.workbook import Sheet, write_workbook
from detent.agents.notebook.analysis.data_file_check import refuse_unfit
from detent.agents.notebook.brief import Brief, KernelBrief
from tests.agents.notebook.cells import run_cells
from tests.agents.notebook.studio import studio


def load(*paths: Path, goal: str = "describe it", last: str = "types", **given: Any) -> dict[str, Any]:
    """What the cells make of files, up to the types of their columns."""
    return run_cells(*paths, goal=goal, last=last, **given)


def test_a_workbook_as_people_make_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head: list[list[Any]] = [
        ["Sales by region, all shops"],
        [],
        ["Region", "Shop", "2023", "", "2024", ""],
        ["", "", "sold", "price", "sold", "price"],
    ]
    body = [
        ["North" if n == 0 else "South" if n == 6 else "", f"S{n}", 10 + n, 2.5 * n, 20 + n, "n/a" if n == 3 else 3.5]
        for n in range(12)
    ]
    rows = [*head, *body[:6], [], *body[6:], ["Total", "", 186, 165, 306, 38.5], [], ["Source: the till"]]
    merged = ["A1:F1", "C3:D3", "E3:F3", "A3:A4", "B3:B4", "A5:A10", "A12:A17"]
    path = write_workbook(tmp_path / "sales.xlsx", {"Read me": ([["Ask kim"]], []), "Sales": (rows, merged)})
    found = load(path)
    table = found["df"]
    assert list(table.columns) == ["Region", "Shop", "2023 sold", "2023 price", "2024 sold", "2024 price"]
    assert table["Region"].tolist() == ["North"] * 6 + ["South"] * 6
    assert (table["2023 sold"].sum(), int(table["2024 price"].isna().sum())) == (186, 1)
    printed = capsys.readouterr().out
    for said in ("Read me: this sheet holds no table", "'Sales by region, all shops'", "'Total'; 'Source: the till'"):
        assert said in printed
    assert not found["asked"]


def test_sheets_of_one_form_are_stacked_and_a_list_is_joined_when_somebody_agrees(tmp_path: Path) -> None:
    def month(first: int) -> list[list[Any]]:
        return [["shop_id", "sold"], *([n % 4 + 1, first + n] for n in range(20))]

    shops: list[list[Any]] = [["id", "town"], [1, "Ulm"], [2, "Bonn"], [3, "Kiel"]]
    sheets: dict[str, Sheet] = {"January": (month(0), []), "February": (month(100), []), "shops": (shops, [])}
    path = write_workbook(tmp_path / "year.xlsx", sheets)
    found = load(path, goal="predict sold", answers=("maybe", "yes"))
    assert len(found["asked"]) == 2
    assert "where shop_id = id (found for 75.0% of the rows)" in found["asked"][0]
    table = found["df"]
    assert (len(table), set(table.columns)) == (40, {"shop_id", "sold", "source", "town"})
    assert int(table["town"].isna().sum()) == 10
    assert found["facts"].get("unused") == []
    found = load(path, goal="predict sold", answers=("1",))
    assert "town" not in found["df"].columns
    assert found["facts"].get("unused") == ["shops"]
    assert "town" in load(path, goal="predict sold", auto_join=True)["df"].columns


def test_a_join_never_makes_rows(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("order,customer\n" + "\n".join(f"{n},{n % 5}" for n in range(30)))
    (tmp_path / "calls.csv").write_text("customer,minutes\n" + "\n".join(f"{n % 5},{n}" for n in range(25)))
    found = load(tmp_path / "orders.csv", tmp_path / "calls.csv", goal="predict order")
    assert (len(found["df"]), found["asked"], found["facts"].get("unused")) == (30, [], ["calls"])


def test_a_decimal_comma_makes_a_point_a_thousand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{n};{n}.{n:03d};{n},5;1.234.567,25;{n % 28 + 1:02d}.03.2024" for n in range(1, 40)]
    lines = ["Bericht 2024;;;;", "", "Nr;Einwohner;Anteil;Umsatz;Tag", *rows, "Summe;;;;"]
    (tmp_path / "de.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    table = load(tmp_path / "de.csv")["df"]
    assert table["Einwohner"].tolist()[:2] == [1001, 2002]
    assert (table["Anteil"].iat[0], table["Umsatz"].iat[0]) == (1.5, 1234567.25)
    assert str(table["Tag"].max())[:10] == "2024-03-28"
    printed = capsys.readouterr().out
    assert "2 lines above the header are left out: 'Bericht 2024'" in printed
    assert "'Summe'" in printed
    english = "\n".join(["town;people;rate", *(f"t{n};{n}.{n:03d};{n}.5" for n in range(1, 40))])
    (tmp_path / "en.csv").write_text(english)
    assert load(tmp_path / "en.csv")["df"]["people"].iat[0] == 1.001  # this file writes 1.5: a point is a point


WORDS = {
    "utf-8": "Größe",
    "utf-16": "Größe",
    "utf-16-le": "Größe",
    "cp1252": "Größe",
    "gb18030": "朱镕基 北京 数量",
    "cp1251": "Цена товара",
}


@pytest.mark.parametrize(("encoding", "word"), WORDS.items())
def test_encodings_are_found_out(tmp_path: Path, encoding: str, word: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes((f"name,{word}\n" + f"{word},1\n" * 60).encode(encoding))
    refuse_unfit(path)
    table = load(path)["df"]
    assert (list(table.columns), table["name"].iat[-1]) == (["name", word], word)


def test_lines_of_two_encodings_are_each_read_by_their_own(tmp_path: Path) -> None:
    for other, word in (("cp1252", "Küche"), ("gb18030", "厨房")):
        lines = [f"{word},{n}\n".encode("utf-8" if n % 2 else other) for n in range(40)]
        (tmp_path / "a.csv").write_bytes(b"room,n\n" + b"".join(lines))
        assert set(load(tmp_path / "a.csv")["df"]["room"]) == {word}


def _zip(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.csv", content)


PACKERS: dict[str, Callable[[Path, bytes], Any]] = {
    "gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    "bz2": lambda path, content: path.write_bytes(bz2.compress(content)),
    "xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    "zip": _zip,
}


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files_are_read_as_they_are(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.csv.{ending}"
    PACKERS[ending](path, b"a;b\n" + b"1;x\n" * 30)
    assert load(path)["df"].shape == (30, 2)


def test_databases_are_read_and_their_tables_joined(tmp_path: Path) -> None:
    duckdb = importlib.import_module("duckdb")
    sales = "create table sales as select i as n, i % 3 as shop_id, i * 2.5 as amount from range(60) t(i)"
    shops = "create table shops (id integer, town text); insert into shops values (0, 'Ulm'), (1, 'Bonn'), (2, 'Kiel')"
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.execute(sales)
        base.execute(shops)
    with sqlite3.connect(tmp_path / "b.db") as base:
        base.execute("create table sales (n integer, shop_id integer, amount real)")
        base.executemany("insert into sales values (?, ?, ?)", [(n, n % 3, n * 2.5) for n in range(60)])
        base.executescript(shops)
    base.close()
    for name in ("a.duckdb", "b.db"):
        found = load(tmp_path / name, goal="predict amount", answers=("yes",))
        assert found["main"] == "sales"
        assert found["df"].groupby("town")["n"].count().to_dict() == {"Ulm": 20, "Bonn": 20, "Kiel": 20}


def test_parquet_and_arrow_are_read(tmp_path: Path) -> None:
    pandas, feather = importlib.import_module("pandas"), importlib.import_module("pyarrow.feather")
    table = pandas.DataFrame({"when": pandas.date_range("2024-01-01", periods=40), "n": range(40)})
    table.to_parquet(tmp_path / "a.parquet")
    feather.write_feather(table, str(tmp_path / "b.arrow"))
    for name in ("a.parquet", "b.arrow"):
        found = load(tmp_path / name)
        assert (found["df"].shape, found["roles"]["when"]) == ((40, 2), "date")


def test_of_a_large_file_a_part_is_kept_and_all_of_it_is_counted(tmp_path: Path) -> None:
    lines = [
        f"2024-01-01 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d},{n},{'' if n % 10 else n}"
        for n in range(250_000)
    ]
    (tmp_path / "big.csv").write_text("at,n,tenth\n" + "\n".join(lines))
    found = load(tmp_path / "big.csv", last="load", large_bytes=1_000)
    facts = found["facts"]
    assert (facts.get("rows"), facts.get("kept_rows"), facts.get("kept_part")) == (250_000, 200_000, "drawn at random")
    assert facts.get("whole_missing") == {"tenth": 225_000}
    assert abs(found["df"]["n"].mean() - 125_000) < 2_000
    again = load(tmp_path / "big.csv", last="load", large_bytes=1_000)
    assert again["df"].equals(found["df"])
    found = load(tmp_path / "big.csv", goal="forecast n", last="load", large_bytes=1_000)
    assert found["facts"].get("kept_part") == "the latest by at"
    assert found["df"]["at"].min() >= "2024-01-01 04"


async def test_a_person_is_asked_about_a_join_and_may_answer_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("order,shop_id,sum\n" + "\n".join(f"{n},{n % 4},{n * 2.5}" for n in range(20)))
    (tmp_path / "shops.csv").write_text("shop_id,town\n0,Ulm\n1,Bonn\n2,Kiel\n3,Jena\n")
    names = [str(tmp_path / name) for name in ("orders.csv", "shops.csv")]
    goal = "predict nothing that is here"
    variables = {"data_file": names[0], "data_files": names, "problem_description": goal}
    work = tmp_path / "work"
    work.mkdir()
    async with studio(tmp_path) as here:
        outputs = (str(work / "report.html"), str(tmp_path / "elsewhere.html"))
        kernel = KernelBrief(cwd=str(work), threads=1)
        run = await here.begin(Brief(goal=goal, variables=variables, kernel=kernel, outputs=outputs))
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert "add the columns of shops to orders where shop_id = shop_id" in waiting.question.text
    async with studio(tmp_path) as here:
        run = await here.answer(data={"value": "yes"})
        assert run.error is not None
        assert "It has: order, shop_id, sum, town." in run.error.message
    # Whoever brings a run to its end writes its notebook, into the folder of its cells and nowhere else.
    assert "shops" in (work / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "elsewhere.html").exists()
