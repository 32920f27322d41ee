"""Cells that touched the world run once: what they made comes back from a checkpoint."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from detent.agents.notebook.cell_risk import findings
from detent.agents.notebook.checkpoint import CheckpointFiles
from detent.agents.notebook.jupyter.kept_kernel import KernelRecords, end_kernel, interrupt_kernel
from tests.agents.notebook.studio import RUN, Studio, code, script, studio
from tests.effort import examples

MAIL = "import subprocess\nsent = subprocess.run(['sh', '-c', 'echo {word} >> {path}']).returncode"


def mail(path: Path, word: str) -> str:
    return MAIL.format(path=path, word=word)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_a_cell_that_starts_a_program_is_shown_asked_about_and_never_run_again(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    first = "import numpy\nxs = [1]\nys = xs\nmany = numpy.arange(200_000)\ndef twice(): return 2 * many[-1]"
    cells = [*code(first), *code(mail(path, "a")), *code("xs.append(2)"), *code(mail(path, "b"))]
    async with studio(tmp_path) as here:
        run = await here.begin(script(*cells, *code("total = (ys, sent, xs is ys, int(twice()))"), review="risky"))
        (waiting,) = run.waiting
        assert waiting.effect == "notebook.once"
        assert waiting.input["call"]["code"] == mail(path, "a")
        assert any(one.startswith("starts a program: subprocess.run(") for one in waiting.input["call"]["found"])
        assert waiting.question is not None
        assert "starts a program: subprocess.run(" in waiting.question.text
    async with studio(tmp_path) as here:  # another process, another kernel
        run = await here.answer(approved=True)
        assert lines(path) == ["a"]
        (waiting,) = run.waiting
        assert waiting.input["call"]["code"] == mail(path, "b")
        assert here.book.executed[1]["deeds"][0].startswith("starts a program: sh -c echo a")
        assert here.book.checkpoint["at"] == 2
    async with studio(tmp_path) as here:
        plan = here.notebooks.bench.plan(here.book)
        assert (len(plan.rerun), len(plan.stands), plan.unknown) == (1, 1, ())
        run = await here.answer(approved=True)
        assert run.state == "workflow_completed", run.error
        assert lines(path) == ["a", "b"]
        assert here.book.variables["total"] == [[1, 2], 0, True, 399_998]


async def test_what_a_cell_made_and_nobody_kept_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    cells = [*code("xs = 1"), *code(mail(path, "a")), *code("print(xs, sent)")]
    async with studio(tmp_path) as here:
        run = await here.begin(script(*cells, *code("1 / 0"), *code("last = sent"), on_cell_error="fail"))
        assert run.state == "error"
        files = CheckpointFiles(tmp_path / ".detent")
        kept = files.path(RUN, here.book.checkpoint["hash"])
        kept.write_bytes(kept.read_bytes()[:-1] + b"?")  # a file that is not the journal's is as good as none
    async with studio(tmp_path) as here:
        run = await here.signal("START_BEHAVIOR")
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert (waiting.question.reason, lines(path)) == ("form", ["a"])
        run = await here.answer(data={"way": "without"})
        assert lines(path) == ["a"]
        told = [*here.book.past, *here.book.current]
        assert any("not run again" in line for line in told)
        assert any("could not be read: the file is gone, or is not the one" in line for line in told)


async def test_what_cannot_be_kept_is_made_again_by_its_own_cell_or_named(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    cells = [*code("gen = (n for n in range(3))"), *code("both, odd = 1, (n for n in [7])"), *code(mail(path, "a"))]
    async with studio(tmp_path) as here:
        run = await here.begin(script(*cells, *code(mail(path, "b")), *code("n = next(gen)"), review="risky"))
        run = await here.answer(approved=True)
        assert set(here.book.checkpoint["lost"]) == {"gen", "odd"}
    async with studio(tmp_path) as here:
        plan = here.notebooks.bench.plan(here.book)
        assert [row["code"] for row in plan.rerun] == ["gen = (n for n in range(3))"]
        assert list(plan.lost) == ["odd"]
        run = await here.answer(approved=True)
        assert run.state == "workflow_completed", run.error
        assert (lines(path), here.book.variables["n"]) == (["a", "b"], 0)


async def test_input_is_a_question_answered_in_the_same_kernel_or_in_a_new_one(tmp_path: Path) -> None:
    ask = "n += 1\nname = input('Who? ')\nage = int(input('How old? '))"
    brief = script(*code("n = 0"), *code(ask), *code("told = f'{name} {age} {n}'"))
    async with studio(tmp_path) as here:
        run = await here.begin(brief)
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert (waiting.question.text, waiting.question.reason) == ("Who?", "form")
        run = await here.answer(data={"value": "kim"})
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert waiting.question.text == "How old?"
    async with studio(tmp_path) as here:
        run = await here.answer(data={"value": "7"})
        assert run.state == "workflow_completed", run.error
        assert here.book.variables["told"] == "kim 7 1"
        assert here.book.executed[1]["inputs"] == ["kim", "7"]


async def test_the_kernel_of_a_waiting_run_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    cells = [*code("import os\npid = os.getpid()"), *code(mail(path, "a")), *code("same = pid == os.getpid()")]
    records = KernelRecords(tmp_path / ".detent")
    async with studio(tmp_path, keep_s=60) as here:
        await here.begin(script(*cells, review="risky"))
        assert [one.until for one in records.all()] == [0.0]
    (kept,) = records.all()
    assert kept.is_kept
    try:
        async with studio(tmp_path, keep_s=60) as here:
            run = await here.answer(approved=True)
            assert run.state == "workflow_completed", run.error
            assert here.book.variables["same"] is True
        assert records.all() == []
    finally:
        end_kernel(kept)


async def test_a_cell_is_interrupted_from_elsewhere_and_its_kernel_stays(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow = f"begun = 1\nopen({str(mark)!r}, 'w').write('x')\nimport time\ntime.sleep(100)"
    brief = script(*code("x = 1"), *code(slow), *code("y = x + begun"), on_cell_error="continue")
    async with studio(tmp_path, keep_s=60) as here, asyncio.timeout(60):
        task = asyncio.create_task(here.begin(brief))
        while not mark.exists():  # noqa: ASYNC110  # the outside world is a file
            await asyncio.sleep(0.02)
        (record,) = KernelRecords(tmp_path / ".detent").all()
        interrupt_kernel(record)
        run = await task
        assert run.state == "workflow_completed", run.error
        assert [row["ran"] for row in here.book.executed] == ["ok", "interrupted", "ok"]
        assert here.book.variables["y"] == 2


async def test_a_cell_seen_to_touch_the_world_before_it_failed_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    hidden = f"run = getattr(__import__('o' + 's'), 'sys' + 'tem')\nrun('echo a >> {path}')\n1 / (len('ab') - 2)"
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code("x = 1"), *code(hidden), on_cell_error="fail", confirm="none"))
        (waiting,) = run.waiting  # about the plan: `none` asks about the first one too
        assert waiting.question is not None
        assert "another workflow" in waiting.question.text
        run = await here.answer(approved=True)
        assert (run.state, lines(path)) == ("error", ["a"])
        run = await here.signal("START_BEHAVIOR")
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert "was seen to touch the world before it failed (starts a program: echo a" in waiting.question.text
        assert lines(path) == ["a"]


@pytest.mark.parametrize(
    ("source", "deeds"),
    [
        ("import subprocess", 0),
        ("import subprocess as sp\nsp.run(['ls'])", 1),
        ("from subprocess import run\nrun(['ls'])", 1),
        ("from urllib.parse import quote\nquote('a')", 0),
        ("import requests\nrequests.post('http://a')", 1),
        ("open('notes.txt', 'w')", 0),
        ("open('/etc/motd', 'w')", 1),
        ("eval('1')", 0),
    ],
)
def test_an_import_is_no_deed(source: str, deeds: int) -> None:
    assert sum(found.is_deed for found in findings(source, "/data")) == deeds


async def test_what_libraries_do_for_themselves_is_no_deed(tmp_path: Path) -> None:
    quiet = """
        import os, platform, sqlite3, tempfile
        import matplotlib; matplotlib.use("agg")
        import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig("a.png")
        import joblib; joblib.cpu_count(only_physical_cores=True)
        os.makedirs("made/inner", exist_ok=True); open("made/x", "w").write("x")
        tempfile.NamedTemporaryFile().write(b"x"); platform.processor()
        sqlite3.connect("a.db").execute("select 1").fetchall()
    """
    loud = """
        import socket, sqlite3, os
        with sqlite3.connect("a.db") as base: base.execute("create table t (x)")
        path = os.path.expanduser("~/.detent-test-deed"); open(path, "w").close(); os.remove(path)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("192.0.2.1", 9)); s.close()
    """
    cells = [*code(textwrap.dedent(quiet)), *code(textwrap.dedent(loud))]
    brief = script(*cells)
    async with studio(tmp_path) as here:
        given = brief.input()
        given["kernel"] = {**given["kernel"], "cwd": str(tmp_path)}
        run = await _begin_with(here, given)
        assert run.state == "workflow_completed", run.error
        first, second = here.book.executed
        assert "deeds" not in first, first["deeds"]
        assert (first["repeat"], second["repeat"]) == ("replay", "once")
        told = [deed.partition(":")[0] for deed in second["deeds"]]
        assert told == ["writes", "removes or renames", "uses the network", "changes a database"]


async def _begin_with(here: Studio, given: dict[str, Any]) -> Any:
    from detent.agents.notebook.machine import NOTEBOOK

    await here.host.start(NOTEBOOK, given, run_id=RUN)
    return await here.signal("START_WORKFLOW")


LIFE = """
import asyncio, sys
from pathlib import Path
from tests.agents.notebook.studio import RUN, code, script, studio
from tests.agents.notebook.test_once import mail

