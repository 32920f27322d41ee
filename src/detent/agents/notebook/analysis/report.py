"""The report: an honest answer to the goal, every figure in it measured in the kernel."""

from typing import Any

from detent.agents.notebook.analysis.analysis_template import recipe
from detent.agents.notebook.analysis.data_evidence import describe_audit, describe_drivers
from detent.agents.notebook.analysis.forecast_text import describe_forecast
from detent.agents.notebook.analysis.goal import CLASSIFICATION, HOLDS, Goal, Measure, figure, label, render_measure
from detent.agents.notebook.analysis.kernel_figure import Facts
from detent.agents.notebook.analysis.narrative import comment, list_choices, target
from detent.agents.notebook.analysis.words import best_row, model_name, pick, plural, quote, why_not

LEVEL = 0.02  # R² or gain in accuracy below which a model is as good as none
RANKS_WELL = 0.6  # AUC from which on columns say something, whatever the accuracy


def outcome(goal: Goal, facts: Facts) -> str:
    """The answer in one line."""
    if not goal.measures:
        return pick(goal, "The goal names no figure to reach.", "目标没有给出可检验的指标。")
    said = facts.get("verdict") or []
    parts = [_verdict(goal, measure, _find_verdict(said, measure), facts) for measure in goal.measures]
    parts += [pick(goal, f"{one}: not looked at", f"{one}：未检验") for one in goal.unread]
    return pick(goal, "; ".join(parts), "；".join(parts))


def _find_verdict(verdict: list[dict[str, Any]], measure: Measure) -> dict[str, Any]:
    return next((one for one in verdict if (one["metric"], one["relation"]) == (measure.metric, measure.relation)), {})


def _verdict(goal: Goal, measure: Measure, said: dict[str, Any], facts: Facts) -> str:
    value = said.get("measured")
    if value is None:
        why = why_not(goal, facts) or pick(goal, "no model has this figure", "没有模型给出该指标")
        return pick(
            goal,
            f"{render_measure(measure)}: it could not be measured ({why})",
            f"{render_measure(measure)}：无法测量（{why}）",
        )
    met = pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
    return pick(
        goal,
        f"{render_measure(measure)}: {met}, measured {figure(measure.metric, value)} ({said.get('model')})",
        f"{render_measure(measure)}：{met}，"
        f"实测 {figure(measure.metric, value)}（{model_name(goal, said.get('model'))}）",
    )


