"""Whether a file can be analysed at all, seen from outside before any kernel starts."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path, PurePath

import msgspec

from detent.agents.notebook.action import BESIDES, PROTOCOL
from detent.agents.notebook.cell_text import action_of
from detent.errors import Refused

TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".json", ".jsonl", ".arrow", ".dta", ".sqlite", ".duckdb")
PACKED = (".gz", ".bz2", ".xz", ".zip")
KINDS = {  # what is no text, by the cells that read it
    "sheet": (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"),
    "columns": (".parquet", ".pq", ".feather", ".arrow", ".ipc"),
    "database": (".db", ".sqlite", ".sqlite3", ".duckdb"),
    "stata": (".dta",),
    "json": (".json", ".jsonl", ".ndjson"),
}
WHOLE = (*(ending for kind, endings in KINDS.items() if kind != "json" for ending in endings), *PACKED)
LARGE_BYTES = 200_000_000  # what is larger is analysed by a part of its rows
FOREIGN = {
    ".tar": "an archive: unpack it first",
    ".pkl": "a pickle, which may run anything when it is read: save the table as CSV or Parquet",
    ".pickle": "a pickle, which may run anything when it is read: save the table as CSV or Parquet",
    ".pdf": "a document, not a table",
    ".docx": "a document, not a table",
    ".png": "a picture, not a table",
    ".jpg": "a picture, not a table",
}
MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, in which every other byte may be zero
SAMPLE = 65_536
LINES_LOOKED_AT = 50


def kinds_of(names: Iterable[str]) -> set[str]:
    """The kinds of these files, and `several` where there may be more than one table."""
    found, count = set(), 0
    for name in names:
        place = PurePath(name.lower())
        ending = PurePath(place.stem).suffix if place.suffix in PACKED else place.suffix
        found.add(next((kind for kind, endings in KINDS.items() if ending in endings), "text"))
        count += 1
    return found | ({"several"} if count > 1 or found & {"sheet", "database"} else set())


def is_table(path: Path, *, has_actions: bool = False) -> bool:
    """Whether lines of JSON are rows of a table and not actions of a script; `has_actions`: there are own ones."""
    if path.suffix.lower() not in (".ndjson", ".jsonl"):
        return False
    with path.open("rb") as file:
        lines = [line for line in islice(file, LINES_LOOKED_AT) if line.strip()]
    return not any(_is_of_script(line, has_actions) for line in lines)


def _is_of_script(line: bytes, has_actions: bool) -> bool:
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True  # no row of a table either: whoever reads the script names the line
    if not isinstance(found, dict) or "actions" in found:
        return True
    name = action_of(found).get("action", "")
    is_own = isinstance(found.get("action"), dict) or ("action" in found and ("content" in found or has_actions))
    return name in PROTOCOL or name in BESIDES or is_own


def refuse_unfit(path: Path) -> None:
    """Raise Refused, with the way out, where a look at the file shows that there is no table in it."""
    kind = path.suffix.lower()
    if kind in FOREIGN:
        raise Refused(f"{path} is {FOREIGN[kind]}; tables come as {', '.join(TABLES)}")
    size = path.stat().st_size
    if size == 0:
        raise Refused(f"{path} is empty: there is nothing to analyse")
    if kind in WHOLE:
        return
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    is_wide = sample.startswith(MARKS) or sample.count(b"\0") > len(sample) / 5
    is_wide = is_wide and sample[: len(sample) // 2 * 2].count(b"\0\0\0") == 0
    if b"\0" in sample and not is_wide:
        raise Refused(f"{path} holds binary data, not a table; tables come as {', '.join(TABLES)}")
    is_text = kind not in (".json", ".jsonl", ".ndjson")
    if is_text and size <= SAMPLE and not is_wide:
        lines = [line for line in sample.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip()]
        if not lines:
            raise Refused(f"{path} holds only blank lines: there is nothing to analyse")
        if len(lines) == 1:
            shown = lines[0][:80].decode("utf-8", "replace")
            raise Refused(f"{path} has one line ({shown}) and no rows below it: there is nothing to analyse")
