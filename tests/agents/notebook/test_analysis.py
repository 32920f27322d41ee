"""builtin:analysis to its end, on a real kernel: what it finds, what it says, and what it does when it cannot.

`./run bench analysis` has all data sets; here are the ones that differ in kind.
"""

import asyncio
import filecmp
import json
import math
import random
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest

from bench.analysis import RUN, Ended, analysed, from_sklearn, nasty
from detent.agents.notebook.analysis import analyst
from detent.agents.notebook.analysis.analysis_template import fill_slots, recipe
from detent.agents.notebook.analysis.data_file_check import is_table, refuse_unfit
from detent.agents.notebook.analysis.goal import read_goal
from detent.agents.notebook.analysis.kernel_figure import FACTS, Facts
from detent.agents.notebook.analysis.narrative import comment
from detent.agents.notebook.analysis.report import summary
from detent.agents.notebook.analysis.words import PLOT_WORDS, WHYS
from detent.agents.notebook.cell import Notebook
from detent.agents.notebook.cell_risk import risks
from detent.agents.notebook.export import html, ipynb
from detent.agents.notebook.notebook_file import find_written
from detent.agents.notebook.observation import cell_wire, whole
from detent.agents.notebook.port import PlannerFailed
from detent.core.status import Status
from detent.errors import Refused
from tests.agents.notebook.cells import READING, run_cells

EXAMPLE = Path(__file__).parents[3] / "examples" / "notebook_analysis"


def facts_of(ended: Ended) -> Facts:
    return Facts([cell_wire(cell) for cell in ended.cells])


def report_of(ended: Ended) -> str:
    return ended.cells[-1].content


async def test_a_nasty_file_is_read_and_an_impossible_goal_is_called_not_met(tmp_path: Path) -> None:
    ended = await analysed(tmp_path, nasty(tmp_path), "predict Umsatz with MAPE < 0.5 %")
    assert (ended.run.state, ended.run.status, ended.failed) == ("workflow_completed", Status.COMPLETED, [])
    facts = facts_of(ended)
    assert (facts.get("delimiter"), facts.get("rows"), facts.get("width")) == (";", 244, 9)
    assert facts.get("roles") == {
        "Lfd_Nr": "id",
        "Datum": "date",
        "Straße": "category",
        "Fläche": "number",
        "Währung": "constant",
        "Leer": "empty",
        "Beschreibung": "text",
        "Gebühr": "category",
        "Umsatz": "number",
    }
    assert facts.get("dropped") == {"Lfd_Nr": "id", "Währung": "constant", "Leer": "empty"}
    assert (facts.get("duplicates"), facts.get("target"), facts.get("task")) == (4, "Umsatz", "regression")
    # Every candidate was tried, each in a behaviour of its own, before the answer was no.
    assert [row["model"] for row in facts.get("scores")][:2] == ["baseline", "ridge"]
    assert len(facts.get("scores")) == 1 + len(recipe().step("train").candidates["regression"])  # type: ignore[union-attr]
    (said,) = facts.get("verdict")
    assert (said["met"], ended.run.output["achieved"]) == (False, False)
    best = min(row["mape"] for row in facts.get("scores"))
    assert said["measured"] == best > 0.005
    assert re.fullmatch(r"MAPE < 0\.5 %: not met, measured [\d.]+ % \(.+\)", ended.run.output["reason"])
    report = report_of(ended)
    assert "The goal is not met" in report
    assert f"{best * 100:.4g} %" in report
    notebook = Notebook(title="Nasty", cells=ended.cells)
    nbformat.validate(nbformat.reads(ipynb(notebook), as_version=4))  # type: ignore[no-untyped-call]
    assert html(notebook).count('src="data:image/png;base64,') >= 3


