"""Which files of a project judge its work: tests, and what decides how they are run. All others are its source.

They are taken from the tree that the job began with, so what a worker adds to that list by its own hand judges nothing.
"""

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from detent.agents.coding.evidence import matching
from detent.agents.coding.settings import CheckStep
from detent.core.value import digest

Kind = Literal["source", "test", "config"]
TESTS = (
    "tests/**", "test/**", "**/tests/**", "**/test/**", "**/test_*.py", "**/*_test.py", "**/testing/**", "spec/**",
    "**/__tests__/**", "**/*.test.*", "**/*.spec.*", "**/*_spec.rb", "**/*_test.go", "**/*_test.dart", "**/testdata/**",
    "**/__snapshots__/**", "**/*Test.java", "**/*Tests.cs", "**/test*util*.py", "**/*fixtures*", "**/golden/**",
)  # fmt: skip
CONFIG = (
    "**/conftest.py", "**/pytest.ini", "**/.pytest.ini", "**/pytest.toml", "**/tox.ini", "**/setup.cfg",
    "**/pyproject.toml", "**/.coveragerc", "**/noxfile.py", "**/ruff.toml", "**/.ruff.toml", "**/mypy.ini",
    "**/.mypy.ini", "**/.flake8", "**/pylintrc", "**/.pylintrc", "**/pyrightconfig.json", "**/setup.py",
    "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/*.egg-link", "**/pyvenv.cfg", "**/*.so", "**/*.pyd",
    "**/*.dll", "**/*.dylib", "**/*.pyc", "**/*.dist-info/**", "**/*.egg-info/**", "**/entry_points.txt",
    "**/Makefile", "**/makefile", "**/GNUmakefile", "**/justfile", "**/Justfile", "**/Taskfile.yml", "**/*.mk",
    "**/package.json", "**/package-lock.json", "**/pnpm-lock.yaml", "**/yarn.lock", "**/.npmrc", "**/.yarnrc*",
    "**/tsconfig*.json", "**/jest.config.*", "**/vitest.config.*", "**/vite.config.*", "**/babel.config.*",
    "**/.babelrc*", "**/.mocharc*", "**/.eslintrc*", "**/eslint.config.*", "**/karma.conf.*", "**/.swcrc",
    "**/Cargo.toml", "**/Cargo.lock", "**/build.rs", "**/.cargo/**", "**/rust-toolchain*", "**/go.mod", "**/go.sum",
    "**/go.work*", "**/.golangci.*", "**/pubspec.yaml", "**/pubspec.lock", "**/analysis_options.yaml",
    "**/dart_test.yaml", "**/requirements*.txt", "**/constraints*.txt", "**/uv.lock", "**/poetry.lock", "**/Pipfile*",
    "**/pdm.lock", "**/Gemfile*", "**/Rakefile", "**/.rspec", "**/pom.xml", "**/build.gradle*", "**/.env*",
    ".github/**", ".gitlab-ci.yml", ".circleci/**", ".ci/**", "azure-pipelines.yml", ".travis.yml", "Jenkinsfile",
    ".pre-commit-config.yaml", "**/.gitattributes", "**/.python-version", "**/.tool-versions", "detent.code.yaml",
)  # fmt: skip
RUNNER_MODULES = {
    "pytest", "_pytest", "pluggy", "py", "iniconfig", "packaging", "exceptiongroup", "tomli", "coverage", "xdist",
    "hypothesis", "detent_evidence", "nose", "nose2", "mock", "anyio", "trio", "pytest_asyncio", "attr", "attrs",
    "pip", "setuptools", "pkg_resources", "_distutils_hack", "ruff", "mypy",
}  # fmt: skip
IMPORTABLE = (".py", ".pyi", ".so", ".pyd", ".pyc", ".zip", ".egg")
READ_MAX = 1024 * 1024


class JudgingPaths:
    """The rule for one project, made from the tree that a job began with."""

    def __init__(self, tests: Iterable[str] = (), config: Iterable[str] = (), modules: Iterable[str] = ()) -> None:
        self._tests = (*TESTS, *tests)
        self._config = (*CONFIG, *config)
        self._modules = {*sys.stdlib_module_names, *RUNNER_MODULES, *modules}

    def kind_of(self, path: str, *, is_new: bool = False) -> Kind:
        """What a file is; a new one also counts as configuration if Python would load it in place of a known module."""
        if matching([path], self._config) or (is_new and self._is_shadow(path)):
            return "config"
        return "test" if matching([path], self._tests) else "source"

    def _is_shadow(self, path: str) -> bool:
        """Whether a module of this name at the project's top, or in its source folder, would hide a known one."""
        parts = path.split("/")
        if parts[0] in ("src", "lib") and len(parts) > 1:
            parts = parts[1:]
        if not path.endswith(IMPORTABLE):
            return False
        return parts[0].partition(".")[0] in self._modules


