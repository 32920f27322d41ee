"""What a person wants, read from their own words: figures to reach, the column to predict, and in which language.

English and Chinese are understood. A goal is never guessed: what is not said stays open, and the report says so.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Language = Literal["en", "zh"]
Relation = Literal["<", "<=", ">", ">=", "="]

# name: how people write it, whether less is better, whether it is a share (90 then means 90 %)
METRICS: dict[str, tuple[str, bool, bool]] = {
    "rmse": (r"rmse|root[- ]mean[- ]squared?[- ]error|均方根误差", True, False),
    "mape": (r"mape|mean absolute percentage error|平均绝对百分比误差", True, True),
    "mae": (r"mae|mean absolute error|平均绝对误差", True, False),
    "mase": (r"mase|mean absolute scaled error|平均绝对标度误差", True, False),
    "mse": (r"mse|mean squared error|均方误差", True, False),
    "r2": (r"r\s*²|r\s*\^\s*2|r2|r[-_ ]?squared|决定系数|拟合优度", False, True),
    "auc": (r"(?:roc[-_ ]?)?auc|曲线下面积", False, True),
    "f1": (r"f1(?:[-_ ]score|值|分数)?", False, True),
    "balanced_accuracy": (r"balanced[-_ ]accuracy|平衡准确率", False, True),
    "accuracy": (r"accuracy|acc|准确率|正确率|精度", False, True),
    "precision": (r"precision|精确率|查准率", False, True),
    "recall": (r"recall|sensitivity|召回率|查全率", False, True),
}
REGRESSION = ("rmse", "mae", "mse", "mape", "mase", "r2")
CLASSIFICATION = ("accuracy", "balanced_accuracy", "f1", "auc", "precision", "recall")

_RELATIONS: tuple[tuple[str, Relation], ...] = (
    (r"<=|≤|=<|不超过|不高于|不大于|at most|no more than|up to|within|最多|至多", "<="),
    (r">=|≥|=>|不低于|不小于|不少于|至少|at least|no less than|not less than", ">="),
    (r"<|＜|小于|低于|少于|(?:is |be |of |stay )?(?:below|under|less than|lower than|smaller than)|控制在", "<"),
    (
        r">|＞|大于|高于|超过|(?:is |be |of )?(?:above|over|more than|greater than|higher than|exceeds?|better than)",
        ">",
    ),
    (r"达到|reach(?:es)?|of|=|:|：|为", "="),
)
_NUMBER = (
    r"[$€£¥]?\s*(?P<number>[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"\s*(?P<unit>%|％|percent|k\b|万|million|m\b)?"
)
_BETWEEN = (
    r"[\s,，的]*(?:should be|must be|to be|should|must|to|be|is|has|of|score|值|要|应|应该|需|需要|能|能够)?[\s]*"
)
_SIGNS = "|".join(f"(?P<r{number}>{words})" for number, (words, _) in enumerate(_RELATIONS))
_STRICT = "|".join(f"(?P<r{number}>{words})" for number, (words, sign) in enumerate(_RELATIONS) if sign != "=")
_LESS_AFTER = r"以下|以内|or (?:less|lower|below)"
_FORMS = (  # how a figure is asked for; NAME stands for the metric
    rf"NAME{_BETWEEN}(?:{_SIGNS}){_BETWEEN}{_NUMBER}",  # accuracy > 90 %
    # accuracy 90 % or more
    rf"NAME{_BETWEEN}{_NUMBER}\s*(?P<after>\+|{_LESS_AFTER}|以上|or (?:more|higher|better|above))",
    rf"(?:{_STRICT})\s*{_NUMBER}\s*(?:of |的)?\s*NAME",  # at least 90 % accuracy
    # 90 % accuracy; a whole number without its % may be a year
    rf"(?=\d*\.\d|[\d.]+\s*(?:%|％|percent)){_NUMBER}\s*(?P<after>\+|{_LESS_AFTER}|以上)?\s*(?:of |的)?\s*NAME",
)
_CAUSE = re.compile(  # "Did the law reduce deaths?" asks about deaths
    r"\b(?:do|does|did|has|have|can|could|will|would|whether|if)\b[^?.!]*?\b(?:reduc|increas|decreas|improv|lower|rais|"
    r"chang|boost|caus|harm)(?:e[sd]?|s|ed|ing)?\b|是否\w*?(?:降低|减少|提高|增加|改善|改变|导致)",
    re.I,
)
_PREDICT = re.compile(
    r"predict\w*|forecast\w*|estimat\w*|classif\w*|explain\w*|regress\w*|model(?:l?ing)?|target|label|"
    r"driv(?:es?|ers?|ing)\b|influenc\w*|affects?\b|determin\w*|factors?\b|影响|驱动|"
    rf"{_CAUSE.pattern}|"
    r"预测|估计|预估|估算|分类|识别|建模|目标(?:变量|列)?|标签",
    re.I,
)
_FROM = re.compile(r"\b(?:from|using|based on|given|by|with)\b|根据|基于|利用|使用|通过", re.I)
_APART = re.compile(
    r"(?:\b(?:each|every|per)\s+|各个?|每一?个?|按|分)$", re.I
)  # "each region": one series apiece, no target
_DESCRIBE = re.compile(
    r"\bdescri|\boverview|\bsummar|\bexplor|\bclusters?\b|\bclustering|\bsegment|\bgroups?\b|\bprofile|"
    r"描述|概览|概况|概述|探索|聚类|分群|画像|总结|统计",
    re.I,
)
_THING = re.compile(  # what is to be predicted, in the words after the verb
    r"(?:\bpredict(?:s|ing)?|\bforecast(?:s|ing)?|\bestimat(?:e|es|ing)|\bdriv(?:es?|ing)|\binfluenc(?:es?|ing)|"
    r"\baffect(?:s|ing)?|\bdetermin(?:es?|ing)|预测|预估|估计|估算|影响|驱动)\s*(?:出)?"
    r"(?P<thing>[^,;:.!?，；：。！？<>=≤≥]*)",
    re.I,
)
_FILLER = re.compile(
    r"\b(?:the|a|an|its|their|this|that|column|value|values|variable|target|label|whatever|anything|something|you|can|"
    r"it|well|accurately|how|much|many|of|for|in|on|and|or|each|every|new|future|next|if|will|last|one|most|data|"
    r"result|results|outcome|outcomes|other|others)\b|目标(?:变量|列)?|标签|数据|什么|未来|的|该|这|列|因素|结果|最大|主要",
    re.I,
)
_FORECAST = re.compile(
    r"\bforecast|\bfuture\b|\bnext (?:day|week|month|quarter|year)|未来|下个?[周月季年]|明[天年]", re.I
)
# How far ahead: a number and a unit, as pandas calls it; written or in figures.
_UNITS = {
    r"hours?|小时": "h", r"(?:working|business|trading) days?|工作日|交易日": "B", r"days?|天|日": "D",
    r"weeks?|周|星期": "W", r"months?|个?月": "MS", r"quarters?|个?季度?": "QS", r"years?|年": "YS",
    r"steps?|periods?|values?|observations?|期|步": "",
}  # fmt: skip
_COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
           "ten": 10, "twelve": 12, "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8,
           "九": 9, "十": 10, "十二": 12}  # fmt: skip
_AHEAD = re.compile(
    rf"(?P<count>\d+|{'|'.join(sorted(_COUNTS, key=len, reverse=True))})[\s-]*(?:个)?"
    rf"(?:{'|'.join(f'(?P<u{number}>{words})' for number, words in enumerate(_UNITS))})(?![A-Za-z])",
    re.I,
)
_NEXT = re.compile(
    rf"(?:\bnext|\bcoming|下一?个?|明)\s*"
    rf"(?:{'|'.join(f'(?P<u{number}>{words})' for number, words in enumerate(_UNITS))})(?![A-Za-z])",
    re.I,
)
_CLASSIFY = re.compile(r"classif|分类|识别", re.I)
_SCALE = {"k": 1e3, "万": 1e4, "m": 1e6, "million": 1e6}


HOLDS = {
    "<": lambda value, bar: value < bar,
    "<=": lambda value, bar: value <= bar,
    ">": lambda value, bar: value > bar,
    ">=": lambda value, bar: value >= bar,
}


class Measure(NamedTuple):
    """A figure to reach: `rmse < 25000`."""

    metric: str
    relation: Relation
    value: float

    def wire(self) -> dict[str, object]:
        """As it stands in the notebook."""
        return {"metric": self.metric, "relation": self.relation, "value": self.value}


class Goal(NamedTuple):
    """A goal text, understood."""

    text: str
    measures: tuple[Measure, ...]
    language: Language
    is_descriptive: bool
    is_classification: bool
    is_forecast: bool = False
    horizon: tuple[int, str] | None = None  # how far ahead: 14 "D"; the unit "" is the data's own step
    unread: tuple[str, ...] = ()  # what else it compares with a number: nothing here looks at that

    @property
    def task(self) -> str:
        """What kind of task the words ask for; "" leaves it to the data."""
        if self.is_descriptive:
            return "description"
        wanted = {measure.metric for measure in self.measures}
        if self.is_classification or wanted & {*CLASSIFICATION}:
            return "classification"
        return "regression" if wanted & {*REGRESSION} else ""


def read_goal(text: str) -> Goal:
    """A person's words as a goal."""
    found = _find_measures(text)
    measures = tuple(measure for measure, _ in found)
    is_chinese = re.search(r"[㐀-鿿]", text) is not None
    wants_model = bool(measures) or _PREDICT.search(text) is not None
    return Goal(
        text=text,
        measures=measures,
        language="zh" if is_chinese else "en",
        is_descriptive=not wants_model and _DESCRIBE.search(text) is not None,
        is_forecast=_FORECAST.search(text) is not None,
        horizon=_horizon(text) if _FORECAST.search(text) is not None else None,
        is_classification=_CLASSIFY.search(text) is not None and not any(m.metric in REGRESSION for m in measures),
        unread=tuple(_find_unread(text, [span for _, span in found])),
    )


