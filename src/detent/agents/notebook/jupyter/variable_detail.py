"""Strategies for single variables (`shape_only`, `describe_only`, `head_only`, `last_N_only`); sent beside the probe.

Frames and arrays are asked through the methods of their own library, on a sample of at most 20,000 rows, and the answer
says so. Like the probe, this text runs inside the kernel and imports the standard library only.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

HEAD = 5
LAST_MAX = 100
COLUMNS_MAX = 60
ROW_MAX = 50
SAMPLE_MAX = 20_000
BUDGET_S = 2.0


def summary(probe: Any, value: Any, strategy: str) -> Any:
    """What the strategy says of the value; a sentence if it has nothing to say."""
    if strategy == "shape_only":
        return probe.brief(value)
    if strategy == "describe_only":
        return describe(probe, value)
    if strategy == "head_only":
        return part(probe, value, HEAD, is_last=False)
    count = strategy[len("last_") : -len("_only")]
    if strategy.startswith("last_") and strategy.endswith("_only") and count.isdigit() and int(count) > 0:
        return part(probe, value, min(int(count), LAST_MAX), is_last=True)
    return f"{probe.brief(value)} (there is no strategy `{strategy}`)"


def part(probe: Any, value: Any, count: int, is_last: bool) -> Any:
    """The first or the last rows, items or characters."""
    kind = type(value)
    family, base = probe.family(kind)
    key = "last" if is_last else "head"
    if family == "frame":
        few = base.tail(value, count) if is_last else base.head(value, count)
        return {"shape": probe.brief(value), **table(probe, few, key)}
    if family == "series":
        rows = value.iloc if hasattr(value, "iloc") else value
        return {"shape": probe.brief(value), key: cells(probe, list_values(rows[-count:] if is_last else rows[:count]))}
    if family in ("array", "tensor") and probe.shape(value):
        few = value[-count:] if is_last else value[:count]
        return {"shape": probe.brief(value), key: [rows_of(probe, row) for row in few]}
    if kind is str:
        return value[-count:] if is_last else value[: probe.TEXT_MAX]
    if id(kind) in probe.DICT_IDS:
        few = reversed(list(itertools.islice(reversed(value), count))) if is_last else itertools.islice(value, count)
        return {"shape": probe.brief(value), key: {str(probe.show(one)[0]): probe.show(value[one])[0] for one in few}}
    if id(kind) in probe.LIST_IDS:
        few = (
            list(itertools.islice(value, max(0, len(value) - count), None))
            if is_last
            else itertools.islice(value, count)
        )
        return {"shape": probe.brief(value), key: cells(probe, few)}
    return probe.brief(value)


def cells(probe: Any, values: Any) -> list[Any]:
    """Each value as the probe shows it."""
    return [probe.show(value)[0] for value in values]


def rows_of(probe: Any, row: Any) -> Any:
    """One row of an array of any rank: its first numbers."""
    flat = row.reshape(-1) if hasattr(row, "reshape") else row
    return cells(probe, flat[:ROW_MAX].tolist()) if hasattr(flat, "tolist") and flat.shape else probe.show(flat)[0]


def table(probe: Any, few: Any, key: str) -> dict[str, Any]:
    """A few rows of a frame of either library."""
    names = list(few.columns)[:COLUMNS_MAX]
    series = [column(few, position) for position in range(len(names))]
    rows = [cells(probe, row) for row in zip(*map(list_values, series))]  # noqa: B905  # an older kernel knows no `strict`
    found: dict[str, Any] = {"columns": cells(probe, names), key: rows}
    if len(few.columns) > len(names):
        found["note"] = f"the first {len(names)} of {len(few.columns)} columns"
    return found


def list_values(series: Any) -> list[Any]:
    """The values of a column of either library as Python objects."""
    found: list[Any] = series.tolist() if hasattr(series, "tolist") else series.to_list()
    return found


def column(frame: Any, position: int) -> Any:
    """A column by its place, for names may occur twice."""
    return frame.iloc[:, position] if hasattr(frame, "iloc") else frame.to_series(position)


def describe(probe: Any, value: Any) -> Any:
    """Figures per column, or of the numbers in an array or a list."""
    family, _ = probe.family(type(value))
    if family == "frame":
        return describe_frame(probe, value)
    if family == "series":
        few, note = sample(value, len(value))
        return {"shape": probe.brief(value), **figures(probe, few), **note}
    if family in ("array", "tensor"):
        flat = value.reshape(-1)
        few, note = sample(flat, flat.shape[0])
        return {"shape": probe.brief(value), "dtype": str(value.dtype), **numbers(few.tolist()), **note}
    if type(value) is list or type(value) is tuple:
        few, note = sample(value, len(value))
        return {"shape": probe.brief(value), **numbers(few), **note}
    return probe.brief(value)


def sample(value: Any, length: int) -> tuple[Any, dict[str, str]]:
    """Evenly spread rows, at most SAMPLE_MAX, and a note if these are not all."""
    step = -(-length // SAMPLE_MAX)
    if step <= 1:
        return value, {}
    few = value.iloc[::step] if hasattr(value, "iloc") else value[::step]
    return few, {"note": f"figures from a sample of {len(few):,} of {length:,} rows"}


def describe_frame(probe: Any, frame: Any) -> dict[str, Any]:
    """Type, missing values and figures of each column."""
    until = time.monotonic() + BUDGET_S
    few, note = sample(frame, probe.shape(frame)[0])
    columns: dict[str, Any] = {}
    names = list(few.columns)
    for position, name in enumerate(names[:COLUMNS_MAX]):
        if time.monotonic() > until:
            break
        columns[str(probe.show(name)[0])] = figures(probe, column(few, position))
    if len(columns) < len(names):
        said = f"the first {len(columns)} of {len(names)} columns"
        note = {"note": f"{note['note']}; {said}" if note else said}
    return {"shape": probe.brief(frame), "columns": columns, **note}


def figures(probe: Any, series: Any) -> dict[str, Any]:
    """What can be said of one column of either library without running foreign code of the values in it."""
    values = list_values(series)
    missing = int(series.isna().sum()) if hasattr(series, "isna") else int(series.null_count())
    found: dict[str, Any] = {"dtype": str(series.dtype), "missing": missing}
    kinds = {id(type(value)) for value in values if value is not None}  # hashing a class may run its metaclass
    if kinds <= {id(int), id(float), id(bool)}:
        return {**found, **numbers(values)}
    texts = [value for value in values if type(value) is str]
    if texts and kinds <= {id(str), id(float)}:
        counts: dict[str, int] = {}
        for text in texts:
            counts[text] = counts.get(text, 0) + 1
        top = max(counts, key=lambda text: counts[text])
        return {**found, "count": len(texts), "unique": len(counts), "top": probe.show(top)[0], "freq": counts[top]}
    written = [value for value in values if probe.family(type(value))[0] == "written" and value == value]  # noqa: PLR0124
    if written and len(kinds) == 1:
        return {**found, "count": len(written), "min": str(min(written)), "max": str(max(written))}
    return found


def numbers(values: Any) -> dict[str, Any]:
    """Count, mean, deviation and quartiles of the finite numbers among the values."""
    finite = sorted(
        float(value)
        for value in values
        if (type(value) is float and math.isfinite(value))
        or type(value) is bool
        or (type(value) is int and abs(value) < 1e300)
    )
    if not finite:
        return {"count": 0}
    mean = math.fsum(finite) / len(finite)
    spread = math.fsum((value - mean) ** 2 for value in finite) / max(1, len(finite) - 1)
    found = {"count": len(finite), "mean": mean, "std": math.sqrt(spread), "min": finite[0]}
    for mark in (25, 50, 75):
        found[f"{mark}%"] = quantile(finite, mark / 100)
    rounded = {key: float(f"{figure:.6g}") for key, figure in {**found, "max": finite[-1]}.items()}
    return {**rounded, "count": len(finite)}


def quantile(ordered: list[float], share: float) -> float:
    """The value below which that share lies, interpolated as pandas does."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
