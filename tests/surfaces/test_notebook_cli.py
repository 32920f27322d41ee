"""`detent notebook` from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DETENT = Path(sys.executable).with_name("detent")
SCRIPT = {
    "title": "Job",
    "actions": [
        {"action": "add", "shot_type": "action", "content": "total = n * 2\nprint(total)"},
        {"action": "exec", "codecell_id": "lastAddedCellId"},
        {"action": "shout", "content": "done"},
    ],
}
ACTIONS = """
from detent.agents.notebook.action_context import ScriptStore


def shout(store, step):
    store.add_cell("markdown", step["content"].upper())


ScriptStore.register_custom_action("shout", shout)
"""


def detent(folder: Path, *words: str, given: str = "", lang: str = "en") -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "DETENT_LANG": lang, "HOME": str(folder)}
    command = [str(DETENT), "notebook", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, input=given, env=env)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(json.dumps(SCRIPT))
    (tmp_path / "own.py").write_text(ACTIONS)
    return tmp_path


def test_a_script_with_parameters_and_own_actions_is_run_shown_and_exported(folder: Path) -> None:
    done = detent(folder, "run", "job.yaml", "-p", "n=21", "--id", "job", "--actions", "own.py", "-o", "job.json")
    assert done.returncode == 0, done.stderr
    assert "[2] total = n * 2  ok" in done.stderr
    assert "as a file" not in done.stderr  # it has one
    saved = json.loads((folder / "job.json").read_text())
    assert [cell.get("content", "") for cell in saved["cells"]][1:] == ["total = n * 2\nprint(total)", "DONE"]
    assert saved["saved_at"]
    shown = detent(folder, "show", "job")
    assert "│ 42" in shown.stdout
    seen = json.loads(detent(folder, "show", "job", "--observation").stdout)
    assert seen["context"]["variables"]["total"] == 42
    status = json.loads(detent(folder, "status", "job", "--json").stdout)
    assert status["output"]["achieved"] is True
    assert detent(folder, "list").stdout.startswith("job  workflow_completed")
    again = detent(folder, "run", "job.yaml", "-p", "n=21", "--id", "job", "--json")
    assert json.loads(again.stdout)["state"] == "workflow_completed"
    assert "回到空闲" in detent(folder, "--help", lang="zh").stdout


def test_a_failed_job_is_repaired_and_retried(folder: Path) -> None:
    failed = detent(folder, "run", "job.yaml", "--id", "job")
    assert failed.returncode == 1
    assert "NameError" in failed.stdout
    assert "ways out: detent notebook retry job (the behavior)" in failed.stderr
    talk = "\nsave\nstatus\ncells\nvar list\nexec print(6 * 7)\ntransition NEXT_STEP\nnonsense\neffect\nquit\n"
    talked = detent(folder, "repl", "job", "--script", "job.yaml", given=talk)
    assert talked.returncode == 0, talked.stderr
    assert "42" in talked.stdout
    assert "`NEXT_STEP` is not accepted in state `error`" in talked.stdout
    assert "there is no command nonsense" in talked.stdout
    assert "usage: save FILE" in talked.stdout
    assert "not enough values" not in talked.stdout
    assert detent(folder, "retry", "job").returncode == 1  # nothing was repaired
    reset = detent(folder, "reset", "job", "--json")
    assert (reset.returncode, json.loads(reset.stdout)["state"]) == (0, "idle")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "nowhere.csv"], "there is no file nowhere.csv"),
        (["run", "."], ". is a folder; name one of the files in it"),
        (["run", "head.csv"], "has one line (a,b) and no rows below it"),
        (["run", "--planner", "oracle"], "there is no planner oracle"),
        (["run", "--planner", "builtin:script"], "needs a file"),
        (["run"], "name a data file or a script, like detent notebook run data.csv"),
        (["start", "--planner", "llm"], "the planner llm needs a model: set DETENT_MODEL"),
        (["run", "bad.yaml"], "has no `step_id`"),
        (["run", "bad.ndjson"], "line 1 is not JSON"),
        (["run", "bad.ipynb"], "not a notebook"),
        (["run", "job.yaml", "-p", "class=1"], "cannot be the name of a parameter"),
        (["run", "job.yaml", "--custom-context", "[1]"], "--custom-context"),
        (["show", "nobody"], "no journal"),
        (["run", "job.yaml", "--cwd", "nowhere"], "there is no folder"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder: Path, words: list[str], sentence: str) -> None:
    (folder / "bad.yaml").write_text("stages: [{id: a, steps: [{}]}]")
    (folder / "bad.ndjson").write_text("{")
    (folder / "head.csv").write_text("a,b\n")
    (folder / "bad.ipynb").write_text("{}")
    done = detent(folder, *words)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert sentence in done.stderr


def test_what_is_not_installed_is_said_before_anything_is_journalled(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['ipykernel'] = None\n")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    command = [str(Path(sys.executable).parent / "detent"), "notebook", "run", "data.csv", "--goal", "look"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "DETENT_LANG": "en"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "pip install 'detent[notebook]'" in done.stderr
    assert not (tmp_path / ".detent" / "journal.db").exists()
