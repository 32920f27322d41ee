"""The words of the report, in English and Chinese: every figure in them was measured in the kernel."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from detent.agents.notebook.analysis.fact import Facts
from detent.agents.notebook.analysis.goal import Goal, Measure, figure, label, spoken
from detent.agents.notebook.analysis.recipe import recipe

NAMES_MAX = 8  # columns named in one sentence
MODELS = {
    "baseline": "基线",
    "ridge": "岭回归",
    "random forest": "随机森林",
    "gradient boosting": "梯度提升",
    "boosting, transformed target": "变换目标的梯度提升",
    "logistic regression": "逻辑回归",
    "support vectors": "支持向量机",
}


WHYS = (  # what the kernel says in English, for readers of Chinese
    (r"scikit-learn is not installed in this kernel", "内核中没有安装 scikit-learn"),
    (r"no column was asked for, and none can be predicted", "目标没有指定列，也没有可预测的列"),
    (r"only (\d+) rows have a value in (.+); a model needs at least 30", r"只有 \1 行的 \2 有值，模型至少需要 30 行"),
    (r"(.+) holds no numbers, and the goal asks for an error in numbers", r"\1 不是数值列，而目标要求数值误差"),
    (r"(.+) has (\d+) different values, too many for classes", r"\1 有 \2 个不同的值，作为类别过多"),
    (r"(.+) has fewer than two classes with enough rows", r"\1 中行数足够的类别不到两个"),
    (r"(.+) is the same in every row", r"\1 在每一行都相同"),
    (r"there is no column to predict (.+) from", r"没有可用来预测 \1 的列"),
)


def title(goal: Goal, data_file: str) -> str:
    """The notebook's title."""
    name = PurePath(data_file).name
    return f"{name}：数据分析" if goal.language == "zh" else f"Analysis of {name}"


def _pick(goal: Goal, en: str, zh: str) -> str:
    return zh if goal.language == "zh" else en


def _code(text: Any) -> str:
    """A text as inline code: names of columns come from the file and must not become markup."""
    shown = " ".join(str(text).replace("`", "ˋ").split())[:80]
    return f"`{shown}`"


def _listed(goal: Goal, names: Any) -> str:
    found = [_code(name) for name in names]
    rest = len(found) - NAMES_MAX
    text = _pick(goal, ", ", "、").join(found[:NAMES_MAX])
    return text if rest <= 0 else text + _pick(goal, f" and {rest} more", f"等 {len(found)} 列")


def _why(goal: Goal, facts: Facts) -> str:
    """Why there is no model; "" if there is one, or nobody wanted it."""
    said = str(facts.get("why") or "")
    for pattern, chinese in WHYS if goal.language == "zh" else ():
        said = re.sub(rf"\A{pattern}\Z", chinese, said)
    return said


def _model(goal: Goal, name: Any) -> str:
    return MODELS.get(str(name), str(name)) if goal.language == "zh" else str(name)


def comment(step_id: str, goal: Goal, facts: Facts) -> str:
    """What a step has shown, in a few sentences; "" if there is nothing to say."""
    if step_id in facts.errors and step_id in ("distribution", "relations"):
        return _pick(
            goal,
            f"This step failed and was left behind: {_code(facts.errors[step_id])}",
            f"这一步失败，已跳过：{_code(facts.errors[step_id])}",
        )
    say = COMMENTS.get(step_id)
    return say(goal, facts) if say else ""


def _loaded(goal: Goal, facts: Facts) -> str:
    if facts.get("rows") is None:
        return ""
    rows, width = f"{facts.get('rows'):,}", facts.get("width")
    mark = {"\t": "tab", "": ""}.get(facts.get("delimiter") or "", facts.get("delimiter"))
    how = (
        _pick(
            goal,
            f" It was read with the delimiter {_code(mark)} and the encoding {facts.get('encoding')}.",
            f"分隔符为 {_code(mark)}，编码为 {facts.get('encoding')}。",
        )
        if mark
        else ""
    )
    return _pick(
        goal,
        f"The file has **{rows} rows** and **{width} columns**.{how}",
        f"文件共有 **{rows} 行**、**{width} 列**。{how}",
    )


