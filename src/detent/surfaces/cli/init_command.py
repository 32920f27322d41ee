"""Commands to begin with: the schema of workflow files, and files made from templates."""

import json
import shlex
from pathlib import Path

import click

from detent.define.people import people_schema
from detent.define.policy import policy_schema
from detent.define.schema import TITLE, schema
from detent.define.steps.steps_schema import steps_schema
from detent.define.workflow_template import CASES, SCHEMA_FILE, template, templates
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import columns, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb

SUFFIXES = (".yaml", ".yml")
SCHEMAS = {"workflow": schema, "steps": steps_schema, "policy": policy_schema, "people": people_schema}


@verb("schema")
@click.argument("of", metavar="[steps|policy|people]", default="workflow", type=click.Choice(list(SCHEMAS)))
def print_schema(caller: Caller, of: str) -> int:
    """Print the JSON Schema of workflow, steps, policy or people files."""
    wanted = SCHEMAS[of]()
    if caller.is_json:
        emit(wanted)
    else:
        click.echo(json.dumps(wanted, indent=2, ensure_ascii=False))
    return 0


@verb("init")
@click.argument("file", metavar="[FILE]", default="")
@click.option(
    "--template", "name", default="", metavar="NAME", help=_("The template to use; without it, templates are listed.")
)
def init(caller: Caller, file: str, name: str) -> int:
    """Write a workflow, its cases and the schema, none of them over anything that is there."""
    if not name:
        if file:
            known = ", ".join(one.name for one in templates())
            raise click.UsageError(_("say which template: --template NAME, one of {names}", names=known))
        return _list_templates(caller)
    chosen = template(name)
    path = Path(file or f"{name}.yaml")
    if path.is_dir():
        path = path / f"{name}.yaml"
    if path.suffix not in SUFFIXES or path.name.endswith(CASES):
        raise Refused(f"{path}: a workflow file is called NAME.yaml")
    files = {path: chosen.workflow, path.with_name(path.stem + CASES): chosen.cases_for(path.name)}
    if not _is_ours(beside := path.with_name(SCHEMA_FILE)):
        files[beside] = _schema_text()
    _write(files)
    if caller.is_json:
        emit({"ok": True, "template": name, "files": [str(one) for one in files], "error": None})
        return 0
    for one in files:
        caller.say(_("written to {file}", file=visible(str(one))))
    cases = path.with_name(path.stem + CASES)
    caller.say(_("try it: {command}", command=visible(shlex.join(["detent", "test", str(cases)]))))
    return 0


def _list_templates(caller: Caller) -> int:
    if caller.is_json:
        emit({"ok": True, "templates": [{"name": t.name, "about": t.about} for t in templates()], "error": None})
    else:
        for line in columns([[one.name, one.about] for one in templates()]):
            caller.say(line)
        caller.say(_("begin with one: {command}", command="detent init FILE.yaml --template NAME"))
    return 0


def _schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _is_ours(path: Path) -> bool:
    """Whether the schema is there already, from this version or another."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("title") == TITLE


def _write(files: dict[Path, str]) -> None:
    """All of the files or none: what is there already is never touched."""
    for path in files:
        if path.exists() or path.is_symlink():
            raise Refused(f"{path} is there already and is not overwritten; give another name")
    made: list[Path] = []
    try:
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        raise Refused(f"cannot write {path}: {error.strerror}") from None


COMMANDS = {"schema": print_schema, "init": init}