def read_rules(
    root: Path, steps: Sequence[CheckStep], blobs: Mapping[str, Any], shared: Iterable[str] = ()
) -> JudgingPaths:
    """The rule for a project: its own test paths, the files that its checks name, and what is installed for it."""
    named = [word.partition("::")[0].removeprefix("./") for step in steps for word in step.argv]
    config = [name for name in named if name in blobs]
    tests = [
        *_test_paths(root),
        *(f"{name.rstrip('/')}/**" for name in named if f"{name.rstrip('/')}/" in _folders(blobs)),
    ]
    modules: set[str] = set()
    for folder in shared:
        modules |= _list_installed(root / folder)
    tests = [glob for glob in tests if glob not in ("./**", ".**", "**")]
    own = {path.split("/")[0].partition(".")[0] for path in blobs}  # the project's own names hide nothing new
    return JudgingPaths(tests, config, modules - own)


CODE = (
    ".py", ".pyi", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".go", ".rs", ".java", ".kt", ".rb", ".c", ".h", ".cc",
    ".cpp", ".hpp", ".cs", ".dart", ".swift", ".php", ".sh",
)  # fmt: skip
_JUDGES = re.compile(r"^\s*(?:import|from)\s+(?:pytest|unittest)\b|^\s*(?:async\s+)?def\s+(?:test_|assert_)", re.M)
AROUND = (
    "pytest.ini", ".pytest.ini", "pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg", "conftest.py", "ruff.toml",
    ".ruff.toml", "mypy.ini", ".mypy.ini", "package.json", "tsconfig.json", "jest.config.js", ".npmrc", ".eslintrc",
    ".eslintrc.json", ".eslintrc.js", "eslint.config.js", "Cargo.toml", ".cargo/config.toml", "go.mod", "go.work",
    "sitecustomize.py", ".coveragerc", "analysis_options.yaml", "babel.config.js", "node_modules/.package-lock.json",
)  # fmt: skip


def is_judge(path: str, was: str, tests: Iterable[str]) -> bool:
    """Whether a source file also judges: it held tests or assertions before, or is data that a test names."""
    if path.endswith(CODE):
        return bool(_JUDGES.search(was))
    name = path.rpartition("/")[2]
    return any(name in text for text in tests)


def read_around(root: Path) -> dict[str, str]:
    """The settings files in the folders above a project, which tools read where the project has none."""
    found = {}
    for folder in root.parents:
        for name in AROUND:
            path = folder / name
            if path.is_file():
                found[str(path)] = digest(_text(path))[:16]
    return found


def _folders(blobs: Mapping[str, Any]) -> set[str]:
    return {f"{parent}/" for path in blobs for parent in _parents(path)}


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _test_paths(root: Path) -> list[str]:
    """`testpaths` and `python_files` of the project's pytest settings, as globs."""
    try:
        found: dict[str, Any] = (
            tomllib.loads(_text(root / "pyproject.toml")).get("tool", {}).get("pytest", {}).get("ini_options", {})
        )
    except (tomllib.TOMLDecodeError, AttributeError):
        found = {}
    for name, section in (("pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parsed = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parsed.read_string(_text(root / name))
            found = found or dict(parsed[section]) if parsed.has_section(section) else found
        except configparser.Error:
            continue
    paths = [glob.strip("/").removeprefix("./") for glob in _words(found.get("testpaths"))]
    return [
        *(f"{path}/**" for path in paths if path not in ("", ".")),
        *(f"**/{g}" for g in _words(found.get("python_files"))),
    ]


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(READ_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def _list_installed(folder: Path) -> set[str]:
    """The names of the modules in a folder of dependencies."""
    found = set()
    for packages in (*folder.glob("lib/python*/site-packages"), *folder.glob("Lib/site-packages")):
        for name in os.listdir(packages):
            if re.fullmatch(r"[A-Za-z_]\w*(\.py)?", name):
                found.add(name.removesuffix(".py"))
    return found