async def test_a_goal_in_chinese_is_met_and_reported_in_chinese(tmp_path: Path) -> None:
    ended = await analysed(tmp_path, from_sklearn("iris")(tmp_path), "对 target 分类，准确率高于 90%")
    assert (ended.failed, ended.run.output["achieved"]) == ([], True)
    assert re.fullmatch(r"accuracy > 90 %：达到，实测 9\d\.?\d* %（逻辑回归）", ended.run.output["reason"])
    facts = facts_of(ended)
    assert len(facts.get("scores")) == 2  # the first candidate was enough
    assert facts.get("scores")[1]["accuracy"] > facts.get("scores")[0]["accuracy"]
    assert "目标已达到" in report_of(ended)
    page = (tmp_path / "iris.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h([23]) id=[^>]*>([^<]+)</h", page)
    assert headings[:3] == [("2", "报告"), ("3", "总结"), ("2", "数据概况")]  # what is written last is read first
    assert page.index("目标已达到。") < page.index("数据概况</h2>")


async def test_without_libraries_and_with_few_rows_the_data_is_described(tmp_path: Path) -> None:
    for name in ("sklearn", "matplotlib"):  # the kernel works in this folder, and finds these first
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    rows = "\n".join(f"{n},{n * 2 + n % 3},{'ab'[n % 2]}" for n in range(40))
    (tmp_path / "few.csv").write_text(f"x,y,kind\n{rows}\n", encoding="utf-8")
    (tmp_path / "few.html").write_text("a page of somebody else's", encoding="utf-8")
    ended = await analysed(tmp_path, tmp_path / "few.csv", "predict y, R² > 0.9")
    assert (ended.failed, ended.run.output["achieved"]) == ([], None)
    why = "scikit-learn is not installed in this kernel"
    assert ended.run.output["reason"] == f"R² > 0.9: it could not be measured ({why})"
    printed = "".join(output.text for cell in ended.cells for output in cell.outputs)
    assert "matplotlib is not installed in this kernel" in printed
    assert why in report_of(ended)
    # The notebook is there although no command wrote it, and nothing of anybody else's is lost.
    assert [Path(name).name for name in find_written(ended.run)] == [f"few-{RUN}.ipynb", f"few-{RUN}.html"]
    assert (tmp_path / "few.html").read_text(encoding="utf-8") == "a page of somebody else's"
    assert not (tmp_path / "few.ipynb").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("void.csv", b"", "is empty"),
        ("blank.csv", b"\xef\xbb\xbf\n \n", "only blank lines"),
        ("head.csv", b"a,b\n", "has one line (a,b) and no rows"),
        ("binary.csv", b"a\0b\n1\n", "binary data"),
        ("a.tar", b"x", "an archive: unpack it first"),
        ("a.pkl", b"x", "a pickle"),
    ],
)
def test_a_file_without_a_table_is_refused_before_any_kernel_starts(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match=re.escape(sentence)):
        refuse_unfit(tmp_path / name)


def test_files_with_a_table_pass(tmp_path: Path) -> None:
    for name, content in {"a.csv": b"a\n1\n", "b.tsv": "a\n1\n".encode("utf-16"), "c.parquet": b"PAR1\0"}.items():
        (tmp_path / name).write_bytes(content)
        refuse_unfit(tmp_path / name)
    lines = {b'{"a": 1}\n': True, b'{"action": "add", "content": "x"}\n': False, b"nonsense": False}
    lines |= {b'{"actions": [{"action": "add"}]}': False, b'{"action": {"type": "end_phase"}}': False}
    lines |= {b'{"type": "house", "price": 3}': True, b'{"action": "click", "at": 3}': True}
    lines |= {b'{"type": "add", "content": "x"}': False, b'{"action": "shout", "content": "x"}': False}
    for content, is_data in lines.items():
        (tmp_path / "a.jsonl").write_bytes(content)
        assert is_table(tmp_path / "a.jsonl") is is_data


async def test_a_goal_about_a_column_that_is_not_there_ends_with_a_sentence(tmp_path: Path) -> None:
    rows = [{"salaryy": 3 * n, "years": n} for n in range(40)]
    (tmp_path / "pay.json").write_text(json.dumps({"meta": {"of": "2024"}, "people": rows}), encoding="utf-8")
    ended = await analysed(tmp_path, tmp_path / "pay.json", "predict wages, RMSE < 10")
    assert (ended.run.state, ended.failed) == ("error", [])
    assert ended.run.error is not None
    said = "the goal asks to predict `wages`, and the file has no such column. It has: salaryy, years."
    assert ended.run.error.message.startswith(said)


