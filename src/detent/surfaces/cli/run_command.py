"""The command run: a definition file, begun and stayed with."""

from typing import Any

import click

from detent.core.schema import leave_out_secrets
from detent.define import Definition, load
from detent.errors import Refused, Unknown
from detent.host.parts.secret_box import check_missing
from detent.kit.language import _
from detent.kit.terminal import interrupt
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.missing_input import ask_missing, can_ask, list_missing
from detent.kit.terminal.option import assign_pairs, by_option, fragment_option, parse_object, verb, work_begins
from detent.kit.terminal.run_driver import drive
from detent.kit.terminal.run_view import RunReport
from detent.surfaces.cli.envelope_option import envelope_option


@verb("run", is_reading_first=True)
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--input", "given", default="", metavar="JSON|@FILE", help=_("The run's input, a JSON object."))
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help=_("One value of the input; may be repeated."))
@click.option("--id", "run_id", default="", metavar="RUN", help=_("The run's id; the same id twice is the same run."))
@click.option("--dry-run", "is_dry", is_flag=True, help=_("Show what would be called and asked, without doing it."))
@click.option("--answers", default="", metavar="FILE", help=_("With --dry-run: what the tools answer."))
@click.option("--args-json", "arguments", default="", metavar="JSON", help=_("The same as --input."))
@fragment_option
@envelope_option
@by_option
def run(  # noqa: PLR0913, PLR0917  # one argument per option
    caller: Caller,
    file: str,
    given: str,
    pairs: tuple[str, ...],
    run_id: str,
    is_dry: bool,
    answers: str,
    arguments: str,
    is_fragment: bool,
    envelope: str | None,
    by: str,
) -> int:
    """Start a run and stay with it, or only rehearse it."""
    given = given or arguments
    if envelope:
        from detent.surfaces.cli.envelope import run_in_envelope

        return run_in_envelope(caller, file, given, run_id, is_dry, by)
    base = parse_object(given, "--input")
    if answers and not is_dry:
        raise click.UsageError(_("--answers goes with --dry-run"))
    definition = load(file, warn=False, fragment=is_fragment)
    work_begins()  # tens of thousands of values, all of which stay
    wanted = definition.machine.input_schema.get("properties", {})
    values = assign_pairs(pairs, base, [name for name, schema in wanted.items() if schema.get("type") == "string"])
    if is_dry:  # calls are made up, and so are their secrets
        values = definition.machine.take_secrets(values)[0]
    schema = leave_out_secrets(definition.machine.input_schema) if is_dry else definition.machine.input_schema
    if not caller.is_json and list_missing(schema, values) and can_ask():
        values = ask_missing(schema, values)
    _check_given(definition, schema, values)
    if is_dry:
        from detent.surfaces.cli.dry_run import show_rehearsal

        return show_rehearsal(caller, definition, values, answers, by)
    return interrupt.run(_run(caller, definition, values, run_id, by))


def _check_given(definition: Definition, schema: dict[str, Any], values: dict[str, Any]) -> None:
    """Say how to give what is missing, before anything begins; the rest is the machine's to judge."""
    missing, machine = list_missing(schema, values), definition.machine
    check_missing({}, [name for name in missing if name in machine.secret_inputs])
    try:
        if missing:
            machine.fill_input(machine.take_secrets(values)[0])
    except Refused as error:
        way_out = " ".join(f"--set {name}=…" for name in missing)
        raise Refused(f"{error} (give {way_out}, or --input JSON)") from None


async def _run(caller: Caller, definition: Definition, values: dict[str, Any], run_id: str, by: str) -> int:
    known = caller.find_known(run_id)
    if known is not None and known.machine != definition.machine.digest:
        raise Refused(f"there is a run {run_id} of another machine (`{known.name}`); give this one another id")
    if known is not None:
        caller.refuse_other_input(run_id, definition.machine.take_secrets(values)[0])
    async with caller.host() as host:
        try:
            begun = await host.start(definition.machine, values, run_id=run_id, by=by, source=definition.source)
        except Unknown:
            load(definition.source, host.effects)  # says where the tool stands that nobody has
            raise
        caller.interrupted = begun.id
        caller.reader.know(definition.machine)
        if known is not None:
            caller.note(_("run {run_id} was already there; going on with it", run_id=run_id))
            await host.recover(run_id)
        await drive(caller, host, begun.id, known.seq if known else 0)
        return RunReport(caller, begun.id).give()


COMMANDS = {"run": run}
