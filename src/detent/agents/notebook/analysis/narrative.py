"""What is said along the way: the title, a comment on every step, a thought before every candidate."""

from collections.abc import Mapping
from pathlib import PurePath

from detent.agents.notebook.analysis.goal import (
    Goal,
    Target,
    asks_cause,
    columns_named_in,
    figure,
    label,
    render_measure,
    target_of,
)
from detent.agents.notebook.analysis.kernel_figure import Facts
from detent.agents.notebook.analysis.words import best_row, list_names, model_name, pick, plural, quote, why_not

DROPPED = (  # why a column is left out; "": too much of it is missing
    ("id", "Left out as ids, which say nothing about other rows", "去掉了对其他行没有意义的编号列"),
    ("constant", "Left out because every row has the same value", "去掉了每行都相同的列"),
    ("empty", "Left out because they are empty", "去掉了空列"),
    ("", "Left out because most of their values are missing", "去掉了大部分缺失的列"),
)


def title(goal: Goal, data_file: str) -> str:
    """The notebook's title."""
    name = PurePath(data_file).name
    return f"{name}：数据分析" if goal.language == "zh" else f"Analysis of {name}"


def comment(step_id: str, goal: Goal, facts: Facts) -> str:
    """What a step has shown, in a few sentences; "" if there is nothing to say."""
    if step_id in facts.errors and step_id in ("distribution", "relations"):
        return pick(
            goal,
            f"This step failed and was left behind: {quote(facts.errors[step_id])}",
            f"这一步失败，已跳过：{quote(facts.errors[step_id])}",
        )
    say = COMMENTS.get(step_id)
    return say(goal, facts) if say else ""


def _tell_loading(goal: Goal, facts: Facts) -> str:
    if facts.get("rows") is None:
        return ""
    rows, width = f"{facts.get('rows'):,}", facts.get("width")
    kept, joined = facts.get("kept_part") or "", facts.get("joined") or []
    encoding = {"utf-8-sig": "UTF-8"}.get(str(facts.get("encoding")), facts.get("encoding"))
    mark = {"\t": "tab", "": "", r"\s+": pick(goal, "white space", "空白")}.get(
        facts.get("delimiter") or "", facts.get("delimiter")
    )
    how = (
        pick(
            goal,
            f" It was read with the delimiter {quote(mark)} and the encoding {encoding}.",
            f"分隔符为 {quote(mark)}，编码为 {encoding}。",
        )
        if mark
        else ""
    )
    text = pick(
        goal,
        f"The {'table' if facts.get('tables') else 'file'} has **{rows} rows** and **{width} columns**.{how}",
        f"{'表' if facts.get('tables') else '文件'}共有 **{rows} 行**、**{width} 列**。{how}",
    )
    if kept:
        some = f"{facts.get('kept_rows'):,}"
        latest = kept.removeprefix("the latest by ")
        chosen = (
            "随机抽取"
            if kept == "drawn at random"
            else "文件最后"
            if kept == "the last"
            else f"按 {quote(latest)} 最近"
        )
        text += pick(
            goal,
            f" It is too large to be read whole: **{some} rows, {kept}, stand for all of them** in everything below.",
            f"文件太大，无法整体读取：以下分析以{chosen}的 **{some} 行**为代表。",
        )
    if facts.get("tables"):
        text += _tell_tables(goal, facts, joined)
    return text


def _tell_tables(goal: Goal, facts: Facts, joined: list[str]) -> str:
    """Which tables there were, and what became of them."""
    names, main = list_names(goal, facts.get("tables")), quote(facts.get("main_table"))
    unused = facts.get("unused") or []
    is_stacked = any(one.startswith("put the rows of ") for one in joined)  # then it is about all of them
    about = "" if is_stacked else pick(goal, f"; the goal is about {main}", f"，目标针对 {main}")
    text = pick(goal, f" The tables are {names}{about}.", f"共有表 {names}{about}。")
    if joined:
        told = "; ".join(quote(one, 300) for one in joined)
        text += pick(goal, f" Put together: {told}.", f"已合并：{told}。")
    if unused:
        text += pick(goal, f" Not used: {list_names(goal, unused)}.", f"未使用：{list_names(goal, unused)}。")
    return text


