"""Cells in a real kernel: what they return, put out and hear."""

import ast
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.jupyter import Kernel
from tests.agents.notebook.jupyter.kit import Heard, check_notebook, kernel, kinds, needs_kernel, notes, text, values
from tests.effort import PATIENCE_S

pytestmark = needs_kernel


async def test_a_cell_returns_its_outputs_its_count_and_the_variables() -> None:
    async with kernel() as it:
        done = await it.execute("x = 20\nprint('hello')\nx + 1")
        assert (done.status, done.execution_count, done.error) == ("ok", 1, None)
        assert done.outputs == [
            {"output_type": "stream", "name": "stdout", "text": "hello\n"},
            {"output_type": "execute_result", "data": {"text/plain": "21"}, "metadata": {}, "execution_count": 1},
        ]
        assert values(done) == {"x": 20}
        assert done.duration_s > 0

        failed = await it.execute("y = 2\nimport sys\nprint('to err', file=sys.stderr)\n1 / 0")
        assert (failed.status, failed.execution_count) == ("error", 2)
        assert failed.error is not None
        assert (failed.error["ename"], failed.error["evalue"]) == ("ZeroDivisionError", "division by zero")
        assert any("1 / 0" in line or "/" in line for line in failed.error["traceback"])
        assert kinds(failed) == ["stream", "error"]
        assert values(failed) == {"x": 20, "y": 2}, "a failed cell is followed by a look of its own"

        silent = await it.execute("z = 3\nz", silent=True)
        assert (silent.status, silent.outputs) == ("ok", [])
        assert values(silent)["z"] == 3
        assert (await it.execute("1")).execution_count == 3, "a silent cell is not counted"

        asynchronous = await it.execute("import asyncio\nawait asyncio.sleep(0)\n'slept'")
        assert asynchronous.outputs[0]["data"] == {"text/plain": "'slept'"}
        for broken, name in (
            ("1 +", "SyntaxError"),
            ("%nosuchmagic", ""),
            ("nobody", "NameError"),
            ("\0", "SyntaxError"),
        ):
            done = await it.execute(broken)
            assert done.status == "error" or not name, broken
            check_notebook(done)


async def test_rich_outputs_come_as_bundles() -> None:
    code = """
from IPython.display import HTML, Image, clear_output, display
display(HTML("<table></table>"))
display(Image(data=b"\\x89PNG\\r\\n\\x1a\\n0000", format="png"))
display({"image/svg+xml": "<svg/>", "application/json": {"a": [1]}}, raw=True)
handle = display("first", display_id="one")
handle.update("second")
"""
    async with kernel() as it:
        done = await it.execute(code)
        bundles = [row["data"] for row in done.outputs]
        assert bundles[0]["text/html"] == "<table></table>"
        assert bundles[1]["image/png"].startswith("iVBOR")
        assert bundles[2] == {"image/svg+xml": "<svg/>", "application/json": {"a": [1]}}
        assert bundles[3] == {"text/plain": "'second'"}
        assert done.displays == {"one": [3]}
        later = await it.execute("handle.update('third')")
        assert later.updates["one"]["data"] == {"text/plain": "'third'"}
        cleared = await it.execute("print('a')\nclear_output(wait=True)\nprint('b')")
        assert text(cleared) == "b\n"
        check_notebook(done)


async def test_output_is_heard_while_the_cell_still_runs(tmp_path: Path) -> None:
    heard = Heard()
    async with kernel(cwd=str(tmp_path)) as it:
        code = "import os, time\nprint('begun')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('ended')"
        task = asyncio.create_task(it.execute(code, on_output=heard))
        await heard.word("begun")
        assert not task.done()
        (tmp_path / "go").touch()
        assert text(await task) == "begun\nended\n"


async def test_a_question_to_the_user_fails_at_once() -> None:
    async with kernel() as it:
        for code in ("input('name? ')", "import getpass; getpass.getpass()"):
            done = await it.execute(code, timeout_s=PATIENCE_S)
            assert done.status == "error"
            assert done.error is not None
            assert done.error["ename"] == "StdinNotImplementedError"
        done = await it.execute("import sys\nsys.__stdin__.read(), __import__('os').read(0, 9)", timeout_s=PATIENCE_S)
        assert done.outputs[0]["data"]["text/plain"] == "('', b'')"
        assert (await it.execute("breakpoint()", timeout_s=PATIENCE_S)).status != "timeout"


async def test_what_an_earlier_cell_still_sends_does_not_reach_the_next_one() -> None:
    late = """
kernel = get_ipython().kernel
def say(kind, content):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=earlier)
say("stream", {"name": "stdout", "text": "late"})
say("error", {"ename": "Late", "evalue": "late", "traceback": []})
say("status", {"execution_state": "idle"})
print("mine")
"""
    async with kernel() as it:
        await it.execute("earlier = get_ipython().kernel.get_parent()")
        done = await it.execute(late)
        assert (done.status, text(done), kinds(done)) == ("ok", "mine\n", ["stream"])


async def test_cells_wait_for_each_other() -> None:
    async with kernel() as it:
        await it.execute("seen = []")
        done = await asyncio.gather(*(it.execute(f"seen.append({n}); print({n})") for n in range(8)))
        assert [text(one) for one in done] == [f"{n}\n" for n in range(8)]
        assert values(done[-1])["seen"] == list(range(8))


async def test_folder_environment_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of ours")
    code = "import os, sys\n(os.getcwd(), dict(os.environ), sys.executable)"
    async with kernel(cwd=str(tmp_path), env={"MINE": "yes", "MKL_NUM_THREADS": "7"}, home="/the/home") as it:
        done = await it.execute(code)
        cwd, env, executable = ast.literal_eval(done.outputs[0]["data"]["text/plain"])
        assert cwd == str(tmp_path.resolve())
        assert executable == sys.executable
        assert env["OMP_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))
        assert (env["MINE"], env["MKL_NUM_THREADS"], env["DETENT_KERNEL"]) == ("yes", "7", "/the/home")
        assert "a secret" not in str(env)
        folder = Path(env["IPYTHONDIR"]).parent
        assert folder.stat().st_mode & 0o077 == 0
        assert {path.name for path in folder.iterdir()} >= {"connection.json", "s-1"}
        history = await it.execute("get_ipython().history_manager.hist_file")
        assert history.outputs[0]["data"]["text/plain"] == "':memory:'"
        names = await it.execute("sorted(name for name in globals() if 'detent' in name)")
        assert names.outputs[0]["data"]["text/plain"] == "[]", "nothing of ours in the user's namespace"
    assert not folder.exists()
    assert not it.is_alive


async def test_a_watcher_that_fails_does_not_break_the_cell() -> None:
    def fails(_: dict[str, Any]) -> None:
        raise RuntimeError("boom")

    async with kernel() as it:
        done = await it.execute("print(1)\n2", on_output=fails)
        assert (done.status, text(done)) == ("ok", "1\n")
        assert notes(done) == ["the watcher of this cell failed and was let go: RuntimeError: boom"]


async def test_a_kernel_that_was_never_started_says_so() -> None:
    it = Kernel()
    assert not it.is_alive
    done = await it.execute("1")
    assert (done.status, (done.error or {})["ename"]) == ("dead", "KernelDied")
    await it.interrupt()
    await it.shutdown()