def _horizon(text: str) -> tuple[int, str] | None:
    """How far ahead a forecast is to go, where the goal says so."""
    for pattern in (_AHEAD, _NEXT):
        found = pattern.search(text)
        if found is not None:
            unit = next(unit for number, unit in enumerate(_UNITS.values()) if found[f"u{number}"] is not None)
            said = found["count"].lower() if pattern is _AHEAD else "1"
            return max(1, _COUNTS.get(said) or int(said)), unit
    return None


def _find_measures(text: str) -> list[tuple[Measure, tuple[int, int]]]:
    """The figures that a goal asks for, each with its place in the text."""
    found: list[tuple[Measure, tuple[int, int]]] = []
    for metric, (words, is_less_better, _) in METRICS.items():
        name = rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])"
        for form in _FORMS:
            for match in re.finditer(form.replace("NAME", name), text, re.I):
                if any(start < match.end() and match.start() < end for _, (start, end) in found):
                    continue
                relation = _read_relation(match)
                if relation == "=":  # "R² of 0.9" asks for at least that much, "RMSE of 10" for at most
                    relation = "<=" if is_less_better else ">="
                found.append((Measure(metric, relation, _value(metric, match["number"], match["unit"])), match.span()))
    return sorted(found, key=lambda one: one[1])