def _tell_types(goal: Goal, facts: Facts) -> str:
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
        "entity": ("ids that return in several rows", "在多行中重复出现的编号"),
        "constant": ("constant", "常量"),
        "empty": ("empty", "空列"),
    }
    parts = [
        f"- {pick(goal, *words[role])}{pick(goal, ': ', '：')}{list_names(goal, by_role[role])}"
        for role in words
        if role in by_role
    ]
    converted = facts.get("converted") or {}
    note = ""
    if converted:
        units = facts.get("units") or {}
        names = pick(goal, ", ", "、").join(
            f"{quote(name)} ({units[name]})" if name in units else quote(name) for name in converted
        )
        note = pick(
            goal,
            f"\n\nWritten as text in the file and now read as numbers or dates: {names}.",
            f"\n\n文件中写成文本、现已识别为数字或日期的列：{names}。",
        )
    return "\n".join(parts) + note


def _tell_cleaning(goal: Goal, facts: Facts) -> str:
    lines = []
    dropped, missing = facts.get("dropped") or {}, facts.get("missing") or {}
    for why, english, chinese in DROPPED:
        names = [name for name, said in dropped.items() if str(said) == why or (not why and "missing" in str(said))]
        shown = [f"{quote(name)} ({dropped[name]})" if not why else quote(name) for name in names]
        if shown:
            lines.append(pick(goal, f"{english}: {', '.join(shown)}.", f"{chinese}：{'、'.join(shown)}。"))
    if facts.get("duplicates"):
        count = int(facts.get("duplicates"))
        removed = plural("duplicate row was removed", "duplicate rows were removed", count)
        lines.append(pick(goal, f"{count:,} {removed}.", f"删除了 {count:,} 个重复行。"))
    if facts.get("repeats"):
        again = f"{facts.get('repeats'):,}"
        is_but = "id" in dropped.values()  # equal rows beside different ids
        lines.append(
            pick(
                goal,
                f"{again} rows are equal to an earlier one{' but for their ids' if is_but else ''}; they stay, and "
                "models never see one of them in training and another in a test.",
                f"有 {again} 行{'除编号外' if is_but else ''}与前面的行相同；"
                "予以保留，相同的行不会同时出现在训练和测试中。",
            )
        )
    missing, told = _leave_target(goal, facts, missing)
    lines += told
    if missing:
        total, is_modelled = sum(missing.values()), facts.get("task") in (None, "regression", "classification")
        english = "; models fill them from their own training rows only, so that nothing leaks" if is_modelled else ""
        chinese = "；建模时只用训练行来填补，避免信息泄漏" if is_modelled else ""
        lines.append(
            pick(
                goal,
                f"{total:,} values are missing, in {list_names(goal, missing)}. "
                f"They stay missing in the table{english}.",
                f"共缺失 {total:,} 个值，位于 {list_names(goal, missing)}。表中保持缺失{chinese}。",
            )
        )
    outliers = facts.get("outliers") or {}
    if outliers:
        lines.append(
            pick(
                goal,
                f"Far outliers (more than 3 interquartile ranges out) were counted, not removed: "
                f"{list_names(goal, outliers)}.",
                f"远离群点（超出四分位距 3 倍）只计数、不删除：{list_names(goal, outliers)}。",
            )
        )
    if not lines:
        lines.append(pick(goal, "Nothing had to be cleaned.", "数据无需清洗。"))
    return " ".join(lines) if goal.language == "en" else "".join(lines)


def _leave_target(goal: Goal, facts: Facts, missing: Mapping[str, int]) -> tuple[Mapping[str, int], list[str]]:
    """Missing values without those of the target, whose rows are no use to a model; what is to be said of these."""
    wanted = str(facts.get("target"))
    if wanted not in missing or facts.get("task") not in ("regression", "classification"):
        return missing, []
    count = int(missing[wanted])
    said = pick(
        goal,
        f"{count:,} {plural('row has', 'rows have', count)} no {quote(wanted)}: models neither learn from them nor are "
        "measured on them.",
        f"有 {count:,} 行缺少 {quote(wanted)}：不用于训练，也不用于测量。",
    )
    return {name: many for name, many in missing.items() if name != wanted}, [said]


def _tell_shapes(goal: Goal, facts: Facts) -> str:
    skewed = facts.get("skewed") or {}
    if not skewed:
        return pick(goal, "No number column is strongly skewed.", "没有明显偏斜的数值列。")
    return pick(
        goal,
        f"Strongly skewed, so that a mean says little about them: {list_names(goal, skewed)}.",
        f"明显偏斜、均值代表性差的列：{list_names(goal, skewed)}。",
    )