async def main(home, path):
    cells = [*code("n = 0"), *code(mail(path, "a")), *code("n += 1"), *code(mail(path, "b")), *code("n += 1")]
    async with studio(home, keep_s=0) as here:
        if here.host.reader.summary(RUN) is None:
            await here.begin(script(*cells, review="risky"))
        else:
            await here.recover()
        while True:
            run = await here.host.show(RUN)
            if not run.waiting:
                break
            (waiting,) = run.waiting
            doubt = waiting.question.reason == "outcome_unknown"
            word = "a" if "echo a" in waiting.input["call"]["code"] else "b"
            happened = path.exists() and word in path.read_text().split()
            say = {"outcome": "happened" if happened else "not_happened"} if doubt else {"approved": True}
            if waiting.question.reason == "form":  # a person said that it happened, and nobody has what it made
                say = {"data": {"way": "without"}}
            await here.answer(**say)
        print(run.state, here.book.variables.get("n"), flush=True)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_two_risky_cells_with_kills_between_do_each_deed_once(tmp_path: Path) -> None:
    """A process that is killed at any moment, and another one after it: each line is there once."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    for number in range(examples(2)):  # DETENT_EXAMPLES=25: fifty lives
        home, path = tmp_path / f"home{number}", tmp_path / f"mail{number}"
        home.mkdir()
        words = [sys.executable, "-c", LIFE, str(home), str(path)]
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as first:
            wanted = 1 + number % 2  # after the first line, or after the second
            while first.poll() is None and len(lines(path)) < wanted:
                try:
                    first.wait(0.005)
                except subprocess.TimeoutExpired:
                    continue
            try:
                first.wait(0.03 * (number % 7))  # a little later: in the cell, in the checkpoint, in the journal
            except subprocess.TimeoutExpired:
                first.send_signal(signal.SIGKILL)
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.stdout.split()[:1] == ["workflow_completed"], done.stdout + done.stderr
        assert lines(path) == ["a", "b"], f"life {number}"


HIDDEN = "import os, time\nact = getattr(os, 'sys' + 'tem')\nact('echo a >> {path}')\n"
HIDDEN_LIFE = """
import asyncio, sys
from pathlib import Path
from tests.agents.notebook.studio import code, script, studio

