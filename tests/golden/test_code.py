"""What `detent code --json` says of a small job in a real repository, with a scripted worker, as a transcript."""

from pathlib import Path

from tests.golden.transcript import Marks, compare, told
from tests.surfaces.test_code import Shell

SESSION = (
    ("start", "Mend it", "--plan", "../plan.md"),
    ("status",),
    ("pause",),
    ("confirm",),
    ("status",),
    ("diff",),
    ("checkpoints",),
    ("archive", "list"),
    ("archive", "show"),
    ("rollback", "--run"),
    ("resume",),
)


def test_a_job_says_what_it_said(tmp_path: Path) -> None:
    shell, marks, lines = Shell(tmp_path), Marks(tmp_path), []
    shell.env["DETENT_LANG"] = "en"
    for argv in SESSION:
        lines.append(f"$ detent code {' '.join(argv)} --json\n{told(shell(*argv, '--json', code=None), marks)}\n")
    compare("commands-code.txt", "".join(lines))
