"""Gathers the pages of the reference site in site/pages: the documents, and those made from the program itself.

`./run docs` calls it and then has the site built from them. Links between documents are kept; a link to any other file
of the project becomes its name, because the site is also read without the project beside it.
"""

import ast
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from detent.surfaces.cli.program import program
from detent.surfaces.server.openapi import document
from detent.surfaces.server.route_table import routes

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "site" / "pages"
ABOVE = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}
LEFT_OUT = {"README.zh-CN.md", "CONTRIBUTING.md"}

PACKAGES = {
    "detent": ("detent.core", "What `import detent` gives, beside [`detent.open`](host.md): the nouns of the core."),
    "guarding": ("detent.guarding", "`detent.guard`: functions of your own program under contracts."),
    "host": ("detent.host", "Opening a host, and what every host can do."),
    "conformance": ("detent.testing.conformance", "The laws of the port, as checks that any host must pass."),
    "testing": ("detent.testing", "For your own tests: scripted effects, virtual time, crashes at every moment."),
}
HOST_NAMES = {"open": "detent.home", "SharedHost": "detent.host.embedded.shared_host"}
ERRORS = "detent.errors"

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def main() -> None:
    """Write every page anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = documents()
    for source, page in pages.items():
        _write(page, moved(source.read_text(encoding="utf-8"), source, pages))
    for image in ROOT.glob("docs/images/*"):
        target = PAGES / "images" / image.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, target)
    for page, text in made().items():
        _write(page, text)


def documents() -> dict[Path, str]:
    """The documents of the project, each with its page."""
    found = {path: str(path.relative_to(ROOT / "docs")) for path in sorted(ROOT.glob("docs/**/*.md"))}
    return {ROOT / name: page for name, page in ABOVE.items()} | found


def made() -> dict[str, str]:
    """The pages made from the program: commands, HTTP, Python."""
    python = {f"reference/python/{name}.md": "\n".join(python_page(name)) for name in PACKAGES}
    return python | {
        "reference/python/errors.md": f"# detent.errors\n\n::: {ERRORS}\n",
        "reference/commands.md": "\n".join(commands_page()),
        "reference/http-api.md": "\n".join(http_page()),
    }


def moved(text: str, source: Path, pages: Mapping[Path, str]) -> str:
    """A document with its links as they are on the site."""
    here = Path(pages[source]).parent

    def link(found: re.Match[str]) -> str:
        mark, label, address, anchor = found.groups()
        if "://" in address:
            return found[0]
        target = Path(os.path.normpath(source.parent / address))
        page = pages.get(target)
        if page is None and target.is_relative_to(ROOT / "docs/images"):
            page = str(target.relative_to(ROOT / "docs"))
        if page is None:
            return label
        return f"{mark}[{label}]({os.path.relpath(page, here)}{anchor or ''})"

    return _LINK.sub(link, text)


def python_page(name: str) -> Iterator[str]:
    """Every public name of a package, in the order of its map, each from where it is defined."""
    package, about = PACKAGES[name]
    yield f"# {package if name != 'detent' else name}\n\n{about}\n"
    places = public_names(package)
    if name == "host":
        places = HOST_NAMES | places
    for public, module in places.items():
        yield f"::: {module}.{public}\n"


def public_names(package: str) -> dict[str, str]:
    """The names a package re-exports, each with the module that defines it."""
    init = ROOT / "src" / package.replace(".", "/") / "__init__.py"
    tree = ast.parse(init.read_text(encoding="utf-8"))
    return {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def commands(command: click.Command, path: str = "detent") -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, each with what is typed to call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from commands(inner, f"{path} {name}")


def commands_page() -> Iterator[str]:
    """The help of every command, as the program prints it."""
    yield "# Every command\n\nThis page is made from the program: it is what `--help` prints.\n"
    for path, command in commands(program()):
        context = click.Context(command, info_name=path, terminal_width=100)
        yield f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"


def http_page() -> Iterator[str]:
    """Every operation of the HTTP API, from its OpenAPI document."""
    said = document(routes())
    yield "# HTTP API\n\nMade from the OpenAPI document that `detent serve` gives at `/api/openapi.json`.\n"
    for address, methods in said["paths"].items():
        for method, operation in methods.items():
            yield f"## {method.upper()} {address}\n\n{operation.get('summary', '')}\n"
            yield from _operation(operation)
    yield "## Schemas\n"
    for name, schema in sorted(said["components"]["schemas"].items()):
        yield f"### {name}\n\n{schema.get('description', '')}\n"
        yield from _fields(schema)


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    parameters = operation.get("parameters", [])
    if parameters:
        yield "| parameter | in | type | |\n|---|---|---|---|"
        for one in parameters:
            need = "required" if one.get("required") else ""
            yield f"| `{one['name']}` | {one['in']} | {_kind(one.get('schema', {}))} | {need} |"
        yield ""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"Takes {_kind(content.get('schema', {}))}.\n"
    yield "| status | |\n|---|---|"
    for status, answer in operation.get("responses", {}).items():
        kinds = {_kind(content.get("schema", {})) for content in answer.get("content", {}).values()}
        yield f"| {status} | {answer.get('description', '')} {' '.join(sorted(kinds))} |"
    yield ""


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    if not schema.get("properties"):
        return
    yield "| field | type | |\n|---|---|---|"
    for name, field in schema["properties"].items():
        note = "required" if name in schema.get("required", ()) else ""
        yield f"| `{name}` | {_kind(field)} | {field.get('description', note)} |"
    yield ""


def _kind(schema: Mapping[str, Any] | bool) -> str:
    """A schema in a few words, with a link where it has a name."""
    if isinstance(schema, bool):
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))


def _write(page: str, text: str) -> None:
    path = PAGES / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
