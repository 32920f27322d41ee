"""Somebody's program with a guarded payment, for tests: `program.py HOME WHAT`, where it dies if WHAT says so.

HOME is a folder, or the address of a server. The ledger beside the folder (in $LEDGER for an address) has a line for
each payment that was really made.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import detent
from detent.errors import AlreadyDone, DetentError, Waiting

home, what, *rest = sys.argv[1:]
guard = detent.guard(home, waiting="raise")
folder = Path(os.environ.get("LEDGER") or Path(home).parent)


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A result on which the program dies when it is written down: after the deed, before anybody knows."""

    model_dump = die


def question(to: str, amount: int) -> str:
    if what == "before":
        die()
    return f"Pay {amount} to {to}?"


@guard.tool("bank.pay", ask=question, settle_s=0.0)
def pay(to: str, amount: int) -> Any:
    if what == "inside":
        die()
    if what in ("slow", "slow-async"):
        print("inside", flush=True)
        sys.stdin.readline()
    with (folder / "ledger").open("a") as ledger:
        ledger.write(f"{to} {amount}\n")
    if what == "inside-after":
        die()
    if what == "broken":
        raise ConnectionError("no answer")
    return Deadly() if what == "returned" else {"paid": amount}


@guard.tool("bank.pay-async", ask=question, settle_s=0.0)
async def pay_async(to: str, amount: int) -> Any:
    return await asyncio.to_thread(detent.guarding.function_guard.find_tool(pay).function, to, amount)


def call() -> Any:
    if what.endswith("async"):
        return asyncio.run(pay_async("ann", 5))
    if what == "block":
        return guard.options(pay, waiting="block")("ann", 5)
    return pay("ann", 5)


def main() -> dict[str, Any]:
    try:
        result = call()
    except Waiting as waiting:
        return {"waiting": waiting.question, "run_id": waiting.run_id, "contract_id": waiting.contract_id}
    except AlreadyDone as done:
        return {"already": done.result, "run_id": done.run_id}
    except DetentError as error:
        return {"error": type(error).__name__, "message": str(error)}
    if what == "after":
        die()
    return {"result": result}


print(json.dumps(main()), flush=True)
