"""Death at every journal write, and a real SIGKILL: the notebook comes out the same, and `once` is once."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from detent.agents.notebook.brief import Brief
from detent.agents.notebook.jupyter import Kernel, Kernels
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.service import Notebooks
from detent.core.run import Run
from detent.host.embedded.journal import open_journal
from detent.host.parts.replay import entries
from detent.testing.world import World
from tests.agents.notebook.studio import RUN, code, script, studio, text

FORGET = "get_ipython().reset(new_session=True)"
DETENT = Path(sys.executable).with_name("detent")


def thirty(deeds: Path) -> Brief:
    """Thirty actions: texts, headings, thinking, cells that build on each other, and one that must not run twice."""
    actions: list[dict[str, Any]] = [{"action": "new_chapter", "content": "One"}, *code("xs = []\nprint('begun')")]
    for number in range(4):
        actions += [text(f"text {number}"), *code(f"xs.append({number})\nsum(xs)")]
    actions += code(f"open({str(deeds)!r}, 'a').write('x')\nNone", repeat="once", need_output=False)
    actions += [{"action": "is_thinking", "thinking_text": "hm"}, {"action": "finish_thinking"}]
    actions += [{"action": "new_section", "content": "Two"}, *code("total = len(xs)\ntotal")]
    actions += [{"action": "update_title", "title": "T"}, *map(text, "abcdef"), {"action": "end_phase"}]
    assert len(actions) == 30
    return script(*actions, title="Thirty")


def told(book: NotebookState) -> list[Any]:
    """The notebook without what the clock did to it."""
    found = []
    for cell in book.notebook.cells:
        shown = msgspec.to_builtins(cell)
        for field in ("duration_s", "note", "isUpdate"):
            shown.pop(field, None)
        found.append(shown)
    return [book.title, *found]


def detent(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """One command of `detent notebook`, answered in JSON."""
    return subprocess.run(
        [str(DETENT), "notebook", *words, "--json"], cwd=cwd, capture_output=True, text=True, check=False
    )


class Forgetful(Kernels):
    """Kernels whose one process outlives the host: at the end of a life it forgets all, and is as good as a new one."""

    def begin(self, key: str, **_given: Any) -> Kernel:  # noqa: ARG002
        return super().begin("the only one")

    async def get(self, key: str, **_given: Any) -> Kernel:  # noqa: ARG002
        return await super().get("the only one")

    async def drop(self, key: str, polite_s: float = 0.0) -> None:  # noqa: ARG002
        await self.shutdown()

    async def shutdown(self, polite_s: float = 0.0) -> None:  # noqa: ARG002
        done = await (await self.get("")).execute(FORGET, silent=True)
        assert (done.status, done.variables) == ("ok", {})

    async def end(self) -> None:
        await super().drop("the only one")


@asynccontextmanager
async def forgetful() -> AsyncIterator[Forgetful]:
    kernels = Forgetful()
    try:
        yield kernels
    finally:
        await kernels.end()


async def live(world: World, brief: Brief, deeds: Path, kernels: Kernels) -> Run | None:
    """One life of a process: from the start, or from where the last one died, until its own death or the end."""
    async with Notebooks(world.home, kernels=kernels) as notebooks:
        world.effects = notebooks.effects()
        async with world.host() as host:

            async def work() -> Run:
                run = await host.start(NOTEBOOK, brief.input(), run_id=RUN)
                await host.recover(RUN)
                if run.state == "idle":
                    await host.signal(RUN, "START_WORKFLOW", id="begin")
                run = await host.settled(RUN)
                for waiting in run.waiting:  # a person who looks whether it happened
                    happened = deeds.exists() and deeds.read_text() != ""
                    answer = {"outcome": "happened", "result": None} if happened else {"outcome": "not_happened"}
                    await host.answer(RUN, waiting.id, answer)
                    run = await host.settled(RUN)
                return run

            return await world.unless_dead(work())


async def test_death_at_every_journal_write_changes_nothing(tmp_path: Path) -> None:
    deeds = tmp_path / "deeds"
    async with forgetful() as kernels:
        with World(tmp_path / "whole") as world:
            world.home.mkdir()
            run = await live(world, thirty(deeds), deeds, kernels)
            assert run is not None
            assert run.state == "workflow_completed"
            with_all, points = told(_book(world.home)), world.points
        assert deeds.read_text() == "x"
        assert points >= 60  # before and after each of thirty and more writes
        happened = 0
        for point in range(1, points + 1):
            deeds.unlink(missing_ok=True)
            home = tmp_path / f"home{point}"
            home.mkdir()
            with World(home, die_at=[point]) as world:
                first = await live(world, thirty(deeds), deeds, kernels)
                assert first is None or first.state == "workflow_completed"
                world.die_at = frozenset()
                run = await live(world, thirty(deeds), deeds, kernels)
                assert run is not None
                assert run.state == "workflow_completed", f"died at {world.moments[point - 1]} ({point})"
                book = _book(home)
                happened += any(cell.note for cell in book.cells)
                assert told(book) == with_all
                assert deeds.read_text() == "x", f"died at point {point}"
        assert happened == 1  # once, a person said so; the other doubt was whether it had begun at all


def _book(home: Path) -> NotebookState:
    journal = open_journal(home)
    book = NotebookState()
    book.read(entries(journal, RUN))
    journal.close()
    return book


@pytest.mark.parametrize("made", ["", "token = 5\n"])
async def test_an_intent_without_an_outcome_on_a_once_cell_is_a_question(tmp_path: Path, made: str) -> None:
    deeds = tmp_path / "deeds"
    slow = f"import time\n{made}open({str(deeds)!r}, 'a').write('x')\ntime.sleep(60)"
    brief = script(*code("base = 1"), *code(slow, repeat="once"), *code("after = base + 1"))
    with World(tmp_path / "home" / ".detent") as world:
        world.home.mkdir(parents=True)
        async with Notebooks(world.home) as notebooks:
            world.effects = notebooks.effects()
            async with world.host() as host:
                await host.start(NOTEBOOK, brief.input(), run_id=RUN)
                await host.signal(RUN, "START_WORKFLOW")
                async with asyncio.timeout(30):
                    while not (deeds.exists() and deeds.read_text()):  # noqa: ASYNC110  # the outside world is a file
                        await asyncio.sleep(0.02)
                world.die_at = frozenset([world.points + 1])
                world.may_die("in the middle of the cell")
    async with studio(tmp_path / "home") as here:
        run = await here.recover()
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert waiting.question.reason == "outcome_unknown"
        assert waiting.input["call"]["code"] == slow
        run = await here.answer(outcome="happened", result="sent", by="me")
        if made:  # it happened, and what it made is gone with its kernel: that is asked about before the next cell
            (waiting,) = run.waiting
            assert waiting.question is not None
            assert waiting.question.schema["properties"]["way"]["enum"] == ["again", "without"]
            run = await here.answer(data={"way": "without"})
        assert run.state == "workflow_completed"
        assert deeds.read_text() == "x"
        book = here.book
        assert book.variables == {"base": 1, "after": 2}  # the kernel was brought back without the once cell
        assert book.cells[1].note
        assert book.cells[1].outputs[0].content == "sent"
        assert any("not run again" in line for line in book.current)


def test_kill_9_in_the_middle_of_a_cell_and_resume_from_the_command_line(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow = (
        f"import time, os\nopen({str(mark)!r}, 'a').write('x')\nif os.path.getsize({str(mark)!r}) == 1: time.sleep(60)"
    )
    cells = ["x = 20", slow, "y = x + 1\nprint(y)"]
    notebook = {"cells": [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells], "metadata": {}}
    (tmp_path / "job.ipynb").write_text(json.dumps(notebook))
    words = [str(DETENT), "notebook", "run", "job.ipynb", "--id", "job"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(3000):
        if mark.exists() and mark.read_text():
            break
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        break
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = detent("resume", "job", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "workflow_completed"), done.stderr
    shown = detent("show", "job", cwd=tmp_path)
    outputs = [cell["outputs"] for cell in json.loads(shown.stdout)["notebook"]["cells"]]
    assert re.sub(r"\s", "", outputs[-1][0]["text"]) == "21"
    assert mark.read_text() == "xx"  # its policy is replay: it may run again
