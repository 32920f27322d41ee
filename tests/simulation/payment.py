"""Does an approved deed of the assistant happen once? Five ways in which others do it twice, with real processes.

    python -m tests.simulation.payment ROUNDS

after      killed right after the effect            at_once   approved twice at once, by two processes
before     killed right before it                   again     the same deed asked for in a second run
twice      approved twice, one after the other      writes    killed before and after every write of the journal
rivals     the same deed asked for at the same moment in two processes

Every round has its own recipient; lives are forked, share one journal, and one last life finishes what they left.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from detent.agents.assistant import ASSISTANT, Ledger, effects, offer_tools, turn_input
from detent.core import Contract, Effect, EffectFailed, Outcome, Run, Status, effect
from detent.errors import DetentError
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.embedded.shared_host import open_host
from detent.host.embedded.writer import InlineWriter
from detent.host.parts.journal_query import Batch
from detent.host.parts.loaded_run import load
from detent.host.parts.replay import entries, verify

SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ("to", "subject", "body")}}
MANY = 100_000
HARM = ("more_than_once", "never", "open", "broken")


class Post:
    """`email.send`: a line in a file; `dies` says where in it the process is killed."""

    def __init__(self, home: Path, dies: str = "", has_probe: bool = False) -> None:
        self.file, self.dies, self.has_probe = home / "sent", dies, has_probe

    def lines(self) -> Counter[str]:
        return Counter(self.file.read_text().split() if self.file.exists() else [])

    @property
    def effect(self) -> Effect:
        async def send(contract: Contract) -> Outcome:
            if self.dies == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            with self.file.open("a") as sent:
                sent.write(contract.input["to"] + "\n")
            if self.dies == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return Outcome("sent")

        async def look(contract: Contract) -> Outcome | None:
            if contract.input["to"] in self.lines():
                return Outcome("sent")
            raise EffectFailed("it is not there")

        made = effect("email.send", schema=SCHEMA, settle_s=0.0, reconcile=look if self.has_probe else None)
        return made(send)


def recipient(number: int) -> str:
    return f"r{number}@example.com"


async def begin(host: Any, post: Post, number: int, run_id: str = "") -> Run:
    """Ask the assistant for one mail, up to its question."""
    wanted = turn_input(
        f"给 {recipient(number)} 发一封会议邮件", tools=offer_tools([post.effect]), settings={"intent": "rules"}
    )
    run = await host.start(ASSISTANT, wanted, run_id=run_id or f"r-{number}", session="s", by="kim")
    return await host.settled(run.id)  # type: ignore[no-any-return]


async def approve(host: Any, run: Run) -> str:
    """Say yes; what the host said to that."""
    try:
        await host.answer(run.id, "tools/call/1", {"approved": True, "by": "kim"})
        await host.settled(run.id)
        return "yes"
    except DetentError as error:
        return type(error).__name__


def host_of(home: Path, post: Post) -> EmbeddedHost:
    # A killed process leaves the system's memory whole: only a power cut needs fsync, and that is not what is tried.
    return EmbeddedHost(home, [*effects(home), post.effect], sync="off")


class Killing(InlineWriter):
    """A writer that takes its process with it, before or after its n-th write."""

    def __init__(self, journal: Journal, number: int) -> None:
        super().__init__(journal)
        self._left = number

    def submit(self, batch: Batch, done: Any, is_alone: bool = False) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        super().submit(batch, done, is_alone)
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal(EmbeddedHost):
    """A host that dies at its n-th moment of writing."""

    moment = 0

    async def __aenter__(self) -> "Mortal":
        await super().__aenter__()
        self._writer = Killing(self._written, self.moment)
        return self


def forked(life: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """A life in a process of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(life())
        code = 0
    finally:
        os._exit(code)


def lived(life: Callable[[], Coroutine[Any, Any, None]]) -> int:
    return os.waitpid(forked(life), 0)[1]


def both(life: Callable[[str], Coroutine[Any, Any, None]]) -> list[int]:
    """Two lives at once that wait for each other; one that fails takes the other with it, so nobody waits for ever."""
    left = {forked(lambda n=name: life(n)) for name in ("left", "right")}  # type: ignore[misc]
    codes = []
    while left:
        pid, code = os.waitpid(-1, 0)
        left.discard(pid)
        codes.append(code)
        if code:
            for other in left:
                os.kill(other, signal.SIGKILL)
    return codes


async def _one(home: Path, post: Post, number: int) -> None:
    async with host_of(home, post) as host:
        await approve(host, await begin(host, post, number))


