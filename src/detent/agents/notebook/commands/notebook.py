"""`detent notebook`: start, resume and recover notebook runs, and look at what they have made."""

import importlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from detent.agents.notebook.analysis.data_file_check import is_table, refuse_unfit
from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.commands.export_file import find_notebook, read_book, write
from detent.agents.notebook.commands.progress import telling
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.notebook_file import find_written, publish
from detent.agents.notebook.script_planner import read_script
from detent.core.status import Status
from detent.errors import Refused
from detent.kit.agent import find_agent, of_agent
from detent.kit.language import _, translate
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.option import assign_pairs, by_option, parse_json, run_argument, verb
from detent.kit.terminal.run_driver import drive
from detent.kit.terminal.run_view import RunReport

SCRIPTS = (".ipynb", ".ndjson", ".jsonl", ".yaml", ".yml")
PLANNERS = ("builtin:analysis", "builtin:script", "http", "llm")
DSLC_PORT = 28600
EXAMPLE = 'detent notebook run data.csv --goal "predict price, RMSE < 25000"'
WAYS = ("retry", "restart", "reset")
DRIVEN_BY = {"reset": "RESET", "restart": "START_WORKFLOW", "retry": "START_BEHAVIOR", "cancel": "CANCEL"}


def _planner(use: str, script: Path | None, url: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if not use:
        use = "http" if url else "builtin:script" if script else "builtin:analysis"
    if use == "http":
        return {"use": use, "url": url or f"http://127.0.0.1:{DSLC_PORT}"}
    if use == "builtin:script":
        if script is None:
            raise click.UsageError(_("a script planner needs a file: .ipynb, .ndjson or .yaml"))
        return {"use": use, "script": read_script(script, parameters)}
    if use == "llm":
        _refuse_no_model()
    return {"use": use}


def _refuse_no_model() -> None:
    """Say at once that nobody would plan; the built-in rules talk, they do not write notebooks."""
    from detent.effects.llm.settings import HOW, choose_model

    choice = choose_model()
    if choice.problem:
        raise Refused(f"the model `{choice.spec}` cannot be used: {choice.problem}")
    if choice.is_builtin:
        raise Refused(f"the planner llm needs a model: {HOW}")


def _refuse_missing(planner: str) -> None:
    """Say what is not installed before anything is in the journal: the first cell would fail for it."""
    needed: dict[str, tuple[str, ...]] = {"notebook": ("jupyter_client", "ipykernel", "nbformat")}
    if planner == "builtin:analysis":
        needed["analysis"] = ("pandas", "matplotlib")
    for extra, packages in needed.items():
        missing = [name for name in packages if find_spec(name) is None]
        if missing:
            raise Refused(f"a notebook needs {', '.join(missing)}: pip install 'detent[{extra}]'")


def _context(text: str) -> dict[str, Any]:
    """Custom context as JSON or as the name of a file that holds it."""
    if not text:
        return {}
    if not text.lstrip().startswith("{") and not text.startswith("@"):
        text = f"@{text}"
    found = parse_json(text, "--custom-context")
    if not isinstance(found, dict):
        raise click.UsageError(_("{name} must be a JSON object, like {example}", name="--custom-context", example="{}"))
    return found


@verb("run", _("Start a notebook and stay with it until it is done or waits."))
@click.argument("files", metavar="[DATA…|SCRIPT]", nargs=-1)
@click.option("--goal", "--problem", "goal", default="", metavar="TEXT", help=_("The goal, in your own words."))
@click.option(
    "--planner", default="", metavar="NAME", help=_("The planner: builtin:analysis, builtin:script, http or llm.")
)
@click.option("--fallback", default="", metavar="NAME", help=_("The planner to use when the first cannot be reached."))
@click.option("--url", "--dslc-url", "url", default="", metavar="URL", help=_("The URL of an http planner."))
@click.option("-p", "--parameter", "pairs", multiple=True, metavar="K=V", help=_("A parameter; may be repeated."))
@click.option(
    "--custom-context",
    "--context",
    "context",
    default="",
    metavar="JSON|FILE",
    help=_("Additional context for the planner."),
)
@click.option("--title", default="", metavar="TEXT", help=_("The notebook's title."))
@click.option("--notebook-id", default="", metavar="ID", help=_("The notebook's id for its planner."))
@click.option(
    "--auto-confirm",
    "confirm",
    type=click.Choice(["first", "all", "none"]),
    default="first",
    help=_("Which plan changes to accept without asking."),
)
@click.option(
    "--on-cell-error",
    type=click.Choice(["feedback", "continue", "fail"]),
    default=None,
    help=_("What to do when a cell raises."),
)
@click.option("--max-steps", type=int, default=0, help=_("Stop after this many steps; an action counts as two."))
@click.option(
    "--max-behaviors",
    "--max-iterations",
    "behaviors",
    type=click.IntRange(min=0),
    default=0,
    help=_("Behaviors a step may take; by default 20, with a model 5."),
)
@click.option("--cell-timeout", type=float, default=300.0, metavar="S", help=_("How long a cell may take."))
@click.option("--kernel", default="", metavar="NAME", help=_("The Jupyter kernel; by default Python."))
@click.option("--cwd", default="", metavar="FOLDER", help=_("The folder cells work in; by default this one."))
@click.option("--threads", type=int, default=0, help=_("Threads of numerical libraries; by default one per core."))
@click.option("--env", "env", multiple=True, metavar="NAME", help=_("A variable the kernel may see; may be repeated."))
@click.option("--actions", default="", metavar="FILE", help=_("A Python file that registers custom actions."))
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help=_("Write the notebook: .ipynb, .html, .md; may be repeated."),
)
@click.option("--id", "run_id", default="", metavar="RUN", help=_("The run's id; the same id twice is the same run."))
@by_option
async def run(
    caller: Caller, files: tuple[str, ...], run_id: str, by: str, outputs: tuple[str, ...], **given: Any
) -> int:
    """Start a notebook run."""
    brief = _brief(files, {**given, "outputs": outputs})
    known = caller.find_known(run_id)
    if known is not None and known.machine != NOTEBOOK.digest:
        raise Refused(f"there is a run {run_id} of another machine (`{known.name}`); give this one another id")
    if known is not None:
        caller.refuse_other_input(run_id, {name: brief.input().get(name) for name in ("goal", "variables", "planner")})
    _refuse_missing(str(brief.input().get("planner", {}).get("use", "")))
    async with caller.host() as host:
        begun = await host.start(NOTEBOOK, brief.input(), run_id=run_id, by=by, source=of_agent("notebook"))
        caller.interrupted = begun.id
        if known is not None:
            await host.recover(run_id)
        if begun.state == "idle":
            await host.signal(begun.id, "START_WORKFLOW", by=by, id=f"begin {begun.id}")
        await drive(caller, host, begun.id, known.seq if known else 0, telling(host))
    return _give(caller, begun.id, outputs)