def _read_relation(match: re.Match[str]) -> Relation:
    for number, (_, relation) in enumerate(_RELATIONS):
        if match.groupdict().get(f"r{number}") is not None:
            return relation
    after = match.groupdict().get("after") or ""
    return "=" if not after or "better" in after.lower() else "<=" if re.match(_LESS_AFTER, after, re.I) else ">="


def _find_unread(text: str, taken: list[tuple[int, int]]) -> Iterable[str]:
    """Other comparisons with a number: a figure that is not measured here, or a condition on rows nobody applies."""
    relations = "|".join(words for words, relation in _RELATIONS if relation != "=")
    known = [*taken, *(match.span() for match in _AHEAD.finditer(text))]
    for match in re.finditer(rf"(?P<subject>[^\s,;.，；。、]*)\s*(?:{relations})\s*{_NUMBER}", text, re.I):
        if not any(start < match.end() and match.start() < end for start, end in known):
            yield match[0].strip()


def _value(metric: str, number: str, unit: str | None) -> float:
    value, unit = float(number.replace(",", "")), (unit or "").lower()
    if METRICS[metric][2]:  # a share: 90 means 90 %, 1.5 is none; a MAPE of 1.2 is not 120 %, one of 0.05 is 5 %
        is_percent = unit in ("%", "％", "percent") or value > (1 if metric == "mape" else 10)
        return round(value / 100, 12) if is_percent else value
    return value * _SCALE.get(unit, 1)


