"""The example of an agent that another package brings: how it is installed, and something for it to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIDY = ROOT / "examples" / "tidy"
OLD = (1_000_000_000, 1_000_000_000)


def install(folder: Path) -> Path:
    """Install the package with pip, without a network, into a folder for PYTHONPATH."""
    source = shutil.copytree(TIDY, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    subprocess.run([sys.executable, "-m", "pip", "install", *words, str(source)], check=True)
    return folder / "site"


def make_logs(folder: Path) -> None:
    """Two old files and a new one."""
    folder.mkdir()
    for name in ("a.log", "b.log"):
        (folder / name).write_text("old")
        os.utime(folder / name, OLD)
    (folder / "new.log").write_text("new")
