"""Makes a small journal with whatever detent is on the path, and writes down how that detent folds its runs.

It made `journals/schema-N.*`, each with the last commit before schema N + 1, and is kept to show how:

    git worktree add --detach OLD COMMIT
    PYTHONPATH=OLD/src python tests/golden/make_journal.py tests/golden/journals

Of schema 5 it is the first commit, for the last one does not import. The script uses only names that all those versions
have, asks for the host's modules by name so that later versions may call them otherwise, and imports no test.
"""

import asyncio
import gzip
import importlib
import json
import sqlite3
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from detent.core import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Machine,
    Outcome,
    OutcomeUnknown,
    Question,
    Status,
    Wait,
    effect,
    table,
)
from detent.core.machine import Await, Transition

LONG = 230  # events; enough for a snapshot
CENTURY_S = 3.2e9


@effect("note", kind="pure")
async def note(contract: Contract) -> Outcome:
    """Say what was given."""
    return Outcome({"noted": contract.input.get("text")})


@effect("mail.send", settle_s=0.0)
async def send(contract: Contract) -> Outcome:
    """Do something that cannot be taken back."""
    return Outcome({"sent": contract.input["to"]}, usage={"cost_usd": 0.25})


@effect("break", kind="pure")
async def breaks(contract: Contract) -> Outcome:
    """Fail."""
    raise EffectFailed(f"it is broken: {contract.action}")


@effect("vanish", settle_s=0.0)
async def vanish(contract: Contract) -> Outcome:
    """Leave, and never be heard of again."""
    raise OutcomeUnknown(f"no answer to {contract.action}")


def simple(name: str, *actions: Action, **given: Any) -> Machine:
    """A machine of one working state."""
    rows = table("working - done")
    return Machine(name, "working", rows, work={"working": actions}, ends={"done": Status.COMPLETED}, **given)


SEND = Action("send", "mail.send", {"to": "{{ context.to }}"})
PLEA = msgspec.structs.replace(SEND, ask=Question("May I send it?"))
QUICK = simple(
    "quick", Action("note", "note", {"text": "{{ context.text }}"}), output={"text": "{{ result.note.noted }}"}
)
BREAKS = simple("breaks", Action("break", "break"))
MAIL = simple("mail", PLEA, output={"sent": "{{ result.send.sent }}"})
DOUBT = simple("doubt", Action("send", "vanish", {"to": "{{ context.to }}"}))
FORM_SCHEMA = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}
FORM = simple("form", Action("ask", "ask", ask=Question("How many?", "form", FORM_SCHEMA)))
NAP = simple("nap", Action("nap", "wait", wait=Wait((Await("WAKE"),), timeout_s=CENTURY_S)))
TWO = simple(
    "two",
    Action(
        "both", "branches", branches=(Branch("a", (PLEA,)), Branch("b", (Action("left", "ask", ask=Question("?")),)))
    ),
)
KID = simple("kid", PLEA)
FAMILY = simple(
    "family", Action("child", "child", {"machine": json.loads(KID.to_json()), "input": {"to": "{{ context.to }}"}})
)
COUNT = Machine("count", "on", table("on TICK on\non STOP off"), ends={"off": Status.COMPLETED})
TELL = Action("notify_requester", "log", {"message": "{{ error.message }}", "level": "notify"})
LATE = Machine(
    "late",
    "pay",
    (Transition("pay", "late", error="*", then=(TELL,)),),
    work={"pay": (Action("pay", "break"),)},
    ends={"late": Status.COMPLETED},
)


async def live_through(home: Path) -> None:
    """One run of each kind; what waits is left waiting."""
    embedded = importlib.import_module("detent.host.embedded")
    async with embedded.EmbeddedHost(home, [note, send, breaks, vanish]) as host:

        async def run(machine: Machine, run_id: str, **input: Any) -> Any:
            await host.start(machine, input, run_id=run_id, by="kim", session="s1")
            return await host.settled(run_id)

        await run(QUICK, "quick", text="na\u00efve \u2028 \U0001f600")
        await run(BREAKS, "breaks")
        await run(LATE, "late")
        waiting = await run(MAIL, "sent", to="ann")
        await host.answer("sent", waiting.waiting[0].id, {"approved": True, "by": "lee"})
        await host.settled("sent")
        await run(MAIL, "again", to="ann")  # the same deed, whose key is held
        waiting = await run(MAIL, "rejected", to="bob")
        await host.answer("rejected", waiting.waiting[0].id, {"approved": False, "by": "lee"})
        await run(MAIL, "mail", to="eve")
        await run(DOUBT, "doubt", to="zoe")
        await run(FORM, "form")
        await run(NAP, "nap")
        await run(TWO, "two", to="joe")
        await run(FAMILY, "family", to="kid")
        await run(NAP, "cancelled")
        await host.cancel("cancelled", by="kim", reason="enough")
        await run(FORM, "held")
        await host.hold("held", by="kim")
        await run(COUNT, "count")
        for turn in range(LONG):
            await host.signal("count", "TICK", {"turn": turn}, id=f"tick-{turn}")


def told(home: Path) -> dict[str, Any]:
    """What this version says of its journal."""
    embedded = (
        importlib.import_module("detent.host.embedded.journal"),
        importlib.import_module(f"detent.host.{'parts' if find_spec('detent.host.parts') else 'embedded'}.loaded_run"),
    )
    journal, load = embedded[0].Journal(home / "journal.db"), embedded[1].load
    records = journal.runs()
    folded = {record.summary.run_id: load(journal, record.summary.run_id).run for record in records}
    journal.close()
    db = sqlite3.connect(home / "journal.db")
    db.execute("pragma wal_checkpoint(truncate)")
    db.execute("pragma journal_mode = delete")
    said = {
        "schema": db.execute("pragma user_version").fetchone()[0],
        "runs": {run_id: msgspec.json.encode(run).decode() for run_id, run in sorted(folded.items())},
        "list": [msgspec.to_builtins(record.summary) for record in records],
        "claims": db.execute("select scope, key, run_id, contract_id, call_hash from claims order by 1, 2").fetchall(),
    }
    if said["schema"] > 1:
        said["outbox"] = db.execute("select key, run_id, message, delivered_at from outbox order by 1").fetchall()
    db.close()
    return said


def main(folder: Path) -> None:
    """Make the journal, and put it and what is said of it into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        asyncio.run(live_through(home))
        said = told(home)
        name = folder / f"schema-{said['schema']}"
        packed = gzip.compress((home / "journal.db").read_bytes(), 9, mtime=0)
    name.with_suffix(".db.gz").write_bytes(packed)
    text = json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False, default=lambda blob: json.loads(bytes(blob)))
    name.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