async def test_what_would_flatter_a_model_is_kept_away_from_it_and_said(tmp_path: Path) -> None:
    draw = random.Random(3)
    lines = ["owner_id,sold,area,price_usd,colour,price"]
    for number in range(150):
        area = draw.uniform(40, 160)
        price = area * 2000 + draw.gauss(0, 9000)
        sold = f"{2020 + number // 30}-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
        lines.append(f"{1000 + number // 3},{sold},{area:.1f},{price * 1.1:.2f},{draw.choice('rgb')},{price:.0f}")
    (tmp_path / "sold.csv").write_text("\n".join(lines), encoding="utf-8")
    ended = await analysed(tmp_path, tmp_path / "sold.csv", "predict the prices, R² > 0.2")
    assert (ended.failed, ended.run.output["achieved"]) == ([], True)
    facts = facts_of(ended)
    assert facts.get("roles")["owner_id"] == "entity"
    assert (facts.get("leaks"), facts.get("together"), facts.get("when")) == (["price_usd"], "owner_id", "sold")
    assert 0.5 < facts.get("later")["r2"] < 0.999  # the leak would have made it 1
    (said,) = facts.get("verdict")
    assert (said["easy"], said["narrow"], said["±"] > 0) == (False, False, True)
    report = report_of(ended)
    assert "as the target in other words: `price_usd`" in report
    assert "(`owner_id`) are never on both sides of a split" in report
    assert "tested on the latest fifth by `sold`" in report
    assert "no further model was tried; random forest, gradient boosting" in report


async def test_a_forecast_is_made_from_the_past_only(tmp_path: Path) -> None:
    # `twin` is the value of the same year with a little noise: a model that may look at it is almost always right.
    rows = [(n, 50 + 40 * math.sin(n / 2) + 9 * math.sin(n * n)) for n in range(90)]
    lines = ["'YEAR'   'SPOTS'   'TWIN'", *(f"{1900 + n}   {value:.2f}   {value + 0.1:.2f}" for n, value in rows)]
    (tmp_path / "sun.txt").write_text("\n".join(lines), encoding="utf-8")
    ended = await analysed(tmp_path, tmp_path / "sun.txt", "forecast spots for the next 4 years, RMSE < 60")
    assert (ended.failed, ended.run.output["achieved"]) == ([], True)
    facts = facts_of(ended)
    assert (facts.get("delimiter"), facts.get("columns")) == (r"\s+", ["YEAR", "SPOTS", "TWIN"])
    assert (facts.get("task"), facts.get("unit"), facts.get("horizon"), facts.get("season")) == (
        "forecast",
        "year",
        4,
        1,
    )
    best = next(row for row in facts.get("scores") if row["model"] == facts.get("best"))
    assert 4 < best["rmse"] <= facts.get("naive")["rmse"]
    assert [row[0][:4] for row in facts.get("future")] == ["1990", "1991", "1992", "1993"]
    assert set(facts.get("coverage")) == {"80%", "95%"}
    report = report_of(ended)
    assert "Nothing that is not known ahead was used" in report
    assert "asks for little: what was there, repeated, has" in report
    assert "| 1990-01-01 |" in report


@pytest.mark.parametrize(
    ("text", "horizon"),
    [
        ("forecast temp_max for the next 14 days", (14, "D")),
        ("forecast sales for twelve months", (12, "MS")),
        ("预测未来三个月的销量", (3, "MS")),
        ("forecast the next quarter", (1, "QS")),
        ("forecast 6 steps", (6, "")),
        ("forecast sales", None),
        ("predict price, RMSE < 3", None),
    ],
)
def test_how_far_ahead_is_read_from_the_goal(text: str, horizon: tuple[int, str] | None) -> None:
    assert read_goal(text).horizon == horizon