def _typed(goal: Goal, facts: Facts) -> str:
    roles: Mapping[str, str] = facts.get("roles") or {}
    by_role: dict[str, list[str]] = {}
    for name, role in roles.items():
        by_role.setdefault(role, []).append(name)
    words = {
        "number": ("numbers", "数值"),
        "category": ("categories", "类别"),
        "date": ("dates", "日期"),
        "text": ("free text", "自由文本"),
        "id": ("ids", "编号"),
        "constant": ("constant", "常量"),
        "empty": ("empty", "空列"),
    }
    parts = [
        f"- {_pick(goal, *words[role])}{_pick(goal, ': ', '：')}{_listed(goal, by_role[role])}"
        for role in words
        if role in by_role
    ]
    converted = facts.get("converted") or {}
    note = ""
    if converted:
        names = _listed(goal, converted)
        note = _pick(
            goal,
            f"\n\nWritten as text in the file and now read as numbers or dates: {names}.",
            f"\n\n文件中写成文本、现已识别为数字或日期的列：{names}。",
        )
    return "\n".join(parts) + note


def _cleaned(goal: Goal, facts: Facts) -> str:
    lines = []
    dropped, missing = facts.get("dropped") or {}, facts.get("missing") or {}
    if dropped:
        lines.append(
            _pick(
                goal,
                f"Left out, because they say nothing about other rows: {_listed(goal, dropped)}.",
                f"去掉了没有信息的列：{_listed(goal, dropped)}。",
            )
        )
    if facts.get("duplicates"):
        lines.append(
            _pick(
                goal,
                f"{facts.get('duplicates'):,} doubled rows were removed.",
                f"删除了 {facts.get('duplicates'):,} 个重复行。",
            )
        )
    if facts.get("repeats"):
        count = f"{facts.get('repeats'):,}"
        lines.append(
            _pick(
                goal,
                f"{count} rows are equal to an earlier one; so many are taken as real, and stay.",
                f"有 {count} 行与前面的行相同；数量较多，视为真实数据而保留。",
            )
        )
    if missing:
        total = sum(missing.values())
        lines.append(
            _pick(
                goal,
                f"{total:,} values are missing, in {_listed(goal, missing)}. They stay missing in the table; "
                "models fill them from their own training rows only, so that nothing leaks.",
                f"共缺失 {total:,} 个值，位于 {_listed(goal, missing)}。表中保持缺失；"
                "建模时只用训练行来填补，避免信息泄漏。",
            )
        )
    outliers = facts.get("outliers") or {}
    if outliers:
        lines.append(
            _pick(
                goal,
                f"Far outliers (more than 3 interquartile ranges out) were counted, not removed: "
                f"{_listed(goal, outliers)}.",
                f"远离群点（超出四分位距 3 倍）只计数、不删除：{_listed(goal, outliers)}。",
            )
        )
    if not lines:
        lines.append(_pick(goal, "Nothing had to be cleaned.", "数据无需清洗。"))
    return " ".join(lines) if goal.language == "en" else "".join(lines)


def _shaped(goal: Goal, facts: Facts) -> str:
    skewed = facts.get("skewed") or {}
    if not skewed:
        return _pick(goal, "No number column is strongly skewed.", "没有明显偏斜的数值列。")
    return _pick(
        goal,
        f"Strongly skewed, so that a mean says little about them: {_listed(goal, skewed)}.",
        f"明显偏斜、均值代表性差的列：{_listed(goal, skewed)}。",
    )


def _related(goal: Goal, facts: Facts) -> str:
    strongest = facts.get("strongest") or []
    if not strongest:
        return _pick(goal, "No relation could be measured.", "没有可测量的关系。")
    parts = [f"{_code(a)} – {_code(b)} ({value:.2f})" for a, b, value in strongest[:3]]
    joined = _pick(goal, ", ", "、").join(parts)
    text = _pick(
        goal, f"Strongest relations: {joined} (0 none, 1 complete).", f"最强的关系：{joined}（0 无，1 完全）。"
    )
    suspicious = facts.get("suspicious") or []
    if suspicious:
        names = _listed(goal, suspicious)
        text += _pick(
            goal,
            f" {names} nearly is the target: check that it is known before the target is.",
            f"{names} 几乎等同于目标：请确认它在目标之前就已知。",
        )
    return text


def _prepared(goal: Goal, facts: Facts) -> str:
    why = _why(goal, facts)
    if facts.get("task") == "description":
        if not why:
            return _pick(goal, "The goal asks for a description, not for a prediction.", "目标是描述数据，而不是预测。")
        return _pick(
            goal, f"No model is trained: {why}. The data is described instead.", f"不训练模型：{why}。改为描述数据。"
        )
    kind = _pick(goal, str(facts.get("task")), "分类" if facts.get("task") == "classification" else "回归")
    rows, count = f"{facts.get('modelled_rows') or 0:,}", facts.get("features")
    text = _pick(
        goal,
        f"Task: **{kind}** of {_code(facts.get('target'))} from {count} features on {rows} rows, "
        f"{facts.get('folds')}-fold cross-validation with a fixed seed.",
        f"任务：对 {_code(facts.get('target'))} 做**{kind}**，{count} 个特征，{rows} 行，"
        f"{facts.get('folds')} 折交叉验证，随机种子固定。",
    )
    if facts.get("sampled"):
        text += _pick(
            goal, " To bound the time, a random sample of the rows is used.", "为限制时间，只用随机抽样的行。"
        )
    return text