class Target(NamedTuple):
    """The column to predict, and how it was come by."""

    column: str | None
    how: Literal["named", "similar", "last", "none", "unasked", "missing"]
    said: str = ""  # the goal's own words for it


def target_of(goal: Goal, columns: Iterable[str], roles: Mapping[str, str]) -> Target:
    """The column to predict: the one the goal names, one of nearly that name, else the last that can be predicted.

    A goal that names something which no column is like is never answered with another column.
    """
    names = [str(name) for name in columns]
    if goal.is_descriptive:
        return Target(None, "none")
    text = _leave_out_horizon(goal.text) if goal.is_forecast else goal.text
    named = _find_named(text, names)
    if named:
        return Target(named, "named")
    thing = _thing(text)
    alike = _alike(thing, names)
    if alike:
        return Target(alike, "similar", thing)
    is_foreign = not thing.isascii() and all(name.isascii() for name in names)  # in a language the file does not use
    if thing and not is_foreign:
        return Target(None, "missing", thing)
    if _PREDICT.search(goal.text) is None and _says_more(goal):
        return Target(None, "unasked")
    fit = [name for name in names if roles.get(name, "number") in ("number", "category")]
    return Target(fit[-1], "last", thing) if fit else Target(None, "none")


def _says_more(goal: Goal) -> bool:
    """Whether a goal has words beside its figures; "accuracy > 90 %" alone is about the last column."""
    text = goal.text
    for _, (start, end) in reversed(_find_measures(text)):
        text = text[:start] + " " + text[end:]
    return not goal.measures or re.search(r"\w", _FILLER.sub(" ", text)) is not None


def _leave_out_horizon(text: str) -> str:
    """A goal without how far ahead: "the next 12 months" names no column `Month`."""
    return _NEXT.sub(" ", _AHEAD.sub(" ", text))


def columns_named_in(goal: Goal, columns: Iterable[str]) -> list[str]:
    """Every column that the goal speaks of."""
    return [str(name) for name in columns if _places(goal.text, str(name))]


def asks_cause(goal: Goal) -> bool:
    """Whether a goal asks what something did: "did the law reduce deaths?"."""
    return _CAUSE.search(goal.text) is not None


def nearest(thing: str, columns: Iterable[str]) -> str:
    """The column whose name is most like these words; "" if none is."""
    by_key = {str(name).lower(): str(name) for name in columns}
    found = difflib.get_close_matches(thing.lower(), by_key, 1, 0.6)
    return by_key[found[0]] if found else ""


