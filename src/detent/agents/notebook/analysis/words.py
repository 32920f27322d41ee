"""Words that the comments and the report share, in English and Chinese."""

import re
from typing import Any

from detent.agents.notebook.analysis.goal import Goal
from detent.agents.notebook.analysis.kernel_figure import Facts

NAMES_MAX = 8  # columns named in one sentence
MODELS = {
    "baseline": "基线",
    "ridge": "岭回归",
    "random forest": "随机森林",
    "gradient boosting": "梯度提升",
    "boosting, transformed target": "变换目标的梯度提升",
    "logistic regression": "逻辑回归",
    "support vectors": "支持向量机",
    "last value again": "沿用上一个值",
    "seasonal value again": "沿用上一季的值",
    "drift": "漂移",
    "exponential smoothing": "指数平滑",
    "theta": "Theta 方法",
    "gradient boosting on lags": "基于滞后值的梯度提升",
}

PLOT_WORDS = {  # what is written into plots; an analysis in Chinese has these where a font shows them
    **MODELS,
    "mean of ": "平均：",
    "rows": "行数",
    "{} (target)": "{}（目标）",
    "rank correlation": "秩相关",
    "group {}": "第 {} 组",
    "first component": "第一主成分",
    "second component": "第二主成分",
    "{}, expected": "{}（期望值）",
    "chance": "概率",
    "partial dependence: all else as it is": "部分依赖：其他列保持不变",
    "what the best model relies on": "最佳模型依赖的列",
    "loss of {} when the column is shuffled": "打乱该列后 {} 的损失",
    "accuracy": "准确率",
    "{}: on the line is right": "{}：落在线上即正确",
    "{}: on the diagonal is right": "{}：对角线上即正确",
    "{}, true": "{}（真实值）",
    "predicted, row not seen in training": "预测值（该行未参与训练）",
    "past": "过去",
    "forecast": "预测",
}

WHYS = (  # what the kernel says in English, for readers of Chinese
    (r"scikit-learn is not installed in this kernel", "内核中没有安装 scikit-learn"),
    (r"no column was asked for, and none can be predicted", "目标没有指定列，也没有可预测的列"),
    (r"only (\d+) rows have a value in (.+); a model needs at least (\d+)", r"只有 \1 行的 \2 有值，模型至少需 \3 行"),
    (r"(.+) holds no numbers, and the goal asks for an error in numbers", r"\1 不是数值列，而目标要求数值误差"),
    (r"(.+) holds no numbers, and only numbers can be forecast", r"\1 不是数值列，只有数值可以预测"),
    (r"(.+) has (\d+) different values, too many for classes", r"\1 有 \2 个不同的值，作为类别过多"),
    (r"(.+) has fewer than two classes with enough rows", r"\1 中行数足够的类别不到两个"),
    (r"(.+) is the same in every row", r"\1 在每一行都相同"),
    (r"there is no column to predict (.+) from", r"没有可用来预测 \1 的列"),
)


def pick(goal: Goal, en: str, zh: str) -> str:
    """A sentence in the language of the goal."""
    return zh if goal.language == "zh" else en


def plural(one: str, many: str, count: int) -> str:
    """The word for so many."""
    return one if count == 1 else many


def quote(text: Any, most: int = 80) -> str:
    """A text as inline code: names of columns come from the file and must not become markup."""
    shown = " ".join(str(text).replace("`", "ˋ").split())[:most]
    return f"`{shown}`"


def list_names(goal: Goal, names: Any) -> str:
    """Names of columns in one sentence, not too many."""
    found = [quote(name) for name in names]
    rest = len(found) - NAMES_MAX
    text = pick(goal, ", ", "、").join(found[:NAMES_MAX])
    return text if rest <= 0 else text + pick(goal, f" and {rest} more", f"等 {len(found)} 列")


def why_not(goal: Goal, facts: Facts) -> str:
    """Why there is no model; "" if there is one, or nobody wanted it."""
    said = str(facts.get("why") or "")
    for pattern, chinese in WHYS if goal.language == "zh" else ():
        said = re.sub(rf"\A{pattern}\Z", chinese, said)
    return said


def model_name(goal: Goal, name: Any) -> str:
    """A model in the language of the goal."""
    said = str(name)
    if goal.language == "zh" and said.startswith("mean of "):
        return "、".join(MODELS.get(one, one) for one in said.removeprefix("mean of ").split(", ")) + "的平均"
    return MODELS.get(said, said) if goal.language == "zh" else said


def best_row(facts: Facts) -> dict[str, Any]:
    """The figures of the best trial; {} if there was none."""
    scores = facts.get("scores") or []
    return next((row for row in reversed(scores) if row.get("model") == facts.get("best")), {})