def killed(home: Path, rounds: int, dies: str, has_probe: bool) -> dict[str, Any]:
    """Killed in the effect, every round, then finished by one last life."""
    post = Post(home, dies, has_probe)
    deaths = sum(os.WIFSIGNALED(lived(lambda n=n: _one(home, post, n))) for n in range(rounds))  # type: ignore[misc]
    return {"killed": deaths, **asyncio.run(finished(home, Post(home, "", has_probe), rounds))}


async def finished(home: Path, post: Post, rounds: int) -> dict[str, Any]:
    """Take up everything, answer what is asked as somebody who looks, and count."""
    asked: Counter[str] = Counter()
    async with host_of(home, post) as host:
        await host.recover()
        for summary in await host.list(limit=MANY):
            run = await host.settled(summary.run_id)
            while run.ended is None:
                (contract,) = run.waiting
                assert contract.question is not None
                asked[contract.question.reason] += 1
                happened = contract.input["to"] in post.lines()
                said = {"outcome": "happened" if happened else "not_happened", "result": "sent", "by": "kim"}
                await host.answer(run.id, contract.id, said if contract.question.reason != "approval" else
                                  {"approved": True, "by": "kim"})  # fmt: skip
                run = await host.settled(run.id)
    return {"asked": dict(asked), **counted(home, post, rounds)}


def counted(home: Path, post: Post, rounds: int) -> dict[str, Any]:
    """The world against the journal."""
    sent, journal = post.lines(), Journal(home / "journal.db")
    runs = [record.summary for record in journal.runs(limit=MANY)]
    statuses = Counter(
        execution.status.value
        for summary in runs
        for execution in Ledger(summary.run_id).read(entries(journal, summary.run_id)).executions.values()
        if execution.type == "tool_call"
    )
    found = {
        "more_than_once": [to for to, times in sent.items() if times > 1],
        "never": [recipient(n) for n in range(rounds) if recipient(n) not in sent],
        "open": [s.run_id for s in runs if s.status is not Status.COMPLETED],
        "broken": [p.problem for p in (verify(journal, s.run_id) for s in runs) if p.problem],
        "calls": dict(statuses),
    }
    journal.close()
    return found


def twice(home: Path, rounds: int) -> dict[str, Any]:
    """Approved twice, one after the other: in one process, and again in the next."""
    post = Post(home)

    async def first() -> None:
        async with host_of(home, post) as host:
            runs = [await begin(host, post, number) for number in range(rounds)]
            told(home, "first", [[await approve(host, run), await approve(host, run)] for run in runs])

    async def second() -> None:
        async with host_of(home, post) as host:
            told(home, "second", [await approve(host, await shown(home, number)) for number in range(rounds)])

    codes = [lived(first), lived(second)]
    pairs, later = heard(home, "first"), heard(home, "second")
    said = Counter(" ".join([*pair, one]) for pair, one in zip(pairs, later, strict=True))
    return {"codes": codes, "said": dict(said), **counted(home, post, rounds)}


def again(home: Path, rounds: int) -> dict[str, Any]:
    """The same deed asked for in a second run, by another process."""
    post = Post(home)

    async def first() -> None:
        async with host_of(home, post) as host:
            for number in range(rounds):
                await approve(host, await begin(host, post, number))

    async def second() -> None:
        async with host_of(home, post) as host:
            ends = [await begin(host, post, number, f"second-{number}") for number in range(rounds)]
        told(home, "second", [run.output["response"] for run in ends])

    codes = [lived(first), lived(second)]
    refused = sum("already done" in response for response in heard(home, "second"))
    return {"codes": codes, "refused": refused, **counted(home, post, rounds)}


def told(home: Path, name: str, value: Any) -> None:
    """What a life leaves for whoever sent it."""
    (home / f"told.{name}").write_text(json.dumps(value))


def heard(home: Path, name: str) -> Any:
    """What it left."""
    return json.loads((home / f"told.{name}").read_text())


def at_once(home: Path, rounds: int) -> dict[str, Any]:
    """Two processes approve the same calls at the same moments."""
    post = Post(home)

    async def prepare() -> None:
        async with host_of(home, post) as host:
            for number in range(rounds):
                await begin(host, post, number)

    async def press(name: str) -> None:
        async with open_host(home, [*effects(home), post.effect]) as host:
            said = []
            for number in range(rounds):
                await meet(home, name, number)
                said.append(await approve(host, await shown(home, number)))
            await meet(home, name, rounds)  # the one that drives the runs stays until both are through
        told(home, name, said)

    lived(prepare)
    codes = both(press)
    pairs = zip(*(heard(home, name) for name in ("left", "right")), strict=True)
    ends = Counter(" ".join(sorted(pair)) for pair in pairs)
    return {"codes": codes, "said": dict(ends), **counted(home, post, rounds)}