def _thing(text: str) -> str:
    """What a goal wants predicted, where it says so: "house prices"."""
    found = _THING.search(text)
    if found is None:
        return ""
    thing = found["thing"]
    figures = (rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])" for words, *_ in METRICS.values())
    for stop in (_FROM.pattern, *figures):
        at = re.search(stop, thing, re.I)
        thing = thing[: at.start()] if at else thing
    return " ".join(_FILLER.sub(" ", thing).split())


def _alike(thing: str, names: list[str]) -> str | None:
    """The one column that shares most words with what is wanted: "house prices" is SalePrice."""
    wanted = [word.lower() for word in _words(thing)]
    scores = {}
    for name in names:
        own = [word.lower() for word in _words(name)]
        scores[name] = sum(any(_akin(word, other) for other in own) for word in wanted)
    most = max(scores.values(), default=0)
    best = [name for name, score in scores.items() if score == most]
    return best[0] if most and len(best) == 1 else None


def _akin(one: str, other: str) -> bool:
    """Whether two words have the same stem, or differ by a slip of the hand."""
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    longer = max(len(one), len(other))
    return (shared >= 4 and shared >= 0.6 * longer) or (
        longer >= 4 and difflib.SequenceMatcher(None, one, other).ratio() >= 0.8
    )


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s_\-.]+|(?<=[a-z])(?=[A-Z])", name.strip()) if word]


def _find_named(text: str, names: list[str]) -> str | None:
    """The column a text names: after a word such as "predict" first, and never one that it only predicts from."""
    found: list[tuple[int, int, str]] = []  # place in the text, length, column
    for name in names:
        found += [(place, len(name), name) for place in _places(text, name) if not _APART.search(text[:place])]
    if not found:
        return None
    verb = _PREDICT.search(text)
    start = verb.end() if verb else 0
    source = _FROM.search(text, start)
    after = [one for one in found if one[0] >= start - 2 and (source is None or one[0] < source.start())]
    before = [one for one in found if verb is not None and one[0] < start]
    chosen = after or before or ([] if verb else found)
    return min(chosen, key=lambda one: (one[0], -one[1]))[2] if chosen else None


def _places(text: str, name: str) -> list[int]:
    bare = re.sub(r"\s*[(\[（【].*?[)\]）】]\s*\Z", "", name)  # `Passengers (1000s)` is spoken of without its unit
    words = [re.escape(word) for word in _words(name)]
    if not words:
        return []
    if bare and bare != name and not re.search(r"[\s_\-.]*".join(words), text, re.I):
        return _places(text, bare)
    pattern = r"[\s_\-.]*".join(words)
    if re.fullmatch(r"[\x00-\x7f]+", name):
        pattern = rf"(?<![A-Za-z0-9_]){pattern}(?:s|es)?(?![A-Za-z0-9_])"
    return [match.start() for match in re.finditer(pattern, text, re.I)]


def render_measure(measure: Measure) -> str:
    """A measure as a person writes it."""
    sign = {"<=": "≤", ">=": "≥"}.get(measure.relation, measure.relation)
    is_plain = measure.metric in ("r2", "f1", "auc")
    bar = f"{measure.value:g}" if is_plain else figure(measure.metric, measure.value)
    return f"{label(measure.metric)} {sign} {bar}"


def label(metric: str) -> str:
    """A metric's usual name."""
    return {"r2": "R²", "f1": "F1", "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}.get(
        metric, metric if metric in ("precision", "recall") else metric.upper()
    )


def figure(metric: str, value: float | None) -> str:
    """A metric's value as a person reads it."""
    if value is None:
        return "–"
    if metric in ("accuracy", "balanced_accuracy", "precision", "recall", "mape"):
        return f"{value * 100:.4g} %"
    if metric in ("r2", "f1", "auc"):
        return f"{value:.3f}" if not 0.9995 <= value < 1 else f"{min(value, 0.99999):.5f}"  # only 1 is written as 1.000
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
