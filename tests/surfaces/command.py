"""The real command line in a folder of its own, for tests: run it, read what it says, wait for what it does."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests import warm
from tests.effort import PATIENCE_S

SCRIPT = warm.SCRIPT
DEADLINE_S = PATIENCE_S

FLOWS = """
import asyncio
import json
from pathlib import Path

from detent import Action, Branch, EffectFailed, Machine, Question, Status, Wait, effect, table


@effect("note", kind="pure")
async def note(contract):
    return {"noted": contract.input.get("text")}


@effect("mail.send", settle_s=0.0)
async def send(contract):
    with Path("sent").open("a") as sent:
        sent.write(contract.input["to"] + "\\n")
    return {"id": 7}


@effect("break", kind="pure")
async def breaks(contract):
    raise EffectFailed("it is \\x1b[31mbroken")


async def until_told(contract):
    Path("began").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return {"done": True}


slow = effect("slow", settle_s=0.0)(until_told)
steady = effect("steady", kind="idempotent")(until_told)


def simple(name, *actions, **given):
    rows = table("working - done")
    return Machine(name, "working", rows, work={"working": actions}, ends={"done": Status.COMPLETED}, **given)


NOTE = Action("note", "note", {"text": "{{ context.text }}"})
QUICK = simple("quick", NOTE, output={"text": "{{ result.note.noted }}"})
MAIL = Machine(
    "mail",
    "writing",
    table("writing SEND sending\\nsending - done\\nsending !approval_rejected writing"),
    work={"sending": (Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("May I send it?")),)},
    ends={"done": Status.COMPLETED},
)
PLEA = simple("plea", Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("Please?")))
FORM = simple("form", Action("ask", "ask", ask=Question("How many?", "form", {
    "type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}})),
    output={"count": "{{ result.ask.data.count }}"})
TWO = simple("two", Action("both", "branches", branches=(
    Branch("a", (Action("left", "ask", ask=Question("Left?")),)),
    Branch("b", (Action("right", "ask", ask=Question("Right?")),)))))
SLOW = simple("slow", Action("slow", "slow"))
STEADY = simple("steady", Action("steady", "steady"))
NAP = simple("nap", Action("nap", "wait", wait=Wait(duration_s=0.2)))
BREAKS = simple("breaks", Action("break", "break"))
KID = simple("kid", Action("send", "mail.send", {"to": "kid"}, ask=Question("Please?")))
CHILD = simple("family", Action("child", "child", {"machine": json.loads(KID.to_json())}))
"""


class Done(NamedTuple):
    """What one command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        return json.loads(self.out)

    @property
    def run_id(self) -> str:
        """The id of the run that the command showed first."""
        found = re.search(r"^(\w{12})  ", self.out, re.MULTILINE)
        assert found, self
        return found[1]


class Detent:
    """`detent` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "flows.py").write_text(FLOWS)
        dropped = {"NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "LC_MESSAGES", "LANGUAGE"}
        self.env = {name: value for name, value in os.environ.items() if name not in dropped} | {"USER": "kim"}

    def __call__(self, *argv: str, code: int | None = 0, **env: str) -> Done:
        """Run a command to its end, which must be this exit code."""
        said = run_command(argv, self.folder, self.env | env)
        assert code is None or said.code == code, said
        return said

    @contextlib.contextmanager
    def going(self, *argv: str) -> Iterator[subprocess.Popen[str]]:
        """A command at work; killed at the end of the block if it is still there."""
        process = subprocess.Popen(
            [SCRIPT, *argv],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.folder / name).exists()

    def touch(self, name: str) -> None:
        """Make a file that an effect is looking for."""
        (self.folder / name).touch()


def run_command(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> Done:
    """Run `detent` to its end."""
    done = subprocess.run(
        [SCRIPT, *argv],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def until(what: Callable[[], object]) -> None:
    """Wait for something another process does."""
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def ended(process: "subprocess.Popen[str]") -> Done:
    """Wait for a command's end."""
    out, err = process.communicate(timeout=DEADLINE_S)
    return Done(process.returncode, out, err)
