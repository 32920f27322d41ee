"""`detent edit`: files of the project only, saved whole or not at all, on the server that is there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detent.errors import Refused, Unknown
from detent.kit.running_server import find_server
from detent.kit.workflow_file import FileChanged, ProjectFolder
from tests.effort import PATIENCE_S
from tests.surfaces.command import SCRIPT

ENV = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL", "LC_MESSAGES")}
FLOW = "states:\n  a: {type: initial}\n  b: {type: final}\ntransitions:\n  - {from: a, to: b}\n"

# Saves in a child that dies at its n-th call of the system, for every n: the file is the old or the new one, whole.
DIE = """
import os, sys
from pathlib import Path
from detent.kit.workflow_file import ProjectFolder

old, new = sys.argv[2], sys.argv[3]
folder = ProjectFolder(Path(sys.argv[1]), Path(sys.argv[1]) / ".detent")
path = Path(sys.argv[1]) / "flow.yaml"
for moment in range(1, 1000):
    path.write_text(old)
    child = os.fork()
    if not child:
        left = moment
        def die(event, arguments):
            global left
            if event in ("open", "os.rename", "os.remove", "os.chmod", "os.chown", "fcntl.flock"):
                left -= 1
                if not left:
                    os._exit(9)
        seen = folder.read("flow.yaml").hash
        sys.addaudithook(die)
        folder.replace("flow.yaml", new, seen)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert path.read_text() in (old, new), path.read_text()
    folder.replace("flow.yaml", old + "#", folder.read("flow.yaml").hash)  # what was left behind is in nobody's way
    assert sorted(one.name for one in path.parent.iterdir()) == ["flow.yaml"]
    if code == 0:
        print(moment)
        break
"""


def test_a_death_in_the_middle_of_a_save_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DIE, str(tmp_path), FLOW, FLOW.replace("b", "c")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 6, "there were moments to die at"


def test_line_ends_and_the_mark_of_a_file_stay(tmp_path: Path) -> None:
    folder, path = ProjectFolder(tmp_path, tmp_path / ".detent"), tmp_path / "flow.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + FLOW.replace("\n", "\r\n").encode())
    seen = folder.read("flow.yaml")
    assert seen.text == FLOW
    folder.replace("flow.yaml", FLOW + "# ü\n", seen.hash)
    assert path.read_bytes() == b"\xef\xbb\xbf" + (FLOW + "# ü\n").replace("\n", "\r\n").encode()
    with pytest.raises(Refused, match="half a character"):
        folder.replace("flow.yaml", FLOW + "# \ud800\n", folder.read("flow.yaml").hash)


def test_a_file_that_changes_while_it_is_saved_is_not_lost(tmp_path: Path) -> None:
    folder, path = ProjectFolder(tmp_path, tmp_path / ".detent"), tmp_path / "flow.yaml"
    path.write_text(FLOW)
    seen = folder.read("flow.yaml")
    path.write_text(FLOW + "# theirs\n")
    with pytest.raises(FileChanged):
        folder.replace("flow.yaml", FLOW + "# mine\n", seen.hash)
    assert path.read_text() == FLOW + "# theirs\n"
    path.unlink()
    with pytest.raises(Unknown):
        folder.replace("flow.yaml", FLOW, seen.hash)


def test_the_command_serves_the_file_and_a_second_one_finds_that_server(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "my flow.yaml").write_text(FLOW)
    words = [SCRIPT, "edit", "--json", "--no-open", "flows/my flow.yaml"]
    first = subprocess.Popen([*words, "--port", "0"], cwd=tmp_path, env=ENV, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        told = json.loads(first.stdout.readline())
        assert told["link"] == f"{told['address']}/#/edit/flows%2Fmy%20flow.yaml"
        second = subprocess.run(words, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
        assert json.loads(second.stdout)["link"] == told["link"]
    finally:
        first.kill()
        first.communicate(timeout=PATIENCE_S)
    assert find_server(tmp_path / ".detent", tmp_path) is None, "the word of a dead server is worth nothing"


@pytest.mark.parametrize(
    ("name", "why"),
    [("../other.yaml", "is not in the project"), ("no.yaml", "there is no file"), ("notes.txt", "not a workflow file"),
     (".detent/x.yaml", "not a file that can be edited")],
)  # fmt: skip
def test_a_file_that_is_none_of_the_project_is_refused(tmp_path: Path, name: str, why: str) -> None:
    project = tmp_path / "project"
    (project / ".detent").mkdir(parents=True)
    for path in (tmp_path / "other.yaml", project / "notes.txt", project / ".detent" / "x.yaml"):
        path.write_text(FLOW)
    done = subprocess.run([SCRIPT, "edit", name], cwd=project, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr
