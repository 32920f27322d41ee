"""Workflow templates: files to begin with, each with its cases beside it."""

import re
from pathlib import Path
from typing import NamedTuple

from detent.core.machine import did_you_mean
from detent.errors import Unknown

FOLDER = Path(__file__).parent / "templates"
SCHEMA_FILE = "workflow.schema.json"  # what the first line of every template points editors to
CASES = ".test.yaml"


class Template(NamedTuple):
    """A workflow file and its cases, as text."""

    name: str
    about: str
    workflow: str
    cases: str

    def cases_for(self, file: str) -> str:
        """The cases, for a workflow file of another name."""
        return self.cases.replace(f"workflow: {self.name}.yaml\n", f"workflow: {file}\n")


def templates() -> tuple[Template, ...]:
    """Every template there is, by name."""
    files = sorted(path for path in FOLDER.glob("*.yaml") if not path.name.endswith(CASES))
    return tuple(_template(path) for path in files)


def template(name: str) -> Template:
    """The template of that name."""
    found = {one.name: one for one in templates()}
    if name not in found:
        hint = did_you_mean(name, found) or f"; there are: {', '.join(found)}"
        raise Unknown(f"there is no template `{name}`{hint}")
    return found[name]


def _template(path: Path) -> Template:
    text = path.read_text(encoding="utf-8")
    about = re.search(r"(?m)^description: (.*)$", text)
    cases = path.with_name(path.stem + CASES).read_text(encoding="utf-8")
    return Template(path.stem, about[1] if about else "", text, cases)