def _tell_relations(goal: Goal, facts: Facts) -> str:
    strongest = facts.get("strongest") or []
    if not strongest:
        return pick(goal, "No relation could be measured.", "没有可测量的关系。")
    parts = [f"{quote(a)} – {quote(b)} ({value:.2f})" for a, b, value in strongest[:3]]
    joined = pick(goal, ", ", "、").join(parts)
    text = pick(goal, f"Strongest relations: {joined} (0 none, 1 complete).", f"最强的关系：{joined}（0 无，1 完全）。")
    suspicious = facts.get("suspicious") or []
    if suspicious:
        names = list_names(goal, suspicious)
        text += pick(
            goal,
            f" The same as the target in other words: {names}. Models do without, unless the goal names it.",
            f"与目标实为一事的列：{names}。除非目标中写明，否则不用于建模。",
        )
    return text


def _tell_preparation(goal: Goal, facts: Facts) -> str:
    why = why_not(goal, facts)
    if facts.get("task") == "description":
        if not why and target(goal, facts).how == "unasked":
            return pick(
                goal,
                "The goal names nothing to predict, so the data is described; `predict COLUMN` asks for a model.",
                "目标没有说明要预测什么，因此只描述数据；写“预测 列名”即可建模。",
            )
        if not why:
            return pick(goal, "The goal asks for a description, not for a prediction.", "目标是描述数据，而不是预测。")
        return pick(
            goal, f"No model is trained: {why}. The data is described instead.", f"不训练模型：{why}。改为描述数据。"
        )
    if facts.get("task") == "forecast":
        rows = f"{facts.get('modelled_rows') or 0:,}"
        return pick(
            goal,
            f"Task: **forecast** of {quote(facts.get('target'))} from {rows} rows, measured from several origins in "
            "the past.",
            f"任务：根据 {rows} 行对 {quote(facts.get('target'))} 做**时间序列预测**，在过去的多个起点上检验。",
        )
    kind = pick(goal, str(facts.get("task")), "分类" if facts.get("task") == "classification" else "回归")
    rows, count = f"{facts.get('modelled_rows') or 0:,}", facts.get("features")
    text = pick(
        goal,
        f"Task: **{kind}** of {quote(facts.get('target'))} from {count} features on {rows} rows, "
        f"{facts.get('folds')}-fold cross-validation with a fixed seed.",
        f"任务：对 {quote(facts.get('target'))} 做**{kind}**，{count} 个特征，{rows} 行，"
        f"{facts.get('folds')} 折交叉验证，随机种子固定。",
    )
    if facts.get("sampled"):
        text += pick(goal, " To bound the time, a random sample of the rows is used.", "为限制时间，只用随机抽样的行。")
    return text + "".join(f"{pick(goal, ' ', '')}{said}" for said in list_choices(goal, facts))


def target(goal: Goal, facts: Facts) -> Target:
    """What is predicted, and how that was decided."""
    return target_of(goal, facts.get("columns") or [], facts.get("roles") or {})


def list_choices(goal: Goal, facts: Facts) -> list[str]:
    """What was decided that the goal did not say: the target, what is left out, how rows are kept apart."""
    said, name = [], quote(facts.get("target"))
    found = target(goal, facts)
    if found.how == "last":
        said.append(
            pick(
                goal,
                f"**The goal names no column of this file, so {name}, the last that can be predicted, was taken.**",
                f"**目标没有指明文件中的列，因此取最后一个可预测的列 {name}。**",
            )
        )
    elif found.how == "similar":
        said.append(pick(goal, f"{quote(found.said)} was read as {name}.", f"{quote(found.said)} 理解为 {name}。"))
    if asks_cause(goal) and not {*columns_named_in(goal, facts.get("columns") or [])} - {facts.get("target")}:
        said.append(
            pick(
                goal,
                f"**The goal asks what something did to {name}, and no other column of this file is named in it: that "
                "is not answered here.**",
                f"**目标问的是某事对 {name} 的作用，但没有点名文件中的其他列：这里没有回答。**",
            )
        )
    if facts.get("leaks"):
        said.append(
            pick(
                goal,
                f"Left out of the models, as the target in other words: {list_names(goal, facts.get('leaks'))}.",
                f"与目标实为一事而未用于建模：{list_names(goal, facts.get('leaks'))}。",
            )
        )
    together = facts.get("together")
    if together:
        what = pick(goal, "equal rows", "相同的行") if together == "equal rows" else quote(together)
        said.append(
            pick(
                goal,
                f"Rows that belong together ({what}) are never on both sides of a split.",
                f"属于同一组的行（{what}）不会同时出现在训练和测试中。",
            )
        )
    return said