def _tried(goal: Goal, facts: Facts) -> str:
    scores, lead = facts.get("scores") or [], str(facts.get("lead") or "")
    if len(scores) < 2:
        groups = facts.get("groups")
        if groups:
            return _pick(
                goal,
                f"The rows fall into {groups} groups (silhouette {facts.get('silhouette')}).",
                f"数据分为 {groups} 组（轮廓系数 {facts.get('silhouette')}）。",
            )
        return ""
    row = _best(facts)
    value = figure(lead, row.get(lead))
    return _pick(
        goal,
        f"Best so far: **{row['model']}** with {label(lead)} {value} (baseline {figure(lead, scores[0].get(lead))}).",
        f"目前最好：**{_model(goal, row['model'])}**，{label(lead)} {value}"
        f"（基线 {figure(lead, scores[0].get(lead))}）。",
    )


def _best(facts: Facts) -> dict[str, Any]:
    scores = facts.get("scores") or []
    return next((row for row in reversed(scores) if row.get("model") == facts.get("best")), {})


COMMENTS = {
    "load": _loaded,
    "types": _typed,
    "clean": _cleaned,
    "distribution": _shaped,
    "relations": _related,
    "prepare": _prepared,
    "train": _tried,
}


def thought(goal: Goal, facts: Facts, candidate: str, number: int, count: int) -> str:
    """Why this candidate is tried now."""
    row, lead = _best(facts), str(facts.get("lead") or "")
    if number == 1 or not row:
        return _pick(goal, f"Candidate {number} of {count}: {candidate}.", f"候选 {number}/{count}：{candidate}。")
    so_far = f"{label(lead)} {figure(lead, row.get(lead))}"
    wanted = ", ".join(spoken(measure) for measure in goal.measures)
    if not wanted:
        return _pick(
            goal,
            f"Best so far {so_far}. Candidate {number} of {count}: {candidate}.",
            f"目前最好 {so_far}。候选 {number}/{count}：{candidate}。",
        )
    return _pick(
        goal,
        f"Wanted: {wanted}; best so far: {so_far}. That is not enough, so candidate {number} of {count}: {candidate}.",
        f"目标 {wanted}，目前最好 {so_far}，尚未达到。候选 {number}/{count}：{candidate}。",
    )


def outcome(goal: Goal, facts: Facts) -> str:
    """The answer in one line."""
    if not goal.measures:
        return _pick(goal, "The goal names no figure to reach.", "目标没有给出可检验的指标。")
    said = facts.get("verdict") or []
    parts = [_verdict(goal, measure, _said(said, measure), facts) for measure in goal.measures]
    return _pick(goal, "; ".join(parts), "；".join(parts))


def _said(verdict: list[dict[str, Any]], measure: Measure) -> dict[str, Any]:
    return next((one for one in verdict if (one["metric"], one["relation"]) == (measure.metric, measure.relation)), {})


