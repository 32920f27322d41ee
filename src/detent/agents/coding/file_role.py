"""Which files of a project judge its work: tests, and what decides how they are run. All others are its source.

They are taken from the tree that the job began with, so what a worker adds to that list by its own hand judges nothing.
"""

import configparser
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from detent.agents.coding.check_result import matching
from detent.agents.coding.settings import CheckStep
from detent.core.value import digest

Kind = Literal["source", "test", "config"]
TESTS = (
    "tests/**", "test/**", "**/tests/**", "**/test/**", "**/test_*.py", "**/*_test.py", "**/testing/**",
    "**/testing.py", "spec/**", "**/__tests__/**", "**/*.test.*", "**/*.spec.*", "**/*_spec.rb", "**/*_test.go",
    "**/*_test.dart", "**/testdata/**",
    "**/__snapshots__/**", "**/*Test.java", "**/*Tests.cs", "**/test*util*.py", "**/*fixtures*", "**/golden/**",
)  # fmt: skip
CONFIG = (
    "**/conftest.py", "**/pytest.ini", "**/.pytest.ini", "**/pytest.toml", "**/.pytest.toml", "**/tox.ini",
    "**/setup.cfg", "**/pyproject.toml", "**/.coveragerc", "**/noxfile.py", "**/ruff.toml", "**/.ruff.toml",
    "**/mypy.ini", "**/.mypy.ini", "**/.flake8", "**/pylintrc", "**/.pylintrc", "**/pyrightconfig.json", "**/setup.py",
    "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/*.egg-link", "**/pyvenv.cfg", "**/*.so", "**/*.pyd",
    "**/*.dll", "**/*.dylib", "**/*.pyc", "**/*.dist-info/**", "**/*.egg-info/**", "**/entry_points.txt", "**/Makefile",
    "**/makefile", "**/GNUmakefile", "**/justfile", "**/Justfile", "**/Taskfile.yml", "**/*.mk", "**/package.json",
    "**/package-lock.json", "**/pnpm-lock.yaml", "**/yarn.lock", "**/.npmrc", "**/.yarnrc*", "**/tsconfig*.json",
    "**/jest.config.*", "**/vitest.config.*", "**/vite.config.*", "**/babel.config.*", "**/.babelrc*", "**/.mocharc*",
    "**/.eslintrc*", "**/eslint.config.*", "**/karma.conf.*", "**/.swcrc", "**/Cargo.toml", "**/Cargo.lock",
    "**/build.rs", "**/.cargo/**", "**/rust-toolchain*", "**/go.mod", "**/go.sum", "**/go.work*", "**/.golangci.*",
    "**/pubspec.yaml", "**/pubspec.lock", "**/analysis_options.yaml", "**/dart_test.yaml", "**/requirements*.txt",
    "**/constraints*.txt", "**/uv.lock", "**/poetry.lock", "**/Pipfile*", "**/pdm.lock", "**/Gemfile*", "**/Rakefile",
    "**/.rspec", "**/pom.xml", "**/build.gradle*", "**/.env*", ".github/**", ".gitlab-ci.yml", ".circleci/**", ".ci/**",
    "azure-pipelines.yml", ".travis.yml", "Jenkinsfile", ".pre-commit-config.yaml", "**/.gitattributes",
    "**/.python-version", "**/.tool-versions", "detent.code.yaml",
)  # fmt: skip
RUNNER_MODULES = {
    "pytest", "_pytest", "pluggy", "py", "iniconfig", "packaging", "exceptiongroup", "tomli", "coverage", "xdist",
    "hypothesis", "detent_evidence", "nose", "nose2", "mock", "anyio", "trio", "pytest_asyncio", "attr", "attrs",
    "pip", "setuptools", "pkg_resources", "_distutils_hack", "ruff", "mypy",
}  # fmt: skip
ROOTS = ("src", "lib")  # beside the project's own folder, and what its settings name: where modules are looked for
IMPORTABLE = (".py", ".pyi", ".so", ".pyd", ".pyc", ".zip", ".egg")
SETTINGS = ("pytest.toml", ".pytest.toml", "pyproject.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
READ_MAX = 1024 * 1024
JUDGES_MAX = 8


class JudgingPaths:
    """The rule for one project, made from the tree that a job began with."""

    def __init__(
        self,
        tests: Iterable[str] = (),
        config: Iterable[str] = (),
        modules: Iterable[str] = (),
        roots: Iterable[str] = ROOTS,
        own: Collection[str] = (),
        helpers: Collection[str] = (),
    ) -> None:
        self._tests = (*TESTS, *tests)
        self._config = (*CONFIG, *config)
        self._modules = {*sys.stdlib_module_names, *RUNNER_MODULES, *modules}.difference(own).union(helpers)
        self._roots = tuple(roots)

    def kind_of(self, path: str, *, is_new: bool = False) -> Kind:
        """What a file is; a new one also counts as configuration if Python would load it in place of a known module."""
        if matching([path], self._config) or (is_new and self._is_shadow(path)):
            return "config"
        return "test" if matching([path], self._tests) else "source"

    def _is_shadow(self, path: str) -> bool:
        """Whether a module of this name, where Python looks for the project's own, would hide a known one."""
        return path.endswith(IMPORTABLE) and any(name in self._modules for name in _list_modules(path, self._roots))


def _list_modules(path: str, roots: Iterable[str]) -> list[str]:
    """What Python could import a file, or the folder that it is in, as."""
    inner = [path.removeprefix(f"{root}/") for root in roots if root and path.startswith(f"{root}/")]
    return [name.split("/")[0].partition(".")[0] for name in (path, *inner)]


def read_rules(
    root: Path, steps: Sequence[CheckStep], blobs: Mapping[str, Any], installations: Iterable[str] = ()
) -> JudgingPaths:
    """The rule for a project: its own test paths, the files that its checks name, and what is installed for it."""
    named = [word.partition("::")[0].removeprefix("./") for step in steps for word in step.argv]
    config, folders = [name for name in named if name in blobs], _folders(blobs)
    chosen = read_pytest(root)
    tests = [
        *(f"{path}/**" for path in _paths(chosen.get("testpaths"))),
        *(f"**/{glob}" for glob in _words(chosen.get("python_files"))),
        *(f"{name.rstrip('/')}/**" for name in named if f"{name.rstrip('/')}/" in folders),
    ]
    tests = [glob for glob in tests if glob not in ("./**", ".**", "**")]
    modules: set[str] = set()
    for folder in installations:
        modules |= _list_installed(root / folder)
    roots = (*ROOTS, *_paths(chosen.get("pythonpath")))
    own = {name for path in blobs for name in _list_modules(path, roots)}  # the project's own names hide nothing new
    rules = JudgingPaths(tests, config)
    helpers = {
        name for path in blobs if path.endswith(".py") and rules.kind_of(path) == "test" for name in _stems(path)
    }
    return JudgingPaths(tests, config, modules, roots, own, helpers)


def _stems(path: str) -> list[str]:
    """What tests could import a file beside them as."""
    *_, folder, name = ("", *path.split("/"))
    stem = name.removesuffix(".py")
    return [folder] if stem == "__init__" and folder else [stem] if stem != "__init__" else []


def list_judges(root: Path, steps: Sequence[CheckStep], paths: Sequence[str]) -> tuple[str, ...]:
    """What judges in a project, for people: folders with how many tests are in them, and what decides how they run."""
    rules, tests, config = read_rules(root, steps, dict.fromkeys(paths)), Counter[str](), list[str]()
    for path in paths:
        kind = rules.kind_of(path)
        if kind == "test":
            tests[path.rpartition("/")[0] or "."] += 1
        elif kind == "config":
            config.append(path)
    most = [f"{folder} ({count})" for folder, count in tests.most_common(JUDGES_MAX)]
    return (*sorted(most), *sorted(config, key=lambda path: (path.count("/"), path))[:JUDGES_MAX])


CODE = (
    ".py", ".pyi", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".go", ".rs", ".java", ".kt", ".rb", ".c", ".h", ".cc",
    ".cpp", ".hpp", ".cs", ".dart", ".swift", ".php", ".sh",
)  # fmt: skip
_JUDGES = re.compile(r"^\s*(?:import|from)\s+(?:pytest|unittest)\b|^\s*(?:async\s+)?def\s+(?:test_|assert_)", re.M)
AROUND = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg", "conftest.py",
    "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", "package.json", "tsconfig.json", "jest.config.js", ".npmrc",
    ".eslintrc", ".eslintrc.json", ".eslintrc.js", "eslint.config.js", "Cargo.toml", ".cargo/config.toml", "go.mod",
    "go.work", "sitecustomize.py", ".coveragerc", "analysis_options.yaml", "babel.config.js",
    "node_modules/.package-lock.json",
)  # fmt: skip