async def main(home, cell):
    async with studio(home) as here:
        await here.begin(script(*code("n = 1"), *code(cell), *code("n += 1")))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def live_until(path: Path, home: Path, cell: str) -> None:
    """Run a cell in a process of its own, which dies with its kernel once the deed is done and before it is told."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", HIDDEN_LIFE, str(home), cell], env=env) as first:
        while first.poll() is None and not lines(path):
            with contextlib.suppress(subprocess.TimeoutExpired):
                first.wait(0.01)
        first.send_signal(signal.SIGKILL)


async def test_a_deed_that_no_reading_finds_is_marked_before_it_is_done(tmp_path: Path) -> None:
    path, go = tmp_path / "mail", tmp_path / "go"
    cell = HIDDEN.format(path=path) + f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
    assert findings(cell) == []
    await asyncio.to_thread(live_until, path, tmp_path, cell)
    async with studio(tmp_path) as here:
        run = await here.recover()
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert "about to touch the world" in waiting.question.text
        assert "starts a program: echo a" in waiting.question.text
    async with studio(tmp_path) as here:  # whoever comes next knows it still
        (waiting,) = (await here.recover()).waiting
        assert lines(path) == ["a"]
        go.touch()
        run = await here.answer(approved=True)
        assert run.state == "workflow_completed", run.error
        assert (lines(path), here.book.variables["n"]) == (["a", "a"], 2)  # a person said so


async def test_a_deed_of_a_cell_whose_kernel_died_is_known(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    async with studio(tmp_path) as here:
        run = await here.begin(script(*code(HIDDEN.format(path=path) + "os._exit(3)"), *code("n = 1")))
        assert run.state == "error"
        assert here.book.executed[0]["deeds"][0].startswith("starts a program: echo a")
        run = await here.signal("START_BEHAVIOR")
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert (lines(path), "May it run again?" in waiting.question.text) == (["a"], True)


SHELL = """
import subprocess
from ipykernel.kernelbase import Kernel
from ipykernel.kernelapp import IPKernelApp