def _find_file(name: str) -> Path:
    path = Path(name)
    if path.is_dir():
        raise click.UsageError(_("{name} is a folder; name one of the files in it", name=name))
    if not path.is_file():
        raise click.UsageError(_("there is no file {name}", name=name))
    return path


def _name_data(paths: list[Path], confirm: str) -> dict[str, Any]:
    """What a planner is told of the data: where it is, and whether tables are joined without asking."""
    found: dict[str, Any] = {"data_file": str(paths[0].absolute())} if paths else {}
    if len(paths) > 1:
        found["data_files"] = [str(one.absolute()) for one in paths]
    return {**found, "join_unasked": True} if confirm == "all" else found


def _brief(files: tuple[str, ...], given: dict[str, Any]) -> Brief:
    paths = [_find_file(name) for name in files]
    path = paths[0] if paths else None
    has_actions = bool(given["actions"])
    is_script = path is not None and path.suffix.lower() in SCRIPTS and not is_table(path, has_actions=has_actions)
    parameters = assign_pairs(given["pairs"], {})
    if is_script and len(paths) > 1:
        raise click.UsageError(_("a script runs alone; name no other files beside {name}", name=files[0]))
    url = given["url"] or os.environ.get("DSLC_BASE_URL", "")
    planner = _planner(given["planner"], path if is_script else None, url, parameters)
    fallback = _planner(given["fallback"], path if is_script else None, "", parameters) if given["fallback"] else None
    for one in (planner, fallback or planner):
        if one["use"] not in PLANNERS:
            raise click.UsageError(
                _("there is no planner {name}; there are {known}", name=one["use"], known=", ".join(PLANNERS))
            )
    context = _context(given["context"])
    if planner["use"] == "builtin:analysis":
        if path is None and not context.get("data_file"):
            raise click.UsageError(_("name a data file or a script, like {example}", example=EXAMPLE))
        for one_path in () if is_script else paths:
            refuse_unfit(one_path)
    goal = given["goal"] or str(context.get("problem_description") or context.get("user_goal") or "")
    variables = {**context, **({} if is_script else parameters)}
    if goal:
        variables["problem_description"] = goal
    variables |= {} if is_script else _name_data(paths, given["confirm"])
    cwd = Path(given["cwd"] or ".").absolute()
    if not cwd.is_dir():
        raise click.UsageError(_("there is no folder {name}", name=str(cwd)))
    title = given["title"] or str(planner.get("script", {}).get("title") or "")
    steps = given["max_steps"] or int(os.environ.get("MAX_EXECUTION_STEPS") or 0)
    kernel = KernelBrief(given["kernel"], str(cwd), given["cell_timeout"], threads=given["threads"], env=given["env"])
    return Brief(
        goal=goal,
        title=title,
        notebook_id=given["notebook_id"] or os.environ.get("NOTEBOOK_ID", ""),
        variables=variables,
        planner=planner,
        fallback=fallback,
        confirm=given["confirm"],
        on_cell_error=given["on_cell_error"] or ("fail" if is_script else "feedback"),
        max_steps=steps,
        max_behaviors=given["behaviors"] or (1 if is_script else 0),
        kernel=kernel,
        actions=str(Path(given["actions"]).absolute()) if given["actions"] else "",
        outputs=tuple(str(Path(name).absolute()) for name in given["outputs"]),
    )


