"""A disk that fails at any call of the writer loses nothing that was acknowledged, and no deed is done twice."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.effort import TIMES
from tests.faults import checker
from tests.faults.library import build_library

ROOT = Path(__file__).parents[2]
EVERY = {"io": 3, "full": 5, "short": 5}  # of the calls; all of them when more examples are asked for


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield build_library(Path(folder))


def played(library: str, kind: str, every: int) -> dict[str, Any]:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # which disk it is does not matter, only its answers
    with tempfile.TemporaryDirectory(prefix="detent-disk-", dir=place) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.story", library, folder, kind, str(every)],
            cwd=ROOT,
            env=os.environ | {"LD_PRELOAD": library, "DISK_FOLDER": f"{folder}/home"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", EVERY)
def test_every_call_of_the_writer_may_fail(kind: str, library: str) -> None:
    found = played(library, kind, 1 if TIMES > 1 else EVERY[kind])
    assert found["clean"] == [0]
    assert found["wrong"] == []
    assert found["calls"] > 80
    if kind != "short":
        assert any(end.startswith("fdatasync stopped") for end in found["ends"])


def test_the_checker_finds_what_it_is_for(library: str, tmp_path: Path) -> None:
    """A checker that never says no proves nothing: every kind of damage is made by hand."""
    home, world = tmp_path / "home", tmp_path / "world"
    world.mkdir()
    program = "import sys, asyncio, pathlib; from tests.faults.story import *; " \
        "asyncio.run(live(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), ctypes.CDLL(sys.argv[3])))"  # fmt: skip
    subprocess.run([sys.executable, "-c", program, home, world, library], cwd=ROOT, check=True)
    files = (home / "journal.db", world / "ledger", world / "acknowledged")
    assert checker.check(*files) == []
    lines = (world / "ledger").read_text().splitlines(keepends=True)
    harms: dict[str, tuple[str, str]] = {
        "twice": ("", "".join([*lines, lines[-1]])),
        "invented": ("", "".join(lines[:-1])),
        "unclaimed": ("", "".join(lines).replace('"claimed_by": "r1', '"claimed_by": "r2')),
        "chain": ("update events set body = cast(replace(cast(body as text), 'kim', 'ann') as blob)", ""),
        "tail": ("delete from events where seq = (select max(seq) from events)", ""),
        "freed": ("delete from claims", ""),
        "forgotten": ("delete from runs", ""),
    }
    for name, (statement, ledger) in harms.items():
        shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-{name}", dirs_exist_ok=True)
        other = tmp_path.parent / f"{tmp_path.name}-{name}"
        if ledger:
            (other / "world" / "ledger").write_text(ledger)
        if statement:
            db = sqlite3.connect(other / "home" / "journal.db")
            db.execute(statement)
            db.commit()
            db.close()
        assert checker.check(*(other / file.relative_to(tmp_path) for file in files)), name


def test_the_checker_knows_nothing_of_detent() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(checker.__file__).parent)!r}); import checker; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.partition(".")[0] in ("detent", "msgspec")]
