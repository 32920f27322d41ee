"""Templates: every one is sound, its cases hold, and `detent init` writes them without harming anything."""

import json
from pathlib import Path

import pytest

from detent.define.schema import schema
from detent.define.workflow import load_workflow
from detent.define.workflow_template import FOLDER, template, templates
from detent.effects import builtin
from detent.errors import Unknown
from detent.testing import try_cases
from tests.surfaces.command import Detent

NAMES = [
    "approval-release",
    "classifier-branches",
    "nightly-report",
    "parallel-research",
    "retry-loop",
    "wait-for-webhook",
]


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


def test_there_are_six() -> None:
    assert [one.name for one in templates()] == NAMES
    assert all(one.about.endswith(".") for one in templates())
    with pytest.raises(Unknown, match="did you mean `retry-loop`"):
        template("retry-lop")


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_sound_and_its_cases_hold(name: str) -> None:
    assert load_workflow(FOLDER / f"{name}.yaml", known_effects=builtin()).warnings == ()
    assert template(name).workflow.startswith("# yaml-language-server: $schema=workflow.schema.json\n")
    verdicts = try_cases(FOLDER / f"{name}.test.yaml")
    assert len(verdicts) >= 3
    assert [verdict for verdict in verdicts if not verdict.ok] == []


def test_init_lists_the_templates(detent: Detent) -> None:
    said = detent("init").out
    assert all(name in said for name in NAMES)
    assert [one["name"] for one in detent("init", "--json").json["templates"]] == NAMES
    assert "approval-release" in detent("init", "flow.yaml", code=2).err


@pytest.mark.parametrize("name", NAMES)
def test_init_writes_a_workflow_that_can_be_tested_at_once(name: str, detent: Detent) -> None:
    made = detent("init", "mine.yaml", "--template", name, "--json").json
    assert made["files"] == ["mine.yaml", "mine.test.yaml", "workflow.schema.json"]
    assert json.loads((detent.folder / "workflow.schema.json").read_text()) == schema()
    assert detent("validate", "mine.yaml").err == ""
    assert detent("test", "mine.test.yaml").out.endswith(" passed, 0 failed\n")


def test_init_never_overwrites(detent: Detent) -> None:
    detent("init", "--template", "retry-loop")
    before = {path: path.read_bytes() for path in detent.folder.iterdir()}
    assert "not overwritten" in detent("init", "--template", "retry-loop", code=2).err
    (detent.folder / "other.test.yaml").write_text("mine")
    assert "other.test.yaml is there already" in detent("init", "other.yaml", "--template", "retry-loop", code=2).err
    assert {path: path.read_bytes() for path in before} == before
    assert not detent.has("other.yaml")
    detent("init", "second.yaml", "--template", "nightly-report")
    (detent.folder / "workflow.schema.json").write_text("{}")
    assert "workflow.schema.json" in detent("init", "third.yaml", "--template", "retry-loop", code=2).err
    for name in ("x.txt", "x.test.yaml", "no/such/folder.yaml"):
        detent("init", name, "--template", "retry-loop", code=2)


def test_schema_prints_the_schema(detent: Detent) -> None:
    assert json.loads(detent("schema").out) == schema()
    assert detent("schema", "--json").json == schema()
