"""What was found about the data itself: columns that give the answer away, and what moves the target."""

from typing import Any

from detent.agents.notebook.analysis.goal import Goal, columns_named_in, figure, label
from detent.agents.notebook.analysis.kernel_figure import Facts
from detent.agents.notebook.analysis.words import best_row, list_names, pick, quote

TOO_GOOD = {"r2": 0.995, "accuracy": 0.998, "auc": 0.9995}
SURE = 0.995
DONE_ZH = {"left out": "未用于建模", "kept": "保留，因为目标点名", "kept apart": "训练与测试分开",
           "used all the same: a name is no proof, look at it": "仍然使用：列名不是证据，请核实",
           "used all the same: look whether it is known before the answer is":
           "仍然使用：请确认它在答案之前就已知"}  # fmt: skip


def describe_audit(goal: Goal, facts: Facts) -> list[str]:
    """What gives the answer away, each with the test that shows it; and a score that is too good to be believed."""
    rows: list[dict[str, Any]] = facts.get("audit") or []
    said = []
    if rows:
        head = pick(
            goal, "⚠ **Columns that may give the answer away**, each with a test:", "⚠ **可能泄露答案的列**，各附检验："
        )
        lines = [
            f"- {list_names(goal, one['columns'])}: {quote(one['test'])} ({one['figure']}); "
            f"{pick(goal, one.get('done', ''), DONE_ZH.get(one.get('done', ''), ''))}"
            for one in rows
        ]
        said.append(head + "\n\n" + "\n".join(lines))
    best = best_row(facts)
    for metric, bar in TOO_GOOD.items():
        value = best.get(metric)
        is_lucky = (
            metric == "auc" and (best.get("accuracy") or 0) < SURE
        )  # classes in order, and still mistaken at times
        if facts.get("task") in ("regression", "classification") and value is not None and value > bar and not is_lucky:
            top = [name for name, _ in facts.get("importance") or []][:1]
            said.append(
                pick(
                    goal,
                    f"⚠ **{label(metric)} {figure(metric, value)} is better than real data usually allows**: look "
                    f"whether {list_names(goal, top) or 'some column'} is known before the answer is.",
                    f"⚠ **{label(metric)} {figure(metric, value)} 好得不像真实数据**：请确认 "
                    f"{list_names(goal, top) or '某一列'} 在答案之前就已知。",
                )
            )
            break
    return said


def describe_drivers(goal: Goal, facts: Facts) -> list[str]:
    """What the target goes with: signed, with intervals; what is within the noise is not called important."""
    if facts.get("task") not in ("regression", "classification") or facts.get("best") == "baseline":
        return []
    solid = facts.get("solid") or []
    said = []
    if solid:
        said.append(
            pick(
                goal,
                f"The best model relies most on {list_names(goal, solid)}; no other column matters beyond the "
                "noise of the measurement."
                if len(solid) < 6
                else f"The best model relies most on {list_names(goal, solid)}.",
                f"最佳模型最依赖 {list_names(goal, solid)}。",
            )
        )
    elif facts.get("importance"):
        said.append(
            pick(
                goal,
                "Without any single one of the columns the best model would do about as well: what each adds is within "
                "the noise of the measurement.",
                "缺少任何单独一列，最佳模型的表现都相差无几：各列的贡献在测量噪声之内。",
            )
        )
    said += _tell_twins(goal, facts.get("twins") or {})
    asked = columns_named_in(goal, facts.get("columns") or [])
    effects = [one for one in facts.get("effects") or [] if one[2] > 0 or one[3] < 0 or one[0] in asked][:5]
    parts = []
    if effects:
        kind = facts.get("effect_on")
        what = quote(facts.get("target")) + (f" = {quote(kind)}" if kind else "")
        unit = pick(goal, " in log-odds", "（对数几率）") if kind else ""
        head = pick(
            goal,
            f"**Direction**: the change of {what}{unit}, with the other columns held equal, in a linear model "
            "(95 % interval):",
            f"**方向**：其他列保持不变时 {what} 的变化{unit}，线性模型（95 % 区间）：",
        )
        parts.append(head + "\n\n" + "\n".join(_tell_effect(goal, *one) for one in effects))
    blurred = facts.get("blurred") or []
    if blurred:
        names = list_names(goal, blurred)
        parts.append(
            pick(
                goal,
                f"No direction is told for {names}: the other columns nearly add up to it and cannot be held equal.",
                f"{names} 不给出方向：其他列几乎可以算出它，无法“保持其他列不变”。",
            )
        )
    if solid or effects:
        said.append(
            pick(
                goal,
                "These are associations: they say what goes together, not what would happen if somebody changed it.",
                "以上是关联：说明什么与什么一起出现，并不说明改变它会带来什么。",
            )
        )
    return [(" " if goal.language == "en" else "").join(said), *parts] if said else parts


def _tell_twins(goal: Goal, twins: dict[str, list[str]]) -> list[str]:
    """Columns that move together: a model can take one of them for another."""
    said = []
    told: set[str] = set()
    for name, others in twins.items():
        if name in told or {*others} <= told:
            continue
        told |= {name, *others}
        said.append(
            pick(
                goal,
                f"{quote(name)} moves together with {list_names(goal, others)}: a model can take one for another, and "
                "how much each of them matters cannot be told apart.",
                f"{quote(name)} 与 {list_names(goal, others)} 同步变化：模型可以用其一代替其他，各自的作用无法区分。",
            )
        )
    return said


def _tell_effect(goal: Goal, name: str, middle: float, low: float, high: float, word: str = "", usual: str = "") -> str:
    """One line: of a number one standard deviation more, of words one instead of the commonest."""
    more = pick(goal, f"{quote(name)}, one standard deviation more", f"{quote(name)} 增加一个标准差")
    other = pick(
        goal,
        f"{quote(name)} {quote(word)} instead of {quote(usual)}",
        f"{quote(name)} 为 {quote(word)}（而非 {quote(usual)}）",
    )
    colon = pick(goal, ":", "：")
    doubt = "" if low > 0 or high < 0 else pick(goal, ", so there may be none", "，因此可能没有作用")
    return f"- {other if word else more}{colon} {_sign(middle)} ({_sign(low)} … {_sign(high)}){doubt}"


def _sign(value: float) -> str:
    """An effect with its sign, as a person reads it."""
    return f"{value:+,.0f}" if abs(value) >= 1000 else f"{value:+.3g}"