def _give(caller: Caller, run_id: str, outputs: tuple[str, ...]) -> int:
    """Show a run, with its notebook on disk: written anew, as whoever drove it to its end may have been cut short."""
    standing = RunReport(caller, run_id)
    run, hint = standing.run, ""
    told = find_written(run)  # the run's report names these
    for output in outputs:
        write(caller, run_id, Path(output), is_told=os.path.relpath(output) in told)
    if not outputs:
        publish(read_book(caller, run_id))
    code = standing.give()
    if run.ended is Status.COMPLETED and not outputs and not find_written(run):
        hint = _("  as a file: {command}", command=caller.command("notebook", "export", run_id, "-o", "report.html"))
    elif run.state == "error":
        words = [caller.command("notebook", name, run_id) for name in WAYS]
        hint = _(
            "  ways out: {retry} (the behavior), {restart} (from the start), {reset}",
            **dict(zip(WAYS, words, strict=True)),
        )
    if hint and not caller.is_json:
        caller.note(hint, "dim")
    return code


@verb("resume", _("Continue a notebook after a crash, an interruption or a pause."))
@run_argument
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help=_("Write the notebook: .ipynb, .html, .md; may be repeated."),
)
@by_option
async def resume(caller: Caller, run: str, outputs: tuple[str, ...], by: str) -> int:
    """Take a notebook run up again."""
    summary = find_notebook(caller, run)
    async with caller.host() as host:
        await host.recover(summary.run_id)
        state = RunReport(caller, summary.run_id).run
        _tell_restore(caller, summary.run_id)
        if state.is_held:
            await host.release(summary.run_id, by=by)
        if state.state == "idle" and state.transitions == 0:
            await host.signal(summary.run_id, "START_WORKFLOW", by=by, id=f"begin {summary.run_id}")
        await drive(caller, host, summary.run_id, summary.seq, telling(host))
    return _give(caller, summary.run_id, outputs)


def _tell_restore(caller: Caller, run_id: str) -> None:
    """Say what a new kernel will be given: restored, run again, asked about."""
    from detent.agents.notebook.checkpoint import CheckpointFiles
    from detent.agents.notebook.jupyter.kept_kernel import KernelRecords
    from detent.agents.notebook.kernel_restore import describe_plan, plan_restore

    book = read_book(caller, run_id)
    kept = KernelRecords(caller.home).read(run_id)
    if kept is not None and kept.is_kept and kept.executed == len(book.executed):
        caller.note(_("  the kernel was kept: process {pid}", pid=kept.pid), "dim")
        return
    for line in describe_plan(plan_restore(book, CheckpointFiles(caller.home).has(run_id, book.checkpoint))):
        caller.note(f"  {line}", "dim")


def _recovering(name: str, about: str) -> click.Command:
    """A command that moves a run with one of the protocol's own events."""

    @verb(name, about)
    @run_argument
    @by_option
    async def moved(caller: Caller, run: str, by: str) -> int:
        summary = find_notebook(caller, run)
        async with caller.host() as host:
            await host.signal(summary.run_id, DRIVEN_BY[name], by=by)
            await host.recover(summary.run_id)
            if name != "reset":
                await drive(caller, host, summary.run_id, summary.seq, telling(host))
        standing = RunReport(caller, summary.run_id)
        return standing.give(0 if name in ("cancel", "reset") else None)

    return moved


ELSEWHERE = {
    "show": "notebook_view",
    "status": "notebook_view",
    "list": "notebook_view",
    "export": "notebook_view",
    "kernels": "kernel_list",
    "interrupt": "kernel_list",
    "repl": "repl",
    "serve-planner": "serve_planner",
}


ALSO = {"start": "run"}  # what earlier programs of the protocol call it


class NotebookCommands(click.Group):
    """The group of commands; those that need more are loaded when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of their use."""
        return [*super().list_commands(ctx), *ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command."""
        cmd_name = ALSO.get(cmd_name, cmd_name)
        module = ELSEWHERE.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        found: dict[str, click.Command] = importlib.import_module(f"detent.agents.notebook.commands.{module}").COMMANDS
        return found[cmd_name]


def _group() -> NotebookCommands:
    def home_of(home: str | None) -> None:
        context = click.get_current_context()
        outer = context.parent.params.get("home") if context.parent else None
        context.params["home"] = home or outer

    group = NotebookCommands(
        "notebook",
        callback=home_of,
        params=[click.Option(["--home"], metavar="FOLDER", help=_("Where the journal is."))],
        help=translate(find_agent("notebook").commands["notebook"]),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (
        run,
        resume,
        _recovering("retry", _("After an error: restart the behavior (START_BEHAVIOR).")),
        _recovering("restart", _("After an error: restart the whole workflow (START_WORKFLOW).")),
        _recovering("reset", _("After an end or an error: back to idle (RESET).")),
        _recovering("cancel", _("Stop a notebook and its kernel (CANCEL).")),
    ):
        group.add_command(command)
    return group


COMMANDS = {"notebook": _group()}


def dumps(value: Any) -> str:
    """A value as readable JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
