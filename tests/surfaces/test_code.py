"""`detent code` from the outside: the real command line on a real repository."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agents.coding.world import BAD, GOOD, PLAN, git, listing, project, worker
from tests.surfaces.command import SCRIPT, Done, run_command, until

MENDS = "calc.write_text(GOOD if attempt > 1 else BAD + '# tried')"


class Shell:
    """`detent code` in one project."""

    def __init__(self, folder: Path, script: str = MENDS, source: str = BAD) -> None:
        self.folder, self.root = folder, project(folder, source)
        step = {"name": "tests", "run": [sys.executable, "-B", "check.py"], "parse": "tap", "baseline": "strict"}
        value = {"version": 1, "worker": {"use": "shell", "command": worker(folder, script)}, "verify": [step]}
        (self.root / "detent.code.yaml").write_text(json.dumps(value))
        (folder / "plan.md").write_text(PLAN)
        self.env = {k: v for k, v in os.environ.items() if k not in ("LANG", "LC_ALL")} | {"USER": "kim"}

    def __call__(self, *argv: str, code: int | None = 0) -> Done:
        said = run_command(("code", *argv), self.root, self.env)
        assert "Traceback" not in said.err, said.err
        assert code is None or said.code == code, said
        return said

    def json(self, *argv: str, code: int = 0) -> Any:
        return self(*argv, "--json", code=code).json


def test_a_job_from_the_shell(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    begun = shell.json("start", "Mend it", "--plan", "../plan.md", code=3)
    assert (begun["state"], begun["job"]["operations"]) == ("CONFIRMING", ["confirm", "revise", "cancel"])
    assert "is not possible in CONFIRMING; possible: confirm, revise, cancel" in shell("pause", code=2).err
    refused = shell("start", "Another", code=2).err
    assert f"job {begun['run_id']} of kim is active here since" in refused
    assert "the plan is" in shell("confirm", "--plan", "0000", code=2).err

    plan = shell.root / ".detent/code/plan.md"
    plan.write_text(plan.read_text().replace("Make add() add", "Make add() add again"))
    edited = shell("confirm", code=3)
    assert "+- [ ] T-001 (P0) Make add() add again" in edited.err
    assert "the plan was edited" in edited.err
    now = shell.json("status", code=3)["job"]["plan"]
    assert now != begun["job"]["plan"]
    assert "the plan is" in shell("confirm", "--plan", begun["job"]["plan"], code=2).err

    done = shell.json("confirm", "--plan", now)
    assert (done["state"], done["job"]["outcome"]) == ("IDLE", "archived")
    assert [(t["status"], t["attempts"]) for t in done["job"]["tasks"]] == [("DONE", 2)]
    assert "## Checked" in shell("archive", "show").out
    assert len(shell.json("archive", "list")["jobs"]) == 1
    assert "+    return a + b" in shell("diff").out
    assert len(shell.json("checkpoints")["checkpoints"]) == 4
    undone = shell.json("rollback", "--run")
    assert (shell.root / "calc.py").read_text() == BAD
    shell("rollback", "--to", undone["undo"])
    assert (shell.root / "calc.py").read_text() == GOOD
    assert git(shell.root, "status", "--porcelain").split() == ["M", "calc.py", "??", "detent.code.yaml"]
    assert shell.json("doctor")["ok"]


def test_a_blocked_job_from_the_shell(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "say(status='question', question='Which one?')", GOOD)
    before = listing(shell.root)
    blocked = shell.json("start", "Do it", "--yes", code=3)
    assert blocked["job"]["blocked"] == {"reason": "question", "detail": "Which one?", "task": "T-001"}
    told = shell("status", code=3).out
    assert "Which one?" in told
    assert told.index("detent code answer TEXT") < told.index("detent code fix HINT")
    shown = subprocess.run(
        [SCRIPT, "show", "last"], cwd=shell.root, env=shell.env, capture_output=True, text=True, check=False
    )
    assert "tell it: detent code fix HINT" in shown.stdout
    assert "detent signal" not in shown.stdout
    assert shell.json("answer", "that one", code=3)["job"]["blocked"]["reason"] == "question"
    assert "nothing leads from BLOCKED to CONFIRMING" in shell("update-state", "confirming", code=2).err
    assert "that would undo work" in shell("update-state", "IDLE", code=2).err
    assert "several things lead from BLOCKED to EXECUTING" in shell("update-state", "EXECUTING", code=2).err
    assert shell.json("update-progress", "T-001", "DONE", code=3)["job"]["blocked"]["reason"] == "question"
    assert "is not possible in BLOCKED" in shell("cancel", code=2).err
    done = shell.json("rollback")
    assert done["job"]["outcome"] == "rolled_back"
    assert listing(shell.root) == before
    assert "is over (rolled_back)" in shell("resume", code=2).err


def test_changes_to_what_judges_are_shown_and_approved_and_settings_are_read_again(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "calc.write_text(GOOD); open('check.py', 'a').write('# mine\\n')")
    blocked = shell.json("start", "Mend it", "--yes", code=3)
    assert blocked["job"]["blocked"]["reason"] == "review"
    (item,) = blocked["job"]["tasks"][0]["review"]
    assert (item["path"], item["kind"]) == ("check.py", "config")
    assert shell.root.joinpath("calc.py").read_text() == BAD
    shown = shell.json("approve", "--show")
    assert "+# mine" in shown["diff"]
    assert "no change waits" in shell("approve", "other.py", code=2).err
    file = shell.root / "detent.code.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rerun_flaky": True}))
    done = shell.json("approve", "check.py")
    assert (done["job"]["outcome"], done["job"]["word"]) == ("archived", "checked")
    assert (
        "settings read again: rerun_flaky"
        in shell("archive", "show").out
        + "".join(path.read_text() for path in shell.root.glob(".detent/archive/*/*/*.md"))
        + shell.root.joinpath(".detent/code/active_context.md").read_text()
    )
    assert shell.root.joinpath("check.py").read_text().endswith("# mine\n")


def test_two_terminals_pause_stop_and_go_on(tmp_path: Path) -> None:
    began = tmp_path / "began"
    body = f"Path({str(began)!r}).touch()\nwhile not Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.02)\n"
    shell = Shell(tmp_path, body + "calc.write_text(GOOD)")
    argv = [SCRIPT, "code", "start", "Mend it", "--yes", "--json"]
    first = subprocess.Popen(argv, cwd=shell.root, env=shell.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        until(began.exists)
        assert shell.json("status", code=3)["state"] == "EXECUTING"
        assert shell.json("pause")["paused"]
        stopped = shell.json("stop", "--reason", "lunch")
        assert stopped["job"]["blocked"]["reason"] == "stopped"
        out, _ = first.communicate(timeout=30)
        assert json.loads(out)["state"] in ("BLOCKED", "EXECUTING")
    finally:
        first.kill()
        first.wait()
    (tmp_path / "go").touch()
    shell("resume", code=3)
    assert shell.json("retry")["job"]["outcome"] == "archived"


def test_killed_in_the_middle_and_resumed(tmp_path: Path) -> None:
    began = tmp_path / "began"
    body = f"mark = Path({str(began)!r})\nif not mark.exists():\n"
    body += "    mark.touch(); calc.write_text('half'); time.sleep(60)\n"
    shell = Shell(tmp_path, body + "calc.write_text(GOOD)")
    argv = [SCRIPT, "code", "start", "Mend it", "--yes"]
    first = subprocess.Popen(argv, cwd=shell.root, env=shell.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)  # fmt: skip
    until(lambda: any(copy.read_text() == "half" for copy in shell.root.glob(".detent/code/*/tree/calc.py")))
    first.kill()
    first.wait()
    assert "is active here" in shell("start", "Another", code=2).err
    assert "nobody is at work on it now; go on: detent code resume" in shell("status", code=None).out
    done = shell.json("resume")
    assert done["job"]["outcome"] == "archived"
    assert done["job"]["tasks"][0]["attempts"] == 1  # the same attempt, made again
    assert (shell.root / "calc.py").read_text() == GOOD


def test_a_folder_without_git_and_a_stale_lease(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    subprocess.run(["rm", "-rf", ".git"], cwd=shell.root, check=True)
    begun = shell("start", "Mend it", code=3)
    assert "no git repository here" in begun.err
    shell("cancel", code=4)
    done = shell.json("start", "Mend it", "--yes", "--init")
    assert done["job"]["outcome"] == "archived"
    assert (shell.root / ".git").is_dir()
    (shell.root / ".git/detent/job.json").write_text(
        json.dumps({"run_id": "gone", "home": str(shell.root / ".detent"), "by": "lee", "since": 1.0})
    )
    last = shell.json("start", "Once more", code=3)
    assert last["state"] == "CONFIRMING"
    said = [SCRIPT, "signal", last["run_id"], "USER_CANCEL"]  # as the page says it, which knows nothing of archives
    subprocess.run(said, cwd=shell.root, env=shell.env, capture_output=True, check=False)
    assert "cancelled" in shell("archive", "show", last["run_id"]).out
    assert not (shell.root / ".git/detent/job.json").exists()


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("start", " "), "the requirement is empty"),
        (("start", "x", "--plan", "nowhere.md"), "there is no plan nowhere.md"),
        (("start", "x", "--plan", "check.py"), "has no tasks"),
        (("start", "x", "--worker", "'"), "not a command line"),
        (("start", "x", "--worker", "claud -p"), "there is no program `claud`"),
        (("start", "x", "--worker", "./nosuch --now"), "there is no program `./nosuch` that can be run"),
        (("start", "x", "--worker", "builtin"), "DETENT_MODEL"),
        (("confirm",), "there is no coding job here"),
        (("rollback",), "no job is active"),
        (("rollback", "--to", "chk-1"), "there is no checkpoint"),
        (("archive", "show"), "there is no archived job"),
        (("extend",), "say how much more"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_changes(
    argv: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    before = listing(shell.root)
    assert problem in shell(*argv, code=2).err
    assert listing(shell.root) == before


def test_on_a_terminal_the_plan_is_shown_and_a_go_is_asked_for(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    ours, theirs = pty.openpty()
    argv = [SCRIPT, "code", "start", "Mend it"]
    env = shell.env | {"NO_COLOR": "1", "TERM": "dumb"}
    going = subprocess.Popen(argv, cwd=shell.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    heard = b""
    answers = iter([b"modify also say why\n", "确认\n".encode(), b"reject shorter\n", b"all\n"])
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    heard += os.read(ours, 65536)
                except OSError:
                    break
            elif heard.rstrip().endswith((b"cancel?:", b"quit?:")):
                heard += b"\n"
                os.write(ours, next(answers))
        assert going.wait(30) == 0, heard.decode()
    finally:
        going.kill()
        os.close(ours)
    text = heard.decode()
    assert text.count("Go, modify …, or cancel?") == 2
    assert text.count("accept, reject REMARK, all, quit?") == 2
    assert "archived" in text


def test_a_merge_in_progress_is_said_and_left(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "Path('new.txt').write_text('n')", GOOD)
    git(shell.root, "checkout", "-q", "-b", "other")
    git(shell.root, "commit", "-q", "--allow-empty", "-m", "theirs")
    git(shell.root, "checkout", "-q", "main")
    git(shell.root, "commit", "-q", "--allow-empty", "-m", "ours")
    git(shell.root, "merge", "-q", "--no-commit", "other")
    said = shell("start", "Do it", "--yes")
    assert "in the middle of a merge" in said.err
    assert "T-001 checked: 2 tests" in said.err
    assert (shell.root / ".git" / "MERGE_HEAD").exists()