def test_doubts_about_an_answer_are_part_of_it() -> None:
    goal = read_goal("classify y, accuracy > 0.9 and F1 > 0.8")
    said = {"met": True, "measured": 0.95, "±": 0.0123, "model": "ridge"}
    verdict = [
        {"metric": "accuracy", "relation": ">", "value": 0.9, "easy": True, "baseline": 0.93, **said},
        {"metric": "f1", "relation": ">", "value": 0.8, "narrow": True, **said},
    ]
    later = {"accuracy": 0.7}
    given = {"verdict": verdict, "goal_met": True, "later": later, "when": "day", "since": "2024-01-01"}
    facts = Facts([{"outputs": [{"data": {FACTS: given}}]}])
    report = summary(goal, facts)
    assert "No model does better" not in report
    scores = [{"model": "baseline", "accuracy": 0.9}, {"model": "ridge", "accuracy": 0.8}]
    given |= {"scores": scores, "best": "baseline", "task": "classification"}
    assert "**No model does better than the baseline**" in summary(
        goal, Facts([{"outputs": [{"data": {FACTS: given}}]}])
    )
    assert "| accuracy > 90 % | 95 % ± 1.2 % | ridge | met |" in report
    assert "the baseline, which has learned nothing, has 93 %" in report
    assert "F1 > 0.8: the folds differ so much that other rows could turn the answer" in report
    assert "it is 70 %: not met there" in report
    chinese = summary(read_goal("对 y 分类，准确率高于 90%，F1值大于0.8"), facts)
    assert "要求不高" in chinese
    assert "各折差异较大" in chinese


async def test_without_a_data_file_the_planner_says_what_it_needs() -> None:
    planner = analyst({}).planner
    with pytest.raises(PlannerFailed, match="needs a data file") as failed:
        await planner.plan(whole({}))
    assert not failed.value.is_passing
    answer = await planner.plan(whole({"context": {"variables": {"data_file": "a.csv"}}}))
    stages = answer["context_update"]["workflow_update"]["workflowTemplate"]["stages"]
    assert [stage["id"] for stage in stages] == ["existence", "integrity", "exploration", "modelling", "report"]


def test_why_there_is_no_model_is_said_in_the_readers_language() -> None:
    code = next(cell.code for cell in recipe().step("prepare").cells)  # type: ignore[union-attr]
    reasons = re.findall(r'"description", f?"([^"]+)"', code)
    assert len(reasons) == len(WHYS)
    for reason in reasons:
        said = re.sub(r"\{[^}]*\}", "7", reason)
        facts = Facts([{"outputs": [{"data": {FACTS: {"task": "description", "why": said}}}]}])
        text = comment("prepare", read_goal("预测"), facts)
        assert not re.search("[a-z]{3}", text.replace("scikit-learn", "")), text
        assert said in comment("prepare", read_goal("predict"), facts)


def test_what_gives_the_answer_away_is_found_with_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    rng = random.Random(3)
    lines = ["rate,infl,noise,real,paid_at,house"]
    for _ in range(240):
        rate, infl, house = rng.gauss(5, 2), rng.gauss(3, 1.5), rng.randrange(40)
        real = rate - infl + rng.gauss(0, 0.02)
        lines.append(f"{rate:.3f},{infl:.3f},{rng.random():.3f},{real:.3f},{'yes' if real > 2 else ''},h{house}")
    (tmp_path / "money.csv").write_text("\n".join(lines))
    found = run_cells(tmp_path / "money.csv", goal="predict real", last="audit")
    identity = next(one for one in found["audit"] if one["kind"] == "identity")
    assert (set(identity["columns"]), identity["done"]) == ({"rate", "infl"}, "left out")
    assert "real = " in identity["test"]
    assert "infl" not in found["features"].columns
    assert [one["kind"] for one in found["audit"]].count("identity") == 1


def test_what_comes_from_outside_enters_code_as_a_literal_only() -> None:
    evil = "x'; import os; os.system('true') #\n$target"
    code = fill_slots("path = $data_file  # $$5", {"data_file": evil, "target": "t"}, {})
    space: dict[str, Any] = {}
    exec(code, space)  # noqa: S102
    assert space["path"] == evil
    assert code.endswith("# $5")


