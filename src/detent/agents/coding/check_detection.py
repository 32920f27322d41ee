"""Which commands check a project: found from its files, written down for the user to own."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding.file_role import RUNNER_MODULES, read_pytest, read_text
from detent.agents.coding.settings import CheckStep

_TARGET = re.compile(r"^(test|check)\s*:(?!=)", re.MULTILINE)
_DEFAULT_NPM_TEST = "no test specified"


def detect(root: Path) -> list[CheckStep]:
    """The verification steps this project seems to want, checks of style before tests."""
    steps: list[CheckStep] = []
    for find in (_python, _javascript, _rust, _golang, _flutter):
        steps += find(root)
    if not steps:
        steps = _make(root)
    seen: dict[str, CheckStep] = {}
    for step in steps:
        name = step.name if step.name not in seen else f"{step.name}-{len(seen)}"
        seen[name] = msgspec.structs.replace(step, name=name)
    return list(seen.values())


AGENTS = ("claude", "codex", "gemini", "opencode", "aider")


def find_agent() -> str:
    """A coding agent that is installed here; empty: none."""
    return next((name for name in AGENTS if shutil.which(name)), "")


def drop_missing(root: Path, steps: list[CheckStep]) -> tuple[list[CheckStep], list[str]]:
    """The steps whose tool is there, and for each of the others what is missing."""
    kept, missing = [], []
    for step in steps:
        program = step.argv[0]
        place = shutil.which(program) or shutil.which(str(root / program))
        module = step.argv[2] if step.argv[1:2] == ["-m"] and len(step.argv) > 2 else ""
        if place is None:
            missing.append(f"{step.name} (there is no `{program}`)")
        elif module and not _has_module(root, place, module):
            missing.append(f"{step.name} (`{program}` has no module `{module}`)")
        else:
            kept.append(step)
    return kept, missing


def _has_module(root: Path, python: str, module: str) -> bool:
    asked = [python, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"]
    try:
        return subprocess.run(asked, cwd=root, check=False, capture_output=True, timeout=20).returncode == 0  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _python(root: Path) -> list[CheckStep]:
    project = _toml(root / "pyproject.toml")
    tool = project.get("tool", {}) if isinstance(project.get("tool"), dict) else {}
    setup = read_text(root / "setup.cfg") + read_text(root / "tox.ini")
    is_python = bool(project) or (root / "setup.py").exists() or bool(setup) or (root / "requirements.txt").exists()
    tests = _has_tests(root)
    if not is_python and not tests:
        return []
    python = _interpreter(root)
    steps = []
    if "ruff" in tool or (root / "ruff.toml").exists() or (root / ".ruff.toml").exists():
        steps.append(CheckStep("ruff", [*_tool(root, "ruff"), "check", "--output-format=concise", "."], timeout=120))
    if "mypy" in tool or (root / "mypy.ini").exists() or "[mypy]" in setup:
        has_files = "files" in tool.get("mypy", {}) or "files" in setup + read_text(root / "mypy.ini")
        steps.append(CheckStep("mypy", [*_tool(root, "mypy"), *([] if has_files else ["."])], timeout=600))
    is_pytest = (
        "pytest" in tool or (root / "pytest.ini").exists() or "pytest]" in setup or (root / "conftest.py").exists()
    )
    if is_pytest or tests:
        where = ["-o", "pythonpath=src"] if _is_imported_from_src(root) else []
        run = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *where, "--junitxml={report}"]
        steps.append(CheckStep("pytest", run, parse="junit"))
    return steps


def _is_imported_from_src(root: Path) -> bool:
    """Whether the project's packages are in `src`, are plain Python, and nothing says where tests find them.

    Then tests find them there, whether the project is installed, is not, or another release of it is.
    """
    packages = [path.parent for path in (root / "src").glob("*/__init__.py")]
    built = (path for package in packages for glob in ("*.pyx", "*.c", "*.cpp", "*.rs") for path in package.rglob(glob))
    if not packages or any(package.name in RUNNER_MODULES for package in packages):
        return False
    return not read_pytest(root).get("pythonpath") and next(built, None) is None


def _has_tests(root: Path) -> bool:
    for folder in (root / "tests", root / "test", root):
        if folder.is_dir() and any(folder.glob("test_*.py")):
            return True
    return any((root / "tests").glob("*/test_*.py"))


def _interpreter(root: Path) -> str:
    for folder in (".venv", "venv"):
        if (root / folder / "bin" / "python").exists():
            return f"{folder}/bin/python"
    return "python3" if shutil.which("python3") or not shutil.which("python") else "python"


def _tool(root: Path, name: str) -> list[str]:
    for folder in (".venv", "venv"):
        if (root / folder / "bin" / name).exists():
            return [f"{folder}/bin/{name}"]
    return [name]


def _javascript(root: Path) -> list[CheckStep]:
    try:
        package = json.loads(read_text(root / "package.json") or "null")
    except ValueError:
        return []
    scripts = package.get("scripts") if isinstance(package, dict) else None
    if not isinstance(scripts, dict):
        return []
    runner = "npm"
    if (root / "pnpm-lock.yaml").exists():
        runner = "pnpm"
    elif (root / "yarn.lock").exists():
        runner = "yarn"
    steps = [CheckStep(name, [runner, "run", name], timeout=600) for name in ("lint", "typecheck") if name in scripts]
    test = scripts.get("test")
    if isinstance(test, str) and _DEFAULT_NPM_TEST not in test:
        is_tap = re.search(r"\btap\b|node --test", test) is not None
        steps.append(CheckStep(f"{runner} test", [runner, "test"], parse="tap" if is_tap else "none"))
    return steps


def _rust(root: Path) -> list[CheckStep]:
    if not (root / "Cargo.toml").exists():
        return []
    return [CheckStep("cargo test", ["cargo", "test", "--quiet"], timeout=1800)]


def _golang(root: Path) -> list[CheckStep]:
    if not (root / "go.mod").exists():
        return []
    vet = CheckStep("go vet", ["go", "vet", "./..."])
    return [vet, CheckStep("go test", ["go", "test", "-json", "./..."], parse="go-json", timeout=1200)]


def _flutter(root: Path) -> list[CheckStep]:
    text = read_text(root / "pubspec.yaml")
    if not text:
        return []
    program = "flutter" if re.search(r"^\s*sdk:\s*flutter\b", text, re.MULTILINE) else "dart"
    steps = [CheckStep(f"{program} analyze", [program, "analyze"])]
    if (root / "test").is_dir():
        run = [program, "test", "--machine" if program == "flutter" else "--reporter=json"]
        steps.append(CheckStep(f"{program} test", run, parse="flutter-machine", timeout=1200))
    return steps


def _make(root: Path) -> list[CheckStep]:
    for name in ("GNUmakefile", "Makefile", "makefile"):
        found = _TARGET.search(read_text(root / name))
        if found and os.path.isfile(root / name):
            return [CheckStep("make", ["make", found.group(1)], timeout=1200)]
    return []
