"""The preloaded library of `disk.c`, built where there is a compiler."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def build_library(folder: Path) -> str:
    """Build it; the test is skipped, and says why, where that cannot be done."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and Linux, to preload a failing disk")
    made = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the failing disk cannot be built here: {done.stderr.strip()[-200:]}")
    return str(made)
