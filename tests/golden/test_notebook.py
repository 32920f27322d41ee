"""What becomes of a finished notebook: its views and exports, as transcripts.

`journals/notebook.sqlite.gz` is the journal of one real run (a parameter, a title, a cell that was run), so that no
kernel is needed here.
"""

import gzip
from pathlib import Path

import pytest

from tests.golden.transcript import Marks, compare, told
from tests.surfaces.command import Detent

JOURNAL = Path(__file__).parent / "journals" / "notebook.sqlite.gz"


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    home = tmp_path / ".detent"
    home.mkdir(mode=0o700)
    (home / "journal.db").write_bytes(gzip.decompress(JOURNAL.read_bytes()))
    made = Detent(tmp_path)
    made.env |= {"HOME": str(tmp_path), "DETENT_LANG": "en"}
    return made


@pytest.mark.parametrize("form", ["ipynb", "md", "json"])
def test_an_export_is_what_it_was(detent: Detent, tmp_path: Path, form: str) -> None:
    detent("notebook", "export", "job", "-o", f"job.{form}")
    compare(f"notebook-{form}.txt", Marks(tmp_path).text((tmp_path / f"job.{form}").read_text(encoding="utf-8")))


def test_the_views_are_what_they_were(detent: Detent, tmp_path: Path) -> None:
    marks, lines = Marks(tmp_path), []
    for command in ("list", "status job", "show job", "show job --observation"):
        done = detent("notebook", *command.split(), "--json")
        lines.append(f"$ detent notebook {command} --json\n{told(done, marks)}\n")
    compare("commands-notebook.txt", "".join(lines))
