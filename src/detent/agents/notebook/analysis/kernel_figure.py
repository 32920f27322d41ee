"""Figures on their way from the kernel to the report: they travel beside the tables that cells show.

A cell's `show(table, rows=506)` puts one more part into the output's MIME bundle. The output is journalled with the
cell, so planner and report see the same figures after any crash, and nobody has to ask the kernel again.
"""

from typing import Any

FACTS = "application/vnd.detent.facts+json"


class Facts:
    """What the cells of a notebook have handed over; a later cell's word counts."""

    def __init__(self, cells: list[dict[str, Any]]) -> None:
        self._known: dict[str, Any] = {}
        self.errors: dict[str, str] = {}  # by step: what its last failing cell raised
        for cell in cells:
            for output in cell.get("outputs") or []:
                found = (output.get("data") or {}).get(FACTS)
                if isinstance(found, dict):
                    self._known.update(found)
                if output.get("output_type") == "error":
                    text = f"{output.get('ename')}: {output.get('evalue')}"
                    self.errors[str(cell.get("phase_id") or "")] = text[:300]

    def get(self, name: str) -> Any:
        """A figure; None if nobody has said it."""
        return self._known.get(name)

    @property
    def error(self) -> str:
        """What the last failing cell raised."""
        return list(self.errors.values())[-1] if self.errors else ""