def is_judge(path: str, was: str, tests: Iterable[str]) -> bool:
    """Whether a source file also judges: it held tests or assertions before, or is data that a test names.

    Data is named by its own name, or by that of a folder in quotes or in a path: tests look through folders.
    """
    if path.endswith(CODE):
        return bool(_JUDGES.search(was))
    *folders, name = path.split("/")
    named = re.compile("|".join([re.escape(name), *(rf"[\"'/]{re.escape(one)}[\"'/]" for one in folders)]))
    return any(named.search(text) for text in tests)


def read_around(root: Path) -> dict[str, str]:
    """The settings files in the folders above a project, which tools read where the project has none."""
    found = {}
    for folder in root.parents:
        for name in AROUND:
            path = folder / name
            if path.is_file():
                found[str(path)] = digest(read_text(path))[:16]
    return found


def _folders(blobs: Mapping[str, Any]) -> set[str]:
    return {f"{parent}/" for path in blobs for parent in _parents(path)}


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def read_pytest(root: Path) -> dict[str, Any]:
    """The project's pytest settings."""
    for name, keys in (
        ("pytest.toml", ("pytest",)),
        (".pytest.toml", ("pytest",)),
        ("pyproject.toml", ("tool", "pytest", "ini_options")),
        ("pyproject.toml", ("tool", "pytest")),
    ):
        found = _look_up(root / name, keys)
        if found:
            return found
    for name, section in (
        ("pytest.ini", "pytest"), (".pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"),
    ):  # fmt: skip
        parsed = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parsed.read_string(read_text(root / name))
        except configparser.Error:
            continue
        if parsed.has_section(section):
            return dict(parsed[section])
    return {}


def _look_up(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    try:
        found: Any = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError:
        return {}
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _paths(value: object) -> list[str]:
    """Folders of the project, as they begin its paths."""
    found = (os.path.normpath(word).strip("/") for word in _words(value))
    return [path for path in found if path not in ("", ".")]


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []


def read_text(path: Path, most: int = READ_MAX) -> str:
    """The beginning of a file; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


PACKAGES = (
    "lib*/python*/site-packages",
    "lib/python*/dist-packages",
    "local/lib/python*/dist-packages",
    "Lib/site-packages",
)


def _list_installed(folder: Path) -> set[str]:
    """The names of the modules in a folder of dependencies."""
    found = set()
    for packages in (place for glob in PACKAGES for place in folder.glob(glob)):
        for name in os.listdir(packages):
            if re.fullmatch(r"[A-Za-z_]\w*(\.py)?", name):
                found.add(name.removesuffix(".py"))
    return found
