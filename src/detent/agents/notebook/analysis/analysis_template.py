"""The templates of the analysis as values: stages, steps, candidates, cells with slots."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec.structs import replace

from detent.define.document import read_document
from detent.define.problem import refuse

DELIVER = "deliver"
_SLOT = re.compile(r"\$(\$|[a-z_]+)")


class Words(msgspec.Struct, frozen=True):
    """One sentence in both languages."""

    en: str
    zh: str

    def say(self, language: str) -> str:
        """The sentence in that language."""
        return self.zh if language == "zh" else self.en


class CellRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The code of one cell, with slots."""

    id: str
    code: str
    auto_debug: bool = False
    only: tuple[str, ...] = ()  # tasks; (): any
    kinds: tuple[str, ...] = ()  # of files; (): any


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing a step may try: what fills the slots of its trial cell, or code of its own."""

    id: str
    title: Words
    slots: dict[str, str] = {}
    code: str = ""


class StepRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    step_id: str
    title: Words
    description: Words
    must: bool = False
    expected: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    cells: tuple[CellRecipe, ...] = ()
    candidates: dict[str, tuple[Candidate, ...]] = {}
    trial: CellRecipe | None = None


class StageRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage."""

    id: str
    title: Words
    description: Words
    steps: tuple[StepRecipe, ...]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole analysis."""

    id: str
    name: Words
    stages: tuple[StageRecipe, ...]

    def step(self, step_id: str) -> StepRecipe | None:
        """The step of that id."""
        return next((step for stage in self.stages for step in stage.steps if step.step_id == step_id), None)

    def opens(self, step_id: str) -> StageRecipe | None:
        """The stage that begins with this step."""
        return next((stage for stage in self.stages if stage.steps[0].step_id == step_id), None)

    def before(self, step_id: str) -> str:
        """The step before this one; "" if it is the first."""
        order = [step.step_id for stage in self.stages for step in stage.steps]
        at = order.index(step_id)
        return order[at - 1] if at else ""

    def wire(self, language: str) -> dict[str, Any]:
        """The plan as the protocol sends it; what may fail without harm is not held against the step beforehand."""
        return {
            "id": self.id,
            "name": self.name.say(language),
            "stages": [
                {
                    "id": stage.id,
                    "title": stage.title.say(language),
                    "description": stage.description.say(language),
                    "steps": [
                        {
                            "step_id": step.step_id,
                            "title": step.title.say(language),
                            "description": step.description.say(language),
                            "expected": [*step.expected],
                            "acceptance": [*step.acceptance] if step.must else [],
                        }
                        for step in stage.steps
                    ],
                }
                for stage in self.stages
            ],
        }


class RecipePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a step does beside what stands in the template: how files are read, and what a forecast needs."""

    cells: tuple[CellRecipe, ...] = ()
    candidates: tuple[Candidate, ...] = ()


@cache
def recipe() -> Recipe:
    """The recipe this detent carries: the analysis, with the cells of files and forecasts in their steps."""
    whole = msgspec.convert(_read("template.yaml"), Recipe)
    more: dict[str, RecipePart] = {}
    for name in ("loading.yaml", "forecast.yaml"):
        more |= msgspec.convert(_read(name), dict[str, RecipePart])
    stages = [
        replace(stage, steps=tuple(_with(step, more.get(step.step_id)) for step in stage.steps))
        for stage in whole.stages
    ]
    return replace(whole, stages=tuple(stages))


def _with(step: StepRecipe, more: RecipePart | None) -> StepRecipe:
    if more is None:
        return step
    candidates = {**step.candidates, "forecast": more.candidates} if more.candidates else step.candidates
    last = tuple(cell for cell in step.cells if cell.id == DELIVER)  # files come when all is known
    first = tuple(cell for cell in step.cells if cell.id != DELIVER)
    return replace(step, cells=(*first, *more.cells, *last), candidates=candidates)


def _read(name: str) -> Any:
    place = files("detent.agents.notebook.analysis") / name
    document = read_document(place.read_text(encoding="utf-8"), place.name)
    refuse(document.problems)
    return document.value


def fill_slots(code: str, values: Mapping[str, Any], pieces: Mapping[str, str]) -> str:
    """Code with its slots filled: values as Python literals, pieces (code of the recipe itself) as they are."""

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name == "$":
            return "$"
        return pieces[name] if name in pieces else repr(values[name])

    return _SLOT.sub(fill, code).strip("\n")
