"""Decisions as rows of a table that a spreadsheet opens safely.

A cell that begins like a formula gets an apostrophe before it, and nothing in a cell is hidden: line ends, marks that
turn the writing around and the like are written as escapes.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from detent.kit.audit.decision import AuditDecision
from detent.kit.safe_text import as_json, visible

COLUMNS = (
    "time", "run", "seq", "workflow", "contract", "effect", "effect_kind", "decision", "answer", "by", "known_by",
    "spoken_by", "channel", "question", "arguments", "call_hash", "approvers", "quorum", "edits", "given", "reason",
    "rule", "policy", "outcome", "outcome_time",
)  # fmt: skip
FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # also the wide forms, which some spreadsheets take for them
CELL_MAX = 32_000  # characters; spreadsheets cut what is longer without a word


def write_csv(decisions: Iterable[AuditDecision]) -> Iterator[str]:
    """The lines of a CSV file, the header first."""
    yield write_row(COLUMNS)
    for one in decisions:
        yield write_row([protect(cell) for cell in cells_of(one)])


def write_row(cells: Iterable[str]) -> str:
    """One line of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def protect(cell: str) -> str:
    """The cell as a spreadsheet may have it: never a formula, and never cut without saying so."""
    if len(cell) > CELL_MAX:
        cell = f"{cell[:CELL_MAX]}… ({len(cell) - CELL_MAX} more characters; --json has them)"
    return f"'{cell}" if cell[:1] in FORMULA else cell


def cells_of(one: AuditDecision) -> list[str]:
    """The cells of a row, in the order of the columns."""
    return [
        stamp(one.at), one.run_id, str(one.seq), visible(one.workflow), visible(one.contract_id), visible(one.effect),
        one.effect_kind, one.decision, one.answer, visible(one.by), visible(one.known_by), visible(one.spoken_by),
        visible(one.channel),
        visible(one.question), "" if one.arguments is None else as_json(one.arguments), one.call_hash,
        visible(", ".join(one.approvers)), one.quorum,
        as_json(msgspec.to_builtins(one.edits)) if one.edits else "", "" if one.given is None else as_json(one.given),
        visible(one.reason), visible(one.rule), one.policy, one.outcome, stamp(one.outcome_at),
    ]  # fmt: skip


def stamp(at: float) -> str:
    """A moment in UTC, as ISO 8601 writes it; nothing where there was none."""
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(at)
