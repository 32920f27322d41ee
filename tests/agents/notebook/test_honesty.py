"""What reports on data sets of others got wrong, each kind of it once: leaks, claims that do not hold, odd labels."""

import importlib
import random
import runpy
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.analysis.analysis_template import recipe
from detent.agents.notebook.analysis.data_evidence import describe_drivers
from detent.agents.notebook.analysis.forecast_text import describe_forecast
from detent.agents.notebook.analysis.goal import figure, read_goal, target_of
from detent.agents.notebook.analysis.kernel_figure import FACTS, Facts
from detent.agents.notebook.analysis.narrative import comment
from detent.agents.notebook.analysis.report import summary
from tests.agents.notebook.cells import run_cells


@pytest.fixture(autouse=True)
def _plots_go_nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield
    importlib.import_module("matplotlib.pyplot").close("all")


def write(path: Path, head: str, rows: list[tuple[Any, ...]]) -> Path:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]), encoding="utf-8")
    return path


def given(**facts: Any) -> Facts:
    return Facts([{"outputs": [{"data": {FACTS: facts}}]}])


def test_every_way_to_add_a_sum_up_is_found_and_what_is_made_from_the_target_is_left_out(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = []
    for _ in range(200):
        goods, services, public = (draw.uniform(100, 900) for _ in range(3))
        private, total = goods + services - public, goods + services
        rows.append([round(one, 3) for one in (goods, services, private, public, draw.random(), total / 12, total)])
    path = write(
        tmp_path / "jobs.csv", "goods,services,private,public,luck,total_per_month,total", [(*r,) for r in rows]
    )
    found = run_cells(path, goal="predict total", last="audit")
    assert set(found["features"].columns) == {"luck"}
    kinds = [one["kind"] for one in found["audit"]]
    assert kinds.count("identity") == 2
    assert all(one["done"] == "left out" for one in found["audit"])


def test_whose_rows_belong_together_is_no_feature_and_stays_apart_in_every_split(tmp_path: Path) -> None:
    draw = random.Random(2)
    level = {town: draw.gauss(60, 12) for town in range(40)}
    rows = [(f"town {n % 40}", n // 40, draw.random(), round(level[n % 40] + draw.gauss(0, 4), 2)) for n in range(400)]
    path = write(tmp_path / "life.csv", "place,wave,luck,years", rows)
    found = run_cells(path, goal="predict years", last="audit")
    assert (found["together"], "place" in found["features"].columns) == ("place", False)


def test_counters_are_ids_and_days_of_yearly_dates_are_no_features(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [(n % 60 + 1, f"{1970 + n % 12}-01-01", draw.choice("ab"), round(draw.gauss(9, 2), 2)) for n in range(180)]
    path = write(tmp_path / "cars.csv", "Sample Number,Year,kind,mpg", rows)
    found = run_cells(path, goal="predict mpg", last="prepare")
    assert found["roles"]["Sample Number"] == "id"
    assert set(found["features"].columns) == {"Year:year", "kind"}


def test_a_baseline_that_is_best_is_called_one_and_large_values_are_readable() -> None:
    goal = read_goal("forecast price for the next 6 months")
    base = {"model": "last value again", "rmse": 44.5}
    facts: dict[str, Any] = {"task": "forecast", "lead": "rmse", "best": "last value again", "scores": [base]}
    facts |= {"baseline_row": base, "gain": 0.0, "future": [["2010-04-01 00:00", 143400.4, 1e5, 2e5, 9e4, 3e5]]}
    said = "\n".join(describe_forecast(goal, given(**facts)))
    assert "**No model that was tried beats the baseline**: “last value again”" in said
    assert "| 2010-04-01 | 143,400 | 100,000 – 200,000 | 90,000 – 300,000 |" in said
    better = facts | {"best": "theta", "scores": [base, {"model": "theta", "rmse": 40, "folds": 5}], "gain": 0.1}
    assert "10% less error than the best baseline, “last value again” (RMSE 44.5)" in "\n".join(
        describe_forecast(goal, given(**better))
    )


def test_a_forecast_is_compared_with_the_best_of_the_naive_ones_and_its_intervals_hold(tmp_path: Path) -> None:
    draw, value, rows = random.Random(4), 100.0, []
    for n in range(150):
        value += draw.gauss(0, 1)
        rows.append((f"{2000 + n // 12}-{n % 12 + 1:02d}", round(value, 3)))
    found = run_cells(
        write(tmp_path / "walk.csv", "month,price", rows), goal="forecast price for the next 6 months", last="future"
    )
    facts = found["facts"]
    assert facts.get("baseline") == facts.get("best") == facts.get("baseline_row")["model"]
    assert facts.get("interval_origins") >= 20
    assert 0.7 <= facts.get("coverage")["80%"] <= 0.95
    assert facts.get("coverage")["95%"] >= 0.9


def test_no_models_are_spoken_of_where_there_are_none() -> None:
    facts = given(task="description", missing={"city": 12})
    assert (
        comment("clean", read_goal("describe it"), facts)
        == "12 values are missing, in `city`. They stay missing in the table."
    )


def test_what_is_written_down_with_the_outcome_is_left_out(tmp_path: Path) -> None:
    draw, rows = random.Random(5), []
    for n in range(300):
        late, is_cancelled = draw.gauss(10, 20), n % 10 == 0
        arrived = "" if is_cancelled else round(600 + late + draw.gauss(0, 30), 1)
        rows.append((round(draw.uniform(100, 900)), arrived, "" if is_cancelled else round(late, 1)))
    found = run_cells(
        write(tmp_path / "flights.csv", "distance,arrived,delay", rows), goal="predict delay", last="audit"
    )
    assert list(found["features"].columns) == ["distance"]
    (said,) = [one for one in found["audit"] if one["kind"] == "afterwards"]
    assert (said["test"], said["figure"]) == (
        "arrived is missing where delay is: it is known only with it",
        "100% of 30 rows",
    )


def test_how_long_somebody_was_watched_does_not_tell_whether_they_died(tmp_path: Path) -> None:
    draw, rows = random.Random(6), []
    for _ in range(200):
        status = draw.randrange(2)
        rows.append((draw.randrange(30, 80), draw.uniform(10, 900) if status else draw.uniform(800, 3000), status))
    found = run_cells(write(tmp_path / "colon.csv", "age,time,status", rows), goal="predict status", last="audit")
    assert list(found["features"].columns) == ["age"]


def test_dates_written_as_one_number_are_dates(tmp_path: Path) -> None:
    rows = [(19580325 + n % 3 + 100 * (n % 9), 195801 + n % 12, n) for n in range(40)]
    roles = run_cells(write(tmp_path / "co2.csv", "date,period,co2", rows), goal="describe it", last="types")["roles"]
    assert (roles["date"], roles["period"], roles["co2"]) == ("date", "date", "id")


def test_how_far_ahead_names_no_column() -> None:
    goal = read_goal("forecast Passengers for the next 12 months, MAPE < 8 %")
    assert target_of(goal, ["Month", "Passengers (1000s)"], {}).column == "Passengers (1000s)"
    assert target_of(read_goal("predict month"), ["Month", "x"], {}).column == "Month"


def test_an_effect_is_told_with_words_held_equal_and_whose_rows_belong_together_are_drawn_together(
    tmp_path: Path,
) -> None:
    draw, rows = random.Random(5), list[tuple[Any, ...]]()
    for n in range(240):
        kind = "aaabbc"[n % 6]
        place = "abc".index(kind)
        rows.append((kind, place * 10 + draw.gauss(0, 2), place * 50 + draw.gauss(0, 5)))
    path = write(tmp_path / "kinds.csv", "kind,x,y", rows)
    facts = run_cells(path, goal="predict y", last="explain")["facts"]
    found = {(name, word): (low, high, usual) for name, _, low, high, word, usual in facts.get("effects")}
    assert found["x", ""][0] < 0 < found["x", ""][1]  # it says which kind a row is, and nothing beside
    assert (found["kind", "c"][0] > 50, found["kind", "c"][2]) == (True, "a")
    told = given(task="regression", best="ridge", target="y", effects=facts.get("effects"))
    said = "\n".join(describe_drivers(read_goal("predict y"), told))
    assert "- `kind` `c` instead of `a`: +" in said
    persons = [(draw.gauss(0, 1), draw.gauss(0, 10)) for _ in range(20)]
    seen = [(f"p{n % 20}", persons[n % 20][0], persons[n % 20][1] + draw.gauss(0, 1)) for n in range(400)]
    path = write(tmp_path / "persons.csv", "person_id,x,y", seen)
    ((_, _, low, high, _, _),) = run_cells(path, goal="predict y", last="explain")["facts"].get("effects")
    assert high - low > 5  # twenty persons, not four hundred rows


def test_only_one_is_written_as_one_and_a_mase_is_compared_with_that_of_the_baseline() -> None:
    assert (figure("auc", 0.99963), figure("r2", 1.0), figure("r2", 0.99999999)) == ("0.99963", "1.000", "0.99999")
    base, best = {"model": "drift", "mase": 2.674}, {"model": "ARIMA", "mase": 1.742, "worst mase": 2.6, "folds": 9}
    facts: dict[str, Any] = {"task": "forecast", "lead": "mase", "best": "ARIMA", "scores": [base, best]}
    facts |= {"baseline_row": base, "gain": 0.35, "series": 3, "worst_series": "coal", "future": []}
    said = "\n".join(describe_forecast(read_goal("forecast it"), given(**facts)))
    assert "MASE 1.742 on average, 2.6 for the worst (`coal`); “drift” has 2.674 on average." in said


def test_what_was_not_tried_is_named_and_what_did_not_happen_is_not() -> None:
    plain = [{"model": name, "mape": 0.1} for name in ("last value again", "seasonal value again", "drift")]
    facts: dict[str, Any] = {"task": "forecast", "lead": "mape", "best": "exponential smoothing", "goal_met": True}
    facts |= {"scores": [*plain, {"model": "exponential smoothing", "mape": 0.05}], "gaps": 1, "has_time": True}
    said = summary(read_goal("forecast x, MAPE < 8 %"), given(**facts))
    assert "no further model was tried; theta method, ARIMA, gradient boosting on lags, the mean" in said
    assert "1 missing step was filled along a line;" in said
    assert "a time that another had" not in said
    assert "No relation could be measured" not in said
    joined = ["put the rows of 1950 below those of 1949 (the same columns)"]
    read = given(rows=24, width=2, tables={"1949": [12, 2], "1950": [12, 2]}, main_table="1949", joined=joined)
    assert "the goal is about" not in comment("load", read_goal("forecast x"), read)


def test_a_recall_that_one_class_does_not_have_is_doubted() -> None:
    goal = read_goal("predict y, recall > 95 %")
    said = {"metric": "recall", "relation": ">", "met": True, "measured": 0.97, "model": "logistic regression"}
    facts: dict[str, Any] = {"task": "classification", "goal_met": True, "verdict": [said], "weak_class": "0"}
    text = summary(goal, given(**facts, weak_recall=0.94))
    assert "for `0` alone it is 94 %: not met there" in text
    assert "alone it is" not in summary(goal, given(**facts, weak_recall=0.96))


def test_marks_of_an_axis_do_not_run_into_each_other(tmp_path: Path) -> None:
    path = write(tmp_path / "years.csv", "year,x", [(1952 + n % 12 * 5, n * 7 % 50) for n in range(120)])
    figure_now = run_cells(path, goal="describe it", last="distribution-plot")["plt"].gcf()
    years = next(axis for axis in figure_now.axes if axis.get_title() == "year")
    figure_now.canvas.draw()
    assert {mark.get_rotation() for mark in years.get_xticklabels()} == {60.0}


def test_a_sum_of_many_columns_and_the_time_between_two_dates_give_the_answer_away(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = []
    for n in range(150):
        marks = [draw.randint(20, 99) for _ in range(5)]
        rows.append((*marks, round(sum(marks) / 15 + draw.gauss(0, 1), 1), sum(marks), f"2020-01-{n % 28 + 1:02d}"))
    path = write(tmp_path / "marks.csv", "math,reading,writing,science,art,hours,total,day", rows)
    found = run_cells(path, goal="predict total", last="audit")
    assert not {"math", "reading", "writing", "science", "art"} & set(found["features"].columns)
    assert "hours" in found["features"].columns
    begun = [date(2000, 1, 1) + timedelta(draw.randint(0, 3000)) for _ in range(120)]
    stays = [draw.randint(1, 400) for _ in begun]
    pairs = [(day, day + timedelta(stay), n % 7, stay) for n, (day, stay) in enumerate(zip(begun, stays, strict=True))]
    path = write(tmp_path / "stays.csv", "arrived,left,ward,days", pairs)
    found = run_cells(path, goal="predict days", last="audit")
    assert found["audit"][0]["columns"] == ["arrived", "left"]
    assert set(found["features"].columns) == {"ward"}


def test_what_decides_a_class_alone_or_as_a_pair_and_what_only_one_class_has_is_left_out(tmp_path: Path) -> None:
    draw = random.Random(4)
    rows = []
    for n in range(300):
        works = draw.random() < 0.5
        hours, other = draw.randint(200, 2000) if works else 0, draw.uniform(10, 90)
        refund = int(works and draw.random() < 0.3)
        rows.append((hours, other, other * 2 + (draw.uniform(1, 9) if works else 0), refund, n % 13, int(works)))
    path = write(tmp_path / "work.csv", "hours,other_income,income,refund_issued,wave,works", rows)
    found = run_cells(path, goal="predict works", last="audit")
    assert {"hours", "other_income", "income", "refund_issued"} == {c for one in found["audit"] for c in one["columns"]}
    assert all(one["done"] == "left out" for one in found["audit"])
    assert list(found["features"].columns) == ["wave"]


def test_months_by_name_make_a_date_and_values_at_odd_times_are_not_filled_up(tmp_path: Path) -> None:
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    rows = [(1950 + n // 12, names[n % 12], 100 + n + 20 * (n % 12 == 6)) for n in range(96)]
    path = write(tmp_path / "flights.csv", "year,month,passengers", rows)
    found = run_cells(path, goal="forecast passengers for the next 12 months", last="series")
    assert (found["unit"], found["horizon"], len(found["series"]), found["keys"]) == ("MS", 12, 1, [])
    draw = random.Random(5)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    odd = []
    for _ in range(300):
        at += timedelta(hours=draw.choice((1, 1, 1, 20, 40, 60)))
        odd.append((at.strftime("%Y-%m-%d %H:%M"), round(draw.gauss(50, 5), 1)))
    path = write(tmp_path / "visits.csv", "at,visits", odd)
    found = run_cells(path, goal="forecast visits for the next 2 hours", last="backtest")
    facts = found["facts"]
    assert (facts.get("irregular"), facts.get("too_fine")) == (True, True)
    (own,) = found["observed"].values()
    assert own.mean() > 0.6
    assert "irregular times" in summary(read_goal("forecast visits"), given(**{**facts_of(found), "best": "drift"}))


def facts_of(found: dict[str, Any]) -> dict[str, Any]:
    names = ("task", "lead", "scores", "naive", "irregular", "too_fine", "unit", "gaps", "steps_in_all", "has_time")
    return {name: found["facts"].get(name) for name in names}


def test_a_column_that_is_not_there_is_not_answered_with_another_one_whoever_asks() -> None:
    assert target_of(read_goal("what drives NABOVE?"), ["score", "size"], {}).how == "missing"
    assert target_of(read_goal("which columns drive the last one"), ["score", "size"], {}).column == "size"
    assert target_of(read_goal("影响销量的主要因素是什么"), ["价格", "销量"], {}).column == "销量"
    assert target_of(read_goal("预测未来6个月各区域的销售额"), ["区域", "月份", "销售额"], {}).column == "销售额"
    assert target_of(read_goal("forecast each store's sales"), ["store", "sales"], {}).column == "sales"


def test_groups_are_told_by_what_sets_them_apart() -> None:
    facts = {"task": "description", "groups": 2, "silhouette": 0.7, "grouped_rows": 10}
    facts |= {"group_profiles": [[4, [["age", 61.2, 40.0]]], [6, []]]}
    said = comment("train", read_goal("find groups"), given(**facts))
    assert "- group 1, 4 (40%) rows: `age` 61.2 (all rows 40)" in said
    assert "close to the mean of all rows" in said


def test_no_direction_is_told_for_what_the_others_add_up_to_and_no_copy_of_a_date_is_a_feature(tmp_path: Path) -> None:
    draw, rows = random.Random(6), list[tuple[Any, ...]]()
    for n in range(240):
        a, b, free = draw.gauss(0, 1), draw.gauss(0, 1), draw.gauss(0, 1)
        rows.append(
            (2000 + n // 12, n % 12 + 1, a, b, a + b + draw.gauss(0, 0.05), free, a + 3 * free + draw.gauss(0, 1))
        )
    path = write(tmp_path / "parts.csv", "year,month,a,b,both,free,y", rows)
    found = run_cells(path, goal="predict y", last="explain")
    assert not [name for name in found["features"].columns if str(name).startswith("date:")]
    facts = found["facts"]
    assert set(facts.get("blurred")) == {"a", "b", "both"}
    assert {row[0] for row in facts.get("effects")} == {"free", "year", "month"}
    told = given(task="regression", best="ridge", target="y", effects=facts.get("effects"), blurred=["a", "b"])
    assert "No direction is told for `a`, `b`" in "\n".join(describe_drivers(read_goal("predict y"), told))


def test_a_season_seen_in_few_years_is_taken_up(tmp_path: Path) -> None:
    draw = random.Random(7)
    wave = [0, 2, 7, 12, 16, 18, 17, 12, 6, 0, -4, -3]
    rows = [
        (f"{2019 + n // 12}-{n % 12 + 1:02d}", 100 + n / 2 + 2 * wave[n % 12] + draw.gauss(0, 2)) for n in range(60)
    ]
    path = write(tmp_path / "sales.csv", "month,sales", rows)
    found = run_cells(path, goal="forecast sales for the next 6 months", last="backtest")
    (ets,) = (one.code for one in recipe().step("train").candidates["forecast"] if one.id == "ets")  # type: ignore[union-attr]
    exec(compile(ets, "ets", "exec"), found)  # noqa: S102
    errors = {row["model"]: row["rmse"] for row in found["scores"]}
    assert errors["exponential smoothing"] < errors["seasonal value again"]


def test_the_model_that_is_delivered_reads_the_columns_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    days = [date(2020, 1, 1) + timedelta(n * 3) for n in range(80)]
    rows = [(day, "ab"[n % 2], str(n % 3 == 0), n, 2 * n + n % 2) for n, day in enumerate(days)]
    path = write(tmp_path / "new_rows.csv", "day,kind,flag,size,cost", rows)
    monkeypatch.chdir(tmp_path)
    found = run_cells(path, goal="predict cost", last="deliver")
    assert "day:month" in found["X"].columns
    monkeypatch.chdir(tmp_path / "x-results")
    path.rename(tmp_path / "x-results" / "new_rows.csv")
    capsys.readouterr()
    runpy.run_path("use_model.py")
    assert capsys.readouterr().out.startswith("[")


def test_a_model_that_predicts_no_numbers_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.csv", "x,z,y", [(n, n % 3, 2 * n) for n in range(60)])
    found = run_cells(path, goal="predict y", last="measure")
    compose, dummy = (importlib.import_module(f"sklearn.{name}") for name in ("compose", "dummy"))
    broken = compose.TransformedTargetRegressor(
        dummy.DummyRegressor(), func=abs, inverse_func=lambda y: y * float("inf"), check_inverse=False
    )
    found["take"](found["tried"]("broken", broken))
    assert [row["model"] for row in found["scores"]] == ["baseline"]


def test_what_is_measured_again_and_again_is_followed_by_its_number(tmp_path: Path) -> None:
    draw = random.Random(11)
    speed = {animal: draw.gauss(6, 3) for animal in range(1, 41)}
    rows = [
        (week, animal, round(40 + week * speed[animal] + draw.gauss(0, 2), 1))
        for animal in range(1, 41)
        for week in range(10)
    ]
    found = run_cells(write(tmp_path / "growth.csv", "since,animal,weight", rows), goal="predict weight", last="audit")
    assert (found["together"], [*found["features"].columns]) == ("animal", ["since"])


def test_files_beside_the_notebook_name_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(12)
    rows = [(f"S{n:03d}", round(draw.gauss(9, 1), 2), draw.random()) for n in range(60)]
    monkeypatch.chdir(tmp_path)
    found = run_cells(write(tmp_path / "s.csv", "shop,size,sales", rows), goal="predict sales", last="deliver")
    table = importlib.import_module("pandas").read_csv(tmp_path / "x-results" / "predictions.csv")
    assert table["shop"].tolist() == [row[0] for row in rows]
    assert found["dropped"] == {"shop": "id"}


def test_parts_of_the_target_are_known_by_their_names_and_by_what_they_follow_from(tmp_path: Path) -> None:
    draw = random.Random(13)
    rows = []
    for _ in range(200):
        marks = [draw.randint(0, 40) for _ in range(4)]
        grade = draw.randint(0, 9)
        rows.append((*marks, f"g{grade}", f"G{grade // 3}", round(sum(marks) + draw.gauss(0, 3), 2), grade * 2))
    head = "r1,r2,r3,r4,sub_grade,grade,rating,cost"
    found = run_cells(write(tmp_path / "marks.csv", head, rows), goal="predict rating", last="audit")
    assert not {"r1", "r2", "r3", "r4"} & {*found["features"].columns}
    costs = write(tmp_path / "cost.csv", head, rows)
    kept = run_cells(costs, goal="predict cost, R² > 0.9", last="audit", task="regression")["features"].columns
    assert not {"sub_grade", "grade"} & {*kept}


def test_a_question_of_cause_is_about_what_is_changed_and_names_what_was_asked() -> None:
    names = ["law", "kms", "killed"]
    for text in ("did the law reduce killed?", "whether the law has lowered killed", "law 是否减少 killed"):
        assert target_of(read_goal(text), names, {}).column == "killed"
    facts = given(task="regression", target="killed", columns=names, effects=[["law", 1.0, -2.0, 4.0, "", ""]])
    assert "`law`, one standard deviation more: +1 (-2 … +4), so there may be none" in "\n".join(
        describe_drivers(read_goal("did the law reduce killed?"), facts)
    )


def test_a_baseline_that_reaches_the_goal_is_said_to_and_what_models_know_is_not_denied() -> None:
    goal = read_goal("predict bought, accuracy > 90%")
    scores = [{"model": "baseline", "accuracy": 0.94, "auc": 0.5}, {"model": "forest", "accuracy": 0.93, "auc": 0.72}]
    verdict = [{"metric": "accuracy", "relation": ">", "met": True, "measured": 0.94, "model": "baseline"}]
    facts = {"task": "classification", "lead": "accuracy", "best": "baseline", "goal_met": True, "verdict": verdict}
    said = summary(goal, given(**facts, scores=scores))
    assert "The goal is met, and by the baseline" in said
    assert "forest ranks the rows with AUC 0.720" in said
    assert "hardly say anything" in summary(goal, given(**facts, scores=scores[:1]))


def test_for_how_many_series_a_baseline_is_better_is_said() -> None:
    rows = [{"model": "seasonal value again", "rmse": 3.0, "mase": 1.0}, {"model": "theta", "rmse": 2.0, "mase": 0.8}]
    facts: dict[str, Any] = {"task": "forecast", "lead": "rmse", "best": "theta", "scores": rows, "series": 9}
    said = describe_forecast(read_goal("forecast sales"), given(**facts, baseline_row=rows[0], gain=0.3, behind=2))
    assert "has 1 on average and is better for 2 of them." in "\n".join(said)


def test_which_of_two_columns_is_more_and_what_is_there_only_for_one_class_give_the_answer_away(tmp_path: Path) -> None:
    draw = random.Random(11)
    rows = []
    for _ in range(300):
        home, away = draw.randint(0, 5), draw.randint(0, 5)
        rows.append((home, away, draw.randint(1, 20), "yes" if home > away else "no"))
    path = write(tmp_path / "games.csv", "home,away,rank,won", rows)
    assert list(run_cells(path, goal="predict won", last="audit")["features"].columns) == ["rank"]
    cards = [(draw.random() < 0.7, draw.randint(20, 60)) for _ in range(300)]
    spent = [round(draw.uniform(50, 900), 2) if own and draw.random() < 0.95 else 0 for own, _ in cards]
    held = [(much, much / 900 + draw.random() / 100, age, own) for much, (own, age) in zip(spent, cards, strict=True)]
    path = write(tmp_path / "cards.csv", "spent,part,age,card", [*held])
    found = run_cells(path, goal="predict card", last="audit")
    assert list(found["features"].columns) == ["age"]
    assert "only where card = True" in found["audit"][0]["test"]


def test_a_ratio_of_rounded_columns_is_found_among_many_that_grow_together(tmp_path: Path) -> None:
    draw = random.Random(12)
    rows = []
    for n in range(140):
        people, splits = 1000 + 30 * n + draw.uniform(0, 900), 50 + n + draw.uniform(0, 20)
        weddings = people * draw.uniform(0.007, 0.012)
        rows.append((1900 + n, round(weddings, 2), round(splits), round(people), round(1000 * weddings / people, 1)))
    path = write(tmp_path / "weddings.csv", "year,weddings,splits,people,share", rows)
    found = run_cells(path, goal="predict share", last="audit")
    assert [one["test"] for one in found["audit"]] == ["share = weddings / people"]
    assert not {"weddings", "people"} & {*found["features"].columns}


def test_a_sum_is_not_told_of_a_column_that_adds_nothing_to_it(tmp_path: Path) -> None:
    draw, whole, rows = random.Random(13), 0, []
    for _ in range(300):
        fresh = draw.randint(10, 90)
        rows.append((whole + fresh, whole, draw.randint(20, 60), fresh))
        whole += fresh
    path = write(tmp_path / "cases.csv", "total,before,tests,fresh", rows)
    found = run_cells(path, goal="predict fresh", last="audit")
    assert list(found["features"].columns) == ["tests"]


def test_rows_that_differ_by_their_id_alone_never_stand_on_both_sides_of_a_split(tmp_path: Path) -> None:
    draw = random.Random(14)
    kinds = [(round(draw.random(), 3), round(draw.random(), 3), round(draw.random(), 3)) for _ in range(60)]
    rows = [(f"R{n}", *kinds[n % 60]) for n in range(180)]
    path = write(tmp_path / "again.csv", "record_id,a,b,y", rows)
    found = run_cells(path, goal="predict y", last="prepare")
    assert found["together"] == "equal rows"
    assert len(set(found["groups"])) == 60
    assert "but for their ids" in comment("clean", read_goal("predict y"), found["facts"])


def test_half_hours_have_a_season_of_a_day_and_odd_minutes_keep_their_step(tmp_path: Path) -> None:
    begun, draw = datetime(2024, 3, 1, tzinfo=UTC), random.Random(15)
    rows = [
        ((begun + timedelta(minutes=30 * n)).isoformat(), round(abs(24 - n % 48) + draw.random(), 2))
        for n in range(240)
    ]
    found = run_cells(
        write(tmp_path / "sun.csv", "at,power", rows), goal="forecast power for the next day", last="series"
    )
    assert (found["season"], found["horizon"]) == (48, 48)
    rows = [((begun + timedelta(minutes=5 * n + (n % 7 == 0))).isoformat(), n % 9) for n in range(400)]
    found = run_cells(
        write(tmp_path / "odd.csv", "at,sugar", rows), goal="forecast sugar for the next 2 hours", last="series"
    )
    assert found["horizon"] == 24
    assert (found["first"].index[1] - found["first"].index[0]).total_seconds() == 300


def test_a_gap_before_an_origin_is_not_filled_towards_what_came_after_it(tmp_path: Path) -> None:
    days = [date(2024, 1, 1) + timedelta(days=n) for n in range(60) if not 40 <= n < 50]
    rows = [(day, 10 if day < date(2024, 2, 15) else 90) for day in days]
    found = run_cells(write(tmp_path / "gap.csv", "day,value", rows), goal="forecast value for 5 days", last="backtest")
    known = found["past_of"](next(iter(found["series"])), 46)
    assert known.max() == 10


def test_times_of_summer_and_winter_are_read_and_rows_without_times_are_steps(tmp_path: Path) -> None:
    rows = [(f"2024-03-31T0{n % 9}:00:00+0{1 + (n % 9 > 1)}:00", n) for n in range(9)] * 3
    found = run_cells(write(tmp_path / "clock.csv", "at,price", rows), goal="forecast price", last="types")
    assert found["roles"]["at"] == "date"
    path = write(tmp_path / "plain.csv", "value,luck", [(n % 5 + n / 9, n % 2) for n in range(80)])
    found = run_cells(path, goal="forecast value for the next 12 months", last="series")
    assert (found["horizon"], found["season"]) == (12, 1)
    path = write(tmp_path / "spots.csv", "year,value", [(1650 + n, n % 11) for n in range(350)])
    found = run_cells(path, goal="forecast value for the next 3 years", last="series")
    assert (found["when"], found["unit"]) == ("year", "YS")


def test_units_behind_numbers_are_taken_off_and_told(tmp_path: Path) -> None:
    rows = [(f"{60 + n % 20}.5 °C", f"{n % 7} kg" if n % 2 else f"{n} g", f"({n}.5)") for n in range(80)]
    found = run_cells(write(tmp_path / "units.csv", "heat,weight,balance", rows), goal="overview", last="types")
    assert found["roles"]["heat"] == "number"
    assert found["roles"]["weight"] != "number"
    assert found["df"]["balance"].iat[3] == -3.5
    path = write(tmp_path / "post.csv", "Postal Code,sales", [(10_000 + n % 40, n) for n in range(200)])
    codes = run_cells(path, goal="overview", last="types")
    assert codes["roles"] == {"Postal Code": "category", "sales": "id"}
    assert "`heat` (°C)" in comment("types", read_goal("overview"), found["facts"])


def test_what_cannot_be_is_said_and_what_was_measured_in_part_is_doubted() -> None:
    goal = read_goal("predict y, R² > 1.5")
    verdict = [{"metric": "r2", "relation": ">", "value": 1.5, "measured": 0.6, "met": False}]
    scores = [{"model": "baseline", "r2": 0.0, "folds": 5}, {"model": "ridge", "r2": 0.6, "folds": 2}]
    said = summary(goal, given(task="regression", target="y", scores=scores, best="ridge", folds=5, verdict=verdict))
    assert "R² is never above 1" in said
    assert "2 of 5 folds" in said
    assert read_goal("R² > 90").measures[0].value == 0.9
    said = summary(read_goal("forecast y, MAPE < 5%"), given(zero_share=0.25, changes_sign=True))
    assert "25.0% of all" in said
    assert "both sides of 0" in said
    level = [{"model": "baseline", "r2": -0.01}, {"model": "ridge", "r2": 0.001}]
    said = summary(
        read_goal("what drives y?"), given(task="regression", target="y", scores=level, best="ridge", lead="r2")
    )
    assert "No model is better than the baseline to speak of" in said


def test_rows_without_the_target_are_said_to_be_left_out_and_a_cause_that_no_column_holds_is_not_answered() -> None:
    facts = given(task="regression", target="pay", missing={"pay": 7, "age": 2}, columns=["pay", "age"])
    said = comment("clean", read_goal("predict pay"), facts)
    assert "7 rows have no `pay`" in said
    assert "2 values are missing, in `age`" in said
    assert "not answered here" in summary(read_goal("Did the new law reduce pay?"), facts)
    assert "not answered here" not in summary(read_goal("Did age reduce pay?"), facts)


def test_the_target_in_steps_gives_it_away(tmp_path: Path) -> None:
    draw = random.Random(16)
    prices = [draw.uniform(10, 90) for _ in range(200)]
    rows = [("ABCDE"[int((price - 10) // 16)], draw.choice("NSEW"), draw.random(), round(price, 3)) for price in prices]
    found = run_cells(write(tmp_path / "bands.csv", "band,side,luck,price", rows), goal="predict price", last="audit")
    assert [one["columns"] for one in found["audit"]] == [["band"]]
    assert set(found["features"].columns) == {"side", "luck"}


def test_a_few_rows_far_from_all_others_are_no_group() -> None:
    said = comment("train", read_goal("overview"), given(groups=0, is_lonely=True))
    assert "a few lie far from all others" in said
    step = recipe().step("train")
    assert step is not None
    (groups,) = step.candidates["description"]
    pandas, numpy = importlib.import_module("pandas"), importlib.import_module("numpy")
    draw = random.Random(17)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(98)] + [(90.0, 90.0), (-80.0, 95.0)]
    told: dict[str, Any] = {}
    space = {"data": pandas.DataFrame(rows, columns=["a", "b"]), "numbers": ["a", "b"], "np": numpy, "pd": pandas}
    exec(groups.code, {**space, "plt": None, "show": lambda _, **facts: told.update(facts)})  # noqa: S102
    assert not told.get("groups")
