"""`./run matrix [VERSION…]`: the fast part of the tests on every Python that detent is for, one environment each.

Looks on the PATH and among pyenv's versions. Of several of one version the oldest is taken: `./run test` has a newer
one. What cannot be found is said, and is no failure.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".matrix"
REQUIREMENTS = ROOT / "requirements" / "matrix.txt"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# No browser, no kernel, no model, no server.
PART = ("tests/core", "tests/define", "tests/host", *(f"tests/effects/test_{name}.py" for name in (
    "containment", "files", "http", "python", "registry", "shell",
)))  # fmt: skip
IS_FIT = "import ensurepip, sys, venv; print(*sys.version_info[:3], sys.executable)"


class Python(NamedTuple):
    """An interpreter that really runs and can make environments."""

    version: tuple[int, int, int]
    path: str

    @property
    def name(self) -> str:
        """Its version as one writes it."""
        return ".".join(map(str, self.version))


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def oldest(version: str) -> Python | None:
    """The oldest Python of a version that is here; a name on the PATH may be a version manager's empty promise."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders += sorted(pyenv.glob(f"{version}.*/bin"))
    paths = [folder / f"python{version}" for folder in folders]
    found = [python for path in paths if path.is_file() and (python := _asked(path)) is not None]
    return min((one for one in found if f"{one.version[0]}.{one.version[1]}" == version), default=None)


def _asked(path: Path) -> Python | None:
    told = subprocess.run([path, "-c", IS_FIT], capture_output=True, text=True, check=False)
    if told.returncode:
        return None
    major, minor, patch, executable = told.stdout.strip().split(maxsplit=3)
    return Python((int(major), int(minor), int(patch)), executable)


def environment(python: Python) -> Path:
    """The environment of a Python, made anew when what it is made from has changed."""
    folder = CACHE / python.name
    stamp = folder / "made-from"
    wanted = f"{python.path}\n{ROOT}\n{REQUIREMENTS.read_text()}{(ROOT / 'pyproject.toml').read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"matrix: making the environment of Python {python.name}…")
        subprocess.run([python.path, "-m", "venv", "--clear", str(folder)], check=True)
        options = ["-qq", "--disable-pip-version-check", "--no-deps"]
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", *options]
        subprocess.run([*pip, "--require-hashes", "-r", str(REQUIREMENTS)], check=True)
        subprocess.run([*pip, "--no-build-isolation", "-e", str(ROOT)], check=True)
        stamp.write_text(wanted)
    return folder


def tried(version: str) -> str:
    """How the tests went on a version: `ok`, or what is wrong; nothing where there is no such Python."""
    python = oldest(version)
    if python is None:
        return ""
    begun = time.monotonic()
    try:
        made = environment(python)
    except subprocess.CalledProcessError as error:
        return f"{python.name}: no environment ({' '.join(map(str, error.cmd[:5]))} … ended with {error.returncode})"
    say(f"matrix: Python {python.name}")
    workers = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
    command = [str(made / "bin" / "python"), "-m", "pytest", *workers, "-p", "no:cacheprovider", *PART]
    done = subprocess.run(command, cwd=ROOT, check=False)
    end = "ok" if done.returncode == 0 else f"pytest ended with {done.returncode}"
    return f"{python.name}: {end} ({time.monotonic() - begun:.0f} s)"


def main(versions: list[str]) -> int:
    """Try these versions, or all of them, and say how each went."""
    if unknown := [version for version in versions if version not in VERSIONS]:
        say(f"matrix: there is no {', '.join(unknown)}; there are {', '.join(VERSIONS)}")
        return 2
    ends = {version: tried(version) for version in versions or VERSIONS}
    for version, end in ends.items():
        say(f"matrix: {end or f'{version}: not found; put it on the PATH, or install it with pyenv'}")
    return 0 if all(": ok" in end for end in ends.values() if end) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
