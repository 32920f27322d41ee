"""Goals in people's own words, in two languages: figures, targets, and what is left open."""

import pytest

from detent.agents.notebook.analysis.goal import columns_named_in, figure, nearest, read_goal, render_measure, target_of
from detent.agents.notebook.analysis.kernel_figure import FACTS, Facts
from detent.agents.notebook.analysis.report import outcome, summary

HOUSES = ["house_id", "LotArea", "rooms", "SalePrice", "price"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("predict price, RMSE < 25000", [("rmse", "<", 25_000)]),
        ("RMSE below 25,000 and R² > 0.85", [("rmse", "<", 25_000), ("r2", ">", 0.85)]),
        ("RMSE under 25k", [("rmse", "<", 25_000)]),
        ("R^2 of at least 85%", [("r2", ">=", 0.85)]),
        ("accuracy > 90%", [("accuracy", ">", 0.9)]),
        ("accuracy above 90", [("accuracy", ">", 0.9)]),
        ("an accuracy of 0.9", [("accuracy", ">=", 0.9)]),
        ("balanced accuracy ≥ 80 %", [("balanced_accuracy", ">=", 0.8)]),
        ("F1-score at least 0.8, AUC >= 0.9", [("f1", ">=", 0.8), ("auc", ">=", 0.9)]),
        ("MAPE ≤ 5%", [("mape", "<=", 0.05)]),
        ("MAPE < 0.05", [("mape", "<", 0.05)]),
        ("mean absolute error should be less than 3.5", [("mae", "<", 3.5)]),
        ("recall > 70 percent; precision > 60 percent", [("recall", ">", 0.7), ("precision", ">", 0.6)]),
        ("预测房价，均方根误差小于2.5万", [("rmse", "<", 25_000)]),
        ("准确率不低于95%", [("accuracy", ">=", 0.95)]),
        ("R²达到0.9，RMSE 不超过 100", [("r2", ">=", 0.9), ("rmse", "<=", 100)]),
        ("平均绝对误差低于 3", [("mae", "<", 3)]),
        ("F1值大于0.8", [("f1", ">", 0.8)]),
        ("RMSE ＜ 1e3", [("rmse", "<", 1000)]),
        ("classify it with >95% accuracy", [("accuracy", ">", 0.95)]),
        ("at least 90% accuracy and 0.8 recall", [("accuracy", ">=", 0.9), ("recall", ">=", 0.8)]),
        ("R2 0.9+, RMSE 25k or less", [("r2", ">=", 0.9), ("rmse", "<=", 25_000)]),
        ("MAPE 5 % or better, a mean absolute error under $500", [("mape", "<=", 0.05), ("mae", "<", 500)]),
        ("准确率 95% 以上，均方误差 10 以下", [("accuracy", ">=", 0.95), ("mse", "<=", 10)]),
        ("90%以上的准确率", [("accuracy", ">=", 0.9)]),
        ("in 2015 accuracy fell", []),
        ("make something nice", []),
        ("the farm < 3 and macramé > 2", []),
    ],
)
def test_figures_are_read_from_words(text: str, wanted: list[tuple[str, str, float]]) -> None:
    found = read_goal(text).measures
    assert [(one.metric, one.relation) for one in found] == [(metric, relation) for metric, relation, _ in wanted]
    assert [one.value for one in found] == pytest.approx([value for _, _, value in wanted])


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("predict price, RMSE < 4 and bias below 0.1", ("bias below 0.1",)),
        ("predict survived for passengers over 60, accuracy > 80 %", ("passengers over 60",)),
        ("预测年限大于 10 的人的年薪，R² 大于 0.9", ("预测年限大于 10",)),
        ("forecast sales over 12 months, MAPE < 5 %", ()),
        ("predict price, RMSE < 25000, R² > 0.8", ()),
    ],
)
def test_what_a_goal_compares_beside_its_figures_is_not_passed_over(text: str, unread: tuple[str, ...]) -> None:
    goal = read_goal(text)
    assert goal.unread == unread
    met = Facts([{"outputs": [{"data": {FACTS: {"goal_met": True, "verdict": [], "task": "regression"}}}]}])
    assert ("The goal is met" in summary(goal, met) or "目标已达到" in summary(goal, met)) is (not unread)
    assert all(one in outcome(goal, met) for one in unread)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("predict price, RMSE < 25000", "price"),
        ("predict the sale price from LotArea and rooms", "SalePrice"),
        ("Use LotArea to forecast rooms", "rooms"),
        ("what drives LotArea?", "LotArea"),
        ("根据 LotArea 预测 SalePrice", "SalePrice"),
        ("predict whatever you can", "price"),
        ("accuracy > 0.9", "price"),
        ("give me an overview", None),
    ],
)
def test_the_target_is_the_column_that_is_named_else_the_last_fit_one(text: str, target: str | None) -> None:
    assert target_of(read_goal(text), HOUSES, {}).column == target


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("predict price", ("price", "named", "")),
        ("predict the survival", ("Survived", "similar", "survival")),
        ("predict ages", ("Age", "named", "")),
        ("predict how many passengers survive", ("Survived", "similar", "passengers survive")),
        ("predict salary, RMSE < 5", (None, "missing", "salary")),
        ("estimate the sallary with MAE of 3", (None, "missing", "sallary")),
        ("预测 工资，RMSE 低于 5", ("price", "last", "工资")),  # the file does not speak the goal's language
        ("classify passengers", ("price", "last", "")),
        ("predict it", ("price", "last", "")),
        ("tell me something interesting", (None, "unasked", "")),
        ("which customers will churn next month? accuracy > 90%", (None, "unasked", "")),
        ("accuracy > 90%", ("price", "last", "")),
        ("", (None, "unasked", "")),
        ("what is the fare about?", ("Fare", "named", "")),
    ],
)
def test_what_is_not_in_the_file_is_never_replaced_by_something_else(text: str, found: tuple[str, str, str]) -> None:
    assert target_of(read_goal(text), ["Age", "Fare", "Survived", "price"], {}) == found


