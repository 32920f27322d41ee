"""A Python that has pytest and nothing else, as a small project has one.

Our own environment registers a dozen plug-ins of pytest. Each check of a project would import them all, which takes
five times as long as the check itself.
"""

import compileall
import functools
import os
import shutil
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from py_compile import PycInvalidationMode

PARTS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
SHELF = Path(__file__).parents[3] / "build"


@functools.cache
def find_plain_python() -> str:
    """The interpreter of that environment, made once for each version of Python and pytest."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = SHELF / f"compiled-python-{version}-pytest-{distribution('pytest').version}"
    if not folder.exists():
        SHELF.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=SHELF, prefix="plain-python-"))
        _make(made, version)
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
    return str(folder / "bin" / "python")


def _make(folder: Path, version: str) -> None:
    base = Path(os.path.realpath(sys.executable))
    packages = folder / "lib" / f"python{version}" / "site-packages"
    for inner in (packages, folder / "bin"):
        inner.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (folder / "bin" / "python").symlink_to(base)
    for part in PARTS:
        for file in distribution(part).files or ():
            if ".." not in file.parts:  # its programs in bin
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), packages / file)
    # In a sandbox nobody can keep what is compiled: each start of pytest would compile it all again.
    compileall.compile_dir(packages, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
