"""The kernels of notebook runs, seen from any terminal: which there are, interrupting a cell, ending one."""

import click

from detent.agents.notebook.jupyter.kept_kernel import (
    KernelRecord,
    KernelRecords,
    end_kernel,
    interrupt_kernel,
    memory_of,
)
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import clock
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import run_argument, verb


@verb("kernels", _("List the running kernels, and how long those of waiting runs are kept."))
@click.option("--end", "ended", default="", metavar="RUN", help=_("End the kernel of this run."))
def kernels(caller: Caller, ended: str) -> int:
    """Every kernel of this home."""
    records = KernelRecords(caller.home)
    if ended:
        record = _find(caller, records, ended)
        end_kernel(record)
        records.remove(record.run_id)
        if caller.is_json:
            emit({"ok": True, "run_id": record.run_id, "error": None})
        caller.say(_("ended the kernel of {run}", run=record.run_id))
        return 0
    found = records.all()
    if caller.is_json:
        rows = [
            {"run_id": one.run_id, "pid": one.pid, "kernel": one.name, "until": one.until or None,
             "bytes": memory_of(one)}
            for one in found
        ]  # fmt: skip
        emit({"ok": True, "kernels": rows, "error": None})
        return 0
    for one in found:
        size = _("{count} MB", count=memory_of(one) // 1_000_000)
        how = _("kept until {time}", time=clock(one.until)) if one.until else _("at work")
        caller.say(f"{one.run_id}  {one.name}  {one.pid}  {size}  {how}")
    if not found:
        caller.say(_("no kernels run here"))
    return 0


@verb("interrupt", _("Interrupt the running cell; the kernel keeps its variables."))
@run_argument
def interrupt(caller: Caller, run: str) -> int:
    """Interrupt one cell of a run, wherever it is driven."""
    record = _find(caller, KernelRecords(caller.home), run)
    if record.until:
        raise Refused(f"the kernel of run {record.run_id} waits; no cell is at work")
    interrupt_kernel(record)
    if caller.is_json:
        emit({"ok": True, "run_id": record.run_id, "error": None})
    caller.say(_("interrupted the cell of {run}", run=record.run_id))
    return 0


def _find(caller: Caller, records: KernelRecords, name: str) -> KernelRecord:
    run_id = caller.find(name).run_id
    record = records.read(run_id)
    if record is None:
        raise Refused(f"run {run_id} has no kernel that runs")
    return record


COMMANDS = {"kernels": kernels, "interrupt": interrupt}
