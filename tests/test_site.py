"""The reference site: it builds without a warning, and every public name and command is on it."""

import ast
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from detent.host import Host
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.shared_host import SharedHost
from detent.surfaces.cli.program import program
from docs import site
from tests import doctext
from tests.test_docs import DOCUMENTS, ROOT

NO_TOOLS = 69  # as in ./run

HTML = ROOT / "site" / "html"
GUEST = ROOT / "examples" / "tidy"
NOWHERE: set[str] = set()  # pages that no menu names and no reader looks for


def test_the_site_builds_without_a_warning_and_has_every_public_name() -> None:
    if not (Path(sys.prefix) / "made-from").exists():
        pytest.skip("this environment was not made by ./run")
    environment = os.environ | {"DETENT_VENV": sys.prefix}
    built = subprocess.run([ROOT / "run", "docs"], env=environment, capture_output=True, text=True, check=False)
    if built.returncode == NO_TOOLS:
        pytest.skip("the site's tools (requirements/docs.txt) cannot be installed here")
    assert built.returncode == 0, built.stdout + built.stderr
    for page, (package, _) in site.PACKAGES.items():
        html = (HTML / f"reference/python/{page}.html").read_text(encoding="utf-8")
        missing = [name for name, module in site.public_names(package).items() if f'id="{module}.{name}"' not in html]
        assert not missing, f"{package}: {missing}"


def test_every_page_is_in_the_menu() -> None:
    menu = set(named(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {*site.documents().values(), *site.made()}
    assert menu == {page for page in pages if not page.startswith("decisions/")}


def named(entry: Any) -> Iterator[str]:
    """The pages a menu names, at any depth."""
    if isinstance(entry, str):
        yield entry
    for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from named(inner)


@pytest.mark.parametrize("host", [Host, EmbeddedHost, SharedHost], ids=lambda kind: kind.__name__)
def test_every_host_method_says_what_it_is_for(host: type) -> None:
    silent = [name for name, one in public_members(host) if not is_sentence(inspect.getdoc(one))]
    assert not silent


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    for name in dir(kind):
        one = getattr(kind, name)
        if not name.startswith("_") and (callable(one) or isinstance(one, property)):
            yield name, one


def is_sentence(text: str | None) -> bool:
    """More than one word that begins large and ends with a full stop."""
    first = (text or "").partition("\n\n")[0]
    return bool(re.fullmatch(r"(?s)([^\sa-z]|detent\b)\S*\s.*[.!?:]", first))


@pytest.mark.parametrize("package", ["detent.core", "detent.host", "detent.testing"])
def test_every_public_name_says_what_it_is_for(package: str) -> None:
    silent = [
        name
        for name, module in site.public_names(package).items()
        if not is_sentence(docstring(module, name)) and not is_alias(module, name)
    ]
    assert not silent, f"no sentence in front of: {silent}"


def docstring(module: str, name: str) -> str | None:
    """What stands below a class, a function or an assignment."""
    tree = ast.parse(Path(inspect.getfile(importlib.import_module(module))).read_text(encoding="utf-8"))
    for node, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return ast.get_docstring(node) or inspect.getdoc(getattr(importlib.import_module(module), name))
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return str(after.value.value) if is_text else None  # type: ignore[attr-defined]
    return None


def is_alias(module: str, name: str) -> bool:
    """Whether a name is one that its module has from elsewhere, where it is documented."""
    found = getattr(importlib.import_module(module), name)
    home = getattr(found, "__module__", module)
    return home != module and is_sentence(docstring(home, name))


def test_every_command_line_in_the_documents_is_one_the_program_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = {path: {*options(command)} for path, command in site.commands(program())}
    monkeypatch.syspath_prepend(str(GUEST))
    offered |= {f"detent {name}": {*options(one)} for name, one in guest_commands().items()}
    wrong = []
    for document in DOCUMENTS:
        for line in command_lines(document.read_text(encoding="utf-8")):
            if problem := mistake(line, offered):
                wrong.append(f"{document.relative_to(ROOT)}: `{line}`: {problem}")
    assert not wrong, "\n".join(wrong)


def guest_commands() -> dict[str, click.Command]:
    """The commands of the agent among the examples, which the program has where that is installed."""
    found: dict[str, click.Command] = importlib.import_module("detent_tidy.command").COMMANDS
    return found


def options(command: click.Command) -> Iterator[str]:
    for parameter in command.get_params(click.Context(command)):
        yield from (*parameter.opts, *parameter.secondary_opts)


def command_lines(markdown: str) -> Iterator[str]:
    """What readers may type: in console blocks, and between backquotes."""
    for block in doctext.blocks(markdown):
        if block.language == "console" and not block.skip:
            for command in doctext.commands(block):
                yield from re.findall(r"(?:^|[;&|] *)(detent [^;&|<>]*)", command.text)
    prose = re.sub(r"(?ms)^ *(```|~~~).*?^ *\1", "", markdown)
    yield from (re.split(r"[|<>;&]", code)[0] for code in re.findall(r"`(detent [^`\n]*)`", prose))


def mistake(line: str, offered: dict[str, set[str]]) -> str:
    """What the program would not take; nothing if it would."""
    try:
        words = shlex.split(line.replace("…", " ").replace("[", " ").replace("]", " "))
    except ValueError:
        return ""  # a fragment of a line
    path, known, is_value = "detent", offered["detent"] | {"--help", "-h"}, False
    for word in words[1:]:
        if f"{path} {word}" in offered:
            path = f"{path} {word}"
            known = known | offered[path]
        elif word.startswith("--") and word.partition("=")[0] not in known:
            return f"`{path}` has no option {word}"
        elif path == "detent" and re.fullmatch(r"[a-z-]+", word) and not word.startswith("-") and not is_value:
            return f"there is no command {word}"
        is_value = word.startswith("--")
    return ""
