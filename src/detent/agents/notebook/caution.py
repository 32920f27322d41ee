"""What a cell might do to the world, read from its syntax tree: a classifier for questions, not a sandbox.

It finds what honest code says openly: programs started, the network used, files written elsewhere, packages installed.
"""

import ast
from collections.abc import Iterator
from pathlib import PurePath

PROGRAMS = {"subprocess", "pty", "multiprocessing", "ctypes"}
NETWORK = {"socket", "urllib", "http", "requests", "httpx", "httpx2", "aiohttp", "ftplib", "smtplib", "paramiko"}
CALLS = {"system", "popen", "execv", "execve", "spawnl", "fork", "kill"}
REMOVALS = {"rmtree", "unlink", "remove", "rmdir", "removedirs"}
WRITERS = {"open", "to_csv", "to_parquet", "to_pickle", "to_json", "write_text", "write_bytes", "savefig", "dump"}
HIDDEN = {"eval", "exec", "compile", "__import__"}


def risks(code: str, cwd: str = "") -> list[str]:
    """Why a person should see this cell first; empty where nothing speaks against running it."""
    found: dict[str, None] = {}
    lines = []
    for line in code.splitlines():
        word = line.lstrip()
        if word.startswith(("!", "%%bash", "%%sh", "%system", "%sx", "%%script")):
            found["installs packages" if "install" in word else "starts a program"] = None
        elif word.startswith("%"):
            if word.lstrip("%").startswith(("pip", "conda", "mamba", "uv")):
                found["installs packages"] = None
        else:
            lines.append(line)
            continue
        lines.append("")
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(found)  # it will not run either
    for node in ast.walk(tree):
        found.update(dict.fromkeys(_of(node, cwd)))
    return list(found)


def _of(node: ast.AST, cwd: str) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            yield from _judge_import(name.partition(".")[0])
    elif isinstance(node, ast.Call):
        yield from _judge_call(node, cwd)


def _judge_import(name: str) -> Iterator[str]:
    if name in PROGRAMS:
        yield "starts a program"
    elif name in NETWORK:
        yield "uses the network"
    elif name == "pip":
        yield "installs packages"


def _judge_call(node: ast.Call, cwd: str) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
    texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if name in CALLS and owner in ("os", "posix", ""):
        yield "starts a program"
    if name in REMOVALS and owner in ("os", "shutil", "Path", "path"):
        yield "removes files"
    if name in HIDDEN and not isinstance(node.func, ast.Attribute):
        yield "runs code that cannot be read here"
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