def _verdict(goal: Goal, measure: Measure, said: dict[str, Any], facts: Facts) -> str:
    value = said.get("measured")
    if value is None:
        why = _why(goal, facts) or _pick(goal, "no model has this figure", "没有模型给出该指标")
        return _pick(
            goal,
            f"{spoken(measure)}: not met, it could not be measured ({why})",
            f"{spoken(measure)}：未达到，无法测量（{why}）",
        )
    met = _pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
    return _pick(
        goal,
        f"{spoken(measure)}: {met}, measured {figure(measure.metric, value)} ({said.get('model')})",
        f"{spoken(measure)}：{met}，实测 {figure(measure.metric, value)}（{_model(goal, said.get('model'))}）",
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
            parts.append(
                f"**{_pick(goal, *heading)}.** {said}" if goal.language == "en" else f"**{heading[1]}** {said}"
            )
    parts += _models(goal, facts)
    parts += _limits(goal, facts)
    return "\n\n".join(parts)


def _answer(goal: Goal, facts: Facts) -> str:
    asked = _pick(goal, "**Goal:** ", "**目标**：") + " ".join(goal.text.split())[:500].replace("<", "&lt;")
    if not goal.measures:
        row, lead = _best(facts), str(facts.get("lead") or "")
        text = _pick(
            goal,
            "The goal names no figure to reach, so there is none to meet or to miss.",
            "目标没有给出可检验的指标，因此不存在达到与否。",
        )
        if row:
            text += _pick(
                goal,
                f" The best model for {_code(facts.get('target'))} is **{row['model']}**: {label(lead)} "
                f"{figure(lead, row.get(lead))}.",
                f"{_code(facts.get('target'))} 的最佳模型是"
                f"**{_model(goal, row['model'])}**：{label(lead)} {figure(lead, row.get(lead))}。",
            )
        return f"{asked}\n\n{text}"
    verdict = facts.get("verdict") or []
    is_met = bool(facts.get("goal_met"))
    head = _pick(
        goal,
        "✓ **The goal is met.**" if is_met else "✗ **The goal is not met.**",
        "✓ **目标已达到。**" if is_met else "✗ **目标未达到。**",
    )
    header = _pick(
        goal, "| wanted | measured | model | |\n|---|---|---|---|", "| 目标 | 实测 | 模型 | |\n|---|---|---|---|"
    )
    rows = []
    for measure in goal.measures:
        said = _said(verdict, measure)
        word = _pick(goal, "met" if said.get("met") else "not met", "达到" if said.get("met") else "未达到")
        model = _model(goal, said.get("model") or "–")
        wanted = spoken(measure).replace("<", "&lt;")
        rows.append(f"| {wanted} | {figure(measure.metric, said.get('measured'))} | {model} | {word} |")
    why = _why(goal, facts)
    note = _pick(goal, f"\n\nIt could not be measured: {why}.", f"\n\n无法测量：{why}。") if why and not is_met else ""
    return f"{asked}\n\n{head}\n\n{header}\n" + "\n".join(rows) + note


def _models(goal: Goal, facts: Facts) -> list[str]:
    scores = facts.get("scores") or []
    if not scores:
        said = comment("train", goal, facts)
        return [said] if said else []
    names = ["rmse", "mae", "mape", "r2"] if facts.get("task") == "regression" else ["accuracy", "f1", "auc"]
    names += [m.metric for m in goal.measures if m.metric not in names and scores[0].get(m.metric) is not None]
    head = f"| {_pick(goal, 'model', '模型')} | " + " | ".join(label(name) for name in names) + " |"
    lines = [head, "|---|" + "---:|" * len(names)]
    for row in scores:
        is_best = row.get("model") == facts.get("best")
        model = _model(goal, row.get("model"))
        cells = " | ".join(figure(name, row.get(name)) for name in names)
        lines.append(f"| {f'**{model}**' if is_best else model} | {cells} |")
    title_ = _pick(
        goal,
        f"**Models**, measured on rows they were not trained on ({facts.get('folds')}-fold):",
        f"**模型**（{facts.get('folds')} 折交叉验证，均在未参与训练的行上测量）：",
    )
    found = [title_ + "\n\n" + "\n".join(lines)]
    top = [name for name, value in facts.get("importance") or [] if value > 0][:5]
    if top:
        found.append(
            _pick(
                goal, f"The best model relies most on {_listed(goal, top)}.", f"最佳模型最依赖 {_listed(goal, top)}。"
            )
        )
    return found


def _limits(goal: Goal, facts: Facts) -> list[str]:
    lines = []
    if len(facts.get("scores") or []) > 2:  # the baseline is one of them
        lines.append(
            _pick(
                goal,
                "The best of several models was chosen with the figures shown, which flatters it a little; "
                "a figure from new data would be the proof.",
                "最佳模型是用同一组指标挑选的，结果略偏乐观；最可靠的验证是新的数据。",
            )
        )
    if any((row.get("folds") or 0) < (facts.get("folds") or 0) for row in facts.get("scores") or []):
        lines.append(
            _pick(
                goal,
                "Some models were measured on fewer folds, to keep to their time.",
                "部分模型因时间限制只完成了部分折。",
            )
        )
    for step_id, error in facts.errors.items():
        step = recipe().step(step_id)
        name = step.title.said(goal.language) if step else step_id
        lines.append(_pick(goal, f"A cell failed in “{name}”: {_code(error)}", f"“{name}”中有单元失败：{_code(error)}"))
    if not lines:
        return []
    head = _pick(goal, "**Limits.**", "**局限**")
    return [f"{head} " + " ".join(lines)]
