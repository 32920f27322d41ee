"""A Python function called in a process of its own, inside a sandbox.

What it is given and what it gives are JSON. Its word that nothing happened (`EffectFailed`) or that something may have
(`PartialFailure`) comes through; any other exception says only that it went wrong. What it prints is not kept.
"""

import asyncio
import json
import os
import sys
import tempfile
from typing import Any

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, OutcomeUnknown, PartialFailure
from detent.core.value import plain
from detent.effects import process, sandbox

OWN_VARIABLES = ("DETENT_HOME", "DETENT_POLICY")
RESULT_BYTES_MAX = 32 * 1024 * 1024

PROGRAM = """
import asyncio, importlib, inspect, json, os, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
from detent.core.effect_type import EffectFailed, Outcome, PartialFailure
def call():
    module, _, path = asked["function"].partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    args = asked["args"]
    result = found(**args) if isinstance(args, dict) else found(*args)
    return asyncio.run(_finish(result)) if inspect.isawaitable(result) else result
async def _finish(result):
    return await result
try:
    result = call()
    if isinstance(result, Outcome):
        result = result.result
    told = {"result": result}
    json.dumps(told, allow_nan=False)
except (EffectFailed, PartialFailure) as error:
    told = {"raised": type(error).__name__, "type": error.type, "message": str(error), "data": error.result}
except BaseException as error:
    told = {"raised": "", "message": f"{type(error).__name__}: {error}"}
with open(int(sys.argv[1]), "w", encoding="utf-8") as file:
    json.dump(told, file, default=repr)
"""


async def call_in_sandbox(contract: Contract, name: str, args: Any, wish: sandbox.SandboxWish) -> Any:
    """Call a function in a sandbox; what it gives, or raise as it would have."""
    box = await sandbox.enter(wish, os.getcwd())
    asked = json.dumps({"function": name, "args": args, "path": [os.path.abspath(place) for place in sys.path]})
    env = {key: value for key, value in os.environ.items() if key not in OWN_VARIABLES}
    with tempfile.TemporaryFile() as file:
        argv = [sys.executable, "-c", PROGRAM, str(file.fileno())]
        try:
            done = await process.run(argv, env, ".", asked, contract.key, fds=(file.fileno(),), sandbox=box)
        except process.NotStarted as error:
            raise EffectFailed(f"`{name}` could not be called: {error.__cause__}") from error
        file.seek(0)
        body = await asyncio.to_thread(file.read, RESULT_BYTES_MAX + 1)
    try:
        told = json.loads(body)
    except ValueError:
        raise OutcomeUnknown(f"`{name}` ended without a result, exit code {done.exit}: {done.stderr[-300:]}") from None
    if "result" in told:
        return plain(told["result"], "the result")
    raised = {"EffectFailed": EffectFailed, "PartialFailure": PartialFailure}.get(told["raised"])
    if raised is not None:
        raise raised(told["message"], told["type"], told["data"])
    raise RuntimeError(told["message"])
