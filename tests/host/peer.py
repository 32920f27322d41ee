"""A process that opens a shared host and does as it is told, one line of JSON at a time.

    python -m tests.host.peer HOME          {"do": "start", …} → {"ok": …} or {"error": …, "message": …}

Its effects: `do` notes its deed in HOME/deeds; `gate` begins, then waits until HOME/gate.KEY exists.
"""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from detent.core import Action, Contract, Effect, Machine, Outcome, Question, Run, effect
from detent.errors import DetentError
from detent.host.embedded.shared_host import SharedHost, open_host
from detent.testing.conformance import DOOR, one

MACHINES: dict[str, Machine] = {
    "door": DOOR,
    "asking": one(Action("deed", "do", {"n": "{{ context.n }}"}, ask=Question("Do it?")), name="asking"),
    "gate": one(
        Action("wait_for", "gate", {"n": "{{ context.n }}"}),
        Action("deed", "do", {"n": "{{ context.n }}"}),
        name="gate",
    ),
}


def effects(home: Path) -> list[Effect]:
    async def do(contract: Contract) -> Outcome:
        with (home / "deeds").open("a") as deeds:
            deeds.write(f"{contract.key}\n")
        return Outcome({"pid": os.getpid()})

    async def gate(contract: Contract) -> Outcome:
        say({"begun": contract.id})
        while not (home / f"gate.{contract.input['n']}").exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.005)
        return Outcome({"pid": os.getpid()})

    return [effect("do")(do), effect("gate", kind="idempotent")(gate)]


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201


async def obey(host: SharedHost, order: dict[str, Any]) -> Any:
    given = dict(order.get("given", {}))
    if "machine" in given:
        given["machine"] = MACHINES[given["machine"]]
    result = await getattr(host, order["do"])(**given)
    if not isinstance(result, Run):
        return result
    return {"id": result.id, "status": result.status.value, "state": result.state, "seq": result.seq,
            "waiting": [c.id for c in result.waiting], "results": result.results,
            "is_held": result.is_held}  # fmt: skip


async def main(home: Path) -> None:
    lines = asyncio.StreamReader(limit=2**26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with open_host(home, effects(home)) as host, asyncio.TaskGroup() as tasks:
        say({"ok": "open", "is_holder": host.is_holder})

        async def carry_out(order: dict[str, Any]) -> None:
            try:
                say({"ok": await obey(host, order), "tag": order.get("tag"), "is_holder": host.is_holder})
            except (DetentError, TypeError) as error:
                say({"error": type(error).__name__, "message": str(error), "tag": order.get("tag")})

        while (line := await lines.readline()).strip():
            tasks.create_task(carry_out(json.loads(line)))
    say({"ok": "closed"})


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
