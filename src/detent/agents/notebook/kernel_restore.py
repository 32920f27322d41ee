"""How a new kernel comes to know what the journal says: a checkpoint of its variables, then pure cells again.

A cell that touched the world, or had to be asked about, never runs again by itself: its recorded outcome stands, and
what it made comes from the checkpoint. Only where that is not to be had is a person asked.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from detent.agents.notebook.cell_risk import UNREADABLE, CellFinding, findings
from detent.agents.notebook.notebook_state import NotebookState
from detent.core.contract import Contract
from detent.core.question import Question

UNFINISHED = ("dead", "timeout")  # such a cell would only do so again
WAYS = ("again", "without")
SHOWN_MAX = 80  # characters of a cell that are shown with a finding
Row = dict[str, Any]  # one executed cell: cell_id, code, repeat, ran, names


class RestorePlan(NamedTuple):
    """What happens before a new kernel runs its next cell."""

    checkpoint: dict[str, Any]  # hash, bytes, at, names, lost; empty: there is none
    rerun: tuple[Row, ...] = ()  # pure cells, in their order
    stands: tuple[Row, ...] = ()  # cells that touched the world: their recorded outcome stands
    unknown: tuple[Row, ...] = ()  # of these, what they made cannot be brought back
    left: tuple[Row, ...] = ()  # cells that did not end, or are to be skipped
    lost: Mapping[str, str] = MappingProxyType({})  # variables that nothing brings back, with the reason

    @property
    def is_empty(self) -> bool:
        """Whether a new kernel is right as it is."""
        return not (self.checkpoint or self.rerun or self.stands or self.unknown)

    def rows(self, way: str) -> list[Row]:
        """The cells to run, in their order; with the way `again`, those that touched the world too."""
        return sorted([*self.rerun, *(self.unknown if way == "again" else ())], key=lambda row: row["at"])


def plan_restore(book: NotebookState, has_file: bool) -> RestorePlan:
    """The plan for a run's next kernel; `has_file` says whether its last checkpoint is there."""
    rows: list[Row] = [{**row, "at": at} for at, row in enumerate(book.executed)]
    checkpoint = book.checkpoint if has_file else {}
    begin = int(checkpoint.get("at", 0))
    lost = dict(checkpoint.get("lost") or {})
    rerun, stands, unknown, left = [], [], [], []
    for row in rows[:begin]:
        names = set(row.get("names", ()))
        if not is_once(row, book):
            if names and names <= set(lost):  # it makes nothing but what could not be kept
                rerun.append(row)
        elif names & set(lost):
            unknown.append(row)
        else:
            stands.append(row)
    for row in rows[begin:]:
        if row["ran"] in UNFINISHED or row["repeat"] == "skip":
            left.append(row)
        elif not is_once(row, book):
            rerun.append(row)
        elif row.get("names") or row["repeat"] == "replay" or not speaks_python(book):
            # It made something, or nobody looked: in a journal of earlier days, or in another language.
            unknown.append(row)
        else:
            stands.append(row)
    made = {name for row in (*rerun, *unknown) for name in row.get("names", ())}
    gone = {name: why for name, why in lost.items() if name not in made}
    return RestorePlan(checkpoint, tuple(rerun), tuple(stands), tuple(unknown), tuple(left), gone)


def is_once(row: Row, book: NotebookState) -> bool:
    """Whether a cell that was run must not run again by itself."""
    if row["repeat"] == "once" or row.get("deeds"):
        return True
    return any(found.is_deed for found in read_cell(book, row["code"]))


def read_cell(book: NotebookState, code: str) -> list[CellFinding]:
    """What a cell might do to the world; of a language that nobody reads here, anything."""
    kernel = book.given_input.get("kernel") or {}
    if not speaks_python(book):
        return [CellFinding(UNREADABLE, " ".join(code.split())[:SHOWN_MAX])] if code.strip() else []
    return findings(code, str(kernel.get("cwd") or ""))


def speaks_python(book: NotebookState) -> bool:
    """Whether the kernel's language is Python: what it has said itself, else its name."""
    name = str((book.given_input.get("kernel") or {}).get("name") or "python")
    return str(book.kernel_language.get("name") or name).startswith("python")


def describe_plan(plan: RestorePlan) -> list[str]:
    """The plan in sentences, for whoever resumes a run."""
    lines = []
    if plan.checkpoint:
        size = int(plan.checkpoint.get("bytes", 0))
        lines.append(f"restored from a checkpoint: {len(plan.checkpoint.get('names', ()))} variables ({size:,} bytes)")
    if plan.rerun:
        lines.append(f"run again: {_ids(plan.rerun)}")
    if plan.stands:
        lines.append(f"not run again, their outcome stands: {_ids(plan.stands)}")
    if plan.unknown:
        lines.append(f"asked about, for what they made cannot be brought back: {_ids(plan.unknown)}")
    if plan.lost:
        lines.append("not kept: " + ", ".join(f"{name} ({why})" for name, why in plan.lost.items()))
    return lines


def _ids(rows: tuple[Row, ...]) -> str:
    return ", ".join(dict.fromkeys(row["cell_id"] for row in rows))


def ask_way(plan: RestorePlan) -> Question:
    """Which way to go on where what a cell made is lost, and running it again would touch the world again."""
    shown = "\n\n".join(f"{row['cell_id']}:\n{row['code']}" for row in plan.unknown)
    text = (
        "The kernel is new, and what these cells made cannot be brought back. They touched the world, so they do not "
        "run again by themselves. `again` runs them again, `without` goes on without what they made.\n\n" + shown
    )
    schema = {
        "type": "object",
        "properties": {"way": {"type": "string", "enum": [*WAYS], "title": "Which way?"}},
        "required": ["way"],
    }
    cells = [{"cell_id": row["cell_id"], "code": row["code"]} for row in plan.unknown]
    return Question(text, "form", schema=schema, data={"restore": cells})


def way_given(contract: Contract) -> str:
    """Which way people chose where a cell that touched the world would have to run again."""
    said = [answer.data for answer in contract.answers if isinstance(answer.data, dict)]
    return str(next((one["way"] for one in reversed(said) if "way" in one), ""))
