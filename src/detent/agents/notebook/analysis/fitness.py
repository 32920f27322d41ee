"""Whether a file can be analysed at all, seen from outside before any kernel starts."""

from itertools import islice
from pathlib import Path

import msgspec

from detent.agents.notebook.action import BESIDES, PROTOCOL
from detent.agents.notebook.cell_text import action_of
from detent.errors import Refused

TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".json", ".jsonl", ".feather", ".dta", ".sqlite", ".duckdb")
PACKED = (".gz", ".bz2", ".xz")
WHOLE = (
    ".xlsx",
    ".xls",
    ".xlsm",
    ".ods",
    ".parquet",
    ".pq",
    ".feather",
    ".dta",
    ".db",
    ".sqlite",
    ".sqlite3",
    ".duckdb",
    *PACKED,
)  # read by their own libraries
FOREIGN = {
    ".zip": "an archive: unpack it first",
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
    if b"\0" in sample and not sample.startswith(MARKS):
        raise Refused(f"{path} holds binary data, not a table; tables come as {', '.join(TABLES)}")
    is_text = kind not in (".json", ".jsonl", ".ndjson")
    if is_text and size <= SAMPLE and not sample.startswith(MARKS):
        lines = [line for line in sample.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip()]
        if not lines:
            raise Refused(f"{path} holds only blank lines: there is nothing to analyse")
        if len(lines) == 1:
            shown = lines[0][:80].decode("utf-8", "replace")
            raise Refused(f"{path} has one line ({shown}) and no rows below it: there is nothing to analyse")
