"""Excel files as people make them, written without a library: titles, merged cells, several sheets, notes below."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
    "{parts}</Types>"
)
PART = (
    '<Override PartName="/xl/worksheets/sheet{n}.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
)
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{links}</Relationships>'
LINK = '<Relationship Id="r{n}" Type="{kind}" Target="{target}"/>'

Sheet = tuple[Sequence[Sequence[Any]], Sequence[str]]  # rows of cells, and merged ranges such as `A1:D1`


def write_workbook(path: Path, sheets: Mapping[str, Sheet]) -> Path:
    """Write a workbook of these sheets."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        parts = "".join(PART.format(n=n) for n in range(1, len(sheets) + 1))
        file.writestr("[Content_Types].xml", TYPES.format(parts=parts))
        root = LINK.format(n=1, kind=f"{RELATED}/officeDocument", target="xl/workbook.xml")
        file.writestr("_rels/.rels", LINKS.format(links=root))
        names = "".join(
            f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, start=1)
        )
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATED}"><sheets>{names}</sheets></workbook>'
        )
        links = "".join(
            LINK.format(n=n, kind=f"{RELATED}/worksheet", target=f"worksheets/sheet{n}.xml")
            for n in range(1, len(sheets) + 1)
        )
        file.writestr("xl/_rels/workbook.xml.rels", LINKS.format(links=links))
        for n, sheet in enumerate(sheets.values(), start=1):
            file.writestr(f"xl/worksheets/sheet{n}.xml", _spell_sheet(*sheet))
    return path


def _spell_sheet(rows: Sequence[Sequence[Any]], merged: Sequence[str]) -> str:
    spelled = "".join(
        f'<row r="{at}">'
        + "".join(_spell_cell(cell, f"{_letters(column)}{at}") for column, cell in enumerate(row))
        + "</row>"
        for at, row in enumerate(rows, start=1)
    )
    ranges = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
    ends = f"<mergeCells>{ranges}</mergeCells>" if merged else ""
    return f'<worksheet xmlns="{MAIN}"><sheetData>{spelled}</sheetData>{ends}</worksheet>'


def _spell_cell(cell: Any, place: str) -> str:
    if cell is None or cell == "":
        return ""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return f'<c r="{place}"><v>{cell}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t>{escape(str(cell))}</t></is></c>'


def _letters(column: int) -> str:
    first, last = divmod(column, 26)
    return (chr(64 + first) if first else "") + chr(65 + last)
