"""What a cell might do to the world, read from its syntax tree: a classifier for questions, not a sandbox.

It finds what honest code says openly: programs started, the network used, files written elsewhere, packages installed.
What it does not find, an audit hook inside the kernel may still see (`jupyter/audit_hook.py`).
"""

import ast
import symtable
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

PROGRAMS = {"subprocess", "pty", "multiprocessing", "ctypes"}
NETWORK = {"socket", "urllib", "http", "requests", "httpx", "httpx2", "aiohttp", "ftplib", "smtplib", "paramiko"}
HARMLESS = ("urllib.parse", "urllib.error", "http.HTTPStatus", "multiprocessing.cpu_count")
CALLS = {"system", "popen", "execv", "execve", "spawnl", "fork", "kill"}
REMOVALS = {"rmtree", "unlink", "remove", "rmdir", "removedirs"}
WRITERS = {"open", "to_csv", "to_parquet", "to_pickle", "to_json", "write_text", "write_bytes", "savefig", "dump"}
HIDDEN = {"eval", "exec", "compile", "__import__"}
UNREADABLE = "runs code that cannot be read here"
SHOWN_MAX = 80  # characters of a call that are shown with a finding


class CellFinding(NamedTuple):
    """One thing that speaks against running a cell unseen."""

    risk: str  # `starts a program`
    where: str  # the words of the cell that say so
    is_deed: bool = True  # false: it only makes it possible, like an import

    def __str__(self) -> str:
        return f"{self.risk}: {self.where}"


def risks(code: str, cwd: str = "") -> list[str]:
    """Why a person should see this cell first; empty where nothing speaks against running it."""
    return list(dict.fromkeys(found.risk for found in findings(code, cwd)))


def names_stored(code: str) -> list[str]:
    """The names that a cell gives a value, as its text tells; what it only imports is none of them."""
    try:
        found = symtable.symtable(code, "<cell>", "exec").get_symbols()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return sorted(one.get_name() for one in found if one.is_assigned() and not one.is_imported())


def findings(code: str, cwd: str = "") -> list[CellFinding]:
    """Everything that speaks against running a cell unseen, each with the words that say so."""
    return [*_read(code, cwd)]


@lru_cache(maxsize=64)  # a cell is read when it comes next, when it is asked about and when it runs
def _read(code: str, cwd: str) -> list[CellFinding]:
    found: dict[CellFinding, None] = {}
    lines = []
    for line in code.splitlines():
        word = line.lstrip()
        if word.startswith(("!", "%%bash", "%%sh", "%system", "%sx", "%%script")):
            found[CellFinding("installs packages" if "install" in word else "starts a program", _clip(word))] = None
        elif word.startswith("%"):
            if word.lstrip("%").startswith(("pip", "conda", "mamba", "uv")):
                found[CellFinding("installs packages", _clip(word))] = None
        else:
            lines.append(line)
            continue
        lines.append("")
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(found)  # it will not run either
    names = _collect_imports(tree)
    for node in ast.walk(tree):
        found.update(dict.fromkeys(_of(node, cwd, names)))
    deeds = {one.risk for one in found if one.is_deed}
    return [one for one in found if one.is_deed or one.risk not in deeds]  # an import says less than its use


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_MAX else line[: SHOWN_MAX - 1] + "…"


def _collect_imports(tree: ast.AST) -> dict[str, str]:
    """Names of this cell that stand for modules, or for what is in them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names}
    return names


def _of(node: ast.AST, cwd: str, names: Mapping[str, str]) -> Iterator[CellFinding]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for module in modules:
            risk = _judge_module(module)
            if risk:
                yield CellFinding(risk, _clip(ast.unparse(node)), is_deed=risk == "installs packages")
    elif isinstance(node, ast.Call):
        shown = _clip(ast.unparse(node))
        called = _spell_name(node.func)
        root, _, rest = called.partition(".")
        risk = _judge_module(f"{names.get(root, root)}.{rest}".rstrip("."))
        if risk and not rest.endswith(("Error", "Exception")):
            yield CellFinding(risk, shown)
        for risk in _judge_call(node, cwd):
            yield CellFinding(risk, shown, is_deed=risk != UNREADABLE and not _is_temporary(node))


def _spell_name(node: ast.expr) -> str:
    """`a.b.c` of what is called, as far as it is names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def _judge_module(name: str) -> str:
    root = name.partition(".")[0]
    if name.startswith(HARMLESS):
        return ""
    if root in PROGRAMS:
        return "starts a program"
    if root in NETWORK:
        return "uses the network"
    return "installs packages" if root == "pip" else ""


def _judge_call(node: ast.Call, cwd: str) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
    texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if name in CALLS and owner in ("os", "posix", ""):
        yield "starts a program"
    if name in REMOVALS and owner in ("os", "shutil", "Path", "path"):
        yield "removes files"
    if name in HIDDEN and not isinstance(node.func, ast.Attribute):
        yield UNREADABLE
    if texts and texts[0].startswith(("http://", "https://", "ftp://", "s3://")):
        yield "uses the network"
    if name in WRITERS and texts and _is_elsewhere(texts[0], cwd) and _writes(name, node, texts):
        yield "writes outside of its folder"


def _writes(name: str, node: ast.Call, texts: list[str]) -> bool:
    if name != "open":
        return True
    modes = texts[1:] + [
        word.value.value
        for word in node.keywords
        if word.arg == "mode" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
    ]
    return any(set(mode) & set("wax+") for mode in modes)


def _is_elsewhere(path: str, cwd: str) -> bool:
    place = PurePath(path)
    if ".." in place.parts or path.startswith("~"):
        return True
    return place.is_absolute() and not (cwd and place.is_relative_to(cwd))


def _is_temporary(node: ast.Call) -> bool:
    """Whether a call speaks of a place where nobody keeps anything."""
    texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return bool(texts) and PurePath(texts[0]).is_relative_to(tempfile.gettempdir())
