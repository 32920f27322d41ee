"""The double-execution scenarios in a framework's own environment: `driver.py FRAMEWORK FOLDER TRIES WAY [SCENARIO…]`.

WAY is `guarded` or `bare` (the framework's own approval, nothing of detent). The framework is imported once; each agent
is a forked process with a journal of its own opening, which can be killed like any other. Prints a line of JSON for
each scenario: how often the payment was made in each try, and whether somebody is asked at its end.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

from model_server import serve_model

import detent

NAMES = {
    "langgraph": "agents_langgraph",
    "openai-agents": "agents_openai_agents",
    "pydantic-ai": "agents_pydantic_ai",
    "claude-agent-sdk": "agents_claude_agent",
}
SAID = {0: "done", 3: "waiting"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Try:
    """One try of one scenario, in a folder of its own."""

    def __init__(self, framework: Any, folder: Path, is_guarded: bool, base_url: str) -> None:
        folder.mkdir(parents=True)
        self.framework, self.folder, self.is_guarded, self.base_url = framework, folder, is_guarded, base_url

    @property
    def home(self) -> Path:
        return self.folder / ".detent"

    @property
    def paid(self) -> int:
        ledger = self.folder / "ledger"
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0

    def agent(self, thread: str, *, resumed: bool = False, dies: str = "") -> int:
        """Begin an agent; the process's id."""
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            said = self._be_agent(thread, resumed, dies)
            (self.folder / f"said-{os.getpid()}").write_text(said)
            code = 3 if said == "waiting" else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _be_agent(self, thread: str, resumed: bool, dies: str) -> str:
        def do_pay(to: str, amount: int) -> dict[str, Any]:
            if dies == "before":
                die()
            with (self.folder / "ledger").open("a") as ledger:
                ledger.write(f"{to} {amount}\n")
            if dies == "inside":
                die()
            return {"paid": amount}

        if not self.is_guarded:
            return self._run(None, do_pay, thread, resumed, dies)
        guard = detent.guard(self.home)
        pay = guard.tool("bank.pay", ask="Pay {amount} to {to}?", settle_s=0.0)(do_pay)
        try:
            return self._run(guard, pay, thread, resumed, dies)
        finally:
            guard.close()

    def _run(self, guard: Any, pay: Any, thread: str, resumed: bool, dies: str) -> str:
        if dies == "after":  # the deed is done and known; the agent dies before it has kept that
            inner, pay_before = pay, pay
            if guard is None:

                def pay(to: str, amount: int) -> Any:
                    inner(to, amount)
                    die()
            else:
                found = detent.guarding.function_guard.find_tool(pay_before)
                keep = found.call

                def call(*given: Any) -> Any:
                    keep(*given)
                    die()

                found.call = call
        return str(self.framework.run(self.folder, guard, pay, thread, resumed, self.base_url))

    def wait(self, *children: int) -> list[str]:
        """How each of them ended: done, waiting, killed or failed."""
        ended = []
        for child in children:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            ended.append("killed" if code < 0 else SAID.get(code, "failed"))
        return ended

    def be(self, thread: str, **how: Any) -> str:
        return self.wait(self.agent(thread, **how))[0]

    def approve(self) -> bool:
        """Somebody says yes to whatever waits; whether that counted. Without detent the framework's state says it."""
        if not self.is_guarded:
            return True
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if _answer_all(self.home) else 4
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def is_asked(self) -> bool:
        if not self.is_guarded:
            return False
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if _count_open(self.home) else 4
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _answer_all(home: Path) -> bool:
    import asyncio

    async def do() -> bool:
        async with detent.open(home) as host:
            asked = [(one.run_id, q) for one in host.reader.waiting() for q in one.waiting if q.reason == "approval"]
            for run_id, question in asked:
                await host.answer(run_id, question.contract_id, {"approved": True}, by="ann")
                await host.settled(run_id)
            return bool(asked)

    return asyncio.run(do())


def _count_open(home: Path) -> int:
    import asyncio

    async def do() -> int:
        async with detent.open(home) as host:
            return host.reader.waiting_count()

    return asyncio.run(do())


def killed_before(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    assert one.be("t", resumed=True, dies="before") == "killed"
    one.be("t", resumed=True)


def killed_inside(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    assert one.be("t", resumed=True, dies="inside") == "killed"
    one.be("t", resumed=True)


def killed_after(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    assert one.be("t", resumed=True, dies="after") == "killed"
    assert one.be("t", resumed=True) == "done"


def approved_twice(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    assert not one.approve() or not one.is_guarded
    assert one.be("t", resumed=True) == "done"
    one.be("t", resumed=True)


def twice_at_once(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    ended = one.wait(one.agent("t", resumed=True), one.agent("t", resumed=True))
    assert "done" in ended, ended


def second_run(one: Try) -> None:
    assert one.be("t") == "waiting"
    assert one.approve()
    assert one.be("t", resumed=True) == "done"
    if one.be("another") == "waiting":
        one.approve()
        one.be("another", resumed=True)


SCENARIOS = (killed_before, killed_inside, killed_after, approved_twice, twice_at_once, second_run)


def main(framework: str, folder: str, tries: str, way: str, *wanted: str) -> None:
    made = importlib.import_module(NAMES[framework])
    base_url = serve_model()
    for scenario in (one for one in SCENARIOS if one.__name__ in wanted or not wanted):
        found = []
        for number in range(int(tries)):
            one = Try(made, Path(folder) / f"{scenario.__name__}-{number}", way == "guarded", base_url)
            scenario(one)
            found.append([one.paid, one.is_asked()])
        print(json.dumps({"scenario": scenario.__name__, "tries": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