def test_every_cell_of_the_recipe_is_python_that_needs_no_consent() -> None:
    values: dict[str, Any] = {"data_files": ["a"], "target": None, "task": "", "measures": [], "lead": ""}
    values |= {"named": [], "is_forecast": False, "horizon": None, "stem": "a", "goal": "", **READING}
    pieces = 0
    for stage in recipe().stages:
        for step in stage.steps:
            for cell in step.cells:
                code = fill_slots(cell.code, values, {})
                compile(code, cell.id, "exec")
                assert risks(code) == []
            for candidate in (one for several in step.candidates.values() for one in several):
                code = candidate.code or (step.trial.code if step.trial else "")
                compile(fill_slots(code, values, candidate.slots), candidate.id, "exec")
                pieces += 1
    assert pieces == 14


def test_every_word_of_a_plot_is_there_in_chinese() -> None:
    steps = [step for stage in recipe().stages for step in stage.steps]
    cells = [cell.code for step in steps for cell in step.cells]
    cells += [one.code for step in steps for several in step.candidates.values() for one in several]
    code = "\n".join(cells)
    said = re.findall(r'say\("([^"]+)"\)', code)
    assert len(said) > 10
    assert {*said} <= {*PLOT_WORDS}
    plain = re.findall(r'(?:label|set_xlabel|set_ylabel|set_title|suptitle)[(=]f?"([^"]*[a-z]{3}[^"]*)"', code)
    assert [text for text in plain if "{" not in text] == []


@pytest.mark.filterwarnings("ignore:Glyph")  # without such a font it is said, and is no fault
def test_plots_of_a_chinese_analysis_have_chinese_labels_where_a_font_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    rows = "\n".join(f"{n},{n % 7 * 1.5 + n % 3},{'甲乙'[n % 2]}" for n in range(60))
    (tmp_path / "薪酬.csv").write_text(f"年限,年薪,职称\n{rows}\n", encoding="utf-8")
    space = run_cells(tmp_path / "薪酬.csv", goal="预测年薪", last="distribution-plot", labels=PLOT_WORDS)
    figure = space["plt"].gcf()
    assert space["plt"].rcParams["font.family"][0] == "DejaVu Sans"
    with warnings.catch_warnings():
        warnings.simplefilter("error" if space["cjk"] else "ignore")  # a letter without a form is a warning
        figure.canvas.draw()
    texts = {axis.get_title() for axis in figure.axes} | {axis.get_ylabel() for axis in figure.axes}
    assert {"年薪（目标）", "行数"} <= texts if space["cjk"] else {"年薪 (target)", "rows"} <= texts
    assert space["say"]("mean of theta, drift") == (
        "平均：Theta 方法, 漂移" if space["cjk"] else "mean of theta, drift"
    )
    space["plt"].close("all")


def test_facts_come_from_outputs_and_the_last_word_counts() -> None:
    cells: list[dict[str, Any]] = [
        {"phase_id": "load", "outputs": [{"data": {FACTS: {"rows": 1, "width": 2}}}, {"data": {FACTS: ["no"]}}]},
        {"phase_id": "types", "outputs": [{"output_type": "error", "ename": "E", "evalue": "v"}]},
        {"outputs": [{"data": {FACTS: {"rows": 3}}}]},
    ]
    facts = Facts(cells)
    assert (facts.get("rows"), facts.get("width"), facts.get("none"), facts.error) == (3, 2, None, "E: v")


def test_the_bundled_file_is_what_its_script_makes(tmp_path: Path) -> None:
    made = tmp_path / "houses.csv"
    runpy.run_path(str(EXAMPLE / "make_houses.py"))["main"](str(made))
    assert filecmp.cmp(made, EXAMPLE / "houses.csv", shallow=False)
    assert made.read_text(encoding="utf-8").count("\n") == 507


def test_plans_are_the_same_for_every_process() -> None:
    seen = whole({"context": {"variables": {"data_file": "a.csv"}}})
    first, second = (asyncio.run(analyst({}).planner.plan(seen)) for _ in range(2))
    assert first == second
