"""A workflow may be called what an agent is called: it is nobody's job and nobody's notebook."""

import subprocess
from pathlib import Path

import pytest

from tests.surfaces.command import Detent

FLOW = """
name: {name}
states:
  BLOCKED: {{type: initial, actions: [{{id: act, tool: ask, approval: {{question: "Sure?"}}}}]}}
  done: {{type: final}}
transitions: [{{from: BLOCKED, to: done}}]
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    made = Detent(tmp_path)
    for name in ("coding", "notebook"):
        (tmp_path / f"{name}.yaml").write_text(FLOW.format(name=name))
        made("run", f"{name}.yaml", "--id", name, code=3)
    return made


def test_a_workflow_called_coding_is_no_job(detent: Detent) -> None:
    assert "there is no coding job here" in detent("code", "status", code=2).err


@pytest.mark.parametrize("verb", ["show", "status", "cancel", "resume", "retry", "export"])
def test_a_workflow_called_notebook_is_no_notebook(detent: Detent, verb: str) -> None:
    assert "there are no notebooks here yet" in detent("notebook", "list").out
    assert "run notebook is not a notebook" in detent("notebook", verb, "notebook", code=2).err
    assert detent("show", "notebook", "--json").json["status"] == "waiting"