def _tell_trials(goal: Goal, facts: Facts) -> str:
    scores, lead = facts.get("scores") or [], str(facts.get("lead") or "")
    if len(scores) < 2:
        groups = facts.get("groups")
        if groups:
            return _tell_groups(goal, facts)
        if groups == 0 and facts.get("is_lonely"):
            return pick(
                goal,
                "There are no clear groups of similar rows: a few lie far from all others, and the rest is one group.",
                "没有明显的分组：少数行远离其他行，其余的行是一个整体。",
            )
        if groups == 0:
            return pick(
                goal,
                f"There are no clear groups of similar rows (silhouette {facts.get('silhouette')}; 0.25 would count).",
                f"没有明显的分组（轮廓系数 {facts.get('silhouette')}，至少 0.25 才算）。",
            )
        return ""
    row = best_row(facts)
    value = figure(lead, row.get(lead))
    return pick(
        goal,
        f"Best so far: **{row['model']}** with {label(lead)} {value} (baseline {figure(lead, scores[0].get(lead))}).",
        f"目前最好：**{model_name(goal, row['model'])}**，{label(lead)} {value}"
        f"（基线 {figure(lead, scores[0].get(lead))}）。",
    )


def _tell_groups(goal: Goal, facts: Facts) -> str:
    """How many groups there are, and by what each of them differs from all rows."""
    groups, rows = facts.get("groups"), facts.get("grouped_rows") or 0
    head = pick(
        goal,
        f"The rows fall into {groups} groups (silhouette {facts.get('silhouette')}; 1 is complete, 0 none).",
        f"数据分为 {groups} 组（轮廓系数 {facts.get('silhouette')}；1 为完全分开，0 为没有分组）。",
    )
    lines = []
    for number, (count, apart) in enumerate(facts.get("group_profiles") or [], 1):
        share = f"{count:,} ({count / max(1, rows):.0%})"
        parts = [
            pick(
                goal,
                f"{quote(name)} {_short_figure(own)} (all rows {_short_figure(usual)})",
                f"{quote(name)} {_short_figure(own)}（全体 {_short_figure(usual)}）",
            )
            for name, own, usual in apart
        ]
        told = pick(goal, ", ", "、").join(parts) or pick(goal, "close to the mean of all rows", "接近全体平均")
        lines.append(pick(goal, f"- group {number}, {share} rows: {told}", f"- 第 {number} 组，{share} 行：{told}"))
    return head + ("\n\n" + "\n".join(lines) if lines else "")


def _short_figure(value: float) -> str:
    """A mean as a person reads it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


COMMENTS = {
    "load": _tell_loading,
    "types": _tell_types,
    "clean": _tell_cleaning,
    "distribution": _tell_shapes,
    "relations": _tell_relations,
    "prepare": _tell_preparation,
    "train": _tell_trials,
}


def explain_candidate(goal: Goal, facts: Facts, candidate: str, number: int, count: int) -> str:
    """Why this candidate is tried now."""
    row, lead = best_row(facts), str(facts.get("lead") or "")
    if number == 1 or not row:
        return pick(goal, f"Candidate {number} of {count}: {candidate}.", f"候选 {number}/{count}：{candidate}。")
    so_far = f"{label(lead)} {figure(lead, row.get(lead))}"
    wanted = ", ".join(render_measure(measure) for measure in goal.measures)
    if not wanted:
        return pick(
            goal,
            f"Best so far {so_far}. Candidate {number} of {count}: {candidate}.",
            f"目前最好 {so_far}。候选 {number}/{count}：{candidate}。",
        )
    return pick(
        goal,
        f"Wanted: {wanted}; best so far: {so_far}. That is not enough, so candidate {number} of {count}: {candidate}.",
        f"目标 {wanted}，目前最好 {so_far}，尚未达到。候选 {number}/{count}：{candidate}。",
    )