class Shell(Kernel):
    implementation = "shell"
    implementation_version = language_version = "1"
    banner = ""
    language_info = {"name": "shell", "mimetype": "text/x-sh", "file_extension": ".sh"}

    def do_execute(self, code, silent, *args, **given):
        code = subprocess.run(["sh", "-c", code]).returncode if code.strip() else 0
        found = {"status": "ok", "execution_count": self.execution_count, "user_expressions": {}, "payload": []}
        return {**found, "status": "error", "ename": "Failed", "evalue": "", "traceback": []} if code else found

IPKernelApp.launch_instance(kernel_class=Shell)
"""


async def test_a_cell_in_a_language_nobody_reads_here_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels" / "shell"
    folder.mkdir(parents=True)
    (folder / "shell.py").write_text(SHELL)
    argv = [sys.executable, str(folder / "shell.py"), "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Shell", "language": "shell"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = tmp_path / "mail"
    cells = [*code(f"echo a >> {path}"), *code("exit 3"), *code("true")]
    brief = script(*cells, on_cell_error="fail")
    async with studio(tmp_path) as here:
        run = await here.begin(replace(brief, kernel=replace(brief.kernel, name="shell")))
        assert (run.state, lines(path)) == ("error", ["a"])
    async with studio(tmp_path) as here:
        run = await here.signal("START_BEHAVIOR")
        (waiting,) = run.waiting
        assert waiting.input["call"]["found"] == ["runs code that cannot be read here: exit 3"]
        run = await here.answer(approved=True)  # the cell that failed may run again; what came before it is gone
        (waiting,) = run.waiting
        assert waiting.question is not None
        assert waiting.question.data["restore"][0]["code"] == cells[0]["content"]
        assert lines(path) == ["a"]