def test_a_slip_of_the_hand_is_recognised() -> None:
    assert nearest("sallary", ["age", "Salary"]) == "Salary"
    assert nearest("zebra", ["age", "Salary"]) == ""
    assert columns_named_in(read_goal("predict price from lot area"), HOUSES) == ["LotArea", "price"]
    assert [read_goal(text).is_forecast for text in ("forecast sales", "预测未来的销量", "predict y")] == [
        True,
        True,
        False,
    ]


def test_a_column_that_cannot_be_predicted_is_not_taken_by_default() -> None:
    roles = {"a": "number", "b": "category", "when": "date", "note": "text", "void": "empty"}
    assert target_of(read_goal("predict something"), roles, roles).column == "b"
    assert target_of(read_goal("predict something"), ["note"], {"note": "text"}).column is None
    assert target_of(read_goal("预测 房价"), ["面积", "房价", "备注"], {}).column == "房价"


@pytest.mark.parametrize(
    ("text", "task", "language"),
    [
        ("predict y, RMSE < 1", "regression", "en"),
        ("classify y", "classification", "en"),
        ("y with accuracy > 0.9", "classification", "en"),
        ("聚类并描述数据", "description", "zh"),
        ("predict y", "", "en"),
        ("describe, then predict y", "", "en"),
    ],
)
def test_task_and_language_follow_the_words(text: str, task: str, language: str) -> None:
    goal = read_goal(text)
    assert (goal.task, goal.language) == (task, language)


def test_figures_are_written_as_people_read_them() -> None:
    assert render_measure(read_goal("RMSE <= 25000").measures[0]) == "RMSE ≤ 25,000"
    assert render_measure(read_goal("accuracy > 0.955").measures[0]) == "accuracy > 95.5 %"
    assert [figure("r2", 0.91834), figure("mae", 3.14159), figure("mape", None)] == ["0.918", "3.142", "–"]
