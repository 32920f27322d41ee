"""What a repository says about a requirement: the files it names or defines names of, their tests, and what is risky.

Nothing is guessed by a model: names in the requirement are looked for in file names and definitions. It is shown with
the plan, for a person to correct, and binds nobody.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from detent.agents.coding.file_role import CODE, JudgingPaths, read_text

FILES_MAX, READ_MAX = 5000, 256 * 1024
SHOWN_MAX = 8
SKIPPED = {"node_modules", "__pycache__", "target", "dist", "build", "vendor", "venv"}
_NAME = re.compile(r"`([^`\s]{2,80})`|([A-Za-z_][\w./-]{2,80})")
_MEANT = re.compile(r"`([\w.]{2,80}?)(?:\(\))?`|\b([A-Za-z_]\w*)\(")
_COMMON = frozenset(
    (
        "the", "and", "for", "with", "that", "this", "from", "into", "when", "then", "than", "make", "makes", "should",
        "must", "not", "does", "have", "has", "will", "can", "add", "fix", "test", "tests", "file", "files", "code",
        "bug", "error", "fails", "failing", "use", "used", "all", "any", "new", "old", "its", "are", "was", "were",
    )
)  # fmt: skip
_DEFINED = re.compile(
    r"^\s*(?:export\s+|pub\s+|async\s+|static\s+)*(?:def|class|func|fn|function|const|type|struct)\s+(\w+)", re.M
)
RISKY = (
    ("**/migrations/**", "it is about migrations: what they did to data cannot be rolled back"),
    ("**/*lock*", "a lock file is changed: dependencies may move"),
    ("**/*.proto", "an interface is changed that others were generated from"),
    (".github/**", "CI is changed: that needs your approval"),
)


class Survey(msgspec.Struct, frozen=True):
    """The files that a requirement seems to be about, by why; their tests; and risks."""

    files: dict[str, str] = {}
    tests: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()

    @property
    def scope(self) -> tuple[str, ...]:
        """For a plan."""
        files = [f"`{path}` ({why})" for path, why in list(self.files.items())[:SHOWN_MAX]]
        return (*files, *(f"`{path}` (tests of it)" for path in self.tests[:SHOWN_MAX]))


def survey_project(root: Path, requirement: str) -> Survey:
    """Look through a project for what a requirement names."""
    names = {next(filter(None, found)).strip("./") for found in _NAME.findall(requirement)}
    meant = {name for found in _MEANT.findall(requirement) for name in found if name}  # whatever else the word is
    names = {name for name in names if name.lower() not in _COMMON} | meant
    rules, files, texts = JudgingPaths(), dict[str, str](), dict[str, str]()
    known = list(list_files(root))
    modules = {path for path in known if _is_module(path, names)}
    for path in known:
        is_test = rules.kind_of(path) != "source"
        base = os.path.basename(path)
        if not is_test and (path in names or base in names or base.partition(".")[0] in names or path in modules):
            files[path] = "it is named"
        if path.endswith(CODE):
            texts[path] = read_text(root / path, READ_MAX)
            defined = sorted(names.intersection(_DEFINED.findall(texts[path]))) if not is_test else []
            if defined and path not in files:
                files[path] = f"it defines {', '.join(f'`{name}`' for name in defined[:3])}"
    stems = {os.path.basename(path).partition(".")[0] for path in files} - {"__init__", "main", "index"}
    tests = [path for path, text in texts.items() if rules.kind_of(path) == "test" and _mentions(text, stems)]
    return Survey(files, tuple(sorted(tests)), tuple(_list_risks(files, tests)))


def _is_module(path: str, names: set[str]) -> bool:
    """Whether a dotted name, as `package.module` or `package.module.function`, leads to this file."""
    stem = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    dotted = [found for name in names if "." in name for found in (name, name.rpartition(".")[0])]
    return path.endswith(".py") and any(f".{stem}".endswith(f".{name}") for name in dotted)


def _mentions(text: str, stems: set[str]) -> bool:
    return any(re.search(rf"\b{re.escape(stem)}\b", text) for stem in stems)


def _list_risks(files: dict[str, str], tests: list[str]) -> Iterator[str]:
    if not files:
        yield "nothing in the repository has the names of the requirement: say which files it is about"
    elif not tests:
        yield "no test mentions these files: the checks may not notice a wrong change"
    for glob, why in RISKY:
        if any(Path(path).match(glob) for path in files):
            yield why


def list_files(root: Path) -> Iterator[str]:
    """The files of a project, without what is hidden, installed or made."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        for name in sorted(names):
            count += 1
            if count > FILES_MAX:
                return
            yield os.path.relpath(os.path.join(folder, name), root)
