"""One job in many lives: each life is a process of its own that is killed where the script says; the next goes on.

`python -m tests.agents.coding.crash SCRIPT.json …` prints what became of each. Kill points: `fold` (the n-th journal
write, before or after it is on disk), `git`, `worker` and `check` (inside the n-th call of it, which finds that number
in a file and the process to kill in another). Calls that come at once are told apart by files, of which each makes
the next: only one can make it. Imports are paid once: a life is a fork.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from detent.agents.coding.effects import effects
from detent.agents.coding.job import job_of
from detent.agents.coding.machine import CODING
from detent.core.run import Run
from detent.effects import builtin
from detent.host.embedded.host import EmbeddedHost

LIVES_MAX = 60
RUN = "job"


class Mortal(EmbeddedHost):
    """A host that dies at one of its journal writes."""

    left = 0
    is_after = False
    writes = 0

    def fold(self, *args: Any, **named: Any) -> None:
        self.left -= 1
        self.writes += 1
        if self.left == 0 and not self.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        super().fold(*args, **named)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def live(script: dict[str, Any], death: dict[str, Any]) -> tuple[Run, int]:
    root = Path(script["root"])
    async with Mortal(root / ".detent", {**effects(), **builtin()}, is_inline=True) as host:
        host.left, host.is_after = int(death.get("fold", 0)), bool(death.get("after"))
        await host.start(CODING, {"root": str(root), "settings": script["settings"]}, run_id=RUN, by="kim")
        await host.signal(RUN, "USER_INPUT_REQUIREMENT", {"requirement": "Mend it"}, id="requirement")
        await host.recover(RUN)
        run = await host.settled(RUN)
        while run.ended is None:
            if run.state == "CONFIRMING":
                plan = job_of(run.context).plan
                assert plan is not None
                await host.signal(RUN, "USER_CONFIRM", {"plan": plan.digest}, id="go")
            elif run.state == "BLOCKED" and script.get("rollback"):
                await host.signal(RUN, "ROLLBACK", {"run": True}, id="rollback")
            else:
                break
            run = await host.settled(RUN)
        return run, host.writes


def set_death(folder: Path, name: str, number: int) -> None:
    """Say which call of it is the last one of a life, and count from the beginning; 0: none of them."""
    (folder / f"{name}-dies").write_text(f"{number}\n")
    shutil.rmtree(folder / f"{name}-calls", ignore_errors=True)
    (folder / f"{name}-calls").mkdir()


def play(script: dict[str, Any]) -> dict[str, Any]:
    """Every life of one job; what became of it."""
    deaths = list(script["deaths"])
    told = Path(script["folder"]) / "told.json"
    lives = 0
    while lives < LIVES_MAX:
        death = deaths[lives] if lives < len(deaths) else {}
        lives += 1
        for name in ("git", "worker", "check"):
            set_death(Path(script["folder"]), name, int(death.get(name, 0)))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                (Path(script["folder"]) / "life").write_text(str(os.getpid()))
                run, writes = asyncio.run(live(script, death))
                ended = {"state": run.state, "output": run.output, "status": run.status.value, "context": run.context}
                told.write_text(json.dumps({**ended, "writes": writes}))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            break
    body = json.loads(told.read_text()) if told.exists() else {"error": "it never ended"}
    return {**body, "lives": lives}


def main() -> None:
    sys.stdout.write(json.dumps([play(json.loads(Path(script).read_text())) for script in sys.argv[1:]]))


if __name__ == "__main__":
    main()