def rivals(home: Path, rounds: int) -> dict[str, Any]:
    """Two processes ask for the same deed at the same moment, each in a run of its own; then both say yes."""
    post = Post(home)

    async def want(name: str) -> None:
        ends = []
        async with open_host(home, [*effects(home), post.effect]) as host:
            for number in range(rounds):
                await meet(home, name, number)
                run = await begin(host, post, number, f"{name}-{number}")
                await meet(home, name, number + MANY)  # nobody says yes before both have asked
                is_asked = run.ended is None
                said = await approve(host, run) if is_asked else ""
                ends.append({"run": run.id, "said": said, "response": "" if is_asked else run.output["response"]})
            await meet(home, name, rounds)  # the one that drives the runs stays until both are through
        told(home, name, ends)

    lived(lambda: _nothing(home, post))
    codes = both(want)
    pairs = zip(*(heard(home, name) for name in ("left", "right")), strict=True)
    found = Counter[str]()
    for pair in pairs:
        first, second = sorted(pair, key=lambda one: one["said"] == "")
        names_it = f"open in tools/call/1 of run {first['run']}" in second["response"]
        found["one deed, one refusal" if first["said"] == "yes" and names_it else json.dumps(pair)] += 1
    return {"codes": codes, "ends": dict(found), **counted(home, post, rounds)}


async def _nothing(home: Path, post: Post) -> None:
    """Make the journal, so that nobody has to be the first."""
    async with host_of(home, post):
        pass


async def shown(home: Path, number: int) -> Run:
    journal = Journal(home / "journal.db")
    try:
        return load(journal, f"r-{number}").run
    finally:
        journal.close()


async def meet(home: Path, name: str, number: int) -> None:
    """Wait for the other process to come as far, so that both speak at the same moment."""
    (home / f"at.{name}.{number}").touch()
    other = home / f"at.{'right' if name == 'left' else 'left'}.{number}"
    while not other.exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.0005)


def writes(home: Path) -> dict[str, Any]:
    """One turn with one deed, killed before and after each write of the journal; then finished."""
    moment, found = 0, []
    while True:
        moment += 1
        place = home / str(moment)
        place.mkdir()
        post = Post(place)

        async def life(place: Path = place, post: Post = post, moment: int = moment) -> None:
            host = Mortal(place, [*effects(place), post.effect], sync="off")
            host.moment = moment
            async with host:
                await approve(host, await begin(host, post, 0))

        was_killed = os.WIFSIGNALED(lived(life))
        result = asyncio.run(finished(place, post, 1))
        found.append({"moment": moment, **result})
        if not was_killed:
            return {"moments": moment, "found": found}


def main(rounds: int) -> dict[str, Any]:
    """Every scenario, each in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="detent-payment-") as folder:
        homes = {name: Path(folder) / name for name in ("after", "before", "after_probe", "before_probe", "twice",
                                                        "again", "at_once", "rivals", "writes")}  # fmt: skip
        for home in homes.values():
            home.mkdir()
        return {
            "after": killed(homes["after"], rounds, "after", has_probe=False),
            "before": killed(homes["before"], rounds, "before", has_probe=False),
            "after_probe": killed(homes["after_probe"], rounds, "after", has_probe=True),
            "before_probe": killed(homes["before_probe"], rounds, "before", has_probe=True),
            "twice": twice(homes["twice"], rounds),
            "again": again(homes["again"], rounds),
            "at_once": at_once(homes["at_once"], rounds),
            "rivals": rivals(homes["rivals"], rounds),
            "writes": writes(homes["writes"]),
        }


def played(rounds: int) -> dict[str, Any]:
    """Every scenario in a process of its own, which may fork as it likes; what it found."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.payment", str(rounds)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"DETENT_MODEL": "builtin:rules"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def harm(found: dict[str, Any]) -> list[str]:
    """What went wrong, scenario by scenario: a deed done twice or never, a turn left open, a broken journal."""
    wrong = [f"{name}: {key} {told[key]}" for name, told in found.items() for key in HARM if told.get(key)]
    for one in found["writes"]["found"]:
        is_lost = one["never"] and one["moment"] > 1  # before the first write there was no turn at all
        wrong += [f"writes: {one}"] if is_lost or any(one[key] for key in HARM if key != "never") else []
    return wrong


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
