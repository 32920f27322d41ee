"""What a person sees while a notebook is made: on a narrow terminal, in wide characters, and where there is none."""

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

from detent.agents.notebook.cell_text import gist, peek
from detent.agents.notebook.commands.progress import Narrative, fit_width, wide

DETENT = Path(sys.executable).with_name("detent")
COLUMNS = 60
JOB = """
title: 工作
stages:
  - id: one
    title: 第一阶段，标题很长很长很长很长很长很长很长很长很长很长很长很长很长
    steps:
      - step_id: s
        title: A step
        actions:
          - {action: new_section, content: A step}
          - {action: add, shot_type: dialogue, content: "**Bold** words `x` &lt; 3"}
          - action: add
            shot_type: action
            content: |
              # What this cell is for, in so many words that they do not fit
              import os, time
              while not os.path.exists("seen"):
                  time.sleep(0.01)
          - {action: exec, codecell_id: lastAddedCellId}
"""


def on_terminal(folder: Path, *words: str) -> str:
    """All that a command writes to a terminal of sixty columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm-256color", "DETENT_LANG": "en"}
    command = [str(DETENT), "notebook", *words]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # nobody is left at the other end
                break
            if not part:
                break
            said += part
            if b"action 4 of 4" in said:
                (folder / "seen").touch()  # the cell waits until somebody has seen it at work
        os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode()


def test_a_narrow_terminal_shows_tree_cell_and_time_in_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    said = on_terminal(tmp_path, "run", "job.yaml", "--id", "job", "-o", "job.md")
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", said)]
    assert max(wide(line) for line in lines if not line.startswith("Warning:")) <= COLUMNS
    told = [line for line in lines if line.strip()]
    assert any(line.startswith("▸ 第一阶段") and line.endswith("…") for line in told)  # the tree
    assert "    ▸ A step" in told
    assert any(re.fullmatch(r"  action \d of 4  \(\d+ s in all\)", line) for line in told)
    cell = next(line for line in told if line.startswith("  [1]"))
    assert re.fullmatch(r"  \[1\] What this cell is for, in so ma[a-z ]*…  ok \d+\.\d s", cell), cell
    assert "  Bold words x < 3" in told
    assert "### A step" not in said  # the heading was said already


def test_lines_are_cut_by_what_they_take_on_the_screen() -> None:
    assert (wide("数据 a"), fit_width("数据分析", 5), fit_width("abc", 3), fit_width("abcd", 3)) == (
        6,
        "数据…",
        "abc",
        "ab…",
    )
    narrative = Narrative("run")
    narrative.width = 20
    narrative.hear("", {"code": "import os\n\n# about\nresult = compute_everything()"})
    narrative.hear("", {"output": {"text": "1\n\x1b[2Jlast line\n"}})
    working, printed = narrative.picture().splitlines()
    assert re.fullmatch(r"  result = com…  \d+ s", working)
    assert printed == "    ␛[2Jlast line"
    assert narrative.picture(1) == printed


def test_the_line_that_says_most() -> None:
    assert peek("# Why\nimport os\n") == "Why"
    assert peek("import os\nfrom x import y\n\nz = 1") == "z = 1"
    assert peek("import os") == "import os"
    assert peek("") == gist("\n") == ""
    assert gist("\n> **Bold** and `code`\nmore") == "Bold and code"
