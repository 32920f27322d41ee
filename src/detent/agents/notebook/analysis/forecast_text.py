"""A forecast in words: what was measured from origins in the past, what is expected, and how far to trust it."""

from typing import Any

from detent.agents.notebook.analysis.goal import Goal, figure, label
from detent.agents.notebook.analysis.kernel_figure import Facts
from detent.agents.notebook.analysis.words import best_row, model_name, pick, plural, quote

FILLED_MUCH = 0.2  # a share of made-up steps that a reader must know of
TOLD_MAX = 14  # of the values to come
SURE_SHARE = 0.7  # a model that is better at fewer of the origins may have been lucky
NEAR = 0.02  # a gain below that share is no gain to speak of
STEPS_ZH = {
    "second": "秒", "minute": "分钟", "hour": "小时", "day": "天", "working day": "个工作日", "week": "周",
    "month": "个月", "quarter": "个季度", "year": "年",
}  # fmt: skip


def describe_forecast(goal: Goal, facts: Facts) -> list[str]:
    """The paragraphs of a report that only a forecast has."""
    if facts.get("task") != "forecast" or not facts.get("best"):
        return []
    return [*_verdict(goal, facts), *_future(goal, facts), *_series(goal, facts)]


def _verdict(goal: Goal, facts: Facts) -> list[str]:
    """How much better than repeating what was there; and where it is not, that."""
    lead, gain = str(facts.get("lead")), float(facts.get("gain") or 0.0)
    base: dict[str, Any] = facts.get("baseline_row") or {}
    row = best_row(facts)
    figures = f"{label(lead)} {figure(lead, row.get(lead))}", f"{label(lead)} {figure(lead, base.get(lead))}"
    model, plain = model_name(goal, facts.get("best")), model_name(goal, base.get("model"))
    if row.get("model") == base.get("model"):
        return [
            pick(
                goal,
                f"⚠ **No model that was tried beats the baseline**: “{plain}”, which has learned nothing, is best "
                f"with {figures[1]}.",
                f"⚠ **试过的模型都不优于基线**：什么都没学的“{plain}”最好，{figures[1]}。",
            )
        ]
    if gain < NEAR:
        return [
            pick(
                goal,
                f"⚠ **No model is better than the baseline to speak of**: {model} has {figures[0]}, and "
                f"“{plain}” has {figures[1]}.",
                f"⚠ **没有模型明显优于基线**：{model} 的 {figures[0]}，“{plain}”为 {figures[1]}。",
            )
        ]
    return [
        pick(
            goal,
            f"**{model}** has {figures[0]} over the whole horizon, from {row.get('folds')} origins in the past: "
            f"{gain:.0%} less error than the best baseline, “{plain}” ({figures[1]}){_render_luck(goal, facts)}.",
            f"**{model}** 在整个预测区间上的 {figures[0]}（过去 {row.get('folds')} 个起点）；"
            f"比最好的基线“{plain}”（{figures[1]}）误差低 {gain:.0%}{_render_luck(goal, facts)}。",
        )
    ]


def _render_luck(goal: Goal, facts: Facts) -> str:
    """At how many origins the model was the better one: a mean can be the doing of one of them."""
    better, count = facts.get("better_at"), facts.get("compared_at") or 0
    if better is None or not count:
        return ""
    is_luck = better < SURE_SHARE * count
    return pick(
        goal,
        f", better at {better} of {count}" + ("; that may be chance" if is_luck else ""),
        f"，在 {count} 个起点中的 {better} 个上更好" + ("，可能只是偶然" if is_luck else ""),
    )


def _future(goal: Goal, facts: Facts) -> list[str]:
    future, coverage = facts.get("future") or [], facts.get("coverage") or {}
    if not future:
        return []
    whose = facts.get("future_of")
    head = pick(
        goal,
        f"**The next values**{' of ' + quote(whose) if whose else ''} (the first; all are in table, plot and file):",
        f"**未来的值**{'：' + quote(whose) if whose else ''}（此处为前几个，全部见表格、图与文件）：",
    )
    zone = f" ({facts.get('time_zone')})" if facts.get("time_zone") else ""
    title = pick(goal, f"| time{zone} | forecast | 80 % | 95 % |", f"| 时间{zone} | 预测 | 80 % 区间 | 95 % 区间 |")
    lines = [head, "", title, "|---|---:|---:|---:|"]
    lines += [
        f"| {stamp.removesuffix(' 00:00')} | {_plain(value)} | {_plain(low)} – {_plain(high)} "
        f"| {_plain(lowest)} – {_plain(highest)} |"
        for stamp, value, low, high, lowest, highest in future[:TOLD_MAX]
    ]
    said = ["\n".join(lines)]
    if coverage:
        told = ", ".join(f"{name}: {share:.0%}" for name, share in coverage.items())
        said.append(
            pick(
                goal,
                "The intervals come from errors at many origins in the past. Measured on origins without part in them, "
                f"they hold so many of the true values: {told}.",
                f"区间来自回测误差；在未参与其计算的起点上，真实值落入区间的比例：{told}。",
            )
        )
        if any(share < int(name.rstrip("%")) / 100 - 0.05 for name, share in coverage.items()):
            said.append(
                pick(
                    goal,
                    "⚠ That is less than they promise: take the intervals as too narrow.",
                    "⚠ 低于其标称值：请把区间看作偏窄。",
                )
            )
    else:
        said.append(
            pick(
                goal,
                "The series is too short to measure how often the intervals hold: take them as rough.",
                "序列太短，无法测量区间的覆盖率：仅供粗略参考。",
            )
        )
    return said


def _plain(value: float) -> str:
    """A value as people write it: no powers of ten before a million millions."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


def _series(goal: Goal, facts: Facts) -> list[str]:
    said = [*_describe_several(goal, facts), *_describe_times(goal, facts), *_describe_reach(goal, facts)]
    said.append(
        pick(
            goal,
            "Nothing that is not known ahead was used: no other column of the same time, only the past of the series "
            "and the calendar.",
            "没有使用事先未知的内容：不用同一时刻的其他列，只用序列的过去和日历。",
        )
    )
    return [" ".join(said) if goal.language == "en" else "".join(said)]


def _describe_several(goal: Goal, facts: Facts) -> list[str]:
    """Several series: how the models do on all of them, and on the worst."""
    count, said = facts.get("series") or 1, []
    if count > 1:
        worst = quote(facts.get("worst_series"))
        row = best_row(facts)
        base: dict[str, Any] = facts.get("baseline_row") or {}
        plain, behind = figure("mase", base.get("mase")), facts.get("behind") or 0
        said.append(
            pick(
                goal,
                f"{count} series, a model fitted to each: MASE {figure('mase', row.get('mase'))} on average, "
                f"{figure('mase', row.get('worst mase'))} for the worst ({worst}); "
                f"“{model_name(goal, base.get('model'))}” has {plain} on average"
                f"{f' and is better for {behind} of them' if behind else ''}.",
                f"{count} 条序列各用一个模型：平均 MASE {figure('mase', row.get('mase'))}，"
                f"最差 {figure('mase', row.get('worst mase'))}（{worst}）；"
                f"“{model_name(goal, base.get('model'))}”平均为 {plain}"
                f"{f'，其中 {behind} 条用它更好' if behind else ''}。",
            )
        )
    if (facts.get("all_series") or 1) > count:
        said.append(
            pick(
                goal,
                f"Of {facts.get('all_series')} series in the file, {count} were used: a sample, or those with enough "
                "values.",
                f"文件中有 {facts.get('all_series')} 条序列，使用了 {count} 条（抽样，或数据足够者）。",
            )
        )
    return said


def _describe_times(goal: Goal, facts: Facts) -> list[str]:
    """What had to be done to the times."""
    said = []
    if not facts.get("has_time"):
        said.append(
            pick(
                goal,
                "⚠ No column says when: the rows were taken in their order, one step each.",
                "⚠ 没有时间列：按行的顺序处理，每行一步。",
            )
        )
    unit = str(facts.get("unit") or "")
    if facts.get("irregular"):
        said.append(
            pick(
                goal,
                f"⚠ The values come at irregular times: the mean of each {unit} is forecast.",
                f"⚠ 数据的时间间隔不规则：预测的是每{STEPS_ZH.get(unit, unit).removeprefix('个')}的平均值。",
            )
        )
        if facts.get("too_fine"):
            said.append(
                pick(
                    goal,
                    "The goal asks for less than one such step: that cannot be told from these data.",
                    "目标要求的时间比这一步还短：这些数据回答不了。",
                )
            )
    gaps, doubled = facts.get("gaps") or 0, facts.get("doubled") or 0
    if gaps:
        steps = plural("missing step was", "missing steps were", gaps)
        share = gaps / (facts.get("steps_in_all") or float("inf"))
        mark = f"⚠ {share:.0%}: " if share > FILLED_MUCH else ""
        said.append(
            pick(
                goal,
                f"{mark}{gaps:,} {steps} filled along a line; nothing is measured against them.",
                f"{mark}{gaps:,} 个缺失的时点用直线补齐，不参与测量。",
            )
        )
    if doubled:
        times = plural("value had", "values had", doubled)
        said.append(
            pick(
                goal,
                f"{doubled:,} {times} a time that another had already: their mean is taken.",
                f"{doubled:,} 个重复的时点取平均。",
            )
        )
    return said


def _describe_reach(goal: Goal, facts: Facts) -> list[str]:
    """How far the tests reach, and how far back the values."""
    unit, said = str(facts.get("unit") or ""), []
    if facts.get("shortened"):
        step = pick(goal, unit, STEPS_ZH.get(unit, unit))
        said.append(
            pick(
                goal,
                f"⚠ The series is too short to test {facts.get('shortened')} steps ({step}): the back-tests reach "
                f"{facts.get('tested_horizon')}, and what lies beyond is not measured.",
                f"⚠ 序列太短，无法检验 {facts.get('shortened')} 步（{step}）：回测只到 "
                f"{facts.get('tested_horizon')} 步，之后未经测量。",
            )
        )
    if facts.get("dropped_early"):
        said.append(
            pick(
                goal,
                f"Only the latest 3,000 values were used ({facts.get('dropped_early'):,} older ones were left out).",
                f"只使用最近 3,000 个值（省去更早的 {facts.get('dropped_early'):,} 个）。",
            )
        )
    return said
