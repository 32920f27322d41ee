"""The columns of a table: numbers stand to the right, words to the left, and each heading as its column does.

Reads what was cleaned, where every element is closed and every other `<` is an entity.
"""

import re
from collections.abc import Sequence

CELLS_MAX = 200_000  # a larger table stays as it is
NUMBER_MAX = 60  # characters; what is longer is no number anybody reads
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.DOTALL)
_NUMBER = re.compile(r"\s*[-+−]?(?:[\d,]*\.?\d+|\d+\.)(?:e[-+]?\d+)?\s*%?\s*", re.IGNORECASE)
_NOTHING = frozenset(("", "nan", "nat", "none", "<na>", "&lt;na&gt;", "inf", "-inf", "...", "…"))


def align_columns(html: str) -> str:
    """The same HTML with the cells of numeric columns marked."""
    return _TABLE.sub(lambda table: _align_table(table[0]), html)


def _align_table(table: str) -> str:
    rows = [_CELL.findall(row) for row in _ROW.findall(table)]
    if sum(map(len, rows)) > CELLS_MAX:
        return table
    numeric = {place for place in range(1, max(map(len, rows), default=0) + 1) if _is_numeric(_column(rows, place))}

    def marked(row: re.Match[str]) -> str:
        left = len(_CELL.findall(row[0])) + 1

        def cell(found: re.Match[str]) -> str:
            nonlocal left
            left -= 1
            tag, more, text = found.groups()
            return f'<{tag}{more} class="number">{text}</{tag}>' if left in numeric else found[0]

        return _CELL.sub(cell, row[0])

    return _ROW.sub(marked, table)


def _column(rows: Sequence[Sequence[tuple[str, str, str]]], place: int) -> list[str]:
    """The values of a column, counted from the right: what spans several rows stands on the left."""
    return [row[-place][2] for row in rows if len(row) >= place and row[-place][0] == "td"]


def _is_numeric(values: Sequence[str]) -> bool:
    told = [value for value in values if value.strip().lower() not in _NOTHING]
    return bool(told) and all(len(value) <= NUMBER_MAX and _NUMBER.fullmatch(value) for value in told)
