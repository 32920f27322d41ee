"""A model as planner and generator, over its real wire, with a scripted server; its code is read before it runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.cell_risk import risks
from detent.core.status import Status
from tests.agents.notebook.studio import code, studio
from tests.effects.llm.scripted import said, serving

STAGES = [{"id": "s", "title": "S", "steps": [{"step_id": "one", "acceptance": ["x == 2"]}]}]
FIRST = {"targetAchieved": False, "context_update": {"workflow_update": {"workflowTemplate": {"stages": STAGES}}}}
NO, YES = {"targetAchieved": False}, {"targetAchieved": True, "reason": "x is there"}


def lines(*actions: dict[str, Any]) -> str:
    return "\n".join(json.dumps(action) for action in actions)


def told(value: Any) -> Any:
    return said(value if isinstance(value, str) else json.dumps(value))


async def test_a_model_plans_writes_and_is_corrected_and_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = lines({"action": "add"}, {"action": "dance"})
    answers = [
        FIRST, NO, wrong, "```\n" + lines(*code("x = 1")) + "\n```", YES,  # refused: x is 1
        lines(*code("import subprocess\nx = 2")), YES, YES, YES,
    ]  # fmt: skip
    async with serving(*map(told, answers)) as server, studio(tmp_path) as here:
        monkeypatch.setenv("DETENT_MODEL", "openai:tiny")
        monkeypatch.setenv("DETENT_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000")
        run = await here.begin(Brief(goal="g", planner={"use": "llm"}, kernel=KernelBrief(eager=False)))
        assert run.status is Status.WAITING, run.error  # a cell that starts programs asks first
        question = run.waiting[0].question
        assert question is not None
        assert "starts a program" in question.text
        run = await here.answer(approved=True)
        assert (run.state, run.output["achieved"]) == ("workflow_completed", True), run.error
        assert here.book.variables["x"] == 2
        assert run.usage["tokens"] == 15 * len(answers)
        correction = server.asked[3].body["messages"][-1]["content"]
        assert "`add` needs `content`" in correction
        assert "no action `dance`" in correction
        assert "REFUSED" in json.dumps(server.asked[5].body)


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("x = 1\nprint(x)", []),
        ("import pandas as pd\npd.read_csv('a.csv').to_csv('b.csv')", []),
        ("import os\nos.system('ls')", ["starts a program"]),
        ("import subprocess", ["starts a program"]),
        ("!ls", ["starts a program"]),
        ("%pip install x", ["installs packages"]),
        ("!pip install x", ["installs packages"]),
        ("import urllib.request", ["uses the network"]),
        ("pd.read_csv('https://example.org/a.csv')", ["uses the network"]),
        ("open('/etc/passwd').read()", []),
        ("open('/tmp/x', 'w')", ["writes outside of its folder"]),
        ("open('../x', mode='a')", ["writes outside of its folder"]),
        ("open('/data/x', 'w')", []),
        ("import shutil\nshutil.rmtree('x')", ["removes files"]),
        ("eval('1')", ["runs code that cannot be read here"]),
        ("not python at all", []),
    ],
)
def test_what_a_cell_might_do_is_read_from_its_code(source: str, reasons: list[str]) -> None:
    assert risks(source, "/data") == reasons
