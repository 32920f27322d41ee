"""The report: an honest answer to the goal, every figure in it measured in the kernel."""

from typing import Any

from detent.agents.notebook.analysis.fact import Facts
from detent.agents.notebook.analysis.goal import Goal, Measure, figure, label, spoken
from detent.agents.notebook.analysis.narrative import comment
from detent.agents.notebook.analysis.recipe import recipe
from detent.agents.notebook.analysis.words import best_row, listed, model_name, pick, quoted, why_not


def outcome(goal: Goal, facts: Facts) -> str:
    """The answer in one line."""
    if not goal.measures:
        return pick(goal, "The goal names no figure to reach.", "目标没有给出可检验的指标。")
    said = facts.get("verdict") or []
    parts = [_verdict(goal, measure, _said(said, measure), facts) for measure in goal.measures]
    return pick(goal, "; ".join(parts), "；".join(parts))


def _said(verdict: list[dict[str, Any]], measure: Measure) -> dict[str, Any]:
    return next((one for one in verdict if (one["metric"], one["relation"]) == (measure.metric, measure.relation)), {})


def _verdict(goal: Goal, measure: Measure, said: dict[str, Any], facts: Facts) -> str:
    value = said.get("measured")
    if value is None:
        why = why_not(goal, facts) or pick(goal, "no model has this figure", "没有模型给出该指标")
        return pick(
            goal,
            f"{spoken(measure)}: not met, it could not be measured ({why})",
            f"{spoken(measure)}：未达到，无法测量（{why}）",
        )
    met = pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
    return pick(
        goal,
        f"{spoken(measure)}: {met}, measured {figure(measure.metric, value)} ({said.get('model')})",
        f"{spoken(measure)}：{met}，实测 {figure(measure.metric, value)}（{model_name(goal, said.get('model'))}）",
    )


def summary(goal: Goal, facts: Facts) -> str:
    """The whole report as Markdown."""
    parts = [_answer(goal, facts)]
    for step_id, heading in (
        ("load", ("The data", "数据")),
        ("clean", ("Cleaning", "清洗")),
        ("relations", ("What goes together", "关联")),
    ):
        said = comment(step_id, goal, facts)
        if said:
            parts.append(f"**{pick(goal, *heading)}.** {said}" if goal.language == "en" else f"**{heading[1]}** {said}")
    parts += _models(goal, facts)
    parts += _limits(goal, facts)
    return "\n\n".join(parts)


def _answer(goal: Goal, facts: Facts) -> str:
    asked = pick(goal, "**Goal:** ", "**目标**：") + " ".join(goal.text.split())[:500].replace("<", "&lt;")
    if not goal.measures:
        row, lead = best_row(facts), str(facts.get("lead") or "")
        text = pick(
            goal,
            "The goal names no figure to reach, so there is none to meet or to miss.",
            "目标没有给出可检验的指标，因此不存在达到与否。",
        )
        if row:
            text += pick(
                goal,
                f" The best model for {quoted(facts.get('target'))} is **{row['model']}**: {label(lead)} "
                f"{figure(lead, row.get(lead))}.",
                f"{quoted(facts.get('target'))} 的最佳模型是"
                f"**{model_name(goal, row['model'])}**：{label(lead)} {figure(lead, row.get(lead))}。",
            )
        return f"{asked}\n\n{text}"
    verdict = facts.get("verdict") or []
    is_met = bool(facts.get("goal_met"))
    head = pick(
        goal,
        "✓ **The goal is met.**" if is_met else "✗ **The goal is not met.**",
        "✓ **目标已达到。**" if is_met else "✗ **目标未达到。**",
    )
    header = pick(
        goal, "| wanted | measured | model | |\n|---|---|---|---|", "| 目标 | 实测 | 模型 | |\n|---|---|---|---|"
    )
    rows = []
    for measure in goal.measures:
        said = _said(verdict, measure)
        word = pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
        model = model_name(goal, said.get("model") or "–")
        wanted = spoken(measure).replace("<", "&lt;")
        rows.append(f"| {wanted} | {figure(measure.metric, said.get('measured'))} | {model} | {word} |")
    why = why_not(goal, facts)
    note = pick(goal, f"\n\nIt could not be measured: {why}.", f"\n\n无法测量：{why}。") if why and not is_met else ""
    return f"{asked}\n\n{head}\n\n{header}\n" + "\n".join(rows) + note


def _models(goal: Goal, facts: Facts) -> list[str]:
    scores = facts.get("scores") or []
    if not scores:
        said = comment("train", goal, facts)
        return [said] if said else []
    names = ["rmse", "mae", "mape", "r2"] if facts.get("task") == "regression" else ["accuracy", "f1", "auc"]
    names += [m.metric for m in goal.measures if m.metric not in names and scores[0].get(m.metric) is not None]
    head = f"| {pick(goal, 'model', '模型')} | " + " | ".join(label(name) for name in names) + " |"
    lines = [head, "|---|" + "---:|" * len(names)]
    for row in scores:
        is_best = row.get("model") == facts.get("best")
        model = model_name(goal, row.get("model"))
        cells = " | ".join(figure(name, row.get(name)) for name in names)
        lines.append(f"| {f'**{model}**' if is_best else model} | {cells} |")
    title_ = pick(
        goal,
        f"**Models**, measured on rows they were not trained on ({facts.get('folds')}-fold):",
        f"**模型**（{facts.get('folds')} 折交叉验证，均在未参与训练的行上测量）：",
    )
    found = [title_ + "\n\n" + "\n".join(lines)]
    top = [name for name, value in facts.get("importance") or [] if value > 0][:5]
    if top:
        found.append(
            pick(goal, f"The best model relies most on {listed(goal, top)}.", f"最佳模型最依赖 {listed(goal, top)}。")
        )
    return found


def _limits(goal: Goal, facts: Facts) -> list[str]:
    lines = []
    if len(facts.get("scores") or []) > 2:  # the baseline is one of them
        lines.append(
            pick(
                goal,
                "The best of several models was chosen with the figures shown, which flatters it a little; "
                "a figure from new data would be the proof.",
                "最佳模型是用同一组指标挑选的，结果略偏乐观；最可靠的验证是新的数据。",
            )
        )
    if any((row.get("folds") or 0) < (facts.get("folds") or 0) for row in facts.get("scores") or []):
        lines.append(
            pick(
                goal,
                "Some models were measured on fewer folds, to keep to their time.",
                "部分模型因时间限制只完成了部分折。",
            )
        )
    for step_id, error in facts.errors.items():
        step = recipe().step(step_id)
        name = step.title.said(goal.language) if step else step_id
        lines.append(
            pick(goal, f"A cell failed in “{name}”: {quoted(error)}", f"“{name}”中有单元失败：{quoted(error)}")
        )
    if not lines:
        return []
    head = pick(goal, "**Limits.**", "**局限**")
    return [f"{head} " + " ".join(lines)]