def summary(goal: Goal, facts: Facts) -> str:
    """The whole report as Markdown."""
    parts = [_answer(goal, facts), *list_choices(goal, facts)]
    parts += describe_audit(goal, facts) + describe_forecast(goal, facts) + _models(goal, facts)
    parts += describe_drivers(goal, facts)
    for step_id, heading in (
        ("load", ("The data", "数据")),
        ("clean", ("Cleaning", "清洗")),
        ("relations", ("What goes together", "关联")),
    ):
        said = comment(step_id, goal, facts)
        if said and (step_id != "relations" or facts.get("strongest")):
            parts.append(f"**{pick(goal, *heading)}.** {said}" if goal.language == "en" else f"**{heading[1]}** {said}")
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
        text += _doubts(goal, facts, [])
        if target(goal, facts).how == "unasked":
            text += pick(goal, " ", "") + comment("prepare", goal, facts)
        if row:
            text += pick(
                goal,
                f" The best model for {quote(facts.get('target'))} is **{row['model']}**: {label(lead)} "
                f"{figure(lead, row.get(lead))}.",
                f"{quote(facts.get('target'))} 的最佳模型是"
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
    if not is_met and not any(one.get("measured") is not None for one in verdict):
        head = pick(goal, "**Nobody knows whether the goal is met.**", "**目标是否达到，无从得知。**")
    if is_met and facts.get("best") == "baseline":
        head = pick(
            goal,
            "✓ **The goal is met, and by the baseline**: the same answer for every row is enough.",
            "✓ **目标已达到，但靠的是基线**：对每一行给出同一个答案就够了。",
        )
    if is_met and goal.unread:
        head = pick(
            goal,
            "**What was measured is met; whether the whole goal is, was not looked at.**",
            "**已测量的指标均已达到；整个目标是否达到，未经检验。**",
        )
    header = pick(
        goal, "| wanted | measured | model | |\n|---|---|---|---|", "| 目标 | 实测 | 模型 | |\n|---|---|---|---|"
    )
    rows = []
    for measure in goal.measures:
        said = _find_verdict(verdict, measure)
        word = pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
        word = word if said.get("measured") is not None else pick(goal, "not measured", "未测量")
        model = model_name(goal, said.get("model") or "–")
        wanted = mark_measure(measure)
        spread = f" ± {_render_spread(measure.metric, said['±'])}" if said.get("±") is not None else ""
        rows.append(f"| {wanted} | {figure(measure.metric, said.get('measured'))}{spread} | {model} | {word} |")
    why = why_not(goal, facts)
    note = pick(goal, f"\n\nIt could not be measured: {why}.", f"\n\n无法测量：{why}。") if why and not is_met else ""
    return f"{asked}\n\n{head}\n\n{header}\n" + "\n".join(rows) + note + _doubts(goal, facts, verdict)


def _doubts(goal: Goal, facts: Facts, verdict: list[dict[str, Any]]) -> str:
    """What speaks against taking the answer at its word."""
    said = [
        pick(
            goal,
            f"The goal also says {quote(one)}: that was neither measured nor applied to the rows.",
            f"目标中还有 {quote(one)}：既未测量，也未用来筛选行。",
        )
        for one in goal.unread
    ]
    said += _list_odd_measures(goal, facts)
    for measure in goal.measures:
        found = _find_verdict(verdict, measure)
        naive = (facts.get("naive") or {}).get(measure.metric)  # of a forecast: what was there, repeated
        if naive is not None and HOLDS[measure.relation](naive, measure.value):
            said.append(
                pick(
                    goal,
                    f"{mark_measure(measure)} asks for little: "
                    f"what was there, repeated, has {figure(measure.metric, naive)}.",
                    f"{mark_measure(measure)} 要求不高：直接重复已有的值就有 {figure(measure.metric, naive)}。",
                )
            )
        elif found.get("easy"):
            said.append(
                pick(
                    goal,
                    f"{mark_measure(measure)} asks for little: the baseline, which has learned nothing, has "
                    f"{figure(measure.metric, found.get('baseline'))}.",
                    f"{mark_measure(measure)} 要求不高："
                    f"什么都没学的基线已有 {figure(measure.metric, found.get('baseline'))}。",
                )
            )
        elif found.get("narrow"):
            said.append(
                pick(
                    goal,
                    f"{mark_measure(measure)}: the folds differ so much that other rows could turn the answer.",
                    f"{mark_measure(measure)}：各折差异较大，换一批行结论可能改变。",
                )
            )
        said += _list_weak_parts(goal, facts, measure) if found.get("met") else []
    return "\n\n" + pick(goal, " ", "").join(f"⚠ {one}" for one in said) if said else ""


def _list_odd_measures(goal: Goal, facts: Facts) -> list[str]:
    """Measures that nothing can meet, that were taken in part, or that say little of such values."""
    said = [
        pick(
            goal,
            f"{label(measure.metric)} is never above 1: nothing can meet {mark_measure(measure)}.",
            f"{label(measure.metric)} 不会超过 1：{mark_measure(measure)} 不可能达到。",
        )
        for measure in goal.measures
        if measure.metric in (*CLASSIFICATION, "r2") and not HOLDS[measure.relation](1.0, measure.value)
    ]
    row, folds = best_row(facts), facts.get("folds") or 0
    if goal.measures and facts.get("task") != "forecast" and 0 < (row.get("folds") or folds) < folds:
        said.append(
            pick(
                goal,
                f"For want of time {row['model']} was measured on {row['folds']} of {folds} folds only: the other rows "
                "could turn the answer.",
                f"因时间限制，{model_name(goal, row['model'])}只在 {folds} 折中的 {row['folds']} 折上测量："
                "其余的行可能改变结论。",
            )
        )
    wants_mape = any(measure.metric == "mape" for measure in goal.measures)
    if wants_mape and facts.get("changes_sign"):
        said.append(
            pick(
                goal,
                "MAPE says little of values on both sides of 0: MAE says more here.",
                "数值有正有负，MAPE 意义不大：此处 MAE 更能说明问题。",
            )
        )
    if wants_mape and (zeros := facts.get("zero_share") or 0.0) > 0:
        said.append(
            pick(
                goal,
                f"MAPE leaves out the true values that are 0, {zeros:.1%} of all: MAE says more here.",
                f"MAPE 不计真实值为 0 的部分（占 {zeros:.1%}）：此处 MAE 更能说明问题。",
            )
        )
    return said


def _list_weak_parts(goal: Goal, facts: Facts, measure: Measure) -> list[str]:
    """Where a measure that is met on the whole is not met."""
    said = []
    weak = facts.get("weak_recall") if measure.metric == "recall" else None
    if weak is not None and not HOLDS[measure.relation](weak, measure.value):
        said.append(
            pick(
                goal,
                f"Recall is the mean over the classes; for {quote(facts.get('weak_class'))} alone it is "
                f"{figure('recall', weak)}: not met there.",
                f"召回率为各类别的平均；仅就类别 {quote(facts.get('weak_class'))} 而言为 "
                f"{figure('recall', weak)}：未达到。",
            )
        )
    later = (facts.get("later") or {}).get(measure.metric)
    if later is not None and not HOLDS[measure.relation](later, measure.value):
        said.append(
            pick(
                goal,
                f"On the latest fifth of the rows ({quote(facts.get('when'))} from {facts.get('since')}), after "
                f"learning from the earlier ones, it is {figure(measure.metric, later)}: not met there.",
                f"只用较早的行训练，在最近五分之一的行（{quote(facts.get('when'))} 自 {facts.get('since')}）测试，"
                f"结果为 {figure(measure.metric, later)}：未达到。",
            )
        )
    return said


def _models(goal: Goal, facts: Facts) -> list[str]:
    scores = facts.get("scores") or []
    if not scores:
        said = comment("train", goal, facts)
        return [said] if said else []
    names = {"regression": ["rmse", "mae", "mape", "r2"], "forecast": ["rmse", "mae", "mape", "mase"]}.get(
        str(facts.get("task")), ["accuracy", "f1", "auc"]
    )
    names += [m.metric for m in goal.measures if m.metric not in names and scores[0].get(m.metric) is not None]
    head = f"| {pick(goal, 'model', '模型')} | " + " | ".join(label(name) for name in names) + " |"
    lines = [head, "|---|" + "---:|" * len(names)]
    for row in scores:
        is_best = row.get("model") == facts.get("best")
        model = model_name(goal, row.get("model"))
        done, folds = row.get("folds") or 0, facts.get("folds") or 0
        if facts.get("task") != "forecast" and done < folds:
            model += pick(goal, f" ({done} of {folds} folds)", f"（{folds} 折中的 {done} 折）")
        cells = " | ".join(figure(name, row.get(name)) for name in names)
        lines.append(f"| {f'**{model}**' if is_best else model} | {cells} |")
    is_forecast = facts.get("task") == "forecast"
    title_ = pick(
        goal,
        f"**Models**, each measured {facts.get('tested_horizon')} "
        f"{plural('step', 'steps', facts.get('tested_horizon') or 0)} ahead from origins in the past:"
        if is_forecast
        else f"**Models**, measured on rows they were not trained on ({facts.get('folds')}-fold; ± is the spread):",
        f"**模型**（在过去的各个起点上，分别向前预测 {facts.get('tested_horizon')} 步）："
        if is_forecast
        else f"**模型**（{facts.get('folds')} 折交叉验证，均在未参与训练的行上测量；± 为各折的标准差）：",
    )
    found = [title_ + "\n\n" + "\n".join(lines)]
    if facts.get("best") != "baseline" and _is_level(facts, scores[0], best_row(facts)):
        found.append(
            pick(
                goal,
                f"**No model is better than the baseline to speak of**: these columns hardly say anything about "
                f"{quote(facts.get('target'))}, and what follows is about a model that knows next to nothing.",
                f"**没有模型明显优于基线**：这些列几乎不能说明 {quote(facts.get('target'))}，"
                "下面说的是一个几乎一无所知的模型。",
            )
        )
    if facts.get("best") == "baseline":
        ranked = max(scores, key=lambda row: row.get("auc") or 0.0)
        lead, auc = label(str(facts.get("lead"))), ranked.get("auc") or 0.0
        found.append(
            pick(
                goal,
                "**No model does better than the baseline**: these columns hardly say anything about the target.",
                "**没有模型优于基线**：这些列几乎不能说明目标。",
            )
            if auc < RANKS_WELL
            else pick(
                goal,
                f"**No model has a better {lead} than the baseline**, but the columns do say something: "
                f"{ranked['model']} ranks the rows with AUC {auc:.3f} (0.5 is chance), which {lead} does not show.",
                f"**没有模型的 {lead} 优于基线**，但这些列并非毫无用处：{model_name(goal, ranked['model'])}"
                f"的排序 AUC 为 {auc:.3f}（0.5 为随机），{lead} 看不出这一点。",
            )
        )
    return found


def _is_level(facts: Facts, base: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether the best model is as good as none: it explains nothing, or neither ranks rows nor hits more of them."""
    if facts.get("task") == "regression":
        return (row.get("r2") or 0.0) < LEVEL
    gain = (row.get("accuracy") or 0.0) - (base.get("accuracy") or 0.0)
    return facts.get("task") == "classification" and gain < LEVEL and (row.get("auc") or 1.0) < RANKS_WELL


def _render_spread(metric: str, value: float) -> str:
    """A spread in two figures: more of them would say more than is known."""
    is_share = figure(metric, 0.5).endswith("%")
    rounded = float(f"{value * (100 if is_share else 1):.2g}")
    return f"{rounded:g} %" if is_share else f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def mark_measure(measure: Measure) -> str:
    """A measure in Markdown."""
    return render_measure(measure).replace("<", "&lt;")


def _list_untried(goal: Goal, facts: Facts) -> list[str]:
    step, scores = recipe().step("train"), facts.get("scores") or []
    candidates = step.candidates.get(str(facts.get("task")), ()) if step else ()
    last = str(scores[-1].get("model")).lower() if scores else ""
    last = "mean of" if last.startswith("mean of") else last
    at = next((at for at, one in enumerate(candidates) if last in one.title.en.lower()), None)
    left = [one.title.say(goal.language) for one in candidates[at + 1 :]] if at is not None else []
    if not left or not facts.get("goal_met"):
        return []
    names = pick(goal, ", ", "、").join(name if name.isupper() else name[:1].lower() + name[1:] for name in left)
    return [
        pick(
            goal,
            f"Once the goal was met, no further model was tried; {names} might do better.",
            f"目标达到后没有再试其他模型；{names}也许更好。",
        )
    ]


def _times(goal: Goal, facts: Facts) -> list[str]:
    later, lead = facts.get("later") or {}, str(facts.get("lead") or "")
    if later.get(lead) is None:
        return []
    when, value = quote(facts.get("when")), figure(lead, later[lead])
    return [
        pick(
            goal,
            f"Rows of all times were mixed; trained on the past and tested on the latest fifth by {when}, "
            f"{label(lead)} is {value}.",
            f"交叉验证混合了各个时间的行；若用过去训练、在 {when} 最近的五分之一上测试，{label(lead)} 为 {value}。",
        )
    ]


def _limits(goal: Goal, facts: Facts) -> list[str]:
    lines = _list_untried(goal, facts) + _times(goal, facts)
    if facts.get("weak_class") is not None and (facts.get("weak_recall") or 0) < 0.5:
        name, share = quote(facts.get("weak_class")), figure("recall", facts.get("weak_recall"))
        lines.append(
            pick(
                goal,
                f"The class {name} is hardly recognised: of its rows, {share} are found.",
                f"类别 {name} 几乎识别不出：只找到其中 {share} 的行。",
            )
        )
    if len(facts.get("scores") or []) > 2:  # the baseline is one of them
        lines.append(
            pick(
                goal,
                "The best of several models was chosen with the figures shown, which flatters it a little; "
                "a figure from new data would be the proof.",
                "最佳模型是用同一组指标挑选的，结果略偏乐观；最可靠的验证是新的数据。",
            )
        )
    is_forecast = facts.get("task") == "forecast"
    if not is_forecast and any(
        (row.get("folds") or 0) < (facts.get("folds") or 0) for row in facts.get("scores") or []
    ):
        lines.append(
            pick(
                goal,
                "Some models were measured on fewer folds, to keep to their time.",
                "部分模型因时间限制只完成了部分折。",
            )
        )
    for step_id, error in facts.errors.items():
        step = recipe().step(step_id)
        name = step.title.say(goal.language) if step else step_id
        lines.append(pick(goal, f"A cell failed in “{name}”: {quote(error)}", f"“{name}”中有单元失败：{quote(error)}"))
    said = [f"{pick(goal, '**Limits.**', '**局限**')} " + " ".join(lines)] if lines else []
    files = facts.get("delivered") or []
    if files:
        names = ", ".join(quote(name) for name in files)
        said.append(pick(goal, f"**Files** beside the notebook: {names}.", f"**文件**（在笔记本旁边）：{names}。"))
    return said
